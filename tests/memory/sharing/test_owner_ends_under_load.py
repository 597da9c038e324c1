"""An owner that ends while it serves clients: nothing acknowledged is lost, and no call fails."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hyrecall.memory import MemorySync
from laws.effort import Effort
from memory.sharing.handles import ids, is_owner, opened
from memory.sharing.peer import USER, Peer, peers
from seams import election

MOST_TRIES = round(1.0 / election._PAUSE)
"""Tries to find an owner, or become it, that fit into a second of pauses."""


class Load:
    """Threads that write and search through clients, and count what was acknowledged."""

    def __init__(self, handles: list[MemorySync], n_writes: int) -> None:
        self.handles, self.n_writes = handles, n_writes
        self.kept: list[str] = []
        self.faults: list[BaseException] = []
        self.wrong: list[object] = []
        self.acknowledged = threading.Semaphore(0)
        self.threads = [
            threading.Thread(target=self._work, args=(at, memory))
            for at, memory in enumerate(handles * 2)
        ]
        for one in self.threads:
            one.start()

    def _work(self, me: int, memory: MemorySync) -> None:
        user = f"u{me}"
        try:
            for at in range(self.n_writes):
                key = f"{me}-{at}"
                memory.remember(f"note {at}", id=key, user_id=user)
                self.kept.append(key)
                self.acknowledged.release()
                if at % 4 == 0:
                    found = memory.search("note", user_id=user, limit=100)
                    met = [one.episode.id for one in found]
                    if not found.degraded and sorted(met) != sorted(
                        f"{me}-{one}" for one in range(at + 1)
                    ):
                        self.wrong.append((key, met))
        except BaseException as fault:
            self.faults.append(fault)
            self.acknowledged.release(self.n_writes)

    def go_on(self, n: int) -> None:
        """Wait for so many more acknowledged writes."""
        for _ in range(n):
            assert self.acknowledged.acquire(timeout=120)

    def end(self) -> None:
        for one in self.threads:
            one.join()


def close(owner: Peer) -> None:
    assert owner.ask("close") == "close"


def terminate(owner: Peer) -> None:
    owner.process.send_signal(signal.SIGTERM)
    assert owner.process.wait(timeout=60) == -signal.SIGTERM


@pytest.mark.slow
@pytest.mark.parametrize("end", [close, terminate])
def test_an_owner_that_ends_under_load_loses_nothing_and_is_followed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, effort: Effort, end: Any
) -> None:
    tries: Counter[int] = Counter()
    read = election.read_holder

    def counted(folder: Path) -> Any:  # each try that found nobody and could not become the owner
        tries[threading.get_ident()] += 1
        return read(folder)

    with peers(tmp_path / "s", 1) as (owner,):
        handles = [opened(tmp_path / "s") for _ in range(3)]
        monkeypatch.setattr(election, "read_holder", counted)
        load = Load(handles, 400 if effort.full else 25)
        load.go_on(30)
        end(owner)
        load.end()
    assert load.faults == []
    assert load.wrong == []
    assert max(tries.values(), default=0) <= MOST_TRIES
    assert [is_owner(one) for one in handles].count(True) == 1
    assert len(load.kept) == len(load.threads) * load.n_writes
    with handles[0]._store.database.reading() as connection:  # nothing lost, nothing twice
        rows = connection.execute("SELECT id, count(*), max(version) FROM versions GROUP BY id")
        assert sorted(rows) == sorted((key, 1, 1) for key in load.kept)
    (state,) = {one._store.owner_state().pid for one in handles}  # type: ignore[union-attr]
    assert state == os.getpid()
    assert ids(handles[0]) == []  # of a user who wrote nothing
    handles[1].remember("note", id="last", user_id=USER)
    assert ids(handles[2]) == ["last"]
