"""A shard whose files are damaged: the others answer, and it is named in ``degraded``."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.building_worlds import built, write_files
from distributed.saved import asked as asked_words
from distributed.saved import saved_shards
from distributed.scripted import made
from hyrecall.distributed import Request, ShardedIndex, Shards
from hyrecall.errors import CorruptIndexError, error
from seams import IndexAnswerer, LocalShard, ShardOpening, disk

BLOCK, ROWS, DIM = 512, 400, 8
SCHEMA = hr.Schema(key="id", cell="user", text="text", vector="v")
VECTORS = np.random.default_rng(1).standard_normal((2 * ROWS, DIM)).astype(np.float32)
WHY = "its documents are missing (its files are damaged: "


def damage(folder: Path, role: str = "vectors") -> None:
    """Turn a bit in the middle of a file of a saved index."""
    (path,) = folder.glob(f"*-{role}*.arrow")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.unlink()  # a process that has mapped the file keeps what it has
    path.write_bytes(content)


def saved(folder: Path, patch: pytest.MonkeyPatch) -> list[Path]:
    """Save two shards whose files are many blocks long."""
    patch.setattr(disk, "BLOCK_BYTES", BLOCK)
    out = []
    for at in range(2):
        ids = list(range(at * ROWS, (at + 1) * ROWS))
        table = pa.table({"id": ids, "user": ["ann"] * ROWS, "text": ["tea"] * ROWS})
        own = {"v": VECTORS[ids]}
        index = hr.Index.build(table, SCHEMA, vectors=own, first_seq=ids[0], device="cpu")
        index.save(folder / str(at))
        out.append(folder / str(at))
    return out


def opened(paths: list[Path]) -> ShardedIndex:
    """Open shards here, of which only the structure is checked."""
    made = [hr.Index.open(one, verify="structure", device="cpu") for one in paths]
    return ShardedIndex([LocalShard(str(at), one) for at, one in enumerate(made)])


def test_the_other_shards_answer_without_a_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = saved(tmp_path, monkeypatch)
    damage(paths[1])
    asked: dict[str, Any] = {"vectors": VECTORS[:2], "scope": "ann", "limit": 50}
    want = hr.Index.open(paths[0], device="cpu").recall(**asked)
    with opened(paths) as index:
        for _ in range(2):
            got = index.recall(**asked)
            (told,) = got.trace.degraded
            assert told.startswith(f"1: {WHY}{paths[1]}")
            assert got[0].keys == want[0].keys
        damage(paths[0])
    with opened(paths) as index, pytest.raises(CorruptIndexError, match="expected checksum"):
        index.recall(**asked)


@pytest.mark.slow
def test_only_queries_that_need_the_damaged_shard_are_degraded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = [f"u{at}" for at in range(12)]
    rows = {"id": list(range(24)), "user": users * 2, "text": ["tea"] * 24}
    source = write_files(tmp_path / "in", pa.table(rows), random.Random(1))
    built(monkeypatch, source, hr.Schema(key="id", cell="user", text="text"), tmp_path / "out",
          shards=2)  # fmt: skip
    found = Shards.read(tmp_path / "out")
    needs = [found.placement.shards_of(user) == (1,) for user in users]
    assert any(needs)
    assert not all(needs)
    with ShardedIndex.open(tmp_path / "out", processes=True, device="cpu", threads=1) as index:
        damage(tmp_path / "out" / found.shards[1].folder, "rows")
        got = index.recall(text=["tea"] * 12, scope=users)
        assert [one.degraded for one in got] == needs
        assert [len(one) for one in got] == [0 if need else 2 for need in needs]
        assert WHY in got.trace.degraded[0]
        assert [one.is_lost for one in index.health().values()] == [False, True]


def test_a_damaged_version_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved_shards(tmp_path)[0]
    request = Request(**asked_words()).to_bytes()
    content = {one: one.read_bytes() for one in path.glob("*-rows*.arrow")}
    damage(path, "rows")
    opens: list[object] = []
    real = hr.Index.open

    def count(*args: Any, **options: Any) -> hr.Index:
        opens.append(args)
        return real(*args, **options)

    monkeypatch.setattr(hr.Index, "open", count)
    answering = IndexAnswerer(str(path), ShardOpening("cpu", 1))
    for _ in range(3):
        kind, told = answering.ask(b"statistics", request)
        assert kind == b"error"
        assert b"CorruptIndexError" in told
    assert len(opens) == 1, "the damaged files were read again"
    for one, whole in content.items():  # as a backup has them
        one.write_bytes(whole)
    assert answering.ask(b"reload")[0] == b"answer"
    assert answering.ask(b"statistics", request)[0] == b"answer"


def test_a_replica_answers_for_one_with_damaged_files(tmp_path: Path) -> None:
    path = saved_shards(tmp_path)[0]
    index, replicas, log = made(path, 2)
    want = index.recall(**asked_words()).to_arrow()
    vars(index.shards[0])["_keep_soon"] = lambda: None

    def refuse(request: object) -> Any:
        log.append((0, "damaged"))
        raise error(CorruptIndexError, str(path), "a checksum", "another")

    for name in ("count", "statistics", "alone", "alone_as_it_is"):
        setattr(replicas[0], name, refuse)
    for _ in range(4):
        assert index.recall(**asked_words()).to_arrow().equals(want)
    assert log.count((0, "damaged")) == 1, "it is asked again, before one that answers"
    assert index.health()["shard"].n_lost == 1
    for name in ("count", "statistics", "alone", "alone_as_it_is"):
        setattr(replicas[1], name, refuse)
    with pytest.raises(CorruptIndexError, match="expected a checksum"):
        index.shards[0].statistics(Request(**asked_words()))
    alone = ShardedIndex([index.shards[0]])
    with pytest.raises(CorruptIndexError, match="expected a checksum"):
        alone.recall(**asked_words())
    assert index.health()["shard"].is_lost
    for name in ("count", "statistics", "alone", "alone_as_it_is"):
        for one in replicas:
            delattr(one, name)
    index.reload()
    assert dict(index.health())["shard"] == (2, 0)
    assert index.recall(**asked_words()).to_arrow().equals(want)


def test_a_replica_that_met_damage_in_passing_is_asked_again(tmp_path: Path) -> None:
    index, (one, _), log = made(saved_shards(tmp_path)[0], 2)
    shard: Any = index.shards[0]
    keep, kept = shard._keep_soon, []
    vars(shard)["_keep_soon"] = lambda: kept.append(1)

    def refuse(request: object) -> Any:
        raise error(CorruptIndexError, "a file", "a checksum", "another")

    for name in ("count", "statistics"):
        setattr(one, name, refuse)
    for _ in range(3):
        index.recall(**asked_words())
    for name in ("count", "statistics"):
        delattr(one, name)
    assert shard.n_lost == 1
    assert not any(number == 0 for number, what in log if what == "count")
    keep()  # it was just met: nothing is tried yet
    assert shard.n_lost == 1
    shard._kept_at = float("-inf")
    shard._keep()
    assert shard.n_lost == 0
    log.clear()
    for _ in range(4):
        index.recall(**asked_words())
    assert {number for number, _ in log} == {0, 1}


def test_a_process_that_met_damage_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path, monkeypatch)[0]
    whole = {one: one.read_bytes() for one in path.glob("*-vectors*.arrow")}
    damage(path)
    answering = IndexAnswerer(str(path), ShardOpening("cpu", 1))
    answering._index = hr.Index.open(path, verify="structure", device="cpu")
    request = Request(vectors=VECTORS[:2], scope="ann", limit=50).to_bytes()
    assert answering.ask(b"state")[0] == b"answer"
    kind, told = answering.ask(b"alone", request)
    assert kind == b"error"
    assert b"CorruptIndexError" in told
    assert answering.ask(b"state") == (b"error", told)
    for one, content in whole.items():
        one.write_bytes(content)
    assert answering.ask(b"reload")[0] == b"answer"
    assert answering.ask(b"state")[0] == b"answer"


def test_a_replica_does_not_try_a_damaged_version_again(tmp_path: Path) -> None:
    path = saved_shards(tmp_path)[0]
    index, replicas, _ = made(path, 2)
    shard: Any = index.shards[0]
    tried: list[int] = []

    def refuse() -> str:
        tried.append(1)
        raise error(CorruptIndexError, str(path), "a checksum", "another")

    for one in replicas:
        vars(one)["reload"] = refuse
    stamp = "0" * 16
    shard._stamp = lambda: stamp
    for _ in range(3):
        shard._keep()
    assert len(tried) == 2, "once by each replica"
    assert not shard.is_stale
    stamp = "1" * 16
    shard._keep()
    assert len(tried) == 4, "a newer version is tried"
