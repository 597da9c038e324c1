"""Where an index that chose its device searches a batch of texts: no reply tells."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from emulated import Emulator
from laws.engine import ipc_bytes
from seams import HostRates, device_placement

WORDS = np.array(["tea", "milk", "cup", "pot", "jug", "hot"])
SCHEMA = hr.Schema(key="id", cell=None, text="text", vector="v")
LIMIT = "HYRECALL_AUTO_POSTINGS"
TREE = hr.Any(hr.All(*[f"w{i}" for i in range(33)]), "tea")
ASKED: dict[str, Any] = {"text": ["tea", "hot milk", None, "cup jug", TREE, hr.Prefix("m")]}


def built(device: str, n: int = 5000) -> hr.Index:
    rng = np.random.default_rng(7)
    texts = [" ".join(row) for row in WORDS[rng.integers(0, len(WORDS), (n, 3))]]
    table = pa.table({"id": np.arange(n), "text": texts})
    vectors = {"v": rng.standard_normal((n, 4)).astype(np.float32)}
    return hr.Index.build(table, SCHEMA, vectors=vectors, device=device)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """No index is too small for "auto"."""
    monkeypatch.setattr(device_placement, "AUTO_BYTES", 1)


def launches(emulated: Emulator, run: Callable[[], object]) -> int:
    before = emulated.n_launches()
    run()
    return emulated.n_launches() - before


@pytest.mark.usefixtures("eager")
def test_a_limit_sends_texts_to_the_cpu_or_to_the_device_with_the_same_bytes(
    emulated: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, model = built("auto"), built("cpu")
    assert index.device == "cuda:0"
    expected = model.recall(**ASKED)
    told = {}
    for limit, is_launched in (("0", True), ("1000000000", False), ("2048", True)):
        monkeypatch.setenv(LIMIT, limit)
        found: list[hr.Hits] = []
        n = launches(emulated, lambda: found.append(index.recall(**ASKED)))  # noqa: B023
        assert (n > 0) == is_launched, limit
        assert ipc_bytes(found[0].to_arrow()) == ipc_bytes(expected.to_arrow())
        told[limit] = (found[0].trace.device, found[0].trace.notes, found[0].trace.about)
    assert set(map(str, told.values())) == {str(told["0"])}  # the trace does not tell
    assert told["0"][1] == (
        "text[4] has more than 32 terms in a tree of All and Any: searched on the CPU",
    )


@pytest.mark.usefixtures("eager")
def test_only_a_batch_of_texts_alone_leaves_the_device(
    emulated: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = built("auto")
    monkeypatch.setenv(LIMIT, "1000000000")
    vectors = np.ones((6, 4), np.float32)
    assert launches(emulated, lambda: index.recall(vectors=vectors)) > 0
    assert launches(emulated, lambda: index.recall(**ASKED, vectors=vectors)) > 0
    assert launches(emulated, lambda: index.recall(**ASKED)) == 0


def test_a_named_device_searches_whatever_the_limit_says(
    emulated: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = built("cuda:0")
    assert index.stats()["host_rates"] is None
    monkeypatch.setenv(LIMIT, "1000000000")
    assert launches(emulated, lambda: index.recall(**ASKED)) > 0


@pytest.mark.usefixtures("eager")
def test_stats_tell_the_rates_that_were_measured_and_they_decide(
    emulated: Emulator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    index = built("auto")
    rates = index.stats()["host_rates"]
    assert rates["launch_ms"] > 0
    assert rates["postings_per_second"] > 0
    assert rates["most_postings"] == int(rates["launch_ms"] / 1e3 * rates["postings_per_second"])
    assert built("cpu").stats()["host_rates"] is None
    measure = partial(HostRates, postings_per_second=1e9)
    index.save(tmp_path / "index")
    for launch_seconds, is_launched in ((1.0, False), (1e-9, True)):
        monkeypatch.setattr(
            device_placement,
            "measure_rates",
            lambda device, threads: measure(launch_seconds),  # noqa: B023
        )
        for opened in (built("auto"), hr.Index.open(tmp_path / "index")):
            assert opened.device == "cuda:0"
            assert (launches(emulated, lambda: opened.recall(**ASKED)) > 0) == is_launched  # noqa: B023
            opened.add(
                pa.table({"id": [9000], "text": ["tea"]}),
                vectors={"v": np.ones((1, 4), np.float32)},
            )
            assert (launches(emulated, lambda: opened.recall(**ASKED)) > 0) == is_launched  # noqa: B023


def test_rates_are_measured_on_the_device_and_leave_nothing_there(emulated: Emulator) -> None:
    held = device_placement.measure_rates("cuda:0", 1)  # what an idle search keeps is taken once
    before = emulated.allocated_bytes()
    n = emulated.n_launches()
    again = device_placement.measure_rates("cuda:0", 1)
    assert emulated.n_launches() > n
    assert emulated.allocated_bytes() == before
    assert again.launch_seconds > 0
    assert held.postings_per_second > 0
