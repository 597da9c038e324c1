"""The threads in which the shards of an index are asked at the same time, and their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias, TypeVar

from hyrecall.distributed.children import renew_in_children
from hyrecall.distributed.shards import Named, closed, why_lost
from hyrecall.errors import CorruptIndexError, ShardLostError, error

__all__ = ["ShardThreads", "answers_of", "no_fault"]

N_ = TypeVar("N_", bound=Named)
S_ = TypeVar("S_")
T_ = TypeVar("T_")

Fault: TypeAlias = ShardLostError | CorruptIndexError
"""Why a shard has no answer, so that the others answer without it."""


def no_fault(call: Callable[[S_], T_]) -> Callable[[S_], T_ | Fault]:
    """Return the call that returns the fault of a shard, instead of raising it."""

    def one(shard: S_) -> T_ | Fault:
        try:
            return call(shard)
        except (ShardLostError, CorruptIndexError) as fault:
            return fault

    return one


def answers_of(
    answers: Iterable[tuple[N_, T_ | Fault]], lost: dict[str, str]
) -> list[tuple[N_, T_]]:
    """Return the answers of shards, and note in ``lost`` those that have none.

    Raises
    ------
    ShardLostError
        None answers.
    CorruptIndexError
        The files of all are damaged.
    """
    out: list[tuple[N_, T_]] = []
    faults: list[Fault] = []
    for shard, answer in answers:
        if isinstance(answer, ShardLostError | CorruptIndexError):
            lost[shard.name] = why_lost(answer)
            faults.append(answer)
        else:
            out.append((shard, answer))
    if out:
        return out
    if len(lost) == len(faults) and all(isinstance(one, CorruptIndexError) for one in faults):
        raise faults[0]
    raise error(ShardLostError, "shards", "an answer of at least one", "; ".join(lost.values()))


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
