"""A reader beside a writer: how long its slowest calls take while adds merge into a large index."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import hyrecall as hr
from bench import corpus, ours
from bench.sizes import Size
from bench.turns import OURS

N_CELLS = 100
ADDED_ROWS = 512  # of one add: eight make a segment of 4,096, whose merges follow
QUIET_S = 5.0


@dataclass
class Reader:
    """Asks one query after the other and keeps what each call took."""

    ask: Callable[[int], hr.Hits]
    seconds: list[float] = field(default_factory=list)
    wrong: int = 0

    def read(self, is_over: Callable[[], bool]) -> list[float]:
        """Ask until it is over; give these calls' seconds."""
        out = []
        number = 0
        while not is_over():
            begin = time.perf_counter()
            hits = self.ask(number)
            out.append(time.perf_counter() - begin)
            self.wrong += len(hits[0]) == 0
            number += 1
        return out

    def quiet(self, seconds: float) -> list[float]:
        """Ask for so long."""
        end = time.perf_counter() + seconds
        return self.read(lambda: time.perf_counter() >= end)


@dataclass
class Writer:
    """Adds batches until all rows are in, then compacts, so that the largest merge is met too."""

    index: hr.Index
    table: pa.Table
    vectors: corpus.Floats

    def write(self) -> int:
        before = self.index.stats()["n_segments"]
        merges = 0
        for begin in range(0, self.table.num_rows, ADDED_ROWS):
            at = slice(begin, begin + ADDED_ROWS)
            self.index.add(
                self.table.slice(begin, ADDED_ROWS), vectors={"embedding": self.vectors[at]}
            )
            after = self.index.stats()["n_segments"]
            merges += after <= before
            before = after
        self.index.compact()
        return merges + 1


def p99(seconds: list[float]) -> float:
    return float(np.percentile(seconds, 99))


@pytest.mark.parametrize("reader", ["own cell", "everywhere"])
def test_reading_beside_a_writer(reader: str, size: Size, benchmark: BenchmarkFixture) -> None:
    """One thread each, so that two cores are enough: what slows the reader is the index."""
    n, dim, n_adds = size.reading
    total = n + n_adds
    rows = corpus.gaussian_rows(total, dim, "reading")
    cells = corpus.uniform_tenants(total, N_CELLS)
    index = ours.build(n, vectors=rows[:n], columns={"cell": cells[:n]}, cell="cell", threads=1)
    table = pa.table({"id": np.arange(n, total), "cell": cells[n:]})
    queries = corpus.gaussian_rows(256, dim, "queries")
    everywhere = hr.Scope(list(range(N_CELLS)))

    def ask(number: int) -> hr.Hits:
        scope = everywhere if reader == "everywhere" else number % N_CELLS
        return index.recall(vectors=queries[number % 256][None], scope=[scope], limit=10)

    reading = Reader(ask)
    is_tiny = size.name == "tiny"
    quiet_s = 0.2 if is_tiny else QUIET_S
    reading.quiet(quiet_s / 4)  # warms
    quiet = reading.quiet(quiet_s)
    merges: list[int] = []
    writing = threading.Thread(target=lambda: merges.append(Writer(index, table, rows[n:]).write()))
    writing.start()
    busy = reading.read(lambda: not writing.is_alive())
    writing.join()
    after = reading.quiet(quiet_s)  # of the compacted index: none of the slowness may stay
    assert len(index) == total
    assert merges
    assert reading.wrong == 0

    benchmark.group = f"reading {n:,} x {dim} while {n_adds:,} are added, {reader}"
    benchmark.extra_info.update(
        who=OURS,
        kind="reading",
        reader=reader,
        docs=n,
        dim=dim,
        queries=1,
        threads=1,
        merges=merges[0],
        calls_quiet=len(quiet) + len(after),
        calls_busy=len(busy),
        p50_quiet_ms=round(float(np.median(quiet)) * 1e3, 3),
        p50_busy_ms=round(float(np.median(busy)) * 1e3, 3),
        p99_quiet_ms=round(p99(quiet) * 1e3, 3),
        p99_busy_ms=round(p99(busy) * 1e3, 3),
        p99_after_ms=round(p99(after) * 1e3, 3),
        p99_ratio=round(p99(busy) / p99(quiet + after), 2),
    )
    hits = benchmark(ask, 0)
    assert len(hits[0]) == 10
