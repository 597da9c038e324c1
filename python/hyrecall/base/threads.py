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

__all__ = ["EXIT_SECONDS", "start"]

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


def start(
    run: Callable[[], object], *, name: str, stop: Callable[[], object] | None = None
) -> threading.Thread:
    """Start a daemon thread.

    Parameters
    ----------
    run : callable
    name : str
    stop : callable, optional
        Called at exit, on the main thread: makes ``run`` return soon, without waiting for it.

    Returns
    -------
    threading.Thread

    Raises
    ------
    RuntimeError
        The system has no more threads, or the interpreter is exiting.

    Examples
    --------
    >>> stopping = threading.Event()
    >>> start(stopping.wait, name="waits", stop=stopping.set).daemon
    True
    """

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
