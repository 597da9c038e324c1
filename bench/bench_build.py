"""Building an index from raw texts and from rows: documents a second, and the memory it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bench import THREADS, child, corpus, ours
from bench.conftest import Measure
from bench.sizes import Size


def seconds_of(found: dict[str, Any]) -> float:
    """What a child measured: its start and its corpus are not the build's."""
    return float(found["seconds"])


def holds(n: int) -> Callable[[dict[str, Any]], None]:
    def check(found: dict[str, Any]) -> None:
        assert found["docs"] == n

    return check


@pytest.mark.parametrize("who", ["hyrecall", "tantivy", "bm25s"])
@pytest.mark.parametrize("threads", sorted({1, THREADS}))
def test_build_from_texts(n_texts: int, who: str, threads: int, measure: Measure) -> None:
    """Each build is in a process of its own. bm25s gets word numbers, and has one thread only."""
    if who != "hyrecall":
        pytest.importorskip(who)
    if who == "bm25s":
        pytest.importorskip("numba")
        if threads > 1:
            pytest.skip("bm25s builds on one thread")
    measure(
        f"build {n_texts:,} texts, {threads} thread{'s' * (threads > 1)}",
        who,
        lambda: child.ask(who, n_texts, threads),
        check=holds(n_texts),
        kind="build",
        clock=seconds_of,
        docs=n_texts,
        queries=0,
        rounds=3,
        threads=threads,
        after=lambda found: {"peak_bytes": found["peak_bytes"], "grew_bytes": found["grew_bytes"]},
    )


@pytest.mark.parametrize("part", ["text", "vectors"])
def test_memory(part: str, size: Size, measure: Measure) -> None:
    """What a part adds to a process, by the system's count and by the index's own."""
    n = size.texts[-1]
    dim = size.dense[-1][1] if part == "vectors" else 0

    def facts(found: dict[str, Any]) -> dict[str, object]:
        out: dict[str, object] = {
            "grew_mb": round(found["grew_bytes"] / 1e6, 1),
            "peak_bytes": found["peak_bytes"],
            "parts": found["parts"],
        }
        if part == "vectors":
            truth = n * dim * 4
            out["over_truth_percent"] = round(100 * (found["grew_bytes"] / truth - 1), 1)
        return out

    measure(
        f"memory of {n:,} {'texts' if part == 'text' else f'x {dim} float32 rows'}",
        "hyrecall",
        lambda: child.ask(part, n, THREADS, dim),
        check=holds(n),
        kind="memory",
        part=part,
        clock=seconds_of,
        docs=n,
        dim=dim,
        queries=0,
        rounds=1,
        after=facts,
    )


def test_build_from_rows(dense_shape: tuple[int, int], measure: Measure) -> None:
    """Float32 rows, taken in one copy."""
    n, dim = dense_shape
    rows = corpus.gaussian_rows(n, dim)

    def check(index: Any) -> None:
        assert len(index) == n

    measure(
        f"build {n:,} x {dim} float32 rows",
        "hyrecall",
        lambda: ours.build(n, vectors=rows),
        check=check,
        kind="build rows",
        docs=n,
        dim=dim,
        queries=0,
        after=lambda index: {"bytes": ours.nbytes(index)},
    )
