"""Starts the library's background threads and ends them before the interpreter finalizes.

During finalization, CPython unwinds the stack of a daemon thread that asks for the GIL. If that
stack has frames of C++ or Rust, the process aborts. So every background thread of the library is
started here. At exit, after all other threads of the program have ended, these threads are told to
stop, and the exit waits for them for at most :data:`EXIT_SECONDS` in total.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
from collections.abc import Callable

from hyrecall.base.forks import renew_in_children
from hyrecall.errors import WriterBusyError, error

__all__ = ["EXIT_SECONDS", "OneWriter", "start"]

EXIT_SECONDS = 10.0
"""The longest that the exit waits for threads that do not stop, such as one in a hanging call."""


class _Running:
    """The running threads, each with the function that stops it."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Forget all threads: a forked child has none of them."""
        self.lock = threading.RLock()  # reentrant: a finalizer may start a thread while it is held
        self.stops: dict[threading.Thread, Callable[[], object] | None] = {}
        self.is_exiting = False

    def end(self) -> None:
        """Stop all threads and wait for them."""
        with self.lock:
            self.is_exiting = True
            stops = dict(self.stops)
        for stop in stops.values():
            if stop is not None:
                with contextlib.suppress(Exception):
                    stop()
        until = time.monotonic() + EXIT_SECONDS
        for thread in stops:
            if thread.is_alive():
                thread.join(max(until - time.monotonic(), 0.0))


_running = _Running()
# Not before the program's own threads end: they may still use these.
atexit.register(_running.end)
renew_in_children(_running)


class OneWriter:
    """Lets one thread write at a time; others wait. A thread that writes already is refused."""

    def __init__(self, argument: str) -> None:
        """Take the name that a refusal has."""
        self._argument = argument
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """Forget the writer at work: its thread is not in a forked child."""
        self._lock = threading.Lock()
        self._owner: int | None = None

    def __enter__(self) -> None:
        """Wait for the writer at work."""
        if self._owner == threading.get_ident():
            wish = "no write during another of the same thread"
            raise error(WriterBusyError, self._argument, wish, "one")
        self._lock.acquire()
        self._owner = threading.get_ident()

    def __exit__(self, *fault: object) -> None:
        """Let the next writer begin; in a child that was forked meanwhile, any may."""
        if self._owner == threading.get_ident():
            self._owner = None
            self._lock.release()


def start(
    run: Callable[[], object], *, name: str, stop: Callable[[], object] | None = None
) -> threading.Thread:
    """Start a daemon thread."""

    def work() -> None:
        try:
            run()
        finally:
            with _running.lock:
                _running.stops.pop(thread, None)

    thread = threading.Thread(target=work, name=name, daemon=True)
    with _running.lock:
        if _running.is_exiting:
            raise RuntimeError("the interpreter is exiting")
        _running.stops[thread] = stop
        try:
            thread.start()
        except RuntimeError:
            del _running.stops[thread]
            raise
    return thread
