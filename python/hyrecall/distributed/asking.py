"""The questions of a recall over shards, and their answers.

Processes are sent all of their questions first, by the thread that asks; then it waits for one
answer after the other. Shards that cannot be asked so are asked in threads, side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeAlias, TypeVar

from hyrecall.distributed.asked_shard import AskedShard
from hyrecall.distributed.children import renew_in_children
from hyrecall.distributed.question import Question
from hyrecall.distributed.shards import AskedAlone, Named, Shard, closed, why_lost
from hyrecall.errors import CorruptIndexError, ShardLostError, error
from hyrecall.parts.counts import Statistics
from hyrecall.parts.part import Part
from hyrecall.parts.request import Request

__all__ = [
    "ShardThreads",
    "answers_of",
    "begin_alone",
    "begin_candidates",
    "begin_statistics",
    "results_of",
    "unless_lost",
]

N_ = TypeVar("N_", bound=Named)
S_ = TypeVar("S_")
T_ = TypeVar("T_")

Fault: TypeAlias = ShardLostError | CorruptIndexError
"""Why a shard has no answer, so that the others answer without it."""


def begin_statistics(shard: Shard, request: Request) -> Question[Statistics]:
    """Begin to ask a shard for its counts."""
    if isinstance(shard, AskedShard):
        return shard.begin_statistics(request)
    return Question(partial(shard.statistics, request))


def begin_candidates(shard: Shard, request: Request, statistics: Statistics) -> Question[Part]:
    """Begin to ask a shard for each arm's best documents."""
    if isinstance(shard, AskedShard):
        return shard.begin_candidates(request, statistics)
    return Question(partial(shard.candidates, request, statistics))


def begin_alone(shard: AskedAlone, request: Request) -> Question[Part]:
    """Begin to ask a shard for both in one trip."""
    if isinstance(shard, AskedShard):
        return shard.begin_alone(request)
    return Question(partial(shard.alone, request))


def unless_lost(call: Callable[[], T_]) -> T_ | Fault:
    """Return the result of a call about a shard, or the fault that left it without one."""
    try:
        return call()
    except (ShardLostError, CorruptIndexError) as fault:
        return fault


def results_of(
    asked: Sequence[Question[T_] | Fault], threads: ShardThreads | None
) -> list[T_ | Fault]:
    """Wait for the answers of all questions; those that are not sent yet may be asked in threads.

    A single one is asked in the thread of the caller. Without threads, all are, in turn.
    """

    def result(one: Question[T_] | Fault) -> T_ | Fault:
        return unless_lost(one.answer) if isinstance(one, Question) else one

    results: dict[int, T_ | Fault] = {}
    unsent = [at for at, one in enumerate(asked) if isinstance(one, Question) and not one.is_sent]
    handed = (
        {}
        if threads is None or len(unsent) < 2
        else {at: threads.submit(result, asked[at]) for at in unsent}
    )
    # Those that are sent are under way, so the one that is not comes first.
    for at in sorted(range(len(asked)), key=lambda at: at not in unsent):
        if at not in handed:
            results[at] = result(asked[at])
    results |= {at: one.result() for at, one in handed.items()}
    return [results[at] for at in range(len(asked))]


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

    def submit(self, call: Callable[[S_], T_], value: S_) -> Future[T_]:
        """Call in a thread.

        Raises
        ------
        OptionError
            The pool was closed.
        """
        try:
            return self._pool.submit(call, value)
        except RuntimeError as fault:
            raise closed() from fault

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()
