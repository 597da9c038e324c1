"""A folder of shards that is removed or built anew while it is open: never replies of both."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.building_worlds import built, write_files
from hyrecall.distributed import ShardedIndex, Shards
from seams import SavedShard
from seams import distributed_opening_module as opening

SCHEMA = hr.Schema(key="id", cell="user", text="text")
USERS = [f"u{at}" for at in range(12)]


def documents(seed: int) -> pa.Table:
    """Tenants of other sizes by another seed, so that they lie in other shards."""
    chance = random.Random(seed)
    users = [USERS[int(chance.paretovariate(0.7)) % 12] for _ in range(120)]
    return pa.table({"id": list(range(120)), "user": users, "text": [f"tea {seed}"] * 120})


def make(folder: Path, seed: int, patch: pytest.MonkeyPatch) -> Path:
    source = write_files(folder / f"in-{seed}", documents(seed), random.Random(1))
    built(patch, source, SCHEMA, folder / "out", shards=2)
    return folder / "out"


ASKED: dict[str, Any] = {"text": ["tea"] * 12, "scope": USERS, "limit": 100}


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(0, id="no process"),
        pytest.param(1, id="one process"),
        pytest.param(2, id="both processes", marks=pytest.mark.slow),
    ],
)
def test_a_folder_that_is_built_anew_is_not_mixed_with_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: int
) -> None:
    folder = make(tmp_path, 1, monkeypatch)
    placement = Shards.read(folder).placement
    old = hr.Index.build(documents(1), SCHEMA, device="cpu").recall(**ASKED)
    homes = [placement.shards_of(user) for user in USERS]
    with ShardedIndex.open(folder, processes=True, device="cpu", threads=1) as index:
        for user, shards in zip(USERS, homes, strict=True):
            if set(shards) <= set(range(begun)):
                index.recall_one(text="tea", scope=user)
        shutil.rmtree(folder)
        make(tmp_path, 2, monkeypatch)
        if not begun:
            with pytest.raises(hr.errors.ShardLostError, match="expected the version"):
                index.recall(**ASKED)
            return
        got = index.recall(**ASKED)
        assert got.degraded == (begun < 2)
        for query, shards in enumerate(homes):
            assert got[query].degraded == (max(shards) >= begun)
            if max(shards) < begun:
                assert got[query].keys == old[query].keys


@pytest.mark.slow
def test_a_process_without_its_folder_counts_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path, 1, monkeypatch)
    placement = Shards.read(folder).placement
    with ShardedIndex.open(folder, processes=True, device="cpu", threads=1) as index:
        shutil.rmtree(folder / "shard-0001-1")
        got = index.recall(**ASKED)
        needed = [1 in placement.shards_of(user) for user in USERS]
        assert [hits.degraded for hits in got] == needed
        assert 0 < sum(needed) < 12
        (told,) = got.trace.degraded
        assert "shard-0001-1: its documents are missing" in told
        assert "expected a saved index, got none any more" in told


@pytest.mark.slow
def test_planted_newest_version_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process takes whatever version its folder has."""
    monkeypatch.setattr(
        opening, "SavedShard", lambda path, _seal, checked: SavedShard(path, None, checked)
    )
    folder = make(tmp_path, 1, monkeypatch)
    with ShardedIndex.open(folder, processes=True, device="cpu", threads=1) as index:
        shutil.rmtree(folder)
        make(tmp_path, 2, monkeypatch)
        got = index.recall(**ASKED)
        wants = [
            hr.Index.build(documents(seed), SCHEMA, device="cpu").recall(**ASKED) for seed in (1, 2)
        ]
        assert not got.degraded
        assert all(got.to_arrow() != want.to_arrow() for want in wants)


def test_a_shard_that_was_saved_again_in_its_folder_is_not_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path, 1, monkeypatch)
    old = hr.Index.build(documents(1), SCHEMA, device="cpu").recall(**ASKED)
    with ShardedIndex.open(folder, device="cpu", threads=1) as index:
        shard = hr.Index.open(folder / "shard-0000-1", device="cpu")
        user = next(one for one in USERS if Shards.read(folder).placement.shards_of(one) == (0,))
        assert shard.delete(list(range(120)), scope=user)
        shard.save(folder / "shard-0000-1")
        assert not index.is_stale
        index.reload()
        assert index.recall(**ASKED).to_arrow().equals(old.to_arrow())
    with pytest.raises(hr.CorruptIndexError, match=r"that shards\.json names"):
        ShardedIndex.open(folder, device="cpu")
