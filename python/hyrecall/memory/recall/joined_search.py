"""Joins questions that come while the index is being searched: natural batching of threads.

An idle index is searched at once. Questions that come while a batch runs are the next batch, which
one of their threads runs. No question waits for company, and no reply depends on it (law L4).

An interrupt (Ctrl-C, an exception that another thread raises here) may end a leader anywhere.
Nobody else fails or waits forever then, as in ``memory/keeping/group_commit.py``: who leads holds
a lock that a ``with`` block releases, who waits knows its call to be answered by one attribute of
its batch alone, and a wake-up that is missed is made up for by a look twenty times a second.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["MOST_JOINED", "JoinedSearch", "Joining"]

MOST_JOINED = 64

LOOK_SECONDS = 0.05
"""Between two looks of a thread that waits and was not woken."""

Call_ = TypeVar("Call_")
Reply_ = TypeVar("Reply_")


@dataclass
class Joining:
    """How calls are joined, and how many were."""

    # A store has one of them, whichever process owns it: so it outlives a take-over.

    most: int = MOST_JOINED
    n_calls: int = 0
    n_batches: int = 0


class _Batch(Generic[Reply_]):
    """Calls that run together."""

    __slots__ = ("replies",)

    def __init__(self) -> None:
        self.replies: Sequence[Reply_] | None = None


class _Waiting(Generic[Call_, Reply_]):
    """A call that a thread waits for."""

    __slots__ = ("_woken", "batch", "call", "place")

    def __init__(self, call: Call_) -> None:
        self.call = call
        self.batch: _Batch[Reply_] | None = None
        self.place = 0
        self._woken = threading.Lock()
        self._woken.acquire()

    @property
    def is_settled(self) -> bool:
        """Whether it is answered, or has to run alone."""
        return self.batch is not None and self.batch.replies is not None

    @property
    def reply(self) -> Sequence[Reply_]:
        """The reply, or nothing if it has to run alone."""
        assert self.batch is not None
        assert self.batch.replies is not None
        return self.batch.replies[self.place : self.place + 1]

    def wake(self) -> None:
        """Let its thread look."""
        with contextlib.suppress(RuntimeError):  # it was woken already
            self._woken.release()

    def wait(self) -> bool:
        """Wait to be woken for a while; return whether it was."""
        return self._woken.acquire(timeout=LOOK_SECONDS)


class JoinedSearch(Generic[Call_, Reply_]):
    """Runs calls of several threads, those that wait together as one batch."""

    def __init__(
        self, run: Callable[[Sequence[Call_]], Sequence[Reply_]], joining: Joining
    ) -> None:
        """Run nothing yet."""
        self._run, self.joining = run, joining
        self._leads = threading.Lock()  # held by the thread that runs a batch
        self._waiting: dict[_Waiting[Call_, Reply_], None] = {}  # in the order in which they came

    def __call__(self, call: Call_, may_join: Callable[[Call_, Call_], bool]) -> Reply_:
        """Return the reply of a call; blocks."""
        mine = _Waiting[Call_, Reply_](call)
        try:
            self._waiting[mine] = None
            while not mine.is_settled:
                # Who leads takes this one along, or wakes it to lead itself. After a look it leads
                # as soon as nobody does: the one before it may have ended without a word.
                if self._leads.locked() or self._next() is not mine:
                    was_woken = mine.wait()
                    if mine.is_settled:
                        break
                    if not was_woken and self._leads.locked():
                        continue
                with self._leads:
                    if not mine.is_settled:
                        self._lead(mine, may_join)
                self._wake_next()
        except BaseException:  # interrupted, perhaps when it was its turn to lead
            self._wake_next(mine)
            raise
        finally:
            self._waiting.pop(mine, None)
        reply = mine.reply
        return reply[0] if reply else self._run([call])[0]

    def _next(self, but: _Waiting[Call_, Reply_] | None = None) -> _Waiting[Call_, Reply_] | None:
        """Return the first of those that wait and are not settled."""
        waiting = list(self._waiting)
        return next((one for one in waiting if one is not but and not one.is_settled), None)

    def _wake_next(self, but: _Waiting[Call_, Reply_] | None = None) -> None:
        """Wake the thread that leads next, if one waits."""
        one = self._next(but)
        if one is not None:
            one.wake()

    def _lead(
        self, mine: _Waiting[Call_, Reply_], may_join: Callable[[Call_, Call_], bool]
    ) -> None:
        """Run a batch of a call and of those that wait and may join it."""
        others = [one for one in list(self._waiting) if one is not mine and not one.is_settled]
        joined = [one for one in others if may_join(mine.call, one.call)]
        members = [mine, *joined[: self.joining.most - 1]]
        batch = _Batch[Reply_]()
        for place, one in enumerate(members):
            one.batch, one.place = batch, place
        self.joining.n_calls += len(members)
        self.joining.n_batches += 1
        try:
            replies = self._run([one.call for one in members])
            batch.replies = [reply for _, reply in zip(members, replies, strict=True)]
        except Exception:
            batch.replies = ()
            if len(members) == 1:
                raise
        for one in members[1:]:
            self._waiting.pop(one, None)
            one.wake()
