"""Lets threads that ask shards take turns with the interpreter (GIL), and release it to wait.

Python runs one thread at a time. Threads that pack, unpack and merge at the same time hand the
interpreter over at every call that releases it, some twenty times a question; each handover wakes a
thread. So a thread takes a turn for its work between two waits.

A thread that has waited for its turn for ``PATIENCE`` seconds goes on without one. So foreign code
that runs in a turn (arrays of a request may be of any class) cannot make threads wait for one
another forever.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hyrecall.base.forks import renew_in_children

__all__ = ["turns"]

PATIENCE = 1.0
"""Seconds after which a thread goes on without a turn."""


class _Own(threading.local):
    """The turn state of the running thread."""

    depth = 0  # of nested :meth:`_Turns.kept`
    has = False


class _Turns:
    """Gives turns to the threads of this process; renewed in a forked child."""

    def __init__(self) -> None:
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """Forget whose turn it is."""
        self._lock = threading.Lock()
        self._own = _Own()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep a turn that is taken inside this block until its end, or until the thread waits."""
        own = self._own  # a child that is forked meanwhile has another one
        own.depth += 1
        try:
            yield
        finally:
            own.depth -= 1
            if not own.depth:
                self.leave()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Run this block in a turn, or without one after ``PATIENCE`` seconds."""
        own = self._own
        with self.kept():
            if not own.has:
                own.has = True  # set first: a turn taken just before an interrupt is still ended
                own.has = self._lock.acquire(timeout=PATIENCE)
            yield

    def leave(self) -> None:
        """End the turn of this thread, if it has one. Called before each wait."""
        if self._own.has:
            # Released first: after an interrupt in between, the turn can still be ended.
            with contextlib.suppress(RuntimeError):  # not taken, after an interrupt
                self._lock.release()
            self._own.has = False


turns = _Turns()
