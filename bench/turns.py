"""Time a rival in turns with ours; pytest-benchmark does everything else.

Other processes may take a core for seconds. So hyrecall runs once before each round of a rival, as
the round's ``setup``, and the ratio is the median of the rounds' ratios. A ratio of two medians
that were taken minutes apart would say little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

OURS = "hyrecall"
BUDGET_S = 2.0  # of a rival's rounds
ROUNDS = (3, 15)  # the fewest and the most of a rival
# BLAS and OpenMP threads spin after a call, OpenBLAS for 2^26 cycles, and would slow the next side.
REST_S = 0.05

Run = Callable[[], Any]


class Clock:
    """A timer for pytest-benchmark that stands still while a run does other things than its work.

    Give it to the mark, ``@pytest.mark.benchmark(timer=clock)``, and to :meth:`Turns.measure`.
    """

    def __init__(self) -> None:
        """Begin to run."""
        self._stopped = 0.0

    def __repr__(self) -> str:
        """Name it in a benchmark's options."""
        return "bench.turns.Clock()"

    def __call__(self) -> float:
        """Return the seconds so far."""
        return time.perf_counter() - self._stopped

    def counting(self, seconds_of: Callable[[Any], float], run: Run) -> Run:
        """Return ``run`` so that only the seconds that ``seconds_of`` its result says count."""

        def counted() -> Any:
            begin = self()
            result = run()
            self._stopped += self() - begin - seconds_of(result)
            return result

        return counted


def quartiles(values: Sequence[float]) -> dict[str, float]:
    """Return the median and the quartiles, by pytest-benchmark's names."""
    q1, median, q3 = np.percentile(np.array(values), [25, 50, 75])
    return {"median": float(median), "q1": float(q1), "q3": float(q3)}


@dataclass
class Turns:
    """Remembers ours of the group at hand, with which the group's rivals take turns."""

    is_tiny: bool  # one round each: shows only that all of it works
    _group: str | None = None
    _ours: Run | None = None

    def forget(self) -> None:
        """Drop ours, and so its index: call it before a large one is made."""
        self._ours = None

    def measure(
        self,
        benchmark: BenchmarkFixture,
        who: str,
        run: Run,
        *,
        rounds: int | None = None,
        timer: Callable[[], float] = time.perf_counter,
    ) -> Any:
        """Time ``run``; return its last result, to be checked.

        Ours is timed call after call. Where it ran before in the same group, a rival takes turns
        with it, and gets ``extra_info["ratio"]``: its time over ours. Nothing is run before the
        timing if ``rounds`` says how many to take.
        """
        benchmark.extra_info["who"] = who
        if benchmark.group != self._group:
            self._group, self._ours = benchmark.group, None
        if who == OURS:
            self._ours = run
        elif self._ours is not None:
            return self._in_turns(benchmark, who, run, self._ours, rounds, timer)
        if rounds is None:
            return benchmark(run)
        return benchmark.pedantic(run, rounds=1 if self.is_tiny else rounds)

    def _in_turns(
        self,
        benchmark: BenchmarkFixture,
        who: str,
        run: Run,
        ours: Run,
        rounds: int | None,
        timer: Callable[[], float],
    ) -> Any:
        """Run ours before each round, and note the ratios."""
        rest_s = 0.0 if who.startswith(OURS) else REST_S  # our own threads do not spin
        taken: list[float] = []

        def run_ours() -> None:
            time.sleep(rest_s)
            begin = timer()
            ours()
            taken.append(timer() - begin)
            time.sleep(rest_s)

        if self.is_tiny:
            rounds = 1
        elif rounds is None:
            ours()
            begin = time.perf_counter()
            run()  # also warms caches, pages and compilers
            took = max(time.perf_counter() - begin, 1e-6)
            rounds = int(min(max(BUDGET_S / took, ROUNDS[0]), ROUNDS[1]))
        result = benchmark.pedantic(run, setup=run_ours, rounds=rounds)
        if benchmark.enabled:
            # Under --benchmark-cprofile, a call that is not timed follows the rounds.
            pairs = zip(benchmark.stats.stats.data, taken, strict=False)
            benchmark.extra_info["ratio"] = quartiles([theirs / mine for theirs, mine in pairs])
        return result
