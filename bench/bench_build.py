"""Building an index from raw texts and from rows: documents a second, and the memory it takes."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import hyrecall as hr
from bench import THREADS, child, corpus, grown, ours
from bench.sizes import Size
from bench.targets import NO_HEADS
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
@pytest.mark.parametrize("part", ["text", "vectors", "grown vectors"])
def test_memory(part: str, size: Size, benchmark: BenchmarkFixture) -> None:
    """What a part adds to a process, by the system's count and by the index's own.

    Gaussian vectors get no heads; grown ones do, if they are enough.
    """
    n = size.texts[-1]
    dim = {"text": 0, "vectors": size.dense[-1][1], "grown vectors": wide(size)}[part]
    what = {
        "text": "texts",
        "vectors": f"x {dim} float32 rows",
        "grown vectors": f"x {dim} float32 rows, {grown.named('grown')}",
    }
    benchmark.group = f"memory of {n:,} {what[part]}"
    who = part.removesuffix(" vectors")
    run = CLOCK.counting(seconds_of, lambda: child.ask(who, n, THREADS, dim))
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
    if part != "text":
        rows_bytes = n * dim * 4
        benchmark.extra_info.update(
            data=f"heads: {found['heads']}",
            over_truth_percent=round(100 * (found["grew_bytes"] / rows_bytes - 1), 1),
            planes_percent=round(100 * found["plane_bytes"] / rows_bytes, 1),
        )


def wide(size: Size) -> int:
    """Return the dimensions of grown rows that come nearest to a size's."""
    return grown.DIM * (2 if size.dense[-1][1] >= 2 * grown.DIM else 1)


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


@pytest.mark.parametrize("who", [OURS, NO_HEADS])
def test_build_with_heads(who: str, size: Size, benchmark: BenchmarkFixture, turns: Turns) -> None:
    """What heads add to a build of grown rows, one thread, beside the int8 plane alone.

    A tiny run has too few rows for heads by choice, so they are forced.
    """
    n = size.dense[-1][0]
    rows = grown.rows(n)
    forced = "head4" if size.name == "tiny" else None
    plane = "int8" if who == NO_HEADS else forced

    def build() -> hr.Index:
        with ours.first_pass_over(plane):
            return ours.build(n, vectors=rows, threads=1)

    name = grown.named("grown")
    benchmark.group = f"build {n:,} x {rows.shape[1]} float32 rows, {name}, 1 thread"
    benchmark.extra_info.update(kind="build heads", docs=n, dim=rows.shape[1], queries=0, threads=1)
    index = turns.measure(benchmark, who, build, rounds=5)
    assert len(index) == n
    heads = ours.heads(index)
    assert (heads == "none") == (who == NO_HEADS)
    benchmark.extra_info["heads"] = heads
