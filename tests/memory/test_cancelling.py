"""Cancelling drops the wait: a store that nobody has any more is let go of all the same."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hyrecall.memory import Memory, MemorySync
from memory.stores import NOON, folder
from seams import Background, Database, Follower


def held_back(
    monkeypatch: pytest.MonkeyPatch, kind: type, name: str
) -> tuple[threading.Event, threading.Event]:
    """Make a method wait: give what says that it began, and what lets it go on."""
    began, go_on = threading.Event(), threading.Event()
    method: Callable[..., Any] = getattr(kind, name)

    def slow(*args: Any, **options: Any) -> Any:
        began.set()
        assert go_on.wait(20)
        return method(*args, **options)

    monkeypatch.setattr(kind, name, slow)
    return began, go_on


def opens_soon(path: Path) -> None:
    """Whoever comes next gets the store: the lock is free."""
    MemorySync.open(path, embedder=None, shared=False, wait=10).close()


async def seen(event: threading.Event) -> None:
    while not event.is_set():
        await asyncio.sleep(0.002)


def test_a_store_that_opens_too_late_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder()
    began, go_on = held_back(monkeypatch, Follower, "open")

    async def run() -> None:
        opening = asyncio.ensure_future(Memory.open(path, embedder=None))
        await seen(began)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(opening, 0.02)
        go_on.set()

    asyncio.run(run())
    monkeypatch.undo()
    opens_soon(path)


def test_a_store_that_is_open_when_its_waiter_is_cancelled_is_closed() -> None:
    """The answer is there, and the task ends before it takes it."""
    path = folder()

    async def run() -> None:
        task = asyncio.create_task(Memory.open(path, embedder=None)._open())
        await asyncio.sleep(0)
        time.sleep(0.5)  # the loop stands still while the thread opens the store
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    opens_soon(path)


def test_a_store_whose_closing_is_cancelled_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder()

    async def run() -> None:
        memory = await Memory.open(path, embedder=None, clock=lambda: NOON)
        began, go_on = held_back(monkeypatch, MemorySync, "list")
        reading = asyncio.create_task(memory.list(user_id="ann"))
        await seen(began)
        closing = asyncio.create_task(memory.close())
        await asyncio.sleep(0.02)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        again = asyncio.create_task(memory.close())
        await asyncio.sleep(0.02)
        assert not again.done(), "it waits for what the first began"
        go_on.set()
        await again
        assert await reading == []
        MemorySync.open(path, embedder=None).close()
        await memory.close()

    asyncio.run(run())


def test_a_closing_that_nobody_waits_for_any_more_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder()

    async def run() -> threading.Event:
        memory = await Memory.open(path, embedder=None)
        await memory.remember("tea", user_id="ann")
        began, go_on = held_back(monkeypatch, MemorySync, "list")
        reading = asyncio.create_task(memory.list(user_id="ann"))
        await seen(began)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(memory.close(), 0.05)
        reading.cancel()
        return go_on

    asyncio.run(run()).set()
    opens_soon(path)
    assert (path / "index").is_dir(), "the index was saved"


def fail(*_: object, **__: object) -> None:
    raise RuntimeError("as asked")


@pytest.mark.parametrize(("kind", "name"), [(Background, "close"), (Follower, "close")])
def test_a_part_that_fails_to_close_keeps_no_lock(
    monkeypatch: pytest.MonkeyPatch, kind: type, name: str
) -> None:
    path = folder()
    memory = MemorySync.open(path, embedder=None)
    with monkeypatch.context() as patch:
        patch.setattr(kind, name, fail)
        with pytest.raises(RuntimeError, match="as asked"):
            memory.close()
    opens_soon(path)
    memory.close()


def test_a_connection_that_fails_to_close_keeps_no_lock() -> None:
    path = folder()
    database = Database.open(path)

    class Bad:
        close = fail

    database._idle.append(Bad())  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="as asked"):
        database.close()
    Database.open(path).close()


def test_a_store_whose_thread_cannot_start_is_not_open(monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder()
    with monkeypatch.context() as patch:
        patch.setattr(Background, "start", fail)
        with pytest.raises(RuntimeError, match="as asked"):
            MemorySync.open(path, embedder=None)
    opens_soon(path)
