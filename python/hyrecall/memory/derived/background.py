"""A thread that keeps the index up to date and saves it, so that recalls need not."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable

from hyrecall.base import threads
from hyrecall.errors import HyrecallError
from hyrecall.memory.derived.follower import Follower
from hyrecall.memory.derived.readiness import IndexNotReadyError

__all__ = ["Background"]

_log = logging.getLogger("hyrecall.memory")

FOLLOW_PAUSE = 0.05
"""Seconds between two times that changes are applied: while many processes write, those of several
commits cost as much as those of one. A search does not wait for it but applies what it lacks."""

RETRY_SECONDS = 1.0
"""Between two tries of what has to be done and could not be yet."""

_FAULTS = (HyrecallError, MemoryError, OSError)  # that pass: the thread goes on


class Background:
    """Applies changes after commits, builds an index that opening left for later, saves
    snapshots.
    """

    def __init__(
        self,
        follower: Follower,
        *,
        snapshot_every: int = 10_000,
        quiet: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Wait for :meth:`start`."""
        self._follower = follower
        self._snapshot_every = snapshot_every
        self._quiet = quiet
        self._clock = clock
        self._wake = threading.Condition()
        self._poked = False
        self._dues: dict[str, Callable[[], bool]] = {}
        self._tried = -math.inf
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._poked = True
        try:
            self._thread = threads.start(self._run, name="hyrecall-memory", stop=self.stop)
        except RuntimeError as fault:  # recalls apply changes themselves, closing saves
            _log.warning("there is no thread that follows the store: %s", fault)

    def poke(self) -> None:
        """Tell the thread that something was committed."""
        with self._wake:
            self._poked = True
            self._wake.notify()

    def until_done(self, name: str, due: Callable[[], bool]) -> None:
        """Call a function about once a second until it returns True or the store is closed."""
        # A function of the same name replaces the earlier one; those of other names are called too.
        with self._wake:
            self._dues[name] = due
            self._wake.notify()

    def stop(self) -> None:
        """Start no more work; does not wait for the current step."""
        with self._wake:
            self._stopping = True
            self._wake.notify()

    def close(self) -> None:
        """Stop, and wait for the current step. Closing twice is fine."""
        self.stop()
        thread = self._thread
        # A forked child does not have the thread.
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        last_change = self._clock()
        while True:
            with self._wake:
                if not self._poked and not self._stopping:
                    self._wake.wait(self._patience(last_change))
                if self._stopping:
                    return
                poked, self._poked = self._poked, False
            if self._dues and self._clock() - self._tried >= RETRY_SECONDS:
                self._tried = self._clock()
                for name, due in list(self._dues.items()):
                    self._try(name, due)
            if poked:
                last_change = self._clock()
                self._follow()
                with self._wake:
                    self._wake.wait_for(lambda: self._stopping, FOLLOW_PAUSE)
            n_unsaved = self._follower.n_unsaved
            is_quiet = n_unsaved > 0 and self._clock() - last_change >= self._quiet
            if n_unsaved >= self._snapshot_every or is_quiet:
                self._follower.snapshot()
                last_change = self._clock()  # a snapshot that failed is tried as late again

    def _patience(self, last_change: float) -> float | None:
        """Return the seconds until the next step that nothing triggers."""
        times = [last_change + self._quiet] if self._follower.n_unsaved else []
        if self._dues:
            times.append(self._tried + RETRY_SECONDS)
        return max(min(times) - self._clock(), 0.0) if times else None

    def _try(self, name: str, due: Callable[[], bool]) -> None:
        try:
            is_done = due()
        except _FAULTS as fault:
            _log.debug("%s: is due, could not be done: %s", name, type(fault).__name__)
            return
        with self._wake:
            if is_done and self._dues.get(name) is due:  # another may have come meanwhile
                del self._dues[name]

    def _follow(self) -> None:
        try:
            self._follower.catch_up()
        except (IndexNotReadyError, *_FAULTS) as fault:
            # A recall meets the same error and reports it; the next commit tries again.
            _log.debug("changes were not applied: %s", type(fault).__name__)
