"""A discrete-event simulation of recalls over shards.

A query arrives at a caller, which asks its shards for statistics, sums them, asks for candidates,
and merges them. If it has one shard, it asks once (:func:`trips`). Each step is over when its
slowest shard has answered. A process answers one question at a time, first come first served.

Two kinds of machines: in a :class:`Cluster` each process has cores of its own, and a shard may have
several processes (replicas). On a :class:`OneMachine` all processes share a number of cores, each
runnable process getting an equal share of them, as an operating system does.

Times are in milliseconds. Everything drawn by chance is in the queries, so that a run repeats.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

RECENT = 64  # questions of a replica that a count of its outstanding ones looks back to


@dataclass(frozen=True)
class Query:
    """One query: when it arrives, whom it asks, and what that costs."""

    arrival: float
    caller: Sequence[
        float
    ]  # work before, between and after the steps; one more than there are steps
    shards: Ints  # whom it asks
    steps: Sequence[Floats]  # of each step, the work of each asked shard
    again: Sequence[Floats] = ()  # the same, where a question is asked a second time (hedging)
    transfer: Sequence[float] = (
        0.0,
        0.0,
    )  # of each step, the time of its bytes on the caller's link


@dataclass
class Result:
    """What a run gives."""

    latency: Floats  # of each query
    shard_busy: Floats  # work done for each shard, by all of its replicas
    caller_busy: float
    span: float  # from the first arrival to the last reply
    asked_again: int = 0

    def percentiles(self, *wanted: float) -> list[float]:
        """Return percentiles of the latency."""
        return [float(one) for one in np.percentile(self.latency, wanted)]


def trips(
    caller: float, steps: Sequence[Floats], transfer: Sequence[float]
) -> tuple[list[float], list[Floats], list[float]]:
    """Return the caller's work around each step, the steps and their transfers.

    One shard does both steps in one trip: the counts stay there.
    """
    if len(steps[0]) == 1:
        return [caller / 2] * 2, [sum(steps[1:], steps[0])], [sum(transfer)]
    return [caller / (len(steps) + 1)] * (len(steps) + 1), list(steps), list(transfer)


@dataclass(frozen=True)
class Warmth:
    """What a process saves while caches still hold what it used."""

    share: float = 1.0  # of its work, right after other work of its own
    fades_ms: float = 5.0  # after this rest its work takes all of its time again

    def of(self, rest_ms: float) -> float:
        """Return the share of its work that takes time after a rest."""
        return self.share + (1.0 - self.share) * min(1.0, rest_ms / self.fades_ms)


class Simulation:
    """Events in the order of time, and the life of a query."""

    def __init__(self, *, delay: float = 0.0) -> None:
        """Take the time that a message needs in one direction."""
        self._delay = delay
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._n_events = 0

    def run(self, queries: Callable[[int], Query], n: int, *, warm_up: int = 0) -> Result:
        """Answer ``n`` queries, drawn in turn; the latency of the first ``warm_up`` is left out."""
        self._queries, self._n = queries, n
        self._latency = np.full(n, np.nan)
        self._last = 0.0
        first = self._draw(0)
        while self._events:
            time, _, call, arguments = heapq.heappop(self._events)
            call(time, *arguments)
        assert not np.isnan(self._latency).any()
        return self.result(self._latency[warm_up:], self._last - first)

    def result(self, latency: Floats, span: float) -> Result:
        """Return what the run gave."""
        raise NotImplementedError  # each machine model has it

    def ask(self, time: float, query: Query, at: int, step: int) -> None:
        """Ask the shards of a query; :meth:`step_over` follows."""
        raise NotImplementedError  # each machine model has it

    def work(self, time: float, query: Query, at: int, step: int) -> None:
        """Let a caller do its work before a step, or after the last; :meth:`work_over` follows."""
        raise NotImplementedError  # each machine model has it

    def push(self, time: float, call: Callable[..., None], *arguments: Any) -> None:
        """Add an event; of two at the same time, the first comes first."""
        self._n_events += 1
        heapq.heappush(self._events, (time, self._n_events, call, arguments))

    def _draw(self, at: int) -> float:
        query = self._queries(at)
        self.push(query.arrival, self._arrive, query, at)
        return query.arrival

    def _arrive(self, time: float, query: Query, at: int) -> None:
        if at + 1 < self._n:
            self._draw(at + 1)
        self.work(time, query, at, 0)

    def work_over(self, time: float, query: Query, at: int, step: int) -> None:
        """Go on after the caller's work."""
        if step < len(query.steps):
            self.push(time + self._delay, self.ask, query, at, step)
        else:
            self._latency[at] = time - query.arrival
            self._last = max(self._last, time)

    def step_over(self, time: float, query: Query, at: int, step: int) -> None:
        """Go on after the answer of the last shard."""
        reached = time + self._delay + query.transfer[step]
        self.push(reached, self.work, query, at, step + 1)


class Cluster(Simulation):
    """Processes with cores of their own.

    Since nothing interrupts a process, the end of a question is known when it arrives: the time at
    which its process becomes free is all that is kept. So a step over hundreds of shards is a few
    operations on arrays.
    """

    def __init__(
        self,
        replicas: Ints,
        callers: int,
        *,
        delay: float = 0.0,
        hedge_after: float | None = None,
    ) -> None:
        """Take the number of processes of each shard, and of those that ask.

        ``hedge_after``: a question that has no answer by then is asked of another replica too. The
        first answer counts; the other one is made to its end all the same.
        """
        super().__init__(delay=delay)
        n, most = len(replicas), int(replicas.max(initial=1))
        exists = np.arange(most) < replicas[:, None]
        self._free = np.where(exists, 0.0, np.inf)
        self._ends = np.where(exists, 0.0, np.inf)[:, :, None].repeat(RECENT if most > 1 else 1, 2)
        self._asked = np.zeros((n, most), np.int64)
        self._callers = np.zeros(callers)
        self._hedge_after = hedge_after
        self.shard_busy = np.zeros(n)
        self.caller_busy = 0.0
        self.asked_again = 0

    def result(self, latency: Floats, span: float) -> Result:
        """Return what the run gave."""
        return Result(latency, self.shard_busy, self.caller_busy, span, self.asked_again)

    def work(self, time: float, query: Query, at: int, step: int) -> None:
        """Let the caller that is free first do the work."""
        who = int(self._callers.argmin())
        end = max(time, float(self._callers[who])) + query.caller[step]
        self._callers[who] = end
        self.caller_busy += query.caller[step]
        self.push(end, self.work_over, query, at, step)

    def ask(self, time: float, query: Query, at: int, step: int) -> None:
        """Ask a replica of each shard."""
        picked = self.choose(time, query.shards)
        ends = self.serve(time, query.shards, picked, query.steps[step])
        if self._hedge_after is not None and query.again:
            late = ends > time + self._hedge_after
            late &= np.isfinite(self._free[query.shards]).sum(axis=1) > 1
            if late.any():
                asked = query, at, step, ends, np.flatnonzero(late), picked
                self.push(time + self._hedge_after, self._hedge, *asked)
                return
        self.push(self.joined(ends), self.step_over, query, at, step)

    def choose(self, time: float, shards: Ints, but: Ints | None = None) -> Ints:
        """Return the replica of each shard with the fewest questions outstanding now.

        Of equals, the one that was asked least often. ``but`` names one of each that is left out.
        """
        if self._free.shape[1] == 1:
            return np.zeros(len(shards), np.int64)
        outstanding = (self._ends[shards] > time).sum(axis=2, dtype=np.float64)
        outstanding += self._asked[shards] / (self._asked[shards].max(initial=0) + 1.0)
        outstanding[np.isinf(self._free[shards])] = np.inf
        if but is not None:
            outstanding[np.arange(len(shards)), but] = np.inf
        return np.asarray(outstanding.argmin(axis=1), np.int64)

    def serve(self, time: float, shards: Ints, picked: Ints, work: Floats) -> Floats:
        """Queue a question at a replica of each shard; return when each has answered."""
        ends = np.maximum(time, self._free[shards, picked]) + work
        self._free[shards, picked] = ends
        place = self._asked[shards, picked] % self._ends.shape[2]
        self._ends[shards, picked, place] = ends
        self._asked[shards, picked] += 1
        self.shard_busy[shards] += work
        return ends

    def joined(self, ends: Floats) -> float:
        """Return when a step is over: when the last shard has answered."""
        return float(ends.max())

    def hedged(self, time: float, query: Query, step: int, late: Ints, picked: Ints) -> Floats:
        """Ask another replica of the late shards too; return when each of those has answered."""
        shards = query.shards[late]
        self.asked_again += len(late)
        other = self.choose(time, shards, but=picked[late])
        return self.serve(time, shards, other, query.again[step][late])

    def _hedge(
        self, time: float, query: Query, at: int, step: int, ends: Floats, late: Ints, picked: Ints
    ) -> None:
        ends[late] = np.minimum(ends[late], self.hedged(time, query, step, late, picked))
        self.push(self.joined(ends), self.step_over, query, at, step)


@dataclass
class _Task:
    query: Query
    at: int
    step: int
    server: int
    work: float


class OneMachine(Simulation):
    """Processes that share cores: one for each shard, and the last for the caller.

    With n runnable processes on c cores each runs at the rate min(1, c / n). A clock of attained
    work runs at that rate, so that a process ends when the clock has advanced by its work.
    """

    def __init__(
        self,
        shards: int,
        cores: float,
        *,
        delay: float = 0.0,
        others: float = 0.0,
        warm_shard: Warmth = Warmth(),
        warm_caller: Warmth = Warmth(),
    ) -> None:
        """Take the number of shards, and of the cores that they and the caller share.

        ``others``: processes of other programs that want a core all the time. ``warm_shard``,
        ``warm_caller``: what they save if they were at work shortly before.
        """
        super().__init__(delay=delay)
        self._warmth = [warm_shard] * shards + [warm_caller]
        self._rests_since = [-np.inf] * (shards + 1)
        self._waiting: list[deque[_Task]] = [deque() for _ in range(shards + 1)]
        self._running: list[tuple[float, int, _Task]] = []  # by the clock at which they end
        self._cores, self._others = cores, others
        self._clock = self._now = 0.0
        self._n_started = self._n_ticks = 0
        self._missing: dict[tuple[int, int], int] = {}
        self.shard_busy = np.zeros(shards)
        self.caller_busy = 0.0

    def result(self, latency: Floats, span: float) -> Result:
        """Return what the run gave."""
        return Result(latency, self.shard_busy, self.caller_busy, span)

    def work(self, time: float, query: Query, at: int, step: int) -> None:
        """Queue the work at the caller."""
        self.caller_busy += query.caller[step]
        task = _Task(query, at, step, len(self._waiting) - 1, query.caller[step])
        self._queue(time, [task])

    def ask(self, time: float, query: Query, at: int, step: int) -> None:
        """Queue a question at each shard."""
        self.shard_busy[query.shards] += query.steps[step]
        self._missing[at, step] = len(query.shards)
        asked = zip(query.shards.tolist(), query.steps[step].tolist(), strict=True)
        self._queue(time, [_Task(query, at, step, shard, work) for shard, work in asked])

    def _queue(self, time: float, tasks: Sequence[_Task]) -> None:
        self._advance(time)
        for task in tasks:
            self._waiting[task.server].append(task)
            if len(self._waiting[task.server]) == 1:
                self._start(task)
        self._plan()

    def _start(self, task: _Task) -> None:
        self._n_started += 1
        rest = self._now - self._rests_since[task.server]
        work = task.work * self._warmth[task.server].of(rest)
        heapq.heappush(self._running, (self._clock + work, self._n_started, task))

    def _rate(self) -> float:
        if not self._running:
            return 0.0
        return min(1.0, self._cores / (len(self._running) + self._others))

    def _advance(self, time: float) -> None:
        self._clock += (time - self._now) * self._rate()
        self._now = time

    def _plan(self) -> None:
        """Plan the next end; an earlier plan is void."""
        self._n_ticks += 1
        if self._running:
            left = max(0.0, self._running[0][0] - self._clock) / self._rate()
            self.push(self._now + left, self._tick, self._n_ticks)

    def _tick(self, time: float, number: int) -> None:
        if number != self._n_ticks:
            return
        self._advance(time)
        end, _, task = heapq.heappop(self._running)
        self._clock = max(self._clock, end)
        queue = self._waiting[task.server]
        self._rests_since[task.server] = time
        queue.popleft()
        if queue:
            self._start(queue[0])
        self._plan()
        if task.server == len(self._waiting) - 1:
            self.work_over(time, task.query, task.at, task.step)
            return
        left = self._missing[task.at, task.step] - 1
        self._missing[task.at, task.step] = left
        if not left:
            self.step_over(time, task.query, task.at, task.step)
