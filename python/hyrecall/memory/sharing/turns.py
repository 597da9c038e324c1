"""How many requests an owner has at work at a time, and how many wait for their turn."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hyrecall.errors import StoreBusyError, error

__all__ = ["Limits", "Turns"]


@dataclass(frozen=True)
class Limits:
    """What an owner does at a time."""

    at_work: int = 64
    waiting: int = 1_000
    seconds: float = 10.0
    connections: int | None = None


class Turns:
    """Lets a bounded number of requests run, and a bounded number wait."""

    def __init__(self, limits: Limits) -> None:
        """Let nobody wait yet."""
        self._limits = limits
        self._free = threading.Semaphore(limits.at_work)
        self._counting = threading.Lock()
        self.n_waiting = 0

    @contextmanager
    def turn(self, seconds: float | None) -> Iterator[None]:
        """Wait for a turn and keep it for the block."""
        if not self._free.acquire(blocking=False):
            self._wait(self._limits.seconds if seconds is None else seconds)
        try:
            yield
        finally:
            self._free.release()

    def _wait(self, seconds: float) -> None:
        with self._counting:
            is_full = self.n_waiting >= self._limits.waiting
            self.n_waiting += not is_full
        if is_full:
            raise self._busy(f"{self._limits.waiting} that wait")
        try:
            if not self._free.acquire(timeout=max(min(seconds, self._limits.seconds), 0.0)):
                raise self._busy(f"{self._limits.at_work} at work")
        finally:
            with self._counting:
                self.n_waiting -= 1

    def _busy(self, got: str) -> StoreBusyError:
        fault = error(StoreBusyError, "store", "an owner with a free turn", got, "try again")
        fault.retry_after = 1.0
        return fault
