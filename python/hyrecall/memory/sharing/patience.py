"""Tries again while the owner of a store has too much to do, within a number of seconds."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from hyrecall.errors import StoreBusyError

__all__ = ["Patience"]

FIRST_PAUSE = 0.02
"""Seconds before the second try; each later pause is twice as long, up to what the owner says."""

T_ = TypeVar("T_")


class Patience:
    """How long one call still waits for a busy owner. One thread uses it."""

    def __init__(self, seconds: float) -> None:
        """Start the time."""
        self._until = time.monotonic() + seconds
        self._pause = FIRST_PAUSE

    @property
    def left(self) -> float:
        """Seconds that the call may still wait."""
        return max(self._until - time.monotonic(), 0.0)

    def run(self, ask: Callable[[], T_]) -> T_:
        """Call a function until it raises no StoreBusyError, or the time is over."""
        while True:
            try:
                return ask()
            except StoreBusyError as fault:
                left = self.left
                if not left:
                    raise
                most = min(self._pause, max(fault.retry_after, FIRST_PAUSE), left)
            # Clients that were refused together do not come back together.
            time.sleep(random.uniform(most / 2, most))
            self._pause *= 2
