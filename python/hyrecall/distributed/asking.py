"""Sends the questions of a recall to shards and collects the answers.

The calling thread first sends all questions to the processes, and then waits for one answer after
the other. Shards that do not support this are asked in parallel threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import TypeVar

from hyrecall.base.forks import renew_in_children
from hyrecall.distributed.channel import SMALL_BYTES
from hyrecall.distributed.shards import (
    AskedAlone,
    AskedShard,
    Fault,
    Named,
    Question,
    Shard,
    all_lost,
    closed,
    turns,
)
from hyrecall.errors import CorruptIndexError, ShardLostError
from hyrecall.hits.hits import Hits
from hyrecall.parts.counts import Statistics
from hyrecall.parts.merging import merge
from hyrecall.parts.part import Part
from hyrecall.parts.request import Request
from hyrecall.stages.stage import check_stages

N_ = TypeVar("N_", bound=Named)
S_ = TypeVar("S_")
T_ = TypeVar("T_")


def begin_statistics(shard: Shard, request: Request) -> Question[Statistics]:
    """Send a shard the question for its counts, or prepare it."""
    if isinstance(shard, AskedShard):
        return shard.begin_statistics(request)
    return Question(partial(shard.statistics, request))


def begin_candidates(shard: Shard, request: Request, statistics: Statistics) -> Question[Part]:
    """Send a shard the question for each arm's best documents, or prepare it."""
    if isinstance(shard, AskedShard):
        return shard.begin_candidates(request, statistics)
    return Question(partial(shard.candidates, request, statistics))


def begin_alone(shard: AskedAlone, request: Request) -> Question[Part]:
    """Send a shard one question for counts and documents, or prepare it."""
    if isinstance(shard, AskedShard):
        return shard.begin_alone(request)
    return Question(partial(shard.alone, request))


def results_of(
    shards: Sequence[N_], begin: Callable[[N_], Question[T_]], threads: ShardThreads | None
) -> list[T_ | Fault]:
    """Ask shards; return the answer of each, or the fault if it has none."""
    # All questions are sent first; then this thread waits for the answers. Two or more questions
    # that cannot be sent this way are asked in ``threads``. If there is only one, or no threads are
    # given, this thread asks.
    with nullcontext() if threads is None else turns.taken():
        asked = [_unless_lost(partial(begin, one)) for one in shards]
    turns.leave()

    def result(one: Question[T_] | Fault) -> T_ | Fault:
        return _unless_lost(one.answer) if isinstance(one, Question) else one

    others = [
        at for at, one in enumerate(asked) if isinstance(one, Question) and not one.is_under_way
    ]
    handed: dict[int, Future[T_ | Fault]] = {}
    if threads is not None and len(others) > 1:
        handed = {at: threads.submit(result, asked[at]) for at in others}
    results: dict[int, T_ | Fault] = {}
    refusal: Exception | None = None
    for at in sorted(range(len(asked)), key=lambda at: (at in handed, at not in others)):
        # Questions that are not sent yet come first. After a refusal the other answers are read
        # too: a question whose answer is never read would stay with its process.
        try:
            if at in handed:
                turns.leave()  # an answer that was read here may have begun one
                results[at] = handed[at].result()
            else:
                results[at] = result(asked[at])
        except Exception as fault:
            refusal = refusal or fault
    if refusal is not None:
        raise refusal
    return [results[at] for at in range(len(asked))]


def _unless_lost(call: Callable[[], T_]) -> T_ | Fault:
    """Return the result of a call to a shard, or the fault if the shard is lost or damaged."""
    try:
        return call()
    except (ShardLostError, CorruptIndexError) as fault:
        return fault


def merged(request: Request, parts: Sequence[Part], degraded: Sequence[str] = ()) -> Hits:
    """Merge parts: small requests in a turn, others while other threads run."""
    if _is_short(request):
        with turns.taken():
            return merge(request, parts, degraded=degraded)
    turns.leave()
    return merge(request, parts, degraded=degraded)


def _is_short(request: Request) -> bool:
    """Say whether a merge takes few milliseconds, most of them in the interpreter."""
    # A large merge is mostly native code, and a reranker may take any time.
    if request._n_packed is None or request._n_packed > SMALL_BYTES:
        return False
    recipe = request.given["recipe"]
    recipes = recipe if isinstance(recipe, list) else [] if recipe is None else [recipe]
    shapings = [request.given["shaping"], *(one.shaping for one in recipes)]
    return not any(one._may_wait for some in shapings for one in check_stages(some))


def answers_of(
    answers: Iterable[tuple[N_, T_ | Fault]], lost: dict[str, Fault]
) -> list[tuple[N_, T_]]:
    """Return the answers of shards; shards without an answer are recorded in ``lost``."""
    out: list[tuple[N_, T_]] = []
    for shard, answer in answers:
        if isinstance(answer, ShardLostError | CorruptIndexError):
            lost[shard.name] = answer
        else:
            out.append((shard, answer))
    if not out:
        raise all_lost(lost.values())
    return out


class ShardThreads:
    """A thread pool that is created again in a forked child, where no thread of the parent runs."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """Create the pool."""
        self._pool = ThreadPoolExecutor(self._most, "hyrecall-shards")

    def map(self, call: Callable[[S_], T_], values: Iterable[S_]) -> Iterator[T_]:
        """Return the results of calls in the order of their values."""
        try:
            return self._pool.map(call, values)
        except RuntimeError as fault:
            raise closed() from fault

    def submit(self, call: Callable[[S_], T_], value: S_) -> Future[T_]:
        """Start a call in a thread."""
        try:
            return self._pool.submit(call, value)
        except RuntimeError as fault:
            raise closed() from fault

    def close(self, *, waits: bool) -> None:
        """End the threads, and wait for their end if asked."""
        self._pool.shutdown(wait=waits)
