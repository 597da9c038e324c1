"""Building an index from raw texts and from rows: documents a second, and the memory it takes."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import THREADS, child, corpus, ours
from bench.sizes import Size
from bench.turns import OURS, Clock, Turns

CLOCK = Clock()  # counts what a child measured: its start and its corpus are not the build's


def seconds_of(found: dict[str, Any]) -> float:
    return float(found["seconds"])


@pytest.mark.benchmark(timer=CLOCK)
@pytest.mark.parametrize("who", [OURS, "tantivy", "bm25s"])
@pytest.mark.parametrize("threads", sorted({1, THREADS}))
def test_build_from_texts(
    n_texts: int, who: str, threads: int, benchmark: BenchmarkFixture, turns: Turns
) -> None:
    """Each build is in a process of its own. bm25s gets word numbers, and has one thread only."""
    if who != OURS:
        pytest.importorskip(who)
    if who == "bm25s":
        pytest.importorskip("numba")
        if threads > 1:
            pytest.skip("bm25s builds on one thread")
    benchmark.group = f"build {n_texts:,} texts, {threads} thread{'s' * (threads > 1)}"
    run = CLOCK.counting(seconds_of, lambda: child.ask(who, n_texts, threads))
    found = turns.measure(benchmark, who, run, rounds=3, timer=CLOCK)
    assert found["docs"] == n_texts
    benchmark.extra_info.update(
        kind="build",
        docs=n_texts,
        queries=0,
        threads=threads,
        peak_bytes=found["peak_bytes"],
        grew_bytes=found["grew_bytes"],
    )


@pytest.mark.benchmark(timer=CLOCK)
@pytest.mark.parametrize("part", ["text", "vectors"])
def test_memory(part: str, size: Size, benchmark: BenchmarkFixture) -> None:
    """What a part adds to a process, by the system's count and by the index's own."""
    n = size.texts[-1]
    dim = size.dense[-1][1] if part == "vectors" else 0
    benchmark.group = f"memory of {n:,} {'texts' if part == 'text' else f'x {dim} float32 rows'}"
    run = CLOCK.counting(seconds_of, lambda: child.ask(part, n, THREADS, dim))
    found = benchmark.pedantic(run, rounds=1)
    assert found["docs"] == n
    benchmark.extra_info.update(
        who=OURS,
        kind="memory",
        part=part,
        docs=n,
        dim=dim,
        queries=0,
        grew_mb=round(found["grew_bytes"] / 1e6, 1),
        peak_bytes=found["peak_bytes"],
        parts=found["parts"],
    )
    if part == "vectors":
        over_truth = found["grew_bytes"] / (n * dim * 4) - 1
        benchmark.extra_info["over_truth_percent"] = round(100 * over_truth, 1)


def test_build_from_rows(dense_shape: tuple[int, int], benchmark: BenchmarkFixture) -> None:
    """Float32 rows, taken in one copy."""
    n, dim = dense_shape
    rows = corpus.gaussian_rows(n, dim)
    benchmark.group = f"build {n:,} x {dim} float32 rows"
    index = benchmark(lambda: ours.build(n, vectors=rows))
    assert len(index) == n
    benchmark.extra_info.update(
        who=OURS, kind="build rows", docs=n, dim=dim, queries=0, bytes=ours.nbytes(index)
    )
