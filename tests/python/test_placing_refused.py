"""Which device "auto" takes, what a device without room does, and what stands in the errors."""

import gc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from emulated import Emulator
from hyrecall import _core
from laws.engine import ipc_bytes
from seams import device_placement
from small_index import refused

DIM = 32
SCHEMA = hr.Schema(key="id", cell=None, vector="v")
NO_DEVICE = "device: expected a CUDA device, got cuda:0: "


def rows(first: int, n: int) -> dict[str, Any]:
    vectors = np.random.default_rng(first).standard_normal((n, DIM)).astype(np.float32)
    return {"table": pa.table({"id": np.arange(first, first + n)}), "vectors": {"v": vectors}}


def built(device: str, n: int = 600) -> hr.Index:
    given = rows(0, n)
    return hr.Index.build(given["table"], SCHEMA, vectors=given["vectors"], device=device)


def reply(index: hr.Index, n: int = 4, **options: Any) -> bytes:
    asked = np.random.default_rng(9).standard_normal((n, DIM)).astype(np.float32)
    return ipc_bytes(index.recall(vectors=asked, **{"limit": 20, **options}).to_arrow())


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """No index is too small for "auto"."""
    monkeypatch.setattr(device_placement, "AUTO_BYTES", 1)


# ---- what "auto" takes ----


def test_auto_takes_a_device_from_so_many_bytes_of_vectors_on(
    cuda: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbytes = sum(built("cpu").stats()["segments"][0]["nbytes"]["dense"].values())
    assert built("auto").device == "cpu"
    monkeypatch.setattr(device_placement, "AUTO_BYTES", nbytes + 1)
    assert built("auto").device == "cpu"
    monkeypatch.setattr(device_placement, "AUTO_BYTES", nbytes)
    index = built("auto")
    assert index.device == cuda
    assert index.stats()["device_bytes"] > 0
    assert reply(index) == reply(built("cpu"))


@pytest.mark.usefixtures("eager")
def test_auto_chooses_once(cuda: str, tmp_path: Path) -> None:
    index = built("auto")
    index.delete(list(range(600)))
    index.compact()
    index.save(tmp_path / "empty")
    assert index.device == cuda
    opened = hr.Index.open(tmp_path / "empty", device="auto")
    opened.add(**rows(0, 600))
    assert opened.device == "cpu"  # it had nothing to search when it was opened
    opened.save(tmp_path / "full")
    assert hr.Index.open(tmp_path / "full").device == cuda


@pytest.mark.usefixtures("eager", "cuda")
def test_auto_leaves_an_index_of_texts_on_the_cpu() -> None:
    table = pa.table({"id": [1, 2], "text": ["tea", "milk"]})
    assert hr.Index.build(table, hr.Schema(key="id", cell=None, text="text")).device == "cpu"


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9])
def test_auto_takes_the_cpu_where_vectors_do_not_fit(emulated: Emulator, share: float) -> None:
    needed = built("cuda:0").stats()["device_bytes"]
    before = emulated.allocated_bytes()
    with emulated.memory(before + int(share * needed)):
        index = built("auto")
        assert index.device == "cpu"
        assert index.stats()["device_bytes"] == 0
        assert emulated.allocated_bytes() == before
        with pytest.raises(hr.DeviceMemoryError, match=r"^device: expected cuda:0 to answer, got "):
            built("cuda:0")
        assert emulated.allocated_bytes() == before
    assert built("auto").device == "cuda:0"


# ---- without room ----


CHANGES: dict[str, Callable[[hr.Index], object]] = {
    "add": lambda index: index.add(**rows(1000, 500)),
    "upsert": lambda index: index.upsert(**rows(300, 500)),
    "compact": lambda index: index.compact(),
    "delete": lambda index: index.delete(list(range(400))),  # what is left is merged
}


@pytest.mark.parametrize("name", list(CHANGES))
@pytest.mark.parametrize("room", [0, 20_000])
def test_a_change_that_does_not_fit_is_refused_and_loses_nothing(
    emulated: Emulator, name: str, room: int, tmp_path: Path
) -> None:
    index, model = built("cuda:0"), built("cpu")
    for one in (index, model):
        one.add(**rows(600, 30))
        one.delete([3, 610])
    before, facts = reply(index), index.stats()
    held = emulated.allocated_bytes()
    with emulated.memory(held + room):
        with pytest.raises(hr.DeviceMemoryError, match=r"^device: expected cuda:0 to answer, got "):
            CHANGES[name](index)
        assert emulated.allocated_bytes() == held
        assert (len(index), index.stats()) == (628, facts)
        assert reply(index) == before == reply(model)
    for one in (index, model):
        CHANGES[name](one)
    assert len(index) == len(model)
    assert reply(index, limit=1000) == reply(model, limit=1000)
    seqs = [one.stats()["next_seq"] for one in (index, model)]
    assert seqs[0] == seqs[1]  # the refused change took no number
    index.save(tmp_path / "index")
    assert reply(hr.Index.open(tmp_path / "index", device="cpu")) == reply(model)


def test_a_batch_that_does_not_fit_is_answered_in_parts(emulated: Emulator) -> None:
    reply(built("cuda:0", 3000), n=300, limit=200)
    gc.collect()
    index = built("cuda:0")
    # Idle searches, as that one, would lend their buffers: a batch that fits nowhere makes them
    # give way.
    with emulated.memory(1), pytest.raises(hr.DeviceMemoryError):
        reply(index, n=4000, limit=600)
    held = emulated.allocated_bytes()
    expected = reply(built("cpu"), n=100, limit=50)
    n_refused, launches = 0, []
    for power in range(10, 24, 2):
        before = emulated.n_launches()
        with emulated.memory(held + 2**power):
            try:
                found = reply(index, n=100, limit=50)
            except hr.DeviceMemoryError:
                n_refused += 1
                continue
        assert found == expected
        launches.append(emulated.n_launches() - before)
    assert 1 <= n_refused < 4
    assert len(launches) == 7 - n_refused
    assert launches == sorted(launches, reverse=True)
    assert launches[0] > launches[-1]
    assert reply(index, n=100, limit=50) == expected


# ---- what is not there ----


def report(**parts: Any) -> Callable[[str], dict[str, Any]]:
    """What the library might say of this machine."""
    found = {
        "has_library": True,
        "driver_version": 13000,
        "runtime_version": 13000,
        "devices": [("Volta", 7, 0, 2**34, 80)],
        "problem": "",
    }
    return lambda _folder: found | parts


def is_refused_by_name(message: str, tmp_path: Path) -> None:
    """Build and open refuse cuda:0 with these words, and auto takes the CPU."""
    index = built("auto")
    assert index.device == "cpu"
    index.save(tmp_path / "index")
    assert hr.Index.open(tmp_path / "index").device == "cpu"
    refused(lambda: built("cuda:0"), hr.DeviceUnavailableError, message, "device")
    refused(
        lambda: hr.Index.open(tmp_path / "index", device="cuda:0"),
        hr.DeviceUnavailableError,
        message,
        "device",
    )


@pytest.mark.usefixtures("eager")
def test_without_the_library_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYRECALL_CUDA_LIBRARY", str(tmp_path))
    with pytest.raises(hr.DeviceUnavailableError) as refusal:
        built("cuda:0")
    assert str(refusal.value).startswith(f"{NO_DEVICE}libhyrecall_cuda.so could not be loaded")
    is_refused_by_name(str(refusal.value), tmp_path)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("parts", "got"),
    [
        ({"devices": [], "problem": "there is no CUDA device"}, "there is no CUDA device"),
        (
            {
                "devices": [],
                "driver_version": 12080,
                "problem": "the CUDA driver is of version 12.8, expected 13.0 (r580) or later",
            },
            "the CUDA driver is of version 12.8, expected 13.0 (r580) or later",
        ),
    ],
    ids=["no device", "an old driver"],
)
def test_a_machine_that_has_none_says_why(
    parts: dict[str, Any], got: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_core.device, "describe", report(**parts))
    is_refused_by_name(NO_DEVICE + got, tmp_path)


@pytest.mark.usefixtures("eager")
def test_a_device_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core.device, "describe", report())
    got = "it has compute capability 7.0, expected 8.0 or later"
    is_refused_by_name(NO_DEVICE + got, tmp_path)


def test_an_ordinal_beyond_the_last_is_named(emulated: Emulator) -> None:
    del emulated
    message = "device: expected a CUDA device, got cuda:1: there is no such device, only cuda:0"
    refused(lambda: built("cuda:1"), hr.DeviceUnavailableError, message, "device")


# ---- what a device cannot search ----

INT8_DIM = 133_144  # from there on a sum of products of codes may pass 31 bits


def wide(dim: int, dtype: str) -> dict[str, Any]:
    """Return rows of 1 and -1: their codes are the greatest there are."""
    vectors = np.ones((4, dim), np.float32)
    vectors[1, ::2] = vectors[2, ::4] = vectors[3, 1::4] = -1
    given = vectors.astype(getattr(ml_dtypes, dtype, dtype))
    return {"table": pa.table({"id": np.arange(4)}), "vectors": {"v": given}}


@pytest.mark.parametrize(
    ("dtype", "dim"),
    [
        *((dtype, INT8_DIM) for dtype in ("float32", "float16", "bfloat16")),
        ("bfloat16", INT8_DIM + 8),
    ],
)
def test_the_longest_vectors_find_what_the_cpu_finds(cuda: str, dtype: str, dim: int) -> None:
    given = wide(dim, dtype)
    mine, expected = (
        hr.Index.build(given["table"], SCHEMA, vectors=given["vectors"], device=device)
        for device in (cuda, "cpu")
    )
    asked = {"vectors": np.ones((1, dim), np.float32), "limit": 1}
    assert ipc_bytes(mine.recall(**asked).to_arrow()) == ipc_bytes(
        expected.recall(**asked).to_arrow()
    )
    assert expected.recall(**asked)[0][0].key == 0


@pytest.mark.parametrize(
    ("dtype", "has_many"), [("float32", False), ("float16", False), ("bfloat16", True)]
)
@pytest.mark.usefixtures("eager")
def test_longer_vectors_are_refused_by_a_device_and_left_on_the_cpu_by_auto(
    cuda: str, dtype: str, has_many: bool
) -> None:
    given = wide(INT8_DIM + 1, dtype)
    schema, vectors = SCHEMA, given["vectors"]
    if has_many:  # whose int8 plane is read, whatever their type
        schema = hr.Schema(key="id", cell=None, vector=hr.MaxSim("v"))
        vectors = {"v": vectors["v"][:, None]}
    build = partial(hr.Index.build, given["table"], schema, vectors=vectors)
    with pytest.raises(hr.OptionError) as caught:
        build(device=cuda)
    assert str(caught.value) == (
        "device: expected vectors of at most 133144 dimensions on cuda:0, got 133145"
    )
    assert build(device="auto").device == "cpu"
