"""Replicas of a shard: whichever answers, the bits are those of one index, and counted once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.saved import asked
from distributed.scripted import (
    SECONDS,
    AddedTwice,
    LateAnswer,
    OtherState,
    made,
    one_of,
    states,
)
from hyrecall.distributed import Request, ShardedIndex
from hyrecall.errors import ShardLostError
from seams import ReplicatedShard

N_CHANGES = 3


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, list[pa.Table], Callable[[int], None]]:
    _, wants, change = states(tmp_path / "shard", N_CHANGES)
    assert len({repr(want.to_pydict()) for want in wants}) == len(wants)
    return tmp_path / "shard", wants, change


either_way = pytest.mark.parametrize("alone", [False, True], ids=["two steps", "alone"])


@either_way
def test_questions_are_spread_and_go_where_the_fewest_are_under_way(
    saved: Any, alone: bool
) -> None:
    folder, wants, _ = saved
    index, replicas, log = made(folder, 3, alone=alone)
    for _ in range(6):
        assert one_of(index, wants) == 0
    counts = [sum(number == at for number, _ in log) for at in range(3)]
    assert counts == [4, 4, 4]
    log.clear()
    busy = replicas[1]
    busy.gates["count"] = threading.Event()
    blocked = threading.Thread(target=index.shards[0].statistics, args=(Request(**asked()),))
    while not busy.begun["count"].is_set() or blocked.ident is None:
        busy.begun["count"].clear()
        blocked = threading.Thread(target=index.shards[0].statistics, args=(Request(**asked()),))
        blocked.start()
        busy.begun["count"].wait(0.2)
    log.clear()
    for _ in range(4):
        assert one_of(index, wants) == 0
    assert {number for number, _ in log} == {0, 2}
    busy.gates["count"].set()
    blocked.join(SECONDS)
    assert not blocked.is_alive()


@either_way
@pytest.mark.parametrize("question", ["count", "candidates"])
def test_a_replica_that_does_not_answer_is_replaced_and_counts_once(
    saved: Any, question: str, alone: bool
) -> None:
    folder, wants, _ = saved
    index, replicas, log = made(folder, 3, alone=alone)
    for one in replicas[:2]:
        one.failing = {question}
    for _ in range(4):
        assert one_of(index, wants) == 0
    asked_of = {number for number, what in log if what == question}
    assert asked_of & {0, 1}
    assert 2 in asked_of
    replicas[2].failing = {question}
    if alone:
        with pytest.raises(ShardLostError, match="an answer of at least one, got shard: expected"):
            index.recall(**asked())
    else:
        (told,) = index.recall(**asked()).trace.degraded
        assert told.startswith("shard: its documents are missing")
    for one in replicas:
        one.failing = set()
    assert one_of(index, wants) == 0


def test_the_oracle_sees_a_retry_that_counts_twice(saved: Any) -> None:
    folder, wants, _ = saved
    index, replicas, _ = made(folder, 2, AddedTwice)
    assert one_of(index, wants) == 0
    replicas[0].failing = {"count"}

    def is_wrong() -> bool:
        try:
            one_of(index, wants)
        except AssertionError:
            return True
        return False

    assert any(is_wrong() for _ in range(2))  # one of them begins with the replica that fails


def stale_pair(
    saved: Any, kind: type[ReplicatedShard]
) -> tuple[ShardedIndex, list[tuple[int, str]]]:
    """Count in the old state, of which no replica has candidates any more."""
    folder, wants, change = saved
    index, (old, new), log = made(folder, 2, kind)
    assert one_of(index, wants) == 0
    vars(index.shards[0])["_keep_soon"] = lambda: None  # no replica takes up anything by itself
    change(1)
    new.index.reload()
    log.clear()
    for one in vars(index.shards[0])["_replicas"]:
        one.last = one.shard is not old  # the one that was asked longest ago is asked
    old.failing = {"candidates"}
    return index, log


def test_candidates_are_of_the_state_that_was_counted(saved: Any) -> None:
    _, wants, _ = saved
    index, log = stale_pair(saved, ReplicatedShard)
    assert one_of(index, wants) == 1
    first, *others = log
    assert first == (0, "count")
    assert sorted(others[:2]) == [
        (0, "candidates"),
        (1, "candidates"),
    ]  # lost, and of another state
    assert others[2:] == [(1, "count"), (1, "candidates")]


def test_the_oracle_sees_candidates_of_another_state(saved: Any) -> None:
    _, wants, _ = saved
    index, _ = stale_pair(saved, OtherState)
    with pytest.raises(AssertionError, match="no state"):
        one_of(index, wants)


def late_pair(saved: Any, kind: type[ReplicatedShard]) -> ShardedIndex:
    """Answer a question with another text, by a replica, while the other one hangs at it."""
    folder, _, _ = saved
    index, replicas, log = made(folder, 2, kind, hedge=0.05)
    gate = threading.Event()
    slow, quick = replicas
    slow.gates["count"] = gate
    while (0, "count") not in log:
        index.recall(**asked(text=["ash elm", "fir", "elm oak"]))
    assert (1, "count") in log
    gate.set()  # now the late answer comes
    pool = vars(index.shards[0])["_threads"]
    pool.shutdown()
    del vars(quick)["gates"], vars(slow)["gates"]
    slow.gates, quick.gates = {}, {}
    vars(index.shards[0])["_threads"] = None
    return index


def test_a_late_replica_is_hedged_and_its_answer_is_dropped(saved: Any) -> None:
    _, wants, _ = saved
    index = late_pair(saved, ReplicatedShard)
    assert one_of(index, wants) == 0
    index.close()


def test_the_oracle_sees_a_late_answer_used_for_the_next_question(saved: Any) -> None:
    _, wants, _ = saved
    index = late_pair(saved, LateAnswer)
    with pytest.raises(AssertionError):
        one_of(index, wants)
    index.close()


@either_way
def test_a_new_version_is_taken_up_by_one_replica_after_another(saved: Any, alone: bool) -> None:
    folder, wants, change = saved
    index, replicas, log = made(folder, 3, alone=alone)
    for one in replicas:
        one.gates["reload"] = threading.Event()
        one.begun["reload"].clear()
    change(1)
    rolling = threading.Thread(target=index.reload)
    rolling.start()
    answered = []
    for number, one in enumerate(replicas):
        assert one.begun["reload"].wait(SECONDS)
        log.clear()
        answered.append({one_of(index, wants) for _ in range(4)})
        assert {at for at, question in log if question == "count"} <= {0, 1, 2} - {number}
        assert not any(other.begun["reload"].is_set() for other in replicas[number + 1 :])
        one.gates["reload"].set()
    rolling.join(SECONDS)
    assert not rolling.is_alive()
    # The old state answers until two of three have the new one.
    assert answered == [{0}, {0}, {1}]
    assert one_of(index, wants) == 1


def test_a_new_version_is_taken_up_while_recalls_come(saved: Any) -> None:
    folder, wants, change = saved
    index, replicas, _ = made(folder, 2)
    shard = index.shards[0]
    assert isinstance(shard, ReplicatedShard)
    change(1)
    seen = [one_of(index, wants)]
    settled = threading.Event()
    while shard.is_stale:
        seen.append(one_of(index, wants))
        settled.wait(0.01)
    assert seen == sorted(seen)
    assert {one_of(index, wants) for _ in range(4)} == {1}
    assert [one.index.is_stale for one in replicas] == [False, False]


@either_way
def test_a_version_that_cannot_be_read_leaves_the_old_one(saved: Any, alone: bool) -> None:
    folder, wants, change = saved
    index, _, _ = made(folder, 2, alone=alone)
    manifest = folder / "MANIFEST"
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[:-4] + b"0000")
    with pytest.raises(hr.CorruptIndexError):
        index.reload()
    assert one_of(index, wants) == 0
    manifest.write_bytes(whole)
    change(1)
    index.reload()
    assert one_of(index, wants) == 1


@either_way
def test_no_older_state_answers_after_a_replica_that_was_started_again(
    saved: Any, alone: bool
) -> None:
    folder, wants, change = saved
    index, (old, new, other), _ = made(folder, 3, alone=alone)
    assert one_of(index, wants) == 0
    vars(index.shards[0])["_keep_soon"] = lambda: None
    change(1)
    new.index.reload()  # as if its process had ended, and another one had opened the folder
    told = [one_of(index, wants) for _ in range(9)]
    assert told == sorted(told), "an older state after a newer one"
    assert told[-1] == 1
    new.failing = {"count", "candidates"}
    assert [one_of(index, wants) for _ in range(3)] == [1, 1, 1]
    new.failing, old.failing = set(), {"count", "candidates"}
    assert [one_of(index, wants) for _ in range(3)] == [1, 1, 1]
    assert other.index._version == new.index._version


def test_health_counts_replicas_that_do_not_answer(saved: Any) -> None:
    folder, _, _ = saved
    index, replicas, _ = made(folder, 2, alone=True)
    assert dict(index.health()) == {"shard": (2, 0)}
    replicas[0].failing = {"count"}
    assert dict(index.health()) == {"shard": (2, 1)}
    assert not index.health()["shard"].is_lost
    replicas[1].failing = {"count"}
    assert index.health()["shard"].is_lost
    for one in replicas:
        one.failing = set()
    assert dict(index.health()) == {"shard": (2, 0)}


def test_arguments_of_replicas(tmp_path: Path) -> None:
    for wrong in (0, 65, 1.5, True, "2"):
        with pytest.raises(hr.OptionError, match=r"replicas: expected an int in \[1, 64\]"):
            ShardedIndex.open([tmp_path], processes=True, replicas=wrong)  # type: ignore[arg-type]
    with pytest.raises(hr.OptionError, match="replicas: expected 1 without processes=True"):
        ShardedIndex.open([tmp_path], replicas=2)
    with pytest.raises(hr.OptionError, match="timeout: expected None without processes=True"):
        ShardedIndex.open([tmp_path], timeout=1)
    with pytest.raises(hr.OptionError, match="hedge: expected None with one replica"):
        ShardedIndex.open([tmp_path], processes=True, hedge=0.1, timeout=1)
    with pytest.raises(hr.OptionError, match="timeout: expected seconds beside hedge"):
        ShardedIndex.open([tmp_path], processes=True, replicas=2, hedge=0.1)
    with pytest.raises(hr.HyrecallError, match="hedge: expected seconds from 0"):
        ShardedIndex.open([tmp_path], processes=True, replicas=2, hedge=-1, timeout=1)
