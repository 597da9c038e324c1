"""Lets so many requests in at a time; callers that wait take turns, whoever sends how many."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Turns"]


class Turns:
    """A semaphore whose waiters are let in by turns of their names, on one event loop."""

    def __init__(self, most: int, share: int) -> None:
        """Let nobody in yet."""
        self._most, self._share = most, max(share, 1)
        self._n_inside = self.n_waiting = 0
        self._inside: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # the next turn first

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """Wait for a turn and keep it for the block."""
        if name not in self._waiting and self.is_free(name):
            self._enter(name)
        else:
            await self._wait(name)
        try:
            yield
        finally:
            self._leave(name)

    def is_free(self, name: str) -> bool:
        """Say whether there is room for one more of a name."""
        has_share = not name or self._inside[name] < self._share
        return has_share and self._n_inside < self._most

    async def _wait(self, name: str) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, deque()).append(waiter)
        self.n_waiting += 1
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._drop(name, waiter)
                self._let_in()
            else:  # let in, and cancelled before it learnt of it
                self._leave(name)
            raise

    def _enter(self, name: str) -> None:
        self._n_inside += 1
        self._inside[name] += 1

    def _leave(self, name: str) -> None:
        self._n_inside -= 1
        self._inside[name] -= 1
        if not self._inside[name]:
            del self._inside[name]
        self._let_in()

    def _let_in(self) -> None:
        for name in list(self._waiting):
            waiter = next((one for one in self._waiting[name] if not one.done()), None)
            if waiter is not None and self.is_free(name):
                self._drop(name, waiter)
                if name in self._waiting:  # its next one waits until the others had a turn
                    self._waiting[name] = self._waiting.pop(name)
                self._enter(name)
                waiter.set_result(None)

    def _drop(self, name: str, waiter: asyncio.Future[None]) -> None:
        self.n_waiting -= 1
        queue = self._waiting[name]
        queue.remove(waiter)
        if not queue:
            del self._waiting[name]
