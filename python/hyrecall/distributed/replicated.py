"""A shard with several replicas: replies need one of them, and do not depend on which one answers.

A question goes to the replica with the fewest outstanding questions. If that replica does not
answer, or, with ``hedge``, if it is late, a second replica is asked; only one answer is used.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from hyrecall.base.forks import renew_in_children
from hyrecall.base.threads import start
from hyrecall.distributed.shards import OpenShard, closed
from hyrecall.errors import (
    CorruptIndexError,
    HyrecallError,
    IndexNotFoundError,
    ShardLostError,
    StaleStatisticsError,
    error,
)
from hyrecall.parts.counts import Statistics
from hyrecall.parts.part import Part
from hyrecall.parts.request import Request
from hyrecall.segments.segments import IndexFacts

# ---- The state of one replica of a shard, as its sharded index knows it ----


@dataclass(eq=False)
class Replica:
    """A replica and its last known state."""

    shard: OpenShard
    number: int
    state: str | None = None  # the name of its last state; None: not known
    stamp: str | None = None  # the saved version that it has loaded
    n_asked: int = 0  # outstanding questions
    last: int = 0  # the number of its last question
    refused: str | None = None  # the saved version that it could not read
    is_lost: bool = False
    is_damaged: bool = False  # its last answer said that its files are damaged
    is_reloading: bool = False

    @property
    def fails(self) -> bool:
        """Whether it did not answer its last question."""
        return self.is_lost or self.is_damaged

    def is_due(self, stamp: str | None) -> bool:
        """Whether it should load a saved version, which it has not found damaged before."""
        # A replica that found damage after it opened a version tries again: the read may have
        # failed only once.
        is_behind = self.is_damaged or self.stamp != stamp
        return self.is_lost or (is_behind and (stamp is None or self.refused != stamp))


# ---- A shard with several replicas: replies need one of them, and do not depend on
# which one answers

T_ = TypeVar("T_")

_log = logging.getLogger("hyrecall.distributed")

LOOK_AGAIN = 1.0
"""Seconds after which a replica that could not be started, or reloaded, is tried again."""

DRAIN = 10.0
"""Seconds that a reload waits at most for the outstanding questions of its replica."""


Rank = Callable[[Replica], tuple[object, ...]]


class ReplicatedShard:
    """Several open shards of the same folder as one shard."""

    def __init__(
        self,
        name: str,
        replicas: Sequence[OpenShard],
        stamp: Callable[[], str | None],
        *,
        hedge: float | None = None,
    ) -> None:
        """Take replicas, and a function that returns the version in their folder, or None."""
        # ``hedge``: seconds after which an unanswered question is also sent to a second replica.
        self.name = name
        self._replicas = [Replica(one, number) for number, one in enumerate(replicas)]
        self._stamp = stamp
        self._hedge = hedge
        self._serving: str | None = None  # the name of the state that answers
        self._is_closed = False
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """Create locks and threads; a forked child has no threads of its parent and calls this."""
        self._changed = threading.Condition()
        self._taking_up = threading.Lock()
        self._numbers = itertools.count(1)
        self._is_keeping, self._kept_at = False, float("-inf")
        most = 4 * len(self._replicas)
        self._threads = None if self._hedge is None else ThreadPoolExecutor(most, "hyrecall-hedge")
        for one in self._replicas:
            one.n_asked, one.is_reloading = 0, False

    @property
    def replicas(self) -> tuple[OpenShard, ...]:
        """The replicas."""
        return tuple(one.shard for one in self._replicas)

    @property
    def n_lost(self) -> int:
        """The number of replicas that did not answer their last question."""
        return sum(one.fails for one in self._replicas)

    @property
    def facts(self) -> IndexFacts:
        """The facts that all shards of the index share."""
        return self._replicas[0].shard.facts

    # ---- questions ----

    def statistics(self, request: Request) -> Statistics:
        """Return the shard's counts for BM25."""
        return self._of_the_newest(
            lambda one: one.statistics(request), lambda one: one.count(request),
            lambda counted: counted.versions[0],
        )  # fmt: skip

    count = statistics

    def alone(self, request: Request) -> Part:
        """Return each arm's best documents, scored with the counts of this shard alone."""
        return self._of_the_newest(
            lambda one: one.alone(request), lambda one: one.alone_as_it_is(request),
            lambda part: part.version,
        )  # fmt: skip

    alone_as_it_is = alone

    def _of_the_newest(
        self,
        ask: Callable[[OpenShard], T_],
        ask_as_it_is: Callable[[OpenShard], T_],
        state_of: Callable[[T_], str],
    ) -> T_:
        """Return the answer of the serving state; a replica without it loads the newest version."""
        self._keep_soon()

        def rank(one: Replica) -> tuple[object, ...]:
            return one.fails, one.is_reloading, one.state != self._serving, one.n_asked, one.last

        def call(one: Replica) -> T_:
            # If no replica has the serving state, the newest state serves.
            known = one.state
            does_serve = known == self._serving
            answer = (ask_as_it_is if does_serve else ask)(one.shard)
            state = state_of(answer)
            # A restarted replica may have opened a newer version. The caller sees it with this
            # answer, so no later answer may be of the version before.
            serves = not does_serve or known not in (None, state)
            self._note(one, known, state, serves=serves)
            return answer

        return self._ask(call, rank)

    def candidates(self, request: Request, statistics: Statistics) -> Part:
        """Return each arm's best documents of the shard, in the state that was counted."""
        states = statistics.versions

        def rank(one: Replica) -> tuple[object, ...]:
            return one.fails, one.state not in states, one.is_reloading, one.n_asked, one.last

        return self._ask(lambda one: one.shard.candidates(request, statistics), rank)

    def check(self) -> None:
        """Raise ShardLostError if no replica answers."""
        for one in self._replicas:
            if one.is_lost and one.is_reloading:  # it is being started
                continue
            try:
                one.shard.check()
                one.is_lost = False
            except ShardLostError:
                one.is_lost = True
            except CorruptIndexError:
                one.is_lost, one.is_damaged = False, True
        if self.n_lost == len(self._replicas):
            wish = f"an answer of one of {self.n_lost} replicas"
            raise error(ShardLostError, self.name, wish, "none")

    def _ask(self, call: Callable[[Replica], T_], rank: Rank) -> T_:
        """Return the first answer; each replica is asked once at most."""
        # Questions change nothing, and one answer is used, so nothing is counted twice.
        if self._threads is not None:
            return self._hedged(self._threads, call, rank)
        asked: list[Replica] = []
        faults: list[HyrecallError] = []
        while (one := self._next(rank, asked)) is not None:
            asked.append(one)
            try:
                return self._asked(one, call)
            except (ShardLostError, CorruptIndexError, StaleStatisticsError) as fault:
                faults.append(fault)
        raise self._fault(faults)

    def _hedged(self, threads: ThreadPoolExecutor, call: Callable[[Replica], T_], rank: Rank) -> T_:
        """Ask in threads, two replicas at a time at most; later answers are dropped."""
        asked: list[Replica] = []
        faults: list[HyrecallError] = []
        running: set[Future[T_]] = set()
        is_late = False
        while True:
            if (is_late or not running) and (one := self._next(rank, asked)) is not None:
                asked.append(one)
                try:
                    running.add(threads.submit(self._asked, one, call))
                except RuntimeError as fault:
                    raise closed() from fault
            if not running:
                raise self._fault(faults)
            may_hedge = len(running) == 1 and len(asked) < len(self._replicas)
            done, running = wait(running, self._hedge if may_hedge else None, FIRST_COMPLETED)
            is_late = not done
            for answer in done:
                try:
                    return answer.result()
                except (ShardLostError, CorruptIndexError, StaleStatisticsError) as fault:
                    faults.append(fault)

    def _next(self, rank: Rank, asked: Sequence[Replica]) -> Replica | None:
        """Return the best replica that was not asked yet, and count the question as outstanding."""
        if self._is_closed:
            raise closed()
        with self._changed:
            left = [one for one in self._replicas if one not in asked]
            if not left:
                return None
            best = min(left, key=rank)
            best.n_asked += 1
            best.last = next(self._numbers)
            return best

    def _asked(self, one: Replica, call: Callable[[Replica], T_]) -> T_:
        try:
            answer = call(one)
        except ShardLostError:
            one.is_lost = True
            raise
        except CorruptIndexError:
            one.is_lost, one.is_damaged = False, True
            self._kept_at = time.monotonic()  # the replica is tried again, but not at once
            raise
        else:
            one.is_lost = one.is_damaged = False
            return answer
        finally:
            with self._changed:
                one.n_asked -= 1
                self._changed.notify_all()

    def _fault(self, faults: Sequence[HyrecallError]) -> HyrecallError:
        """Return the error of a question that no replica answered."""
        for one in faults:
            if isinstance(one, StaleStatisticsError):
                return one
        if all(isinstance(one, CorruptIndexError) for one in faults):
            return faults[0]
        got = "; ".join(dict.fromkeys(str(one).partition(", got ")[2] for one in faults))
        return error(ShardLostError, self.name, f"an answer of {len(faults)} replicas", got)

    def _note(self, one: Replica, known: str | None, state: str, *, serves: bool) -> None:
        """Record the state of a replica, and whether it becomes the serving state."""
        with self._changed:
            if one.state == known:  # otherwise a reload has recorded a newer one meanwhile
                one.state = state
            if serves or self._serving is None:
                self._serving = state

    # ---- new versions ----

    @property
    def is_stale(self) -> bool:
        """Whether a replica should load the version that the folder holds, or was lost."""
        stamp = self._stamp()
        return any(one.is_due(stamp) for one in self._replicas)

    def reload(self) -> str:
        """Load the version that the folder holds, in one replica after another."""
        with self._taking_up:
            lost = []
            for one in self._replicas:
                try:
                    self._take_up(one)
                except ShardLostError as fault:
                    lost.append(fault)
            if len(lost) == len(self._replicas):
                raise self._fault(lost)
            assert self._serving is not None
            return self._serving

    def _take_up(self, one: Replica) -> None:
        """Let a replica load the saved version; others answer meanwhile."""
        # The new state serves once at least half of the running replicas have it.
        with self._drained(one):
            stamp = self._stamp()
            try:
                state = one.shard.reload()
            except ShardLostError:
                one.is_lost = True
                raise
            except CorruptIndexError as fault:
                if not isinstance(fault, IndexNotFoundError):
                    one.is_lost, one.refused = False, stamp
                raise
            with self._changed:
                one.stamp, one.state = stamp, state
                one.is_lost = one.is_damaged = False
                able = [other for other in self._replicas if not other.is_lost]
                if 2 * sum(other.state == state for other in able) >= len(able):
                    self._serving = state

    @contextmanager
    def _drained(self, one: Replica) -> Iterator[None]:
        """Send a replica no new questions if others answer, and wait for its outstanding ones."""

        def is_free() -> bool:
            others = (other for other in self._replicas if other is not one)
            return not one.n_asked or all(other.is_lost for other in others)

        with self._changed:
            one.is_reloading = True
            self._changed.wait_for(is_free, DRAIN)
        try:
            yield
        finally:
            one.is_reloading = False

    def _keep_soon(self) -> None:
        """Load a new version and restart lost replicas, on a separate thread."""
        if not self.is_stale:
            return
        with self._changed:
            if self._is_keeping or time.monotonic() < self._kept_at + LOOK_AGAIN:
                return
            self._is_keeping = True
        try:
            start(self._keep, name="hyrecall-replicas", stop=self.close)
        except RuntimeError:  # no more threads, or the program ends; questions are still answered
            self._is_keeping = False

    def _keep(self) -> None:
        try:
            with self._taking_up:
                stamp = self._stamp()
                for one in self._replicas:
                    if one.is_due(stamp):
                        self._try_up(one)
        finally:
            # Replicas that failed to load are tried again, but not by every question.
            self._kept_at = time.monotonic() if self.is_stale else float("-inf")
            self._is_keeping = False

    def _try_up(self, one: Replica) -> None:
        try:
            self._take_up(one)
        except Exception as fault:  # including those of Ray, whose cluster may end
            if not self._is_closed:
                kind = type(fault).__name__
                _log.error("shard %s: replica %d: %s", self.name, one.number, kind)

    def close(self) -> None:
        """Close the replicas."""
        self._is_closed = True
        for one in self._replicas:
            one.shard.close()
        if self._threads is not None:
            self._threads.shutdown()
