"""Bounds calls that read many texts: they stop when nobody waits, and one caller has only a few.

A call runs on a thread with a :class:`Call`. Before each part of a scan it says what the part
costs (:func:`spend`); there it ends if its caller has left.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

from hyrecall.base.warned import awaited_call
from hyrecall.errors import TooManyScansError, error

if TYPE_CHECKING:
    from concurrent.futures import Executor

__all__ = [
    "CALLER",
    "FREE_STEPS",
    "MOST_SCANS",
    "CallStopped",
    "caller_of",
    "check_waiting",
    "off_thread",
    "serving",
    "spend",
]

T_ = TypeVar("T_")

CALLER: ContextVar[str | None] = ContextVar("hyrecall_caller", default=None)
"""Name of the token whose request runs; None: the call is the program's own and is not bounded."""

MOST_SCANS = 2
"""Long scans of one caller at a time."""

FREE_STEPS = 1 << 24
"""Steps of a scan that is not long: bytes of text, times the states that a pattern holds open."""


class CallStopped(Exception):  # noqa: N818 - nobody gets it: the caller has left
    """Ends a scan whose caller has left."""


class Call:
    """A call at work: whether its caller still waits, and what it has spent."""

    def __init__(self, caller: str | None, has_left: Callable[[], bool] | None = None) -> None:
        """Begin one."""
        self.caller, self.has_left = caller, has_left
        self.is_stopped = False
        self._spent = 0
        self._is_counted = False

    def check(self) -> None:
        """Raise CallStopped if nobody waits."""
        if self.is_stopped or (self.has_left is not None and self.has_left()):
            raise CallStopped

    def spend(self, steps: int) -> None:
        """Count steps; from :data:`FREE_STEPS` on, the call is one of its caller's long scans."""
        self.check()
        self._spent += steps
        if self.caller is None or self._is_counted or self._spent <= FREE_STEPS:
            return
        with _counting:
            self._is_counted = _long[self.caller] < MOST_SCANS
            _long[self.caller] += self._is_counted
        if not self._is_counted:
            wish = f"at most {MOST_SCANS} long searches of texts of one caller at a time"
            raise error(TooManyScansError, "search", wish, "one more", "try again")

    def end(self) -> None:
        """Let another long scan of the caller begin."""
        if self._is_counted:
            with _counting:
                _long.subtract([self.caller or ""])
            self._is_counted = False


_long: Counter[str] = Counter()
_counting = threading.Lock()
_call: ContextVar[Call | None] = ContextVar("hyrecall_call", default=None)


def spend(steps: int) -> None:
    """Count what the next part of a scan costs."""
    call = _call.get()
    if call is not None:
        call.spend(steps)


def check_waiting() -> None:
    """Raise CallStopped if nobody waits for the call on this thread."""
    call = _call.get()
    if call is not None:
        call.check()


def caller_of() -> str | None:
    """Return whose call runs on this thread."""
    call = _call.get()
    return CALLER.get() if call is None else call.caller


@contextlib.contextmanager
def serving(caller: str | None, has_left: Callable[[], bool] | None = None) -> Iterator[Call]:
    """Run the block as a call of a caller; ``has_left`` says whether it has left, as of a block
    around this one where it is not given.
    """
    outer = _call.get()
    call = Call(caller, outer.has_left if has_left is None and outer is not None else has_left)
    token = _call.set(call)
    try:
        yield call
    finally:
        _call.reset(token)
        call.end()


async def off_thread(executor: Executor, function: Callable[[], T_]) -> T_:
    """Run a function on a thread with the context of the caller; if cancelled, stop its scans."""
    import asyncio  # here, since it is a tenth of the time that `import hyrecall` would take

    call = Call(CALLER.get())

    def work() -> T_:
        _call.set(call)
        try:
            call.check()
            return function()
        finally:
            call.end()

    job = functools.partial(awaited_call().run, work)
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, job)
    except asyncio.CancelledError:
        call.is_stopped = True
        raise
