"""Runs external callables (session trackers) with a time limit, even if they never return."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from hyrecall.base import threads

__all__ = ["Bounded"]

T_ = TypeVar("T_")


class Bounded:
    """Runs a function on its own thread and waits for it with a time limit."""

    # A call that hangs is left behind; while as many hang as are allowed, further ones are refused
    # at once. Threads may share it.

    def __init__(self, name: str, *, most: int = 8) -> None:
        """Start nothing yet."""
        self._name = name
        self._free = threading.Semaphore(most)

    def call(self, function: Callable[[], T_], *, timeout: float) -> T_:
        """Return what the function gives, or raise what it raises."""
        if not self._free.acquire(blocking=False):
            raise TimeoutError("too many calls hang")
        said: queue.SimpleQueue[tuple[T_ | None, BaseException | None]] = queue.SimpleQueue()

        def work() -> None:
            try:
                said.put((function(), None))
            except BaseException as fault:
                said.put((None, fault))
            finally:
                self._free.release()

        try:
            threads.start(work, name=self._name)
        except RuntimeError:
            self._free.release()
            raise TimeoutError("there is no thread for it") from None
        try:
            given, fault = said.get(timeout=max(timeout, 0.0))
        except queue.Empty:
            raise TimeoutError("no answer in time") from None
        if isinstance(fault, Exception):
            raise fault
        if fault is not None:  # a SystemExit of another's thread must not end the caller
            raise RuntimeError(type(fault).__name__) from None
        return given  # type: ignore[return-value]
