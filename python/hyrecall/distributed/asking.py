"""The threads in which the shards of an index are asked at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from hyrecall.distributed.children import renew_in_children
from hyrecall.distributed.shards import closed

__all__ = ["ShardThreads"]

S_ = TypeVar("S_")
T_ = TypeVar("T_")


class ShardThreads:
    """A thread pool, made again in a forked child, which has none of its parent's threads."""

    def __init__(self, most: int) -> None:
        """Take the most threads that run."""
        self._most = most
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """Make the pool."""
        self._pool = ThreadPoolExecutor(self._most, "hyrecall-shards")

    def map(self, call: Callable[[S_], T_], values: Iterable[S_]) -> Iterator[T_]:
        """Return the results of calls in the order of their values.

        Raises
        ------
        OptionError
            The pool was closed.
        """
        try:
            return self._pool.map(call, values)
        except RuntimeError as fault:
            raise closed() from fault

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()
