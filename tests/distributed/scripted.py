"""Replicas in this process that fail, wait or tell when a test says so, and bugs in their use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

import hyrecall as hr
from distributed.saved import SCHEMA, VECTORS, asked, documents
from hyrecall.distributed import Part, Request, ShardedIndex, Statistics
from hyrecall.errors import ShardLostError, error
from seams import LocalShard, Replica, ReplicatedShard, _seal

SECONDS = 30.0  # in which something must have happened


class Scripted(LocalShard):
    """A replica in this process; ``log`` has its questions."""

    def __init__(self, number: int, folder: Path, log: list[tuple[int, str]]) -> None:
        super().__init__(f"replica {number}", hr.Index.open(folder, device="cpu"))
        self.number, self.log = number, log
        self.failing: set[str] = set()
        self.gates: dict[str, threading.Event] = {}  # a question waits until its gate is set
        self.begun = {name: threading.Event() for name in ("count", "candidates", "reload")}

    def _ask(self, question: str) -> None:
        self.log.append((self.number, question))
        self.begun[question].set()
        if question in self.gates:
            assert self.gates[question].wait(SECONDS)
        if question in self.failing:
            raise error(ShardLostError, self.name, "an answer", "none")

    def statistics(self, request: Request) -> Statistics:
        super().reload()
        return self.count(request)

    def count(self, request: Request) -> Statistics:
        self._ask("count")
        return self.index.statistics(request)

    def candidates(self, request: Request, statistics: Statistics) -> Part:
        self._ask("candidates")
        return super().candidates(request, statistics)

    def alone(self, request: Request) -> Part:
        super().reload()
        return self.alone_as_it_is(request)

    def alone_as_it_is(self, request: Request) -> Part:
        return self.candidates(request, self.count(request))

    def reload(self) -> str:
        self._ask("reload")
        return super().reload()

    def check(self) -> None:
        if self.failing:
            raise error(ShardLostError, self.name, "an answer", "none")


class AddedTwice(ReplicatedShard):
    """A planted bug: what a lost replica had counted is added to the answer of the next."""

    _has_failed = False

    def _asked(self, one: Replica, call: Callable[[Replica], Any]) -> Any:
        try:
            return super()._asked(one, call)
        except ShardLostError:
            self._has_failed = True
            raise

    def statistics(self, request: Request) -> Statistics:
        self._has_failed = False
        counted = super().statistics(request)
        if not self._has_failed:
            return counted
        return replace(Statistics.sum([counted, counted]), versions=counted.versions)


class OtherState(ReplicatedShard):
    """A planted bug: candidates come from a replica of another state, as if it were counted."""

    def candidates(self, request: Request, statistics: Statistics) -> Part:
        for one in self.replicas:
            assert isinstance(one, Scripted)
            if "candidates" in one.failing:
                continue
            own = one.index._version
            told = replace(statistics, versions=(own, *statistics.versions[1:]))
            part = one.index.candidates(request, told)
            return replace(part, version=statistics.versions[0], versions=statistics.versions)
        raise AssertionError("all fail")


class LateAnswer(ReplicatedShard):
    """A planted bug: the answer that came too late is taken for that of the next question."""

    _late: Any = None

    def _asked(self, one: Replica, call: Callable[[Replica], Any]) -> Any:
        answer = super()._asked(one, call)
        assert isinstance(one.shard, Scripted)
        if "count" in one.shard.gates:
            self._late = answer
        return answer

    def statistics(self, request: Request) -> Statistics:
        if self._late is not None:
            late, self._late = self._late, None
            assert isinstance(late, Statistics)
            return replace(late, request=request.id)
        return super().statistics(request)


def made(
    folder: Path,
    n: int,
    kind: type[ReplicatedShard] = ReplicatedShard,
    hedge: float | None = None,
    *,
    alone: bool = False,
) -> tuple[ShardedIndex, list[Scripted], list[tuple[int, str]]]:
    """Return an index of a shard with scripted replicas, all at work, and their log.

    An empty shard is beside it, so that both are asked twice, unless it is asked ``alone``.
    """
    log: list[tuple[int, str]] = []
    replicas = [Scripted(number, folder, log) for number in range(n)]
    shard = kind("shard", replicas, lambda: _seal(folder), hedge=hedge)
    empty = hr.Index.build(documents().slice(0, 0), SCHEMA, vectors={"v": VECTORS[:0]})
    index = ShardedIndex([shard] if alone else [shard, LocalShard("empty", empty)])
    index.reload()
    log.clear()
    return index, replicas, log


def one_of(index: ShardedIndex, wants: list[pa.Table], **more: Any) -> int:
    """Say which of some replies a recall gives.

    Raises
    ------
    AssertionError
        None of them, or it was refused.
    """
    try:
        got = index.recall(**asked(**more))
    except (hr.OptionError, hr.ShapeError) as fault:
        raise AssertionError(str(fault)) from fault
    assert not got.degraded, got.trace.degraded
    for number, want in enumerate(wants):
        if got.to_arrow().equals(want):
            return number
    raise AssertionError("a reply of no state")


def states(folder: Path, n: int) -> tuple[hr.Index, list[pa.Table], Callable[[int], None]]:
    """Save an index; return it, the replies of it and of n changes, and what makes change ``n``."""
    index = hr.Index.build(documents(), SCHEMA, vectors={"v": VECTORS}, device="cpu")
    index.save(folder)
    oracle = hr.Index.build(documents(), SCHEMA, vectors={"v": VECTORS}, device="cpu")
    wants = [oracle.recall(**asked()).to_arrow()]
    gone = [(f"k{at}", ("ann", "bob")[at % 2]) for at in range(n)]
    for key, user in gone:
        oracle.delete([key], scope=user)
        wants.append(oracle.recall(**asked()).to_arrow())

    def change(number: int) -> None:
        key, user = gone[number - 1]
        index.delete([key], scope=user)
        index.save(folder)

    return index, wants, change
