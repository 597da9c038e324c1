"""Saved indexes as shards: options of Index.open, newer versions, and what is refused at open."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.saved import N_SHARDS, VECTORS, asked, whole
from distributed.test_damaged_shards import damage, saved
from hyrecall.distributed import BatchRecall, ShardedIndex
from hyrecall.errors import CorruptIndexError, KeyConflictError, OptionError, UnknownOptionError
from seams import LocalShard

OPENERS: dict[str, Callable[..., Any]] = {
    "here": ShardedIndex.open,
    "ray": ShardedIndex.on_ray,
    "batch": lambda paths, **more: BatchRecall(paths, key="id", text="text", scope="user", **more),
}


@pytest.fixture
def copies(paths: list[Path], tmp_path: Path) -> list[Path]:
    """The saved shards, for tests that change them."""
    return [Path(shutil.copytree(one, tmp_path / one.name)) for one in paths]


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


@pytest.mark.parametrize("gone", ["processes", "replicas", "hedge", "timeout"])
def test_what_is_ray_s_work_is_no_option_here(paths: list[Path], gone: str) -> None:
    with pytest.raises(UnknownOptionError, match=f"^open: expected one of .* got '{gone}'"):
        ShardedIndex.open(paths, **{gone: 2})


def test_shards_are_opened_as_asked(paths: list[Path]) -> None:
    how: dict[str, Any] = {"memory": "ram", "verify": "full"}
    with ShardedIndex.open(paths, device="cpu", threads=1, **how) as index:
        for one in index.shards:
            assert isinstance(one, LocalShard)
            opening = one.index._opening
            assert (opening.memory, opening.verify, opening.pin) == ("ram", "full", ())
    with ShardedIndex.open(paths, device="cpu", pin="plane") as index:
        assert [one.index._opening.pin for one in index.shards] == [("plane",)] * N_SHARDS  # type: ignore[attr-defined]


def test_damage_is_found_at_open_and_not_again_by_a_batch_that_was_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = saved(tmp_path, monkeypatch)
    roles: dict[str, Any] = {"key": "id", "text": "text", "scope": "user"}
    recall = BatchRecall(paths, **roles, device="cpu", threads=1)
    queries = pa.table({"id": ["q"], "text": ["tea"], "user": ["ann"]})
    want = recall(queries)
    sent = pickle.loads(pickle.dumps(recall))
    recall.close()
    damage(paths[1], "terms")
    damage(paths[1])
    with pytest.raises(CorruptIndexError, match="expected checksum"):
        BatchRecall(paths, **roles, device="cpu")
    with pytest.raises(CorruptIndexError, match="expected checksum"):
        ShardedIndex.open(paths, device="cpu")
    assert sent._opened() is not None, "all was read again"
    with pytest.raises(hr.errors.ShardLostError, match="its files are damaged"):
        sent(queries)
    assert want.num_rows == 10
    sent.close()


def test_versions_that_are_saved_anew_are_taken_up_in_one_step(copies: list[Path]) -> None:
    one = whole()
    with ShardedIndex.open(copies[0].parent, device="cpu", threads=1) as index:
        before, shards = index.recall(**asked()).to_arrow(), index.shards
        for at in (0, 2):  # a document of each shard goes
            key = f"k{20 * at + 4}"
            saved = hr.Index.open(copies[at], device="cpu")
            assert saved.delete([key], scope="ann")
            assert one.delete([key], scope="ann")
            saved.save(copies[at])
        assert index.is_stale
        assert index.recall(**asked()).to_arrow().equals(before)
        index.reload()
        assert not index.is_stale
        assert [new is old for new, old in zip(index.shards, shards, strict=True)] == [
            False, True, False,
        ]  # fmt: skip
        assert index.recall(**asked()).to_arrow().equals(one.recall(**asked()).to_arrow())
        shutil.rmtree(copies[1])
        assert index.is_stale, "a folder fewer"


def test_a_relative_path_stays_the_same_folder(
    copies: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.chdir(copies[0].parent)
    with ShardedIndex.open([one.name for one in copies], device="cpu", threads=1) as index:
        monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
        assert not index.is_stale
        assert len(index.recall(**asked())[0]) > 0


def test_a_key_in_two_shards_is_refused_with_both_named(copies: list[Path]) -> None:
    other = hr.Index.open(copies[2], device="cpu")
    row = hr.Index.open(copies[0], device="cpu").recall(**asked(text=None)).to_arrow()
    key, user = row["key"][0].as_py(), "ann"
    more = pa.table({"id": [key], "user": [user], "text": ["oak"], "year": [2000]})
    other.add(more, vectors={"v": VECTORS[:1]}, first_seq=1_000)
    other.save(copies[2])
    with pytest.raises(KeyConflictError) as refused:
        ShardedIndex.open(copies, device="cpu")
    assert f"{key!r} in {copies[0]} and {copies[2]}" in str(refused.value)
