"""Natural batching of threads: of those that wait, one leads, and does what all of them wait for.

The threads that ask are enough. While the leader is at it, the next ones gather, and one of those
leads next.

An interrupt (Ctrl-C, an exception that another thread raises here) may end a leader anywhere.
Nobody else fails or waits forever then: who leads holds a lock that a ``with`` block releases, who
waits knows that it is settled by one attribute alone, and a wake-up that is missed is made up for
by a look twenty times a second.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

LOOK_SECONDS = 0.05
"""Between two looks of a thread that waits and was not woken."""


class Waiting:
    """What a thread waits for."""

    __slots__ = ("_woken",)

    def __init__(self) -> None:
        self._woken = threading.Lock()
        self._woken.acquire()

    @property
    def is_settled(self) -> bool:
        """Whether its thread has nothing left to wait for."""
        raise NotImplementedError  # each kind of change and question has it

    def wake(self) -> None:
        """Let its thread look."""
        with contextlib.suppress(RuntimeError):  # it was woken already
            self._woken.release()

    def wait(self) -> bool:
        """Wait to be woken for a while; return whether it was."""
        return self._woken.acquire(timeout=LOOK_SECONDS)


Waiting_ = TypeVar("Waiting_", bound=Waiting)


class Turns(Generic[Waiting_]):
    """Lets one of the threads that wait lead at a time."""

    def __init__(self) -> None:
        self._leads = threading.Lock()  # held by the thread that leads
        self._waiting: dict[Waiting_, None] = {}  # in the order in which they came

    def _settle(self, mine: Waiting_, lead: Callable[[Waiting_], None]) -> None:
        """Return when ``mine`` is settled: by another thread, or by ``lead`` in this one."""
        try:
            self._waiting[mine] = None
            while not mine.is_settled:
                # Who leads takes this one along, or wakes it to lead itself. Only the first goes to
                # the lock: others would stand there when they have long been settled. After a look
                # it leads as soon as nobody does: the one before it may have ended without a word.
                if self._leads.locked() or self._next() is not mine:
                    was_woken = mine.wait()
                    if mine.is_settled:
                        break
                    if not was_woken and self._leads.locked():
                        continue
                with self._leads:
                    if not mine.is_settled:
                        lead(mine)
                self._wake_next()
        except BaseException:  # interrupted, perhaps when it was its turn to lead
            self._wake_next(mine)
            raise
        finally:
            self._waiting.pop(mine, None)

    def _next(self, but: Waiting_ | None = None) -> Waiting_ | None:
        """Return the first of those that wait and are not settled."""
        waiting = list(self._waiting)
        return next((one for one in waiting if one is not but and not one.is_settled), None)

    def _wake_next(self, but: Waiting_ | None = None) -> None:
        """Wake the thread that leads next, if one waits."""
        one = self._next(but)
        if one is not None:
            one.wake()
