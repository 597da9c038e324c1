"""A folder of shards that is rebalanced or built anew while it is open: a reload takes it up."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.building_worlds import built
from distributed.generation_worlds import (
    SECONDS,
    Askers,
    RouterFirst,
    ShardsFirst,
    build_anew,
    kinds,
    opened,
    pids,
    reply_of,
    want,
)
from distributed.test_damaged_shards import damage
from distributed.test_owners import has_ended, wait_for
from distributed.test_replaced_folders import ASKED, USERS, make
from hyrecall.distributed import ShardedIndex, Shards, rebalance
from hyrecall.errors import CorruptIndexError, IndexNotFoundError, OptionError
from seams import SHARDS, Generations, LocalShard, write_shards


@pytest.mark.slow
@kinds("here", "processes")
def test_a_rebalancing_is_taken_up_and_the_old_shards_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder = make(tmp_path, 1, monkeypatch)
    same = want(1)
    with opened(folder, kind) as index:
        assert not index.is_stale
        before, old = pids(index), index.shards
        rebalance(folder, shards=3, threads=1)
        assert index.is_stale
        assert reply_of(index).equals(same), "what is open answers until a reload"
        assert len(index) == 2
        index.reload()
        assert not index.is_stale
        assert len(index) == 3
        assert reply_of(index).equals(same)
        assert not any(one.n_lost for one in index.health().values())
        assert not pids(index) & before
        for pid in before:
            wait_for(lambda pid=pid: has_ended(pid))  # type: ignore[misc]
        for one in old:
            with pytest.raises(OptionError, match="a closed one"):
                one.alone(hr.distributed.Request(text=["tea"], scope=USERS[0]))  # type: ignore[attr-defined]


@pytest.mark.slow
@kinds("here")
def test_replies_of_recalls_beside_rebalancings_and_builds_are_of_one_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder = make(tmp_path, 1, monkeypatch)
    with opened(folder, kind) as index, Askers(index, [want(1), want(2), want(3)]) as askers:
        for seed, n_shards in ((2, 5), (3, 1)):
            build_anew(tmp_path, seed, monkeypatch)
            assert Shards.read(folder).generation == 1, "the number is no sign of it"
            assert index.is_stale
            askers.go_on()
            index.reload()
            assert not index.is_stale
            askers.go_on()
            rebalance(folder, shards=n_shards, threads=1)
            askers.go_on()
            index.reload()
            assert len(index) == n_shards
            askers.go_on()
    assert all(set(own) == {0, 1, 2} for own in askers.seen)


@pytest.mark.slow
@pytest.mark.parametrize("bug", [ShardsFirst, RouterFirst])
@pytest.mark.parametrize("change", ["rebalanced", "built anew"])
def test_an_exchange_in_two_steps_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: Any, change: str
) -> None:
    folder = make(tmp_path, 1, monkeypatch)
    with opened(folder) as index:
        vars(index)["_generations"].__class__ = bug

        def reload() -> None:
            with Askers(index, [want(1), want(2)]) as askers:
                vars(index._generations)["pause"] = askers.go_on
                if change == "rebalanced":
                    rebalance(folder, shards=5, threads=1)
                else:
                    build_anew(tmp_path, 2, monkeypatch)
                index.reload()

        with pytest.raises(AssertionError, match=r"of no generation|IndexError|missing"):
            reload()


def held_recall(index: ShardedIndex, meanwhile: Callable[[], None]) -> pa.Table:
    """Do something while a recall stands between its first question and the second."""
    counted, go_on = threading.Event(), threading.Event()
    first = index.shards[0]
    assert isinstance(first, LocalShard)
    count = first.statistics

    def held(request: Any) -> Any:
        found = count(request)
        counted.set()
        assert go_on.wait(SECONDS)
        return found

    vars(first)["statistics"] = held
    replies: list[Any] = []

    def ask() -> None:
        try:
            replies.append(index.recall(**ASKED).to_arrow())
        except OptionError as fault:
            replies.append(fault)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        assert counted.wait(SECONDS)
        meanwhile()
    finally:
        go_on.set()
        asking.join(SECONDS)
    (reply,) = replies
    if isinstance(reply, OptionError):
        raise AssertionError(str(reply)) from reply
    return reply


def test_a_recall_ends_with_the_generation_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path, 1, monkeypatch)
    with opened(folder) as index:
        old = index.shards

        def reload() -> None:
            build_anew(tmp_path, 2, monkeypatch)
            index.reload()
            assert reply_of(index).equals(want(2)), "other recalls are answered by the new one"

        assert held_recall(index, reload).equals(want(1))
        for one in old:
            with pytest.raises(OptionError, match="a closed one"):
                one.index.recall(text=["tea"], scope="u1")  # type: ignore[attr-defined]
        assert reply_of(index).equals(want(2))


def test_planted_close_during_a_recall_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close_unused = Generations._close_unused

    def close_all(self: Generations) -> None:
        """Close the old shards at once."""
        for one in self._retired:
            one.n_users = 0
        close_unused(self)

    monkeypatch.setattr(Generations, "_close_unused", close_all)
    folder = make(tmp_path, 1, monkeypatch)
    with opened(folder) as index:
        rebalance(folder, shards=3, threads=1)
        with pytest.raises(AssertionError, match="a closed one"):
            held_recall(index, index.reload)


@kinds("here")
def test_without_its_folder_the_old_generation_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder = make(tmp_path, 1, monkeypatch)
    with opened(folder, kind) as index:
        shutil.rmtree(folder)
        assert index.is_stale
        for _ in range(2):
            with pytest.raises(IndexNotFoundError, match=r"with shards\.json"):
                index.reload()
            assert reply_of(index).equals(want(1))
        make(tmp_path, 2, monkeypatch)
        index.reload()
        assert reply_of(index).equals(want(2))


@pytest.mark.parametrize("part", ["shards.json", "a shard"])
def test_a_folder_in_place_of_a_file_is_refused_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    folder = make(tmp_path, 1, monkeypatch)
    with opened(folder) as index:
        path = folder / SHARDS
        if part == "a shard":
            build_anew(tmp_path, 2, monkeypatch)
            path = folder / Shards.read(folder).shards[0].folder / "MANIFEST"
        path.unlink()
        path.mkdir()
        assert index.is_stale
        with pytest.raises(CorruptIndexError, match=r"got a folder") as raised:
            index.reload()
        assert str(path) in str(raised.value)
        assert reply_of(index).equals(want(1))


@kinds("here")
@pytest.mark.parametrize("part", ["shards.json", "a shard"])
def test_a_damaged_generation_is_not_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, part: str
) -> None:
    folder = make(tmp_path, 1, monkeypatch)
    with opened(folder, kind) as index:
        build_anew(tmp_path, 2, monkeypatch)
        if part == "a shard":
            damage(folder / "shard-0001-1", "rows")
        else:
            whole = (folder / SHARDS).read_bytes()
            (folder / SHARDS).write_bytes(whole.replace(b'"generation":1', b'"generation":2'))
        shards, before = index.shards, pids(index)
        assert index.is_stale
        with pytest.raises(CorruptIndexError, match="checksum"):
            index.reload()
        assert index.shards == shards
        assert pids(index) == before
        assert reply_of(index).equals(want(1))


def test_shards_of_another_schema_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path, 1, monkeypatch)
    with opened(folder) as index:
        shutil.rmtree(folder)
        other = hr.Schema(key="id", cell="user", text="text", attributes=["id"])
        built(monkeypatch, tmp_path / "in-1", other, folder, shards=2)
        with pytest.raises(OptionError, match=r"path: expected shards in .* with the same schema"):
            index.reload()
        assert reply_of(index).equals(want(1))


@pytest.mark.slow
@kinds("here", "replicas")
def test_shards_that_stay_are_not_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder = make(tmp_path, 1, monkeypatch)
    with opened(folder, kind) as index:
        stays, goes = index.shards
        before = pids(index)
        was = Shards.read(folder)
        shutil.copytree(folder / was.shards[1].folder, folder / "shard-0001-2")
        moved = replace(was.shards[1], folder="shard-0001-2")
        write_shards(folder, replace(was, generation=2, shards=(was.shards[0], moved)))
        index.reload()
        assert index.shards[0] is stays
        assert index.shards[1] is not goes
        assert reply_of(index).equals(want(1))
        assert len(pids(index) & before) == len(before) // 2
        write_shards(folder, replace(was, generation=3))
        index.reload()
        assert index.shards[0] is stays
        assert index.shards[1].name == goes.name
        assert reply_of(index).equals(want(1))


def test_a_generation_that_is_replaced_while_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path, 1, monkeypatch)
    with opened(folder) as index:
        opener = index._generations._opener
        assert opener is not None
        n_opened = 0

        def slow(found: Any, kept: Any) -> Any:
            nonlocal n_opened
            n_opened += 1
            if n_opened == 1:
                rebalance(folder, shards=5, threads=1)
            return opener(found, kept)

        index._generations._opener = slow
        rebalance(folder, shards=3, threads=1)
        index.reload()
        assert (n_opened, len(index)) == (2, 5)
        assert reply_of(index).equals(want(1))


def test_an_index_that_is_closed_meanwhile_opens_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path, 1, monkeypatch)
    with opened(folder) as index:
        opener = index._generations._opener
        assert opener is not None
        made: list[Any] = []

        def closing(found: Any, kept: Any) -> Any:
            made.append(opener(found, kept))
            index.close()
            return made[-1]

        index._generations._opener = closing
        rebalance(folder, shards=3, threads=1)
        with pytest.raises(OptionError, match="a closed one"):
            index.reload()
        assert len(made) == 1
        for one in made[0].shards:
            with pytest.raises(OptionError, match="a closed one"):
                one.index.recall(text=["tea"], scope="u1")


def test_the_program_may_change_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(tmp_path, 1, monkeypatch)
    monkeypatch.chdir(tmp_path)
    with opened(Path("out")) as index:
        os.chdir("/")
        assert not index.is_stale
        rebalance(folder, shards=3, threads=1)
        assert index.is_stale
        index.reload()
        assert len(index) == 3
        assert reply_of(index).equals(want(1))
