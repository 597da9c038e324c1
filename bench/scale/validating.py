"""The simulation beside real shards on this machine: open arrivals at several loads.

Each run asks a :class:`hyrecall.distributed.ShardedIndex` at random times that do not wait for
replies, and measures from the time at which a query should have begun. The simulation gets the same
arrivals, the figures of ``measure``, the number of cores, which all processes share, and how many
processes of other programs wanted a core just before and just after the run. Those take the place
of the interruptions that ``measure`` saw.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.scale import world
from bench.scale.figures import STEPS, Figures
from bench.scale.predicting import short
from bench.scale.simulator import Floats, OneMachine, Query, trips
from bench.scale.world import EVERYONE, Questions, Sizes
from hyrecall.distributed import ShardedIndex

CLIENTS = 32  # threads that wait for replies
SETTLE_S = 0.3
RESTING = 0.3  # other processes that want a core


@dataclass(frozen=True)
class Case:
    """One run."""

    kind: str
    shards: int  # in a process each
    load: float  # of what is busiest: the cores, the interpreter that asks, or a shard
    rows: int
    seconds: float


class Arrivals:
    """When queries come, and which question each one asks."""

    def __init__(self, rate: float, seconds: float, n_questions: int, seed: int) -> None:
        """Draw arrivals; ``rate`` is a second."""
        rng = np.random.default_rng(seed)
        n = max(8, round(rate * seconds))
        self.ms: Floats = np.cumsum(-np.log1p(-rng.random(n))) * 1e3 / rate
        self.questions = rng.integers(0, n_questions, n)


# ---- what a query costs, by the figures ----


def works(figures: Figures, case: Case) -> tuple[float, list[float]]:
    """Return the mean work of the caller, and of a shard in each step."""
    steps = [float(figures.step_ms(case.kind, step, case.rows)) for step in STEPS]
    return float(figures.caller_ms(case.kind, case.shards)), steps


def rate_of(figures: Figures, case: Case, cores: int) -> float:
    """Return the queries a second that keep the busiest part as busy as the load says."""
    caller, steps = works(figures, case)
    total = caller + case.shards * sum(steps)
    return case.load * 1e3 / max(total / cores, caller, sum(steps))


def simulated(
    figures: Figures, case: Case, arrivals: Arrivals, cores: float, others: float, seed: int
) -> Floats:
    """Return the latencies that the simulation predicts."""
    rng = np.random.default_rng(seed)
    noise = figures.noise.of_idle_machine()
    caller, steps = works(figures, case)
    factors = figures.questions(case.kind, "everyone")
    shards = np.arange(case.shards)

    def query(at: int) -> Query:
        question = factors[:, arrivals.questions[at] % factors.shape[1]]
        own = float(noise.vary(np.array([caller]), rng)[0])
        made = [
            noise.vary(np.full(case.shards, mean * factor), rng)
            for mean, factor in zip(steps, question, strict=True)
        ]
        around, made, transfer = trips(own, made, [0.0, 0.0])
        return Query(float(arrivals.ms[at]), around, shards, made, transfer=transfer)

    warm_shard, warm_caller = figures.warmth()
    sim = OneMachine(
        case.shards, cores, others=others, warm_shard=warm_shard, warm_caller=warm_caller
    )
    return sim.run(query, len(arrivals.ms)).latency


# ---- the same, really ----


def measured(index: ShardedIndex, questions: Questions, case: Case, arrivals: Arrivals) -> Floats:
    """Ask at the arrivals; return how long after its arrival each query had its reply."""
    asked = [questions.ask(case.kind, at, EVERYONE) for at in range(questions.n)]
    for one in asked:
        index.recall(**one).to_arrow()
    latency = np.zeros(len(arrivals.ms))
    time.sleep(SETTLE_S)

    def ask(at: int, due: float) -> None:
        index.recall(**asked[arrivals.questions[at]]).to_arrow()
        latency[at] = (time.perf_counter() - due) * 1e3

    with ThreadPoolExecutor(CLIENTS) as pool:
        began = time.perf_counter()
        waiting = []
        for at, ms in enumerate(arrivals.ms.tolist()):
            due = began + ms / 1e3
            time.sleep(max(0.0, due - time.perf_counter()))
            waiting.append(pool.submit(ask, at, due))
        for future in waiting:
            future.result()
    return latency


def cases(kind: str, most_shards: int, loads: Sequence[float], rows: int, s: float) -> list[Case]:
    """Return a case for each number of shards and load."""
    return [Case(kind, n, load, rows, s) for n in range(1, most_shards + 1) for load in loads]


def validate(
    figures: Figures,
    sizes: Sizes,
    wanted: Sequence[Case],
    *,
    cores: int | None = None,
    patience: float = 0.0,
    seed: int = 1,
) -> Iterator[dict[str, Any]]:
    """Run each case really and simulated; return a line for each, as soon as it is there.

    ``patience``: seconds that a case waits for other programs to rest, at most.
    """
    n_cores = cores or len(os.sched_getaffinity(0))
    questions = Questions(sizes.questions, sizes.dim)
    most, rows = max(one.shards for one in wanted), wanted[0].rows
    with tempfile.TemporaryDirectory() as folder:
        paths = world.folders(Path(folder), most, rows, sizes)
        for case in wanted:
            rate = rate_of(figures, case, n_cores)
            arrivals = Arrivals(rate, case.seconds, questions.n, seed)
            with ShardedIndex.open(
                paths[: case.shards], processes=True, device="cpu", threads=1
            ) as index:
                others = [rested(patience)]
                real = measured(index, questions, case, arrivals)
                others.append(wanting())
            mean = sum(others) / 2
            predicted = simulated(figures, case, arrivals, n_cores, mean, seed)
            yield {
                "case": case, "rate": rate, "queries": len(real), "others": mean,
                "measured": np.percentile(real, (50, 99)).tolist(),
                "predicted": np.percentile(predicted, (50, 99)).tolist(),
            }  # fmt: skip


def wanting(seconds: float = 0.5) -> float:
    """Return how many processes want a core beside this one, on average; 0 where none tells."""
    seen = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            lines = Path("/proc/stat").read_text().splitlines()
        except OSError:
            return 0.0
        running = next(line for line in lines if line.startswith("procs_running"))
        seen.append(int(running.split()[1]) - 1)
        time.sleep(0.01)
    return float(np.mean(seen))


def rested(patience: float) -> float:
    """Wait until hardly anything else wants a core; return how many processes do."""
    end = time.monotonic() + patience
    while True:
        found = wanting()
        if found < RESTING or time.monotonic() > end:
            return found


def table(lines: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Return the lines of a table: predicted beside measured."""
    yield (
        "| shards | load | queries/s | p50: measured | predicted | error | p99: measured "
        "| predicted | error | others |"
    )
    yield "|---" * 10 + "|"
    for one in lines:
        case: Case = one["case"]
        cells = []
        for real, said in zip(one["measured"], one["predicted"], strict=True):
            cells.append(f"{short(real)} | {short(said)} | {said / real - 1:+.0%}")
        head = f"{case.shards} | {case.load:.0%} | {one['rate']:.0f}"
        yield f"| {head} | {' | '.join(cells)} | {one['others']:.1f} |"
