"""A folder of shards is opened whole: not some of its shards, and not as a store."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.building_worlds import built, write_files
from hyrecall.distributed import ShardedIndex, Shards
from hyrecall.errors import OptionError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    n = 30
    rows = {"id": list(range(n)), "user": [f"u{at}" for at in range(n)], "text": ["tea"] * n}
    source = write_files(tmp_path / "in", pa.table(rows), random.Random(1))
    schema = hr.Schema(key="id", cell="user", text="text")
    built(monkeypatch, source, schema, tmp_path / "out", shards=3)
    return tmp_path / "out"


def test_some_shards_of_a_folder_are_refused(folder: Path) -> None:
    paths = [folder / one.folder for one in Shards.read(folder).shards]
    wish = "paths: expected all 3 shards of .*out, got 2 of them; open the folder of the shards"
    for processes in (False, True):
        with pytest.raises(OptionError, match=wish):
            ShardedIndex.open(paths[1:], processes=processes)
    with ShardedIndex.open(paths[::-1], device="cpu") as index:
        everyone = hr.Scope.matching(user=hr.ANY)
        assert len(index.recall(text=["tea"], scope=everyone, limit=50)[0]) == 30


def test_a_folder_of_shards_is_no_store(folder: Path) -> None:
    memory = pytest.importorskip("hyrecall.memory", reason="the extra [memory] is not installed")
    pytest.importorskip("apsw", reason="the extra [memory] is not installed")
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(OptionError, match="got a folder of shards; hyrecall shards serve"):
        memory.MemorySync.open(folder)
    assert sorted(path.name for path in folder.iterdir()) == before
