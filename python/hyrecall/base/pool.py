"""Runs calls that may never return on a limited number of threads."""

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

_IDLE_SECONDS = 60.0  # after which an unused thread ends
# Seconds to wait for a call that has just been abandoned: many return right after the deadline.
_GRACE = 0.02
_FIRST_REPLACED = float("-inf")


class LateError(Exception):
    """The call has not returned in time."""


class AllHungError(Exception):
    """All threads are blocked by abandoned calls; the argument is their number."""


class PoolClosedError(Exception):
    """The pool is closed."""


class _Job(Generic[_Given, _Made]):
    def __init__(self, given: _Given, until: float) -> None:
        self.given = given
        self.until = until
        self.done = threading.Event()
        self.made: _Made | None = None
        self.has_begun = False
        self.is_left = False


class Pool(Generic[_Given, _Made]):
    """Runs calls on its own threads; a caller waits no longer than the time it has given."""

    # A call that does not return blocks its thread. If all threads are blocked, another thread is
    # started, at most one every ``patience`` seconds and ``most`` in total. If none can be started,
    # calls are refused after 20 ms.

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
        """Make a pool without threads; the first calls start them."""
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
        """Run one call and return its result."""
        seconds = min(seconds, threading.TIMEOUT_MAX)
        job: _Job[_Given, _Made] = _Job(given, time.monotonic() + seconds)
        with self._change:
            self._place(job)
            is_any_free = self._live > self._held
        try:
            if not is_any_free:
                self._await_one(job, min(seconds, _GRACE))
            job.done.wait(max(0.0, job.until - time.monotonic()))
        finally:  # also if a signal ends the wait
            with self._change:
                made = job.made  # it may be set after the wait has ended
                if made is None:
                    self._leave(job)
        if made is not None:
            return made
        raise PoolClosedError if self._closed else LateError

    def counts(self) -> dict[str, int]:
        """Return the number of threads, and of those blocked by abandoned calls."""
        with self._change:
            return {"workers": self._live, "hung": self._held}

    def close(self) -> None:
        """Refuse further calls and wake all waiting callers; running calls are not stopped."""
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
        """Wait for a thread to become free; refuse the job if none does."""
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
        """Run jobs on a thread of the pool."""
        while (job := self._next()) is not None:
            made = self._work(job.given, job.until)
            with self._change:
                self._at_work.discard(job)
                job.made = made
                self._idle += 1
                if job.is_left:
                    self._held -= 1
            job.done.set()
            del job, made  # a waiting thread must not keep texts in memory

    def _next(self) -> _Job[_Given, _Made] | None:
        """Wait for a job; return None if the thread should end."""
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
