"""Interrupts and forks while a folder of shards is taken up: the shards in use stay open."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from distributed.generation_worlds import SECONDS, opened, reply_of, want
from distributed.test_generations import held_recall
from distributed.test_replaced_folders import make
from hyrecall.distributed import ShardedIndex, rebalance
from hyrecall.errors import OptionError
from seams import Generations


class InterruptedLock:
    """A lock at whose end the program is interrupted, once the generations were exchanged."""

    def __init__(self, generations: Generations) -> None:
        self._lock, self._generations = threading.Lock(), generations
        self._before = generations.current

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *exc: object) -> None:
        self._lock.release()
        if self._generations.current is not self._before:
            self._before = self._generations.current
            raise KeyboardInterrupt


def test_an_interrupt_after_the_exchange_leaves_the_new_shards_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path, 1, monkeypatch)
    with opened(folder) as index:
        old = index.shards
        rebalance(folder, shards=3, threads=1)
        monkeypatch.setattr(index._generations, "_lock", InterruptedLock(index._generations))
        with pytest.raises(KeyboardInterrupt):
            index.reload()
        assert len(index) == 3
        assert reply_of(index).equals(want(1))
        for one in old:
            with pytest.raises(OptionError, match="a closed one"):
                one.index.recall(text=["tea"], scope="u1")  # type: ignore[attr-defined]


def closes_old_shards(index: ShardedIndex) -> bool:
    """Say whether a reload closes the old shards after the last recall of this process."""
    old = index._generations.current
    with index._generations.used():
        assert old.n_users == 1
        index.reload()
        assert index._generations._retired == [old]
    return not index._generations._retired and reply_of(index).equals(want(1))


def test_a_forked_child_does_not_wait_for_recalls_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path, 1, monkeypatch)
    verdicts: list[int] = []
    with opened(folder) as index:
        rebalance(folder, shards=3, threads=1)

        def fork() -> None:
            child = os.fork()
            if not child:  # its exit status is the verdict
                signal.alarm(int(SECONDS))
                verdict = 1
                try:
                    verdict = 0 if closes_old_shards(index) else 2
                finally:
                    os._exit(verdict)
            verdicts.append(os.waitpid(child, 0)[1])

        held_recall(index, fork)
    assert verdicts == [0]


def test_a_call_that_forks_is_no_user_of_the_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path, 1, monkeypatch)
    with opened(folder) as index:
        rebalance(folder, shards=3, threads=1)
        with index._generations.used():
            child = os.fork()
        if not child:  # its exit status is the verdict
            signal.alarm(int(SECONDS))
            verdict = 1
            try:
                verdict = 0 if closes_old_shards(index) else 2
            finally:
                os._exit(verdict)
        assert os.waitpid(child, 0)[1] == 0
        assert index._generations.current.n_users == 0
