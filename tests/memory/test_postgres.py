"""A connection of PostgreSQL serves one thread at a time, also after a caller was cancelled."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from hyrecall.systems.loom import PostgresMemory
from memory.stores import episode


class OneAtATime:
    """A connection and its cursor that notice when two threads use them."""

    description = None

    def __init__(self) -> None:
        self.users: set[int] = set()
        self.met: list[set[int]] = []
        self.ended: list[str] = []
        self.fails = False

    def cursor(self) -> OneAtATime:
        return self

    def __enter__(self) -> OneAtATime:
        self.users.add(threading.get_ident())
        if len(self.users) > 1:
            self.met.append(set(self.users))
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def execute(self, statement: str, given: tuple[Any, ...] = ()) -> None:
        if self.fails:
            raise ValueError("as asked")
        if statement.startswith("INSERT"):
            time.sleep(0.1)

    def commit(self) -> None:
        self.ended.append("commit")
        self.users.discard(threading.get_ident())

    def rollback(self) -> None:
        self.ended.append("rollback")
        self.users.discard(threading.get_ident())


def test_a_cancelled_call_frees_the_connection_when_it_has_ended() -> None:
    connection = OneAtATime()

    async def run() -> None:
        memory = PostgresMemory(connection)
        for at in range(3):
            call = asyncio.create_task(memory.remember(episode(at)))
            await asyncio.sleep(0.02)
            call.cancel()
        await asyncio.gather(memory.remember(episode(9)), memory.export(user_id="alice"))

    asyncio.run(run())
    assert connection.met == []
    assert connection.ended == ["commit"] * 7, "two of its making, four kept, one read"


def test_a_call_that_fails_is_rolled_back_and_frees_the_connection() -> None:
    connection = OneAtATime()

    async def run() -> None:
        memory = PostgresMemory(connection)
        connection.fails = True
        with pytest.raises(ValueError, match="as asked"):
            await memory.remember(episode(0))
        connection.fails = False
        await memory.remember(episode(1))

    asyncio.run(run())
    assert connection.ended == ["commit", "commit", "rollback", "commit"]
