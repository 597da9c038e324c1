"""Options of Index.open for the shards of an index: the same names, meaning and errors."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.test_damaged_shards import WHY, damage
from hyrecall.distributed import BatchRecall, Request, ShardedIndex
from hyrecall.errors import CorruptIndexError, OptionError
from seams import (
    MANIFEST,
    IndexAnswerer,
    LocalShard,
    ProcessShard,
    ReplicatedShard,
    ShardOpening,
    read_seal,
)

ROWS, DIM = 140_000, 8  # vectors of two blocks; a query of texts reads norms, in the second
SCHEMA = hr.Schema(key="id", cell="user", text="text", vector="v")
VECTORS = np.random.default_rng(2).standard_normal((2 * ROWS, DIM)).astype(np.float32)
BY_TEXT: dict[str, Any] = {"text": ["tea"], "scope": "ann", "limit": 5}
BY_VECTOR: dict[str, Any] = {"vectors": VECTORS[:1], "scope": "ann", "limit": 5}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two saved shards, with vectors that a query of texts does not read."""
    out, folder = [], tmp_path_factory.mktemp("shards")
    for at in range(2):
        ids = list(range(at * ROWS, (at + 1) * ROWS))
        table = pa.table({"id": ids, "user": ["ann"] * ROWS, "text": ["tea"] * ROWS})
        index = hr.Index.build(
            table, SCHEMA, vectors={"v": VECTORS[ids]}, first_seq=ids[0], device="cpu"
        )
        out.append(folder / str(at))
        index.save(out[-1])
    return out


@pytest.fixture
def copies(paths: list[Path], tmp_path: Path) -> list[Path]:
    """The same, for tests that damage them."""
    return [Path(shutil.copytree(one, tmp_path / one.name)) for one in paths]


def apart(paths: list[Path], **options: Any) -> ShardedIndex:
    return ShardedIndex.open(paths, processes=True, device="cpu", threads=1, **options)


def processes(index: ShardedIndex) -> list[ProcessShard]:
    found: list[Any] = []
    for one in index.shards:
        found += one.replicas if isinstance(one, ReplicatedShard) else [one]
    return found


def kill(shard: ProcessShard) -> None:
    assert shard.pid is not None
    os.kill(shard.pid, signal.SIGKILL)


OPENERS: dict[str, Callable[..., Any]] = {
    "here": ShardedIndex.open,
    "processes": lambda paths, **more: ShardedIndex.open(paths, processes=True, **more),
    "ray": ShardedIndex.on_ray,
    "batch": lambda paths, **more: BatchRecall(paths, key="id", text="text", scope="user", **more),
}


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize(
    "wrong",
    [
        {"memory": "disk"},
        {"verify": "all"},
        {"pin": "everything"},
        {"pin": 3},
        {"pin": ["plane"], "memory": "ram"},
        {"threads": 0},
    ],
    ids=repr,
)
def test_a_wrong_option_is_refused_in_the_words_of_an_index(
    paths: list[Path], opener: str, wrong: dict[str, Any]
) -> None:
    with pytest.raises(OptionError) as want:
        hr.Index.open(paths[0], **wrong)
    with pytest.raises(OptionError) as got:
        OPENERS[opener](paths, **wrong)
    assert str(got.value) == str(want.value)
    assert got.value.argument == want.value.argument


def test_shards_in_this_process_are_opened_as_asked(paths: list[Path]) -> None:
    how: dict[str, Any] = {"memory": "ram", "verify": "full"}
    with ShardedIndex.open(paths, device="cpu", threads=1, **how) as index:
        for one in index.shards:
            assert isinstance(one, LocalShard)
            opening = one.index._opening
            assert (opening.memory, opening.verify, opening.pin) == ("ram", "full", ())
    with ShardedIndex.open(paths, device="cpu", pin="plane") as index:
        assert [one.index._opening.pin for one in index.shards] == [("plane",)] * 2  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system has no /proc")
def test_processes_open_their_shards_as_asked(paths: list[Path]) -> None:

    def mapped_and_locked(**options: Any) -> tuple[bool, int]:
        with apart(paths[:1], **options) as index:
            index.recall(**BY_TEXT)
            process = Path(f"/proc/{processes(index)[0].pid}")
            (locked,) = (
                line.split()[1]
                for line in (process / "status").read_text().splitlines()
                if line.startswith("VmLck")
            )
            return str(paths[0]) in (process / "maps").read_text(), int(locked)

    assert mapped_and_locked() == (True, 0)
    assert mapped_and_locked(memory="ram") == (False, 0)
    is_mapped, kilobytes = mapped_and_locked(pin=["terms", "vectors"])
    assert is_mapped
    assert kilobytes >= ROWS * DIM * 4 // 1024


@pytest.mark.slow
def test_full_checks_find_damage_at_open_and_others_by_the_process(copies: list[Path]) -> None:
    paths = copies
    damage(paths[1])
    with pytest.raises(CorruptIndexError, match="expected checksum"):
        apart(paths, verify="full")
    with pytest.raises(CorruptIndexError, match="expected checksum"):
        ShardedIndex.open(paths, device="cpu")
    with apart(paths) as index:
        (told,) = index.recall(**BY_TEXT).trace.degraded
        assert told.startswith(f"1: {WHY}")
    with apart(paths, verify="structure") as index:
        assert not index.recall(**BY_TEXT).degraded
        (told,) = index.recall(**BY_VECTOR).trace.degraded
        assert told.startswith(f"1: {WHY}")


@pytest.mark.slow
@pytest.mark.parametrize("verify", [None, "full"])
def test_a_process_that_starts_again_does_not_check_the_same_version_again(
    copies: list[Path], verify: str | None
) -> None:
    paths = copies
    want = hr.Index.open(paths[0], device="cpu").recall(**BY_TEXT).to_arrow()
    with apart(paths[:1], verify=verify) as index:
        assert index.recall(**BY_TEXT).to_arrow().equals(want)
        damage(paths[0])
        kill(processes(index)[0])
        assert index.recall(**BY_TEXT).to_arrow().equals(want), "all was read again"
        with pytest.raises(CorruptIndexError, match="expected checksum"):
            index.recall(**BY_VECTOR)


@pytest.mark.slow
def test_replicas_share_what_was_checked(copies: list[Path]) -> None:
    paths = copies
    with apart(paths[:1], replicas=2) as index:
        want = index.recall(**BY_TEXT).to_arrow()
        damage(paths[0])
        index.reload()  # the second replica opens the version that the first one checked
        for one in processes(index):
            assert len(one.statistics(Request(**BY_TEXT)).versions) == 1
        assert index.recall(**BY_TEXT).to_arrow().equals(want)


def test_a_version_that_nobody_checked_gets_all_checks(copies: list[Path]) -> None:
    path = copies[0]
    seal = read_seal(path / MANIFEST)
    request = Request(**BY_TEXT).to_bytes()
    opening = ShardOpening("cpu", 1)

    def ask(checked: str | None, how: ShardOpening = opening) -> bytes:
        return IndexAnswerer(str(path), how, checked=checked).ask(b"alone", request)[0]

    one = IndexAnswerer(str(path), opening)
    assert one.newly_checked() == ()
    assert one.ask(b"alone", request)[0] == b"answer"
    assert one.newly_checked() == (seal.encode(),)
    assert one.newly_checked() == ()
    damage(path)
    assert ask(None) == b"error"
    assert ask("0" * 16) == b"error"
    assert ask(seal) == b"answer"
    assert ask(None, ShardOpening("cpu", 1, verify="structure")) == b"answer"


def test_a_newer_version_gets_all_checks_where_it_is_taken_up(copies: list[Path]) -> None:
    path = copies[0]
    request = Request(**BY_TEXT).to_bytes()
    answering = IndexAnswerer(str(path), ShardOpening("cpu", 1), checked=read_seal(path / MANIFEST))
    assert answering.ask(b"alone", request)[0] == b"answer"
    assert answering.newly_checked() == ()
    index = hr.Index.open(path, device="cpu")
    more = pa.table({"id": [-1], "user": ["ann"], "text": ["tea"]})
    index.add(more, vectors={"v": VECTORS[:1]})
    before = set(path.glob("*-vectors*.arrow"))
    index.compact()
    index.save(path)
    (new,) = set(path.glob("*-vectors*.arrow")) - before
    content = bytearray(new.read_bytes())
    content[len(content) // 2] ^= 4
    new.write_bytes(content)
    kind, told = answering.ask(b"alone", request)
    assert kind == b"error"
    assert b"CorruptIndexError" in told


def test_a_batch_that_was_sent_does_not_check_the_version_again(copies: list[Path]) -> None:
    paths = copies
    recall = BatchRecall(paths, key="id", text="text", scope="user", device="cpu", threads=1)
    queries = pa.table({"id": ["q"], "text": ["tea"], "user": ["ann"]})
    want = recall(queries)
    sent = pickle.loads(pickle.dumps(recall))
    damage(paths[1])
    assert sent(queries).equals(want), "all was read again"
    with pytest.raises(CorruptIndexError, match="expected checksum"):
        BatchRecall(paths, key="id", text="text", scope="user", device="cpu")
    recall.close()
    sent.close()
