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
from hyrecall.distributed import ShardedIndex, Shards
from hyrecall.errors import CorruptIndexError
from seams import LocalShard, disk

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


def test_a_column_that_only_hits_read_is_checked_while_the_others_can_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = saved(tmp_path, monkeypatch)
    (path,) = paths[1].glob("*-rows*.arrow")
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content.replace(b"teatea", b"teasea", 1))
    asked: dict[str, Any] = {"vectors": VECTORS[:2], "scope": "ann", "limit": 50}
    want = hr.Index.open(paths[0], device="cpu").recall(**asked, columns=["text"])
    with opened(paths) as index:
        assert not index.recall(**asked).degraded, "nobody reads the column"
        got = index.recall(**asked, columns=["text"])
        (told,) = got.trace.degraded
        assert told.startswith(f"1: {WHY}{path}")
        assert got.to_arrow().equals(want.to_arrow())


@pytest.mark.parametrize("vector", [False, True])
def test_only_queries_that_need_the_damaged_shard_are_degraded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vector: bool
) -> None:
    monkeypatch.setattr(disk, "BLOCK_BYTES", BLOCK)
    users = [f"u{at}" for at in range(12)]
    n = 2400
    rows = {"id": list(range(n)), "user": users * (n // 12), "text": ["tea"] * n}
    if vector:
        rows["v"] = VECTORS[:1].tolist() * n
    schema = hr.Schema(key="id", cell="user", text="text", vector="v" if vector else ())
    source = write_files(tmp_path / "in", pa.table(rows), random.Random(1))
    built(source, schema, tmp_path / "out", shards=2)
    found = Shards.read(tmp_path / "out")
    needs = [found.placement.shards_of(user) == (1,) for user in users]
    assert any(needs)
    assert not all(needs)
    damage(tmp_path / "out" / found.shards[1].folder, "vectors" if vector else "terms")
    how: dict[str, Any] = {"device": "cpu", "threads": 1, "verify": "structure"}
    asked: dict[str, Any] = {"scope": users, "text": ["tea"] * 12}
    if vector:
        asked["vectors"] = VECTORS[:12]
    with ShardedIndex.open(tmp_path / "out", **how) as index:
        got = index.recall(**asked)
        assert [one.degraded for one in got] == needs
        assert [len(one) for one in got] == [0 if need else 10 for need in needs]
        assert WHY in got.trace.degraded[0]
        fine = [user for user, need in zip(users, needs, strict=True) if not need]
        assert not index.recall_one(text="tea", scope=fine[0]).degraded
