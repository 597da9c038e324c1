"""Who answers the slices of a batch: this process, threads that await shards, or Ray actors."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import pyarrow as pa

from hyrecall.cli.query_files import QueryRows
from hyrecall.distributed.ray_workers import RayWorkers
from hyrecall.errors import HyrecallError

__all__ = ["Answer", "Here", "InThreads", "OnRay", "Workers"]

Answer = Callable[[pa.Table, int], pa.Table]
"""Returns the hits of some queries, of which the first has that number."""


class Workers(Protocol):
    """Answers slices, some of them ahead of what is written."""

    @property
    def n_ahead(self) -> int:
        """How many slices may be in work while the one before them is awaited."""

    def ask(self, rows: QueryRows, first: int) -> Callable[[], pa.Table]:
        """Begin to answer rows; return what waits for their hits or raises why there are none."""


class Here:
    """Answers in this process, when the hits are wanted."""

    n_ahead = 0

    def __init__(self, answer: Answer) -> None:
        """Take what answers."""
        self._answer = answer

    def ask(self, rows: QueryRows, first: int) -> Callable[[], pa.Table]:
        """Return what answers the rows."""
        return lambda: self._answer(rows.table(), first)


class InThreads:
    """Answers in threads: shards of other processes search one slice while another is merged."""

    n_ahead = 1

    def __init__(self, answer: Answer) -> None:
        """Take what answers."""
        self._answer = answer
        self._pool = ThreadPoolExecutor(self.n_ahead + 1, "hyrecall-batch")

    def ask(self, rows: QueryRows, first: int) -> Callable[[], pa.Table]:
        """Begin to answer the rows."""
        table = _parsed(rows)
        if not isinstance(table, pa.Table):
            return table
        return self._pool.submit(self._answer, table, first).result

    def close(self) -> None:
        """End the threads; what no thread has begun is dropped."""
        self._pool.shutdown(cancel_futures=True)


class OnRay:
    """Answers in Ray actors, each of which opens all shards."""

    def __init__(self, make: Callable[[], Answer], **how: Any) -> None:
        """Start the actors, with the options of :class:`RayWorkers`; ``make`` is called in each."""
        self._actors = RayWorkers(make, **how)
        self.n_ahead = self._actors.n_ahead

    def ask(self, rows: QueryRows, first: int) -> Callable[[], pa.Table]:
        """Give the rows to an actor."""
        table = _parsed(rows)
        return self._actors.ask(table, first) if isinstance(table, pa.Table) else table

    def close(self) -> None:
        """End the actors."""
        self._actors.close()


def _parsed(rows: QueryRows) -> pa.Table | Callable[[], pa.Table]:
    """Return the table of rows, or what raises why they cannot be read, when it is their turn."""
    try:
        return rows.table()
    except HyrecallError as fault:
        kept = fault

        def refuse() -> pa.Table:
            raise kept

        return refuse
