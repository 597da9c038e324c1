"""A folder of shards that is rebalanced or built anew while it is open: a reload takes it up."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.building_worlds import built
from distributed.generation_worlds import (
    ASKED,
    SCHEMA,
    SECONDS,
    USERS,
    Askers,
    RouterFirst,
    ShardsFirst,
    build_anew,
    documents,
    make,
    opened,
    reply_of,
    want,
)
from distributed.test_damaged_shards import damage
from hyrecall.distributed import ShardedIndex, Shards, rebalance
from hyrecall.errors import CorruptIndexError, IndexNotFoundError, OptionError
from seams import SHARDS, LocalShard, OpenShards, write_shards


def test_a_rebalancing_is_taken_up_and_the_old_shards_end(tmp_path: Path) -> None:
    folder = make(tmp_path, 1)
    same = want(1)
    with opened(folder) as index:
        assert not index.is_stale
        old = gone_with(index)
        rebalance(folder, shards=3, threads=1)
        assert index.is_stale
        assert reply_of(index).equals(same), "what is open answers until a reload"
        assert len(index) == 2
        index.reload()
        assert not index.is_stale
        assert len(index) == 3
        assert reply_of(index).equals(same)
        assert not any(one() for one in old), "an old shard is still open"


def gone_with(index: ShardedIndex) -> list[Any]:
    """Return what tells whether the shards of an index are still open."""
    gc.collect()
    return [weakref.ref(one.index) for one in index.shards if isinstance(one, LocalShard)]


def ask_apart(patch: pytest.MonkeyPatch) -> None:
    """Let shards be asked one by one, by their router, as those of other processes are."""
    patch.setattr(OpenShards, "joined", lambda *_: None)


@pytest.mark.slow
@pytest.mark.parametrize("joined", [False, True])
def test_replies_of_recalls_beside_rebalancings_and_builds_are_of_one_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joined: bool
) -> None:
    if not joined:
        ask_apart(monkeypatch)
    folder = make(tmp_path, 1)
    with opened(folder) as index, Askers(index, [want(1), want(2), want(3)]) as askers:
        for seed, n_shards in ((2, 5), (3, 1)):
            build_anew(tmp_path, seed)
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
    ask_apart(monkeypatch)
    folder = make(tmp_path, 1)
    with opened(folder) as index:
        index.__class__ = bug

        def reload() -> None:
            with Askers(index, [want(1), want(2)]) as askers:
                vars(index)["pause"] = askers.go_on
                if change == "rebalanced":
                    rebalance(folder, shards=5, threads=1)
                else:
                    build_anew(tmp_path, 2)
                index.reload()

        with pytest.raises(AssertionError, match=r"of no generation|IndexError|missing"):
            reload()


def held_recall(
    index: ShardedIndex, meanwhile: Callable[[], None], *, joined: bool = False
) -> pa.Table:
    """Do something while a recall stands between its first question and the second.

    ``joined``: while it stands before its only one, to the joined state of all shards.
    """
    counted, go_on = threading.Event(), threading.Event()
    now, first = index._now, index.shards[0]
    assert isinstance(first, LocalShard)
    ask_first: Callable[..., Any] = now.joined if joined else first.statistics

    def held(*request: Any) -> Any:
        found = ask_first(*request)
        counted.set()
        assert go_on.wait(SECONDS)
        return found

    if joined:
        vars(now)["joined"] = held
    else:
        vars(now)["joined"] = lambda *_: None
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


@pytest.mark.parametrize("joined", [False, True])
def test_a_recall_ends_with_the_generation_it_began_with(tmp_path: Path, joined: bool) -> None:
    folder = make(tmp_path, 1)
    with opened(folder) as index:
        old = gone_with(index)

        def reload() -> None:
            build_anew(tmp_path, 2)
            index.reload()
            assert reply_of(index).equals(want(2)), "other recalls are answered by the new one"

        assert held_recall(index, reload, joined=joined).equals(want(1))
        gc.collect()  # of what held the recall
        assert not any(one() for one in old), "an old shard is still open"
        assert reply_of(index).equals(want(2))


def test_planted_close_during_a_recall_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_up = ShardedIndex._take_up

    def close_all(self: ShardedIndex, now: OpenShards, made: OpenShards) -> None:
        """Close the old shards at once."""
        take_up(self, now, made)
        for one in now.shards:
            one.close()

    monkeypatch.setattr(ShardedIndex, "_take_up", close_all)
    folder = make(tmp_path, 1)
    with opened(folder) as index:
        rebalance(folder, shards=3, threads=1)
        with pytest.raises(AssertionError, match="a closed one"):
            held_recall(index, index.reload)


def test_a_child_that_is_forked_during_a_recall_reloads(tmp_path: Path) -> None:
    folder = make(tmp_path, 1)
    verdicts: list[int] = []
    with opened(folder) as index:
        rebalance(folder, shards=3, threads=1)

        def fork() -> None:
            with index._taking_up:  # as another thread has it that does not run in the child
                child = os.fork()
                if not child:  # its exit status is the verdict
                    signal.alarm(int(SECONDS))
                    verdict = 1
                    try:
                        index.reload()
                        verdict = 0 if len(index) == 3 and reply_of(index).equals(want(1)) else 2
                    finally:
                        os._exit(verdict)
            verdicts.append(os.waitpid(child, 0)[1])

        held_recall(index, fork)
    assert verdicts == [0]


def test_without_its_folder_the_old_generation_goes_on(tmp_path: Path) -> None:
    folder = make(tmp_path, 1)
    with opened(folder) as index:
        shutil.rmtree(folder)
        assert index.is_stale
        for _ in range(2):
            with pytest.raises(IndexNotFoundError, match=r"with shards\.json"):
                index.reload()
            assert reply_of(index).equals(want(1))
        make(tmp_path, 2)
        index.reload()
        assert reply_of(index).equals(want(2))


@pytest.mark.parametrize("part", ["shards.json", "a shard"])
def test_a_folder_in_place_of_a_file_is_refused_by_its_name(tmp_path: Path, part: str) -> None:
    folder = make(tmp_path, 1)
    with opened(folder) as index:
        path = folder / SHARDS
        if part == "a shard":
            build_anew(tmp_path, 2)
            path = folder / Shards.read(folder).shards[0].folder / "MANIFEST"
        path.unlink()
        path.mkdir()
        assert index.is_stale
        with pytest.raises(CorruptIndexError, match=r"got a folder") as raised:
            index.reload()
        assert str(path) in str(raised.value)
        assert reply_of(index).equals(want(1))


@pytest.mark.parametrize("part", ["shards.json", "a shard"])
def test_a_damaged_generation_is_not_taken_up(tmp_path: Path, part: str) -> None:
    folder = make(tmp_path, 1)
    with opened(folder) as index:
        build_anew(tmp_path, 2)
        if part == "a shard":
            damage(folder / "shard-0001-1", "rows")
        else:
            whole = (folder / SHARDS).read_bytes()
            (folder / SHARDS).write_bytes(whole.replace(b'"generation":1', b'"generation":2'))
        shards = index.shards
        assert index.is_stale
        with pytest.raises(CorruptIndexError, match="checksum"):
            index.reload()
        assert index.shards == shards
        assert reply_of(index).equals(want(1))


def test_shards_of_another_schema_are_refused(tmp_path: Path) -> None:
    folder = make(tmp_path, 1)
    with opened(folder) as index:
        shutil.rmtree(folder)
        other = hr.Schema(key="id", cell="user", text="text", attributes=["id"])
        built(tmp_path / "in-1", other, folder, shards=2)
        with pytest.raises(OptionError, match=r"path: expected shards with the same schema"):
            index.reload()
        assert reply_of(index).equals(want(1))


def test_shards_that_stay_are_not_opened_again(tmp_path: Path) -> None:
    folder = make(tmp_path, 1)
    with opened(folder) as index:
        stays, goes = index.shards
        was = Shards.read(folder)
        shutil.copytree(folder / was.shards[1].folder, folder / "shard-0001-2")
        moved = replace(was.shards[1], folder="shard-0001-2")
        write_shards(folder, replace(was, generation=2, shards=(was.shards[0], moved)))
        index.reload()
        assert index.shards[0] is stays
        assert index.shards[1] is not goes
        assert reply_of(index).equals(want(1))
        write_shards(folder, replace(was, generation=3))
        index.reload()
        assert index.shards[0] is stays
        assert index.shards[1].name == goes.name
        assert reply_of(index).equals(want(1))


def test_a_generation_that_is_replaced_while_it_is_opened(tmp_path: Path) -> None:
    folder = make(tmp_path, 1)
    with opened(folder) as index:
        opener = index._opener
        assert opener is not None
        n_opened = 0

        def slow(found: Any, kept: Any) -> Any:
            nonlocal n_opened
            n_opened += 1
            if n_opened == 1:
                rebalance(folder, shards=5, threads=1)
            return opener(found, kept)

        index._opener = slow
        rebalance(folder, shards=3, threads=1)
        index.reload()
        assert (n_opened, len(index)) == (2, 5)
        assert reply_of(index).equals(want(1))


def test_an_index_that_is_closed_meanwhile_opens_nothing(tmp_path: Path) -> None:
    folder = make(tmp_path, 1)
    with opened(folder) as index:
        opener = index._opener
        assert opener is not None
        made: list[Any] = []

        def closing(found: Any, kept: Any) -> Any:
            made.append(opener(found, kept))
            index.close()
            return made[-1]

        index._opener = closing
        rebalance(folder, shards=3, threads=1)
        with pytest.raises(OptionError, match="a closed one"):
            index.reload()
        assert len(made) == 1
        for one in set(made[0].shards) - set(index.shards):
            with pytest.raises(OptionError, match="a closed one"):
                one.index.recall(text=["tea"], scope="u1")


def test_the_program_may_change_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(tmp_path, 1)
    monkeypatch.chdir(tmp_path)
    with opened(Path("out")) as index:
        os.chdir("/")
        assert not index.is_stale
        rebalance(folder, shards=3, threads=1)
        assert index.is_stale
        index.reload()
        assert len(index) == 3
        assert reply_of(index).equals(want(1))


def test_a_shard_that_was_saved_again_in_its_folder_is_not_taken_up(tmp_path: Path) -> None:
    folder = make(tmp_path, 1)
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


def test_a_closed_index_refuses_calls(tmp_path: Path) -> None:
    with opened(make(tmp_path, 1)) as index:
        index.close()
        index.close()
        for call in (lambda: index.recall(**ASKED), lambda: index.recall_one(text="tea")):
            with pytest.raises(OptionError) as refused:
                call()
            assert str(refused.value) == "index: expected an open index, got a closed one"
