"""Many processes read what one writes: whole, in order, never from before they asked (D8, D9)."""

from __future__ import annotations

import mmap
import os
import signal
import struct
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from laws.effort import Effort
from memory.children import fork
from memory.small_store import (
    cell,
    episode,
    follower_of,
    forget,
    link,
    rebuilt,
    remember,
    replies,
)
from seams import Database, Follower, Ready

READERS = 8
RESTARTS = 4
HALF, STALE, BACKWARDS, NEVER_TAKEN = 11, 12, 13, 14


@dataclass(frozen=True)
class Length:
    """How often the snapshot is replaced, and for how long at least."""

    replacements: int
    seconds: float


QUICK = Length(10, 0.0)


class Shared:
    """A number that forked processes share."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8)

    def set(self, value: int) -> None:
        self._memory[:] = struct.pack("<q", value)

    def get(self) -> int:
        return int(struct.unpack("<q", self._memory[:])[0])


def n_with(ready: Ready, word: str) -> int:
    hits = ready.index.recall_one(text=word, scope=tuple(cell()), limit=20_000, depth=20_000)
    return len(hits)


def read_until(done: Shared, n_pairs: Shared, folder: Path, *, reopens: bool) -> int:
    """Read over and over; the exit code says what was wrong, if anything."""
    database = Database.open(folder, read_only=True)
    follower = follower_of(database)
    n_taken = last = 0
    n_taken += follower.open().how == "snapshot"
    while not done.get():
        least = n_pairs.get()
        ready = follower.ready()
        left, right = n_with(ready, "leftword"), n_with(ready, "rightword")
        if left != right:  # they are written together
            return HALF
        if left < least:
            return STALE
        if ready.sequence < last:
            return BACKWARDS
        last = ready.sequence
        if reopens:
            follower.close()
            follower = follower_of(database)
            n_taken += follower.open().how == "snapshot"
    follower.close()
    database.close()
    # Who opens once may find the snapshot replaced, as often as it looks, and builds anew.
    return 0 if n_taken or not reopens else NEVER_TAKEN


def write(folder: Path, n_pairs: Shared, length: Length) -> int:
    """Write pairs, each with a new snapshot, and start over now and then; give how many."""
    began, pair = time.monotonic(), 0
    while pair < length.replacements or time.monotonic() - began < length.seconds:
        database = Database.open(folder)
        follower = follower_of(database)
        follower.open()
        for _ in range(length.replacements // RESTARTS):
            pair += 1
            left = episode(pair, id=f"left{pair}", text="leftword")
            remember(database, left, episode(pair, id=f"right{pair}", text="rightword"))
            n_pairs.set(n_pairs.get() + 1)
            follower.catch_up()
            assert follower.snapshot()
        follower.close()
        database.close()
    return pair


def exit_codes(folder: Path, length: Length = QUICK) -> tuple[Counter[int], int]:
    """Run readers beside the writer; count how they ended, a signal as minus its number, and how
    often the snapshot was replaced.
    """
    with_one = Database.open(folder)
    remember(with_one, episode(0, text="oak"))
    follower = follower_of(with_one)
    follower.open()
    follower.close()
    with_one.close()
    done, n_pairs = Shared(), Shared()
    children = []
    for number in range(READERS):
        child = fork()
        if child == 0:
            code = 99
            try:
                code = read_until(done, n_pairs, folder, reopens=number % 2 == 0)
            finally:
                os._exit(code)
        children.append(child)
    try:
        n_replaced = write(folder, n_pairs, length)
    finally:
        done.set(1)
        ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return Counter(ended), n_replaced


@pytest.mark.slow
def test_readers_see_whole_commits_in_order_while_snapshots_are_replaced(
    tmp_path: Path, effort: Effort
) -> None:
    began = time.monotonic()
    length = Length(effort.cases(quick=10, full=500), 60.0 * effort.share)
    codes, n_replaced = exit_codes(tmp_path / "store", length)
    seconds = time.monotonic() - began
    print(f"D8, D9: {READERS} readers, {n_replaced} snapshots, {seconds:.1f} s: {dict(codes)}")
    assert codes == {0: READERS}


@pytest.mark.slow
def test_a_reader_that_does_not_follow_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_it_was_opened(self: Follower, *, budget: float | None = None) -> Ready:
        assert self._held is not None
        return self._give(self._held)

    monkeypatch.setattr(Follower, "ready", as_it_was_opened)
    codes, _ = exit_codes(tmp_path / "store")
    assert codes[STALE] > 0


def work(folder: Path, seed: int, n_saved: Shared) -> None:
    """Change a store, follow it and save snapshots, until somebody ends it."""
    database = Database.open(folder)
    follower = follower_of(database)
    follower.open()
    at = seed * 1_000
    while True:
        at += 1
        remember(database, episode(at), episode(at, user="bob"))
        if at % 3 == 0:
            forget(database, f"e{at - 1}")
        if at % 4 == 0:
            link(database, f"edge{at}", [f"e{at}", f"e{at - 3}"])
        follower.catch_up()
        follower.snapshot()
        n_saved.set(n_saved.get() + 1)


def test_whenever_the_writer_is_killed_the_index_comes_back_right(
    tmp_path: Path, effort: Effort
) -> None:
    """Its lock is free at once, and what it saved is taken or built anew."""
    folder = tmp_path / "store"
    Database.open(folder).close()
    how: Counter[str] = Counter()
    n_kills = effort.cases(quick=4, full=50)
    for seed in range(n_kills):
        n_saved = Shared()
        child = fork()
        if child == 0:
            try:
                work(folder, seed, n_saved)
            finally:
                os._exit(99)
        until = time.monotonic() + 30  # while it opens the store, or after some snapshots
        while n_saved.get() < seed % 3 and time.monotonic() < until:
            time.sleep(0.002)
        time.sleep(0.013 * (seed % 11))
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        database = Database.open(folder)
        follower = follower_of(database)
        how[follower.open().how] += 1
        assert replies(follower.ready()) == replies(rebuilt(database))
        follower.close()
        database.close()
    print(f"D1: {n_kills} kills of a writer that saves snapshots: {dict(how)}")
    assert how["snapshot"] > 0
