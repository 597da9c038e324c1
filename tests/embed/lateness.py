"""How late answers are after their budget, on some threads, and whether that is too often."""

from __future__ import annotations

import gc
import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from hyrecall.embed.pool import Pool

__all__ = ["MAY_BE_LATE", "ROUNDS", "SLACK", "Call", "Late", "judge", "late_now_and_then"]

SLACK = 0.020
MAY_BE_LATE = 0.02
"""The promise is 1 in 100. Other work on the machine may take the core now and then."""
ROUNDS = 3
_STAGGER = 0.05  # seconds: calls that end at once would be late by one another
_TOGETHER = 0.05  # seconds


@dataclass(frozen=True, order=True)
class Call:
    """When a call ended, how long after its budget, and in which thread."""

    end: float
    late: float
    thread: int


@dataclass(frozen=True)
class Late:
    """Calls in the order in which they ended."""

    calls: list[Call]

    @property
    def n_late(self) -> int:
        return sum(one.late > SLACK for one in self.calls)

    @property
    def n_moments(self) -> int:
        """How often calls were late. A core that is taken away holds up each thread once, so late
        calls of different threads that end together are one.
        """
        n, first, threads = 0, -_TOGETHER, set[int]()
        for one in self.calls:
            if one.late <= SLACK:
                continue
            if one.end - first > _TOGETHER or one.thread in threads:
                n, first, threads = n + 1, one.end, set()
            threads.add(one.thread)
        return n

    @property
    def is_too_often(self) -> bool:
        return self.n_moments > MAY_BE_LATE * len(self.calls)

    def at(self, percent: int) -> float:
        seconds = sorted(one.late for one in self.calls)
        return seconds[-(-percent * len(seconds) // 100) - 1]

    def __str__(self) -> str:
        p50, p99 = (self.at(percent) * 1000 for percent in (50, 99))
        share = f"{self.n_late} more than {SLACK * 1000:.0f} ms late, at {self.n_moments} moments"
        return f"p50 {p50:+.1f} ms, p99 {p99:+.1f} ms in {len(self.calls)} calls, {share}"


def judge(ask: Callable[[], None], budget: float, *, calls: int, threads: int) -> Late:
    """Ask so often; where too many were late up to twice more. All calls count."""
    late = Late([])
    gc.collect()
    gc.freeze()  # to look through all that a test runner holds would stop each thread for long
    try:
        for _ in range(ROUNDS):
            late = Late(late.calls + _round(ask, budget, calls, threads))
            if not late.is_too_often:
                break
    finally:
        gc.unfreeze()
    return late


def _round(ask: Callable[[], None], budget: float, calls: int, threads: int) -> list[Call]:
    made: list[Call] = []
    faults: list[BaseException] = []

    def work(number: int) -> None:
        time.sleep(number * min(budget, _STAGGER) / threads)
        try:
            for _ in range(-(-calls // threads)):
                begun = time.monotonic()
                ask()
                end = time.monotonic()
                made.append(Call(end, end - begun - budget, number))
        except BaseException as fault:
            faults.append(fault)

    started = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if faults:
        raise faults[0]
    return sorted(made)


def late_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a deadline that one call in ten overruns by three times the slack."""
    whole, number = Pool.run, itertools.count()

    def run(self: Pool, given: object, seconds: float) -> object:
        return whole(self, given, seconds + (0 if next(number) % 10 else 3 * SLACK))

    monkeypatch.setattr(Pool, "run", run)
