"""Joins questions that come while the index is being searched: natural batching of threads.

An idle index is searched at once. Questions that come while a batch runs are the next batch, which
one of their threads runs. No question waits for company, and no reply depends on it (law L4).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

__all__ = ["MOST_JOINED", "JoinedSearch", "Joining"]

MOST_JOINED = 64

Call_ = TypeVar("Call_")
Reply_ = TypeVar("Reply_")


@dataclass
class Joining:
    """How calls are joined, and how many were.

    A store has one of them, whichever process owns it: so it outlives a take-over.

    Attributes
    ----------
    most : int
        Calls in a batch; 1 joins none. It may be changed.
    n_calls, n_batches : int
        How many there were.
    """

    most: int = MOST_JOINED
    n_calls: int = 0
    n_batches: int = 0


@dataclass(eq=False)
class _Waiting(Generic[Call_, Reply_]):
    """A call of a thread, which sleeps until it has a reply, or has to go on by itself."""

    call: Call_
    woken: threading.Event = field(default_factory=threading.Event)
    reply: list[Reply_] = field(default_factory=list)
    leads: bool = False


class JoinedSearch(Generic[Call_, Reply_]):
    """Runs calls of several threads, those that wait together as one batch.

    Parameters
    ----------
    run : callable
        ``run(calls) -> replies``, in their order.
    joining : Joining
    """

    def __init__(
        self, run: Callable[[Sequence[Call_]], Sequence[Reply_]], joining: Joining
    ) -> None:
        """Run nothing yet."""
        self._run, self.joining = run, joining
        self._lock = threading.Lock()
        self._waiting: list[_Waiting[Call_, Reply_]] = []
        self._is_led = False

    def __call__(self, call: Call_, may_join: Callable[[Call_, Call_], bool]) -> Reply_:
        """Return the reply of a call; blocks.

        Parameters
        ----------
        call : object
        may_join : callable
            Says of two calls whether one batch can hold both.

        Raises
        ------
        Exception
            What the call raises alone: the failure of a batch is nobody's, so that each of its
            calls is then run alone, by its own thread.
        """
        one = _Waiting[Call_, Reply_](call)
        with self._lock:
            self._waiting.append(one)
            one.leads = not self._is_led
            self._is_led = True
        try:
            if not one.leads:
                one.woken.wait()
            if one.leads:
                self._lead(one, may_join)
        except BaseException:  # an interrupt of this thread
            self._leave(one)
            raise
        return one.reply[0] if one.reply else self._run([call])[0]

    def _lead(self, one: _Waiting[Call_, Reply_], may_join: Callable[[Call_, Call_], bool]) -> None:
        """Run a batch, then let the first call that waits lead the next one."""
        with self._lock:
            others = [other for other in self._waiting if other is not one]
            joined = [other for other in others if may_join(one.call, other.call)]
            batch = [one, *joined[: self.joining.most - 1]]
            self._waiting = [other for other in others if other not in batch]
            self.joining.n_calls += len(batch)
            self.joining.n_batches += 1
        try:
            if len(batch) > 1:
                replies = self._run([each.call for each in batch])
                for each, reply in zip(batch, replies, strict=True):
                    each.reply.append(reply)
            else:
                one.reply.append(self._run([one.call])[0])
        except Exception:
            if len(batch) == 1:
                raise
        finally:
            for each in batch[1:]:
                each.woken.set()
            self._hand_over(one)

    def _hand_over(self, one: _Waiting[Call_, Reply_]) -> None:
        with self._lock:
            if not one.leads:
                return
            one.leads = False
            self._is_led = bool(self._waiting)
            following = self._waiting[0] if self._waiting else None
            if following is not None:
                following.leads = True
        if following is not None:
            following.woken.set()

    def _leave(self, one: _Waiting[Call_, Reply_]) -> None:
        """Take a call out, whose thread was interrupted; a leader hands over."""
        with self._lock:
            if one in self._waiting:
                self._waiting.remove(one)
        self._hand_over(one)
