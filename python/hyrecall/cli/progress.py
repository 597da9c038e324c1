"""Shows the progress of a batch on stderr: a bar in a terminal, otherwise a line at intervals."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from hyrecall.cli.show import say

__all__ = ["Progress"]

_SECONDS_BETWEEN_LINES = 5.0


class Progress:
    """Counts queries and hits, and shows the progress.

    Parameters
    ----------
    total : int or None
        Queries in the file; None if the number is not known, so that there is no ETA.
    done : int, default 0
        Queries that an earlier run answered; they count for the progress, not for the rate.
    """

    def __init__(self, total: int | None, *, done: int = 0) -> None:
        """Start the clock."""
        self._total = total
        self._done = done
        self._n_queries = 0
        self._n_hits = 0
        self._started = self._told = time.perf_counter()
        self._bar: Bar | None = None
        if sys.stderr.isatty():
            self._bar = Bar(
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.description}"),
                TextColumn("ETA"),
                TimeRemainingColumn(),
                console=Console(file=sys.stderr),
                transient=True,
            )
            self._task = self._bar.add_task("", total=total, completed=done)

    def __enter__(self) -> Progress:
        """Show the bar."""
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()

    def advance(self, n_queries: int, n_hits: int) -> None:
        """Count an answered slice of queries."""
        self._n_queries += n_queries
        self._n_hits += n_hits
        now = time.perf_counter()
        rate = self._n_queries / max(now - self._started, 1e-9)
        at = self._done + self._n_queries
        if self._bar is not None:
            self._bar.update(self._task, completed=at, description=f"{rate:,.0f} queries/s")
        elif now - self._told >= _SECONDS_BETWEEN_LINES:
            self._told = now
            eta = "?" if self._total is None else f"{(self._total - at) / rate:,.0f} s"
            of = "" if self._total is None else f" of {self._total:,}"
            say(f"{at:,}{of} queries, {rate:,.0f} queries/s, ETA {eta}")

    def summary(self) -> str:
        """Return the totals in one line."""
        seconds = max(time.perf_counter() - self._started, 1e-9)
        rate = self._n_queries / seconds
        before = f" after {self._done:,} of an earlier run" if self._done else ""
        return (
            f"{self._n_queries:,} queries{before}, {self._n_hits:,} hits in {seconds:.1f} s "
            f"({rate:,.0f} queries/s)"
        )
