"""The thread that asks processes: it starts no other one, and can be interrupted."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyrecall as hr
from distributed.saved import N_SHARDS, VECTORS, asked, process
from distributed.test_owners import SECONDS, wait_for
from hyrecall.distributed import ShardedIndex
from hyrecall.errors import ShardLostError
from seams import turns


@pytest.fixture(scope="module")
def single(paths: list[Path]) -> Iterator[ShardedIndex]:
    with ShardedIndex.open(
        paths[:1], processes=True, device="cpu", threads=1, timeout=SECONDS
    ) as made:
        made.recall(**asked())
        yield made


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The threads that are started, by anybody."""
    found: list[threading.Thread] = []
    start = threading.Thread.start

    def noted(thread: threading.Thread) -> None:
        found.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", noted)
    return found


def stop(index: ShardedIndex, at: int) -> int:
    """Stop the process of a shard, which hangs then; return its id."""
    pid = process(index, at).pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    return pid


def patient(index: ShardedIndex, at: int, seconds: float) -> None:
    """Set how long the running process of a shard is waited for."""
    vars(vars(process(index, at))["_channel"])["_seconds"] = seconds


@pytest.mark.slow
def test_a_recall_starts_no_thread(
    index: ShardedIndex, single: ShardedIndex, started: list[threading.Thread]
) -> None:
    for several in (single, index):
        assert len(several.recall(**asked())[0]) > 0
        assert not vars(several._generations.current.pool)["_pool"]._threads
    assert not started


def many(n: int) -> dict[str, Any]:
    """Return the arguments of a call whose request is larger than a pipe holds."""
    scope = ["ann", "bob"] * (n // 2)
    return {"text": ["oak ash"] * n, "vectors": np.tile(VECTORS[:2], (n // 2, 1)), "scope": scope}


def test_only_a_large_batch_over_several_shards_is_asked_in_threads(
    index: ShardedIndex, single: ShardedIndex, one: hr.Index, started: list[threading.Thread]
) -> None:
    large = many(4_000)
    single.recall(**large)
    assert not started
    assert index.recall(**large).to_arrow().equals(one.recall(**large).to_arrow())
    assert all(thread.name.startswith("hyrecall-shards") for thread in started)
    assert 1 <= len(started) <= N_SHARDS


def test_all_shards_have_their_question_before_one_answers(index: ShardedIndex) -> None:
    """Each process is stopped, so that only questions that are sent first can be under way."""
    pids = [stop(index, at) for at in range(N_SHARDS)]
    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(index.recall, **asked())
        wait_for(lambda: all(process(index, at).is_busy for at in range(N_SHARDS)))
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        assert not asking.result(SECONDS).degraded


@pytest.mark.slow
def test_shards_that_hang_are_named_and_the_others_answer(index: ShardedIndex) -> None:
    for at in (0, 2):
        stop(index, at)
        patient(index, at, 0.2)
    got = index.recall(**asked())
    told = sorted(got.trace.degraded)
    assert [one.split(":")[0] for one in told] == [process(index, at).name for at in (0, 2)]
    assert all("none within 0.2 s" in one for one in told)
    assert len(got[0]) > 0
    assert not index.recall(**asked()).degraded, "other processes took their places"


@pytest.mark.slow
def test_callers_that_ask_a_shard_that_hangs_hear_of_it(single: ShardedIndex) -> None:
    """The question that it hangs at is lost; those behind it are asked of another process."""
    want = single.recall(**asked()).to_arrow()
    patient(single, 0, 0.3)
    stop(single, 0)

    def ask() -> object:
        try:
            return single.recall(**asked()).to_arrow()
        except ShardLostError as fault:
            return fault

    with ThreadPoolExecutor(4) as threads:
        asking = [threads.submit(ask) for _ in range(4)]
        found = [one.result(SECONDS) for one in asking]
    lost = [one for one in found if isinstance(one, ShardLostError)]
    assert len(lost) == 1
    assert "none within 0.3 s" in str(lost[0])
    assert all(one.equals(want) for one in found if one not in lost)  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("n_shards", [1, N_SHARDS])
def test_an_interrupt_ends_a_recall_and_the_next_one_is_answered(
    index: ShardedIndex, single: ShardedIndex, n_shards: int
) -> None:
    several = single if n_shards == 1 else index
    want = several.recall(**asked()).to_arrow()
    stop(several, 0)
    interrupting = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        several.recall(**asked())
    interrupting.join()
    again = several.recall(**asked())
    assert not again.degraded
    assert again.to_arrow().equals(want)


# ---- turns ----


def test_a_recall_that_waits_leaves_its_turn(index: ShardedIndex, single: ShardedIndex) -> None:
    want = single.recall(**asked()).to_arrow()
    pid = stop(index, 1)
    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(index.recall, **asked())
        wait_for(lambda: process(index, 1).is_busy and not process(index, 0).is_busy)
        wait_for(lambda: not vars(turns.turns)["_lock"].locked())
        assert single.recall(**asked()).to_arrow().equals(want)
        os.kill(pid, signal.SIGCONT)
        assert not asking.result(SECONDS).degraded
    assert not vars(turns.turns)["_lock"].locked()


def test_a_turn_that_does_not_end_is_not_waited_for(
    single: ShardedIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "PATIENCE", 0.01)
    want = single.recall(**asked()).to_arrow()
    with ThreadPoolExecutor(1) as threads, turns.turns.taken():
        asking = threads.submit(single.recall, **asked())
        assert asking.result(SECONDS).to_arrow().equals(want)
        assert vars(turns.turns)["_lock"].locked(), "it is still that of this thread"
    assert not vars(turns.turns)["_lock"].locked()


def test_a_child_that_is_forked_in_a_turn_has_none() -> None:
    with turns.turns.taken():
        turns.turns.renew()  # as in the child
        with turns.turns.taken():
            assert vars(turns.turns)["_lock"].locked()
        assert not vars(turns.turns)["_lock"].locked()
    assert not vars(turns.turns)["_lock"].locked()


def test_a_refused_call_leaves_no_question_with_a_process(index: ShardedIndex) -> None:
    for _ in range(3):
        with pytest.raises(hr.errors.HyrecallError, match="nothing"):
            index.recall(**asked(filter=hr.Filter(nothing=1)))
        for at in range(N_SHARDS):
            channel = process(index, at)._channel
            assert channel is not None
            assert not channel._pending
    index.recall(**asked())
