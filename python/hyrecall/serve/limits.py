"""Limits of the doors: how many calls are at work and wait, and the depth and names of JSON."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import numpy as np
from starlette.exceptions import HTTPException

from hyrecall.serve.options import ServiceOptions

T_ = TypeVar("T_")

# ---- Limits the calls at work; waiting callers take turns, however many each sends ----


class FairSemaphore:
    """A semaphore that serves waiting callers in turn, by name, on one event loop."""

    def __init__(self, most: int, share: int) -> None:
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

    def is_full(self, name: str, most_waiting: int) -> bool:
        """Say whether one more of a name would have to wait, and may not."""
        return not self.is_free(name) and self.n_waiting >= most_waiting

    def n_of(self, name: str) -> int:
        """Return how many of a name are inside or wait."""
        return self._inside[name] + len(self._waiting.get(name, ()))

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


class BusyError(Exception):
    """Too many calls wait, or a call took too long; the message is for the caller."""


class CallLimiter:
    """Limits the running and the waiting calls, and the time of each."""

    def __init__(self, options: ServiceOptions) -> None:
        self._options = options
        self._turns = FairSemaphore(options.max_running, options.max_running)

    async def run(self, call: Callable[[], Awaitable[T_]]) -> T_:
        """Return what a call returns; BusyError where too many wait, or it takes too long."""
        if self._turns.is_full("", self._options.max_waiting):
            raise BusyError("too many calls are waiting: try again in a second")
        try:
            async with asyncio.timeout(self._options.deadline), self._turns.turn(""):
                return await call()
        except TimeoutError:
            told = f"the call took more than {self._options.deadline:g} seconds"
            raise BusyError(f"{told}; a write may have been committed") from None


# ---- Checks JSON before it is parsed ----
# A parser that meets too many levels gives up or overflows, and of a name that stands twice in an
# object it keeps one value.

# A string that does not end takes all that follows it, so that no character is read twice.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)


def is_json(media_type: str) -> bool:
    """Say whether a body of this media type may be parsed as JSON; upper case means the same."""
    return "json" in media_type.lower()


def is_deeper(body: bytes, media_type: str, most: int) -> bool:
    """Say whether lists and objects of a body lie more than so deep in each other."""
    # Most bodies open fewer of them than that at all, which is counted in a microsecond.
    n_opened = body.count(b"[") + body.count(b"{")
    return n_opened > most and n_levels(body, media_type) > most


def n_levels(body: bytes, media_type: str) -> int:
    """Return how deep lists and objects of a body lie in each other; 0 of a body that is no
    JSON.
    """
    # The body is UTF-8: in UTF-16 a byte of another character may look like a quote or a bracket.
    if not body or not is_json(media_type):
        return 0
    rest = np.frombuffer(_STRING.sub(b"", body), np.uint8)
    steps = np.zeros(len(rest), np.int8)
    steps[(rest == ord("[")) | (rest == ord("{"))] = 1
    steps[(rest == ord("]")) | (rest == ord("}"))] = -1
    return int(np.cumsum(steps, dtype=np.int32).max(initial=0))


def read_json(body: bytes | str) -> Any:
    """Parse JSON."""
    return json.loads(body, object_pairs_hook=_object)


def check_message(body: bytes) -> None:
    """Refuse a message of MCP in which a name stands twice, or whose id nobody would answer."""
    # Anything but a message is left to the SDK, which takes a request with another id than a string
    # or an integer for a notification.
    try:
        found = read_json(body)
    except (ValueError, RecursionError):
        return
    if not isinstance(found, dict) or "method" not in found or "id" not in found:
        return
    number = found["id"]
    if isinstance(number, bool) or not isinstance(number, str | int):
        raise HTTPException(422, "id: expected a string or an integer")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise HTTPException(422, f"{twice:.80}: expected once")
    return made
