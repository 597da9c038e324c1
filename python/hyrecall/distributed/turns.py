"""Threads that ask shards take turns with the interpreter, and leave it while they wait.

Python runs one thread at a time. Threads that pack, unpack and merge at the same time take the
interpreter from one another at every call that lets go of it, some twenty times a question; each
handover wakes a thread. So a thread takes a turn for all that it does between two waits.

Turns are a courtesy: a thread that has waited for its turn for long goes on without one. So code of
others that runs in a turn (arrays of a request may be of any class) cannot make threads wait for
one another forever.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hyrecall.distributed.children import renew_in_children

__all__ = ["turns"]

PATIENCE = 1.0
"""Seconds after which a thread goes on without a turn."""


class _Own(threading.local):
    """What the running thread has of turns."""

    depth = 0  # of :meth:`_Turns.kept`
    has = False


class _Turns:
    """Gives turns to the threads of this process; made anew in a forked child."""

    def __init__(self) -> None:
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """Forget whose turn it is."""
        self._lock = threading.Lock()
        self._own = _Own()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep a turn that is taken in here until the end, or until the thread waits."""
        own = self._own  # a child that is forked meanwhile has another
        own.depth += 1
        try:
            yield
        finally:
            own.depth -= 1
            if not own.depth:
                self.leave()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Do in a turn what follows, unless it comes late."""
        own = self._own
        with self.kept():
            if not own.has:
                own.has = True  # before it is: an interrupt in between leaves none that nobody ends
                own.has = self._lock.acquire(timeout=PATIENCE)
            yield

    def leave(self) -> None:
        """End the turn of this thread, if it has one, as before each wait."""
        if self._own.has:
            # Released first: an interrupt in between leaves none that nobody ends.
            with contextlib.suppress(RuntimeError):  # after an interrupt it was not taken
                self._lock.release()
            self._own.has = False


turns = _Turns()
