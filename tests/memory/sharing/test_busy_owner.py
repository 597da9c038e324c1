"""Clients of an owner that has too much to do: they wait and ask again, within a bound."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hyrecall.errors import DTypeError, OptionError, StoreBusyError
from hyrecall.memory import MemorySync
from memory.sharing.handles import ids, opened
from memory.sharing.house import House
from memory.sharing.peer import USER
from seams import Connections, Host, Limits, RequestLimiter, Server, client, patience


def server_of(owner: MemorySync) -> Server:
    shared = owner._store._shared
    assert shared is not None
    place = shared._place
    assert isinstance(place, Host)
    return place._server


class Full:
    """An owner with one turn, which is taken until it is freed; it lets nobody wait."""

    def __init__(self, owner: MemorySync, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = server_of(owner)
        self.server._turns = self.turns = RequestLimiter(Limits(at_work=1, waiting=0))
        self.turns._free.acquire()
        self.refusals = threading.Semaphore(0)
        busy = self.turns._busy

        def counted(got: str) -> StoreBusyError:
            self.refusals.release()
            return busy(got)

        monkeypatch.setattr(self.turns, "_busy", counted)

    def refuse(self, n: int) -> None:
        """Wait until it has refused so many requests."""
        for _ in range(n):
            assert self.refusals.acquire(timeout=60)

    def free(self) -> None:
        self.turns._free.release()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "s"


def test_a_refused_write_is_made_once_when_the_owner_has_a_turn(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, second = opened(folder), opened(folder, owner_timeout=60.0)
    second.remember("note", id="a", user_id=USER)
    full = Full(owner, monkeypatch)
    asked: list[Any] = []
    ask = Connections.ask

    def listened(self: Connections, message: Any, **options: Any) -> Any:
        asked.append(message)
        return ask(self, message, **options)

    monkeypatch.setattr(Connections, "ask", listened)
    versions: list[int] = []
    writing = threading.Thread(
        target=lambda: versions.append(second.update("a", user_id=USER, text="changed").version)
    )
    writing.start()
    full.refuse(3)
    assert versions == []
    full.free()
    writing.join()
    assert versions == [2]
    assert [one.version for one in owner.history("a", user_id=USER)] == [1, 2]
    assert len(asked) > 3
    assert len({one.write_id for one in asked}) == 1  # all tries are one write


CALLS: list[Callable[[MemorySync], object]] = [
    lambda memory: memory.remember("note", id="b", user_id=USER),
    lambda memory: memory.search("note", user_id=USER),
    lambda memory: memory.compact(),
]


@pytest.mark.parametrize("call", CALLS, ids=["write", "search", "task"])
def test_an_owner_that_stays_busy_is_an_error_after_the_bound(
    folder: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[MemorySync], object]
) -> None:
    owner, second = opened(folder), opened(folder, owner_timeout=0.2)
    second.remember("note", id="a", user_id=USER)
    full = Full(owner, monkeypatch)
    with pytest.raises(StoreBusyError, match="0 that wait") as caught:
        call(second)
    assert caught.value.retry_after > 0
    full.refuse(2)  # it was asked again
    assert second.get("a", user_id=USER) is not None  # rows are read without a turn
    full.free()
    assert ids(owner) == ["a"]  # what was refused has changed nothing
    second.remember("note", id="b", user_id=USER)
    assert ids(owner) == ["a", "b"]


def test_without_patience_one_refusal_is_the_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, second = opened(folder), opened(folder, owner_timeout=0)
    full = Full(owner, monkeypatch)
    with pytest.raises(StoreBusyError):
        second.remember("note", user_id=USER)
    full.refuse(1)
    assert not full.refusals.acquire(blocking=False)


def test_a_request_waits_in_the_queue_no_longer_than_its_call(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, second = opened(folder), opened(folder, owner_timeout=0.05)
    server = server_of(owner)
    server._turns = turns = RequestLimiter(Limits(at_work=1, waiting=5, seconds=3_600.0))
    turns._free.acquire()
    with pytest.raises(StoreBusyError, match="1 at work"):
        second.remember("note", user_id=USER)
    turns._free.release()


def test_opening_waits_for_a_connection(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = opened(folder)
    server_of(owner)._most = 0
    with pytest.raises(StoreBusyError, match="0 connections"):
        opened(folder, owner_timeout=0.05)
    refused = threading.Event()
    refuse = Server._refuse

    def told(self: Server, frames: Any) -> None:
        refuse(self, frames)
        refused.set()

    monkeypatch.setattr(Server, "_refuse", told)
    made: list[MemorySync] = []
    opening = threading.Thread(target=lambda: made.append(opened(folder, owner_timeout=60.0)))
    opening.start()
    assert refused.wait(60)
    server_of(owner)._most = 10
    opening.join()
    made[0].remember("note", id="a", user_id=USER)
    assert ids(owner) == ["a"]


def test_a_pool_whose_connections_are_all_at_work_is_busy(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MOST_CONNECTIONS", 1)
    connections = house.connections()
    working = threading.Thread(target=lambda: connections.ask(["wait", 1]))
    working.start()
    house.started.acquire()
    with pytest.raises(StoreBusyError, match="1 requests of this handle"):
        connections.ask(["echo", 1], seconds=0.01)
    house.gate.set()
    working.join()
    assert connections.ask(["echo", 1], seconds=0.0) == 1


def test_an_owner_without_a_free_connection_is_alive(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long request asks for signs of life, for which the owner may have no connection."""
    monkeypatch.setattr(client, "LOOK_SECONDS", 0.02)
    connections = house.connections()
    house.server._most = 1
    refused = threading.Semaphore(0)
    refuse = house.server._refuse

    def told(frames: Any) -> None:
        refuse(frames)
        refused.release()

    monkeypatch.setattr(house.server, "_refuse", told)
    replies: list[object] = []
    working = threading.Thread(target=lambda: replies.append(connections.ask(["wait", "done"])))
    working.start()
    for _ in range(3):
        assert refused.acquire(timeout=60)
    house.gate.set()
    working.join()
    assert replies == ["done"]


def test_pauses_grow_up_to_what_the_owner_says_and_never_beyond_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, slept = [100.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(patience.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(patience.time, "sleep", sleep)
    monkeypatch.setattr(patience.random, "uniform", lambda least, most: most)

    def refuse() -> None:
        fault = StoreBusyError("busy")
        fault.retry_after = 0.1
        raise fault

    with pytest.raises(StoreBusyError):
        patience.Patience(0.4).run(refuse)
    assert slept == pytest.approx([0.02, 0.04, 0.08, 0.1, 0.1, 0.06])
    assert now[0] == pytest.approx(100.4)


def test_a_bound_is_a_number_of_seconds(folder: Path) -> None:
    for wrong in (-1.0, "1", 86_401.0):
        with pytest.raises((OptionError, DTypeError), match="owner_timeout"):
            opened(folder, owner_timeout=wrong)
    with pytest.raises(OptionError, match="owner_timeout"):
        opened(Path(":memory:"), owner_timeout=1.0)
