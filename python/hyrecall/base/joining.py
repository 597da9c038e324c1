"""Joins calls that arrive while others run into one batch.

An idle engine runs a call at once. What comes while a batch runs waits, and is the next batch. No
call waits for company, and no reply depends on it (law L4: the same bits in every batch).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Generic, TypeVar

Call_ = TypeVar("Call_")
Reply_ = TypeVar("Reply_")


@dataclass(frozen=True)
class _AwaitedCall(Generic[Call_, Reply_]):
    call: Call_
    key: Hashable
    reply: asyncio.Future[Reply_]


class Joiner(Generic[Call_, Reply_]):
    """Runs calls on a thread, those that wait together as one batch."""

    def __init__(
        self,
        run: Callable[[Sequence[Call_]], Sequence[Reply_]],
        executor: Executor,
        *,
        max_joined: int,
        fails_all: Callable[[Exception], bool] = lambda fault: False,
    ) -> None:
        self._fails_all = fails_all
        self._run, self._executor = run, executor
        self._max_joined, self._is_free = max_joined, True
        self._waiting: deque[_AwaitedCall[Call_, Reply_]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self.n_calls, self.n_batches = 0, 0

    async def call(self, call: Call_, key: Hashable = None) -> Reply_:
        """Return the reply of one call; only calls of equal keys are joined."""
        # A caller that is cancelled takes its call out of the queue; in a running batch, its reply
        # is dropped, and the others have theirs.
        reply: asyncio.Future[Reply_] = asyncio.get_running_loop().create_future()
        self._waiting.append(_AwaitedCall(call, key, reply))
        self._start()
        return await reply

    def _start(self) -> None:
        if self._is_free and (batch := self._next_batch()):
            self._is_free = False
            task = asyncio.create_task(self._answer(batch))
            self._tasks.add(task)  # the loop holds tasks weakly
            task.add_done_callback(self._tasks.discard)

    def _next_batch(self) -> list[_AwaitedCall[Call_, Reply_]]:
        """Take the first call that waits, and those of its key behind it."""
        batch: list[_AwaitedCall[Call_, Reply_]] = []
        others: list[_AwaitedCall[Call_, Reply_]] = []
        while self._waiting and len(batch) < self._max_joined:
            one = self._waiting.popleft()
            if one.reply.done():  # its caller was cancelled
                continue
            (batch if not batch or one.key == batch[0].key else others).append(one)
        self._waiting.extendleft(reversed(others))
        return batch

    async def _answer(self, batch: list[_AwaitedCall[Call_, Reply_]]) -> None:
        self.n_calls += len(batch)
        try:
            await self._run_batch(batch)
        finally:
            self._is_free = True
            self._start()

    async def _run_batch(self, batch: list[_AwaitedCall[Call_, Reply_]]) -> None:
        """Answer a batch; if it fails, answer its halves, so that only the wrong calls fail."""
        # One wrong call of n costs 2 log2(n) batches more, each of which may wait for a shard that
        # hangs. Calls whose callers gave up meanwhile are left out.
        loop = asyncio.get_running_loop()
        self.n_batches += 1
        try:
            calls = [one.call for one in batch]
            replies = await loop.run_in_executor(self._executor, self._run, calls)
        except Exception as fault:
            if len(batch) == 1 or self._fails_all(fault):
                for one in batch:
                    _fail(one.reply, fault)
                return
            middle = len(batch) // 2
            for half in (batch[:middle], batch[middle:]):
                left = [one for one in half if not one.reply.done()]
                if left:
                    await self._run_batch(left)
        else:
            for one, reply in zip(batch, replies, strict=True):
                if not one.reply.done():
                    one.reply.set_result(reply)


def _fail(reply: asyncio.Future[Reply_], fault: Exception) -> None:
    if not reply.done():
        reply.set_exception(fault)
