"""The one way to measure: check, time in turns with ours, check again; and what goes into the JSON.

Other processes may take a core for seconds. So a rival is timed in turns with ours, and the ratio
is the median of those of neighbouring rounds, not the ratio of two medians taken minutes apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench import THREADS, limits, ours

OURS = "hyrecall"
BUDGET_S = 2.0  # of one measurement
ROUNDS = (3, 15)
SLOW_S = 5.0  # so slow a first call counts as a round: what it warms is nothing beside it
# BLAS and OpenMP threads spin after a call, OpenBLAS for 2^26 cycles: who is next must not pay.
# Where nobody else takes turns, call follows call as in a service.
REST_S = 0.05

Run = Callable[[], Any]
Clock = Callable[[Any], float]
Entry = dict[str, Any]


@dataclass(frozen=True)
class Side:
    """What is run, and how its seconds are read off the result where not all of a call counts."""

    run: Run
    clock: Clock | None = None

    def time(self, rest: float) -> tuple[float, Any]:
        """Run once after so many seconds; give its own seconds and the result."""
        time.sleep(rest)
        begin = time.perf_counter()
        result = self.run()
        took = time.perf_counter() - begin
        return (took if self.clock is None else self.clock(result)), result


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return median, quartiles and extremes."""
    low, median, high = np.percentile(np.array(values), [25, 50, 75])
    return {
        "median": float(median),
        "low": float(low),
        "high": float(high),
        "min": float(min(values)),
        "max": float(max(values)),
    }


class Bench:
    """The entries of a session; ours of the work at hand runs beside each of its rivals."""

    def __init__(self, *, is_tiny: bool) -> None:
        """Begin with none; a tiny run takes one round, since it shows only that all of it works."""
        self.entries: list[Entry] = []
        self._is_tiny = is_tiny
        self._work = ""
        self._ours: Side | None = None

    def forget(self) -> None:
        """Let go of ours, and so of its index: call it before a large one is made."""
        self._ours = None

    def measure(
        self,
        work: str,
        who: str,
        run: Run,
        *,
        check: Callable[[Any], None],
        kind: str,
        docs: int,
        queries: int,
        dim: int = 0,
        nbytes: int = 0,
        threads: int = THREADS,
        rounds: int | None = None,
        clock: Clock | None = None,
        after: Callable[[Any], dict[str, object]] | None = None,
        **facts: object,
    ) -> Any:
        """Check what ``run`` returns, time it, check what it returned while timed.

        ``kind`` and further facts are what a target finds the entry by. ``after`` gives facts of
        the last result.
        """
        side = Side(run, clock)
        if work != self._work:
            self._work, self._ours = work, None
        beside = self._ours if who != OURS else None
        if who == OURS:
            self._ours = side
        rest = 0.0 if beside is None or who.startswith(OURS) else REST_S
        first = beside.time(rest)[0] if beside is not None else 0.0
        took, result = side.time(rest)
        check(result)  # also warms caches, pages and compilers
        samples = [(took, first)] if took >= SLOW_S else []
        if rounds is None:
            rounds = int(min(max(BUDGET_S / max(took, 1e-6), ROUNDS[0]), ROUNDS[1]))
        watch = limits.Neighbours.watch()
        while len(samples) < (1 if self._is_tiny else rounds):
            own = beside.time(rest)[0] if beside is not None else 0.0
            took, result = side.time(rest)
            samples.append((took, own))
        entry: Entry = {
            "work": work,
            "who": who,
            "kind": kind,
            "docs": docs,
            "dim": dim,
            "queries": queries,
            "bytes": nbytes,
            "threads": threads,
            "isa": ours.isa(),
            "others_cores": watch.cores(),
            "rounds": len(samples),
            "seconds": spread([took for took, _ in samples]),
            **facts,
        }
        if beside is not None:
            entry["ratio"] = spread([took / own for took, own in samples])
        check(result)
        if after is not None:
            entry.update(after(result))
        self.entries.append(entry)
        return result
