"""A few threads that make calls which may never come back."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from hyrecall.base import threads

__all__ = ["AllHungError", "LateError", "Pool", "PoolClosedError"]

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")

_IDLE_SECONDS = 60.0  # then a thread that nobody needs leaves
# Seconds in which a call that was just left may come back: many end at the same deadline.
_GRACE = 0.02
_FIRST_REPLACED = float("-inf")


class LateError(Exception):
    """The time is over."""


class AllHungError(Exception):
    """Every thread is held by a call whose caller has left; the argument is how many are."""


class PoolClosedError(Exception):
    """No more calls are made."""


class _Job(Generic[_Given, _Made]):
    def __init__(self, given: _Given, until: float) -> None:
        self.given = given
        self.until = until
        self.done = threading.Event()
        self.made: _Made | None = None
        self.has_begun = False
        self.is_left = False


class Pool(Generic[_Given, _Made]):
    """Make calls on threads of its own; whoever asks waits as long as it said and no longer.

    A call that does not come back holds its thread. When all are held so, one more thread is
    started, at most one in ``patience`` seconds and ``most`` in all; without one, calls are refused
    after 20 ms.

    Parameters
    ----------
    work : callable
        ``work(given, until)``; it must not raise. ``until`` is in ``time.monotonic``.
    workers : int
        How many threads there are while none is held.
    most : int
    patience : float
        Seconds.
    name : str
        Of the threads.
    clock : callable
        For ``patience``; waiting is done in true time.
    """

    def __init__(
        self,
        work: Callable[[_Given, float], _Made],
        *,
        workers: int,
        most: int = 8,
        patience: float = 10.0,
        name: str = "hyrecall-embed",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start nothing yet: threads come with the first calls."""
        self._work = work
        self._workers = workers
        self._most = most
        self._patience = patience
        self._name = name
        self._clock = clock
        self._change = threading.Condition()
        self._jobs: deque[_Job[_Given, _Made]] = deque()
        self._at_work: set[_Job[_Given, _Made]] = set()
        self._live = 0
        self._idle = 0
        self._held = 0
        self._replaced = _FIRST_REPLACED
        self._closed = False

    def run(self, given: _Given, seconds: float) -> _Made:
        """Make one call.

        Raises
        ------
        LateError
            It has not come back in that time; its reply will be dropped.
        AllHungError
            There is no thread for it; the argument says how many are held.
        PoolClosedError
        """
        seconds = min(seconds, threading.TIMEOUT_MAX)
        job: _Job[_Given, _Made] = _Job(given, time.monotonic() + seconds)
        with self._change:
            self._place(job)
            is_any_free = self._live > self._held
        try:
            if not is_any_free:
                self._await_one(job, min(seconds, _GRACE))
            job.done.wait(max(0.0, job.until - time.monotonic()))
        finally:  # a signal may end the wait too
            with self._change:
                made = job.made  # it may have come between the wait and here
                if made is None:
                    self._leave(job)
        if made is not None:
            return made
        raise PoolClosedError if self._closed else LateError

    def counts(self) -> dict[str, int]:
        """Return how many threads there are, and how many are held by calls nobody waits for."""
        with self._change:
            return {"workers": self._live, "hung": self._held}

    def close(self) -> None:
        """Refuse further calls and let go of all who wait; calls under way are left alone."""
        with self._change:
            self._closed = True
            for job in (*self._jobs, *self._at_work):
                job.done.set()
            self._jobs.clear()
            self._change.notify_all()

    def _place(self, job: _Job[_Given, _Made]) -> None:
        if self._closed:
            raise PoolClosedError
        if self._idle <= len(self._jobs) and self._may_start():
            self._live += 1
            self._idle += 1
            try:
                threads.start(self._serve, name=self._name, stop=self.close)
            except RuntimeError:  # the system has no more threads
                self._live -= 1
                self._idle -= 1
        self._jobs.append(job)
        self._change.notify()

    def _await_one(self, job: _Job[_Given, _Made], seconds: float) -> None:
        """Wait for a thread that comes back; refuse the job if none does."""
        job.done.wait(seconds)
        with self._change:
            if job in self._jobs and self._live == self._held:
                self._jobs.remove(job)
                raise AllHungError(self._held)

    def _leave(self, job: _Job[_Given, _Made]) -> None:
        job.is_left = True
        if job.has_begun:
            self._held += 1
        elif job in self._jobs:
            self._jobs.remove(job)

    def _may_start(self) -> bool:
        if self._live < self._workers:
            return True
        now = self._clock()
        is_due = self._live == self._held and self._live < self._most
        if not is_due or now - self._replaced < self._patience:
            return False
        self._replaced = now
        return True

    def _serve(self) -> None:
        """Live as a thread of the pool."""
        while (job := self._next()) is not None:
            made = self._work(job.given, job.until)
            with self._change:
                self._at_work.discard(job)
                job.made = made
                self._idle += 1
                if job.is_left:
                    self._held -= 1
            job.done.set()
            del job, made  # a thread that waits keeps nobody's texts

    def _next(self) -> _Job[_Given, _Made] | None:
        """Wait for a job; None: leave."""
        with self._change:
            while not self._jobs and not self._closed and self._live - self._held <= self._workers:
                if not self._change.wait(_IDLE_SECONDS):
                    break
            self._idle -= 1
            if not self._jobs:
                self._live -= 1
                return None
            job = self._jobs.popleft()
            job.has_begun = True
            self._at_work.add(job)
            return job
