"""A circuit breaker: stops calls to a failing service for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from hyrecall.base.arguments import as_int, number
from hyrecall.base.forks import free_in_children
from hyrecall.errors import OptionError, error

__all__ = ["Breaker"]

_LONGEST_REST = 86_400.0


class Breaker:
    """Counts failures in a row; after a number of them, admits no call for a while."""

    # After this rest, one call is admitted as a probe. If it succeeds, all calls are admitted
    # again;
    # if it fails, another rest begins. A breaker is thread-safe.

    def __init__(
        self,
        failures: int = 5,
        rest: float = 30.0,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make a breaker that admits all calls."""
        count = as_int(failures)
        if count is None or count < 1:
            raise error(OptionError, "failures", "an int of at least 1", repr(failures))
        wish = f"seconds from 0 to {_LONGEST_REST:.0f}"
        self._most = count
        self._rest = number("rest", rest, 0.0, _LONGEST_REST, wish)
        self._clock = clock
        self._lock = free_in_children(threading.Lock())
        self._failures = 0
        self._opened: float | None = None
        self._probing = False

    def admits(self) -> bool:
        """Return whether a call may be made; the caller must then report its result."""
        with self._lock:
            if self._opened is None:
                return True
            if self._probing or self._left() > 0:
                return False
            self._probing = True
            return True

    def succeeded(self) -> None:
        """Report a successful call."""
        with self._lock:
            self._failures = 0
            self._opened = None
            self._probing = False

    @property
    def is_at_limit(self) -> bool:
        """Whether a rest begins if the admitted call fails."""
        with self._lock:
            return self._probing or self._failures + 1 >= self._most

    def failed(self) -> None:
        """Report a failed call."""
        with self._lock:
            self._failures += 1
            # A call from before the rest that fails during it does not extend the rest.
            if self._probing or (self._opened is None and self._failures >= self._most):
                self._opened = self._clock()
            self._probing = False

    def undecided(self) -> None:
        """Report a call whose result says nothing about the service; the next can be the probe."""
        with self._lock:
            self._probing = False

    @property
    def rests_for(self) -> float:
        """Seconds until a probe is admitted; 0 if a probe or all calls are admitted now."""
        with self._lock:
            return 0.0 if self._opened is None else max(0.0, self._left())

    @property
    def state(self) -> str:
        """``"closed"`` admits all calls, ``"open"`` none, ``"probing"`` a single one."""
        with self._lock:
            if self._opened is None:
                return "closed"
            return "probing" if self._probing or self._left() <= 0 else "open"

    def _left(self) -> float:
        assert self._opened is not None
        return self._opened + self._rest - self._clock()
