"""One-row adds and deletes into a large index, and their effect on recalls."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from pytest_benchmark.fixture import BenchmarkFixture

import hyrecall as hr
from bench import corpus, ours
from bench.sizes import Size
from bench.turns import OURS

SEALED_ROWS = 128  # putting smaller segments together is counted with the small merges
N_CELLS = 100


def _percentiles(name: str, seconds: list[float]) -> dict[str, object]:
    p50, p99 = np.percentile(np.array(seconds) * 1e3, [50, 99])
    return {f"{name}_p50_ms": round(float(p50), 3), f"{name}_p99_ms": round(float(p99), 3)}


def _sizes(index: hr.Index) -> list[int]:
    return sorted(segment["n_rows"] for segment in index.stats()["segments"])


def _large(sizes: list[int]) -> list[int]:
    return [size for size in sizes if size >= SEALED_ROWS]


def _time(run: Callable[[], Any], rounds: int = 5) -> float:
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


class Life:
    """A base index, the rows that join it one by one, and the keys that leave."""

    def __init__(self, n: int, dim: int, n_adds: int, n_deletes: int) -> None:
        total = n + n_adds
        self.n_base, self.n_adds = n, n_adds
        self.rows = corpus.gaussian_rows(total, dim, "life")
        self.strings = corpus.zipf_texts(total).strings
        self.cells = corpus.uniform_tenants(total, N_CELLS)
        rng = corpus.generator("life")
        keys = rng.choice(total, size=n_deletes, replace=False)
        # A key can leave once it is there; deletes are spread over the adds.
        step = np.maximum(np.sort(rng.integers(n_adds, size=n_deletes)), keys - n)
        self.leaving: dict[int, list[int]] = {}
        for key, at in zip(keys.tolist(), step.tolist(), strict=True):
            self.leaving.setdefault(at, []).append(key)
        self.index = ours.build(
            n,
            vectors=self.rows[:n],
            texts=self.strings[:n],
            columns={"cell": self.cells[:n]},
            cell="cell",
        )

    def row(self, key: int) -> tuple[pa.Table, dict[str, corpus.Floats]]:
        """Return one document as a table of one row."""
        at = slice(key, key + 1)
        table = pa.table({"id": [key], "cell": self.cells[at], "text": self.strings[at]})
        return table, {"embedding": self.rows[at]}

    def live(self) -> dict[str, object]:
        """Add and delete them all; give what was seen on the way."""
        quiet: list[float] = []  # adds that put no segments together
        quiet_cpu: list[float] = []  # the same in CPU time, which waiting for a core leaves out
        small: list[float] = []  # adds that put only small segments together
        large: list[float] = []
        deletes: list[float] = []
        sizes = _sizes(self.index)
        most = len(sizes)
        for number in range(self.n_adds):
            table, vectors = self.row(self.n_base + number)
            begin, begin_cpu = time.perf_counter(), time.process_time()
            self.index.add(table, vectors=vectors)
            took, took_cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
            before, sizes = sizes, _sizes(self.index)
            if len(sizes) == len(before) + 1:
                quiet.append(took)
                quiet_cpu.append(took_cpu)
            else:
                (small if _large(sizes) == _large(before) else large).append(took)
            most = max(most, len(sizes))
            for key in self.leaving.get(number, ()):
                begin = time.perf_counter()
                assert self.index.delete([key], scope=int(self.cells[key])) == 1
                deletes.append(time.perf_counter() - begin)
                sizes = _sizes(self.index)
        return {
            **_percentiles("add", quiet),
            **_percentiles("add_cpu", quiet_cpu),
            **_percentiles("add_with_small_merges", quiet + small),
            **_percentiles("add_with_all_merges", quiet + small + large),
            **_percentiles("delete", deletes),
            "worst_add_ms": round(max(quiet + small + large) * 1e3, 1),
            "small_merges": len(small),
            "large_merges": len(large),
            "most_segments": most,
        }

    def batches(self) -> dict[str, Callable[[], ours.Reply]]:
        """Return the batches that a reader asks: everyone in the own cell, and a few everywhere."""
        dim = self.rows.shape[1]
        queries = corpus.gaussian_rows(256, dim, "queries")
        texts = [corpus.spell(q) for q in corpus.text_queries(256)]
        own = [q % N_CELLS for q in range(256)]
        everywhere = hr.Scope(list(range(N_CELLS)))

        def ask(n: int, scope: Any) -> ours.Reply:
            hits = self.index.recall(
                text=texts[:n], vectors=queries[:n], scope=scope, fusion=hr.RRF()
            )
            return ours.arrays(hits, 10)

        return {"own_cell": lambda: ask(256, own), "everywhere": lambda: ask(32, everywhere)}


def test_one_row_adds_and_deletes(size: Size, benchmark: BenchmarkFixture) -> None:
    """Few segments throughout, quick adds, and recall as quick as on a compacted index."""
    n, dim, n_adds, n_deletes = size.life
    life = Life(n, dim, n_adds, n_deletes)
    facts = life.live()
    batches = life.batches()
    before = {name: run() for name, run in batches.items()}
    grown = {name: _time(run) for name, run in batches.items()}
    facts["segments_at_the_end"] = life.index.stats()["n_segments"]
    life.index.compact()
    for name, run in batches.items():
        compacted = _time(run)
        facts[f"recall_ratio_{name}"] = round(grown[name] / compacted, 2)
        after = run()
        assert np.array_equal(before[name][0], after[0]), "compaction changed a reply"
        assert np.array_equal(before[name][1], after[1]), "compaction changed a score"
    assert len(life.index) == n + n_adds - n_deletes
    assert life.index.stats()["n_segments"] == 1

    benchmark.group = (
        f"life: {n_adds:,} one-row adds and {n_deletes:,} deletes into {n:,} x {dim}, then recall"
    )
    benchmark.extra_info.update(who=OURS, kind="life", docs=n, dim=dim, queries=256, **facts)
    reply = benchmark(batches["own_cell"])
    assert np.array_equal(reply[0], before["own_cell"][0])
