"""Batches of the dense scan start from a guessed threshold: where it was too high they scan again.

The sample is one block of 16 rows in 16 (`csrc/engine/dense/first_threshold.cpp`), so rows can be
laid such that it misleads. A scan that trusted its guess would lose rows in every case of
`MISLEADING`.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr

N, DIM, BATCH, DEPTH = 4_096, 24, 32, 100
Floats = np.ndarray


def in_sample(n: int) -> np.ndarray:
    """Whether the guess looks at a row: of every other tile it takes a block, the next one each."""
    row = np.arange(n)
    tile = row // 128
    return (tile % 2 == 0) & (row % 128 // 16 == tile // 2 % 8)


def few_good_rows(rng: np.random.Generator, query: Floats) -> Floats:
    """40 rows near the query, all of them in the sample; 100 are asked for."""
    rows = rng.standard_normal((N, DIM))
    rows[np.flatnonzero(in_sample(N))[::6][:40]] += 4 * query
    return rows


def as_many_as_asked(rng: np.random.Generator, query: Floats) -> Floats:
    """99 rows in the sample are alike, so the guess is their score; the hundredth is outside."""
    rows = rng.standard_normal((N, DIM))
    rows[np.flatnonzero(in_sample(N))[:99]] = query
    return rows


def sample_is_another_cluster(rng: np.random.Generator, query: Floats) -> Floats:
    """Every row of the sample is nearer than any other; half of them are deleted."""
    rows = rng.standard_normal((N, DIM))
    rows[in_sample(N)] += 4 * query
    return rows


MISLEADING: dict[str, Callable[[np.random.Generator, Floats], Floats]] = {
    "few good rows": few_good_rows,
    "as many as asked": as_many_as_asked,
    "another cluster": sample_is_another_cluster,
}


def built(rows: Floats, threads: int = 2) -> hr.Index:
    n = len(rows)
    return hr.Index.build(
        pa.table({"id": np.arange(n), "at": np.arange(n) % 5}),
        hr.Schema(key="id", cell=None, text=(), vector="embedding", attributes=("at",)),
        vectors={"embedding": rows.astype(np.float32)},
        device="cpu",
        threads=threads,
    )


def replies(index: hr.Index, queries: Floats) -> list[pa.Table]:
    floors = (None, {"embedding": 0.3}, {"embedding": hr.Above(0.99)})
    return [
        index.recall(
            vectors=queries, limit=limit, depth=limit, min_score=floor, filter=kept
        ).to_arrow()
        for limit in (DEPTH, 7)
        for floor in floors
        for kept in (None, hr.Filter(at=(1, 3)))
    ]


def windows(index: hr.Index) -> int:
    return int(index.stats()["segments"][0]["plane"]["embedding"]["windows"])


@pytest.mark.parametrize("world", MISLEADING)
def test_a_guess_that_misleads_changes_no_reply(
    world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    query = rng.standard_normal(DIM)
    rows = MISLEADING[world](rng, query)
    queries = (query + 0.01 * rng.standard_normal((BATCH, DIM))).astype(np.float32)
    index = built(rows)
    if world == "another cluster":
        index.delete(np.flatnonzero(in_sample(N))[::2])
    through_plane = replies(index, queries)
    assert windows(index) > 0
    monkeypatch.setenv("HYRECALL_FRONT_PLANE", "rows")
    assert all(a.equals(b) for a, b in zip(through_plane, replies(index, queries), strict=True))


def test_queries_scan_again_where_and_only_where_the_guess_was_too_high() -> None:
    rng = np.random.default_rng(2)
    query = rng.standard_normal(DIM)
    queries = rng.standard_normal((BATCH, DIM)).astype(np.float32)
    queries[:5] = query
    index = built(few_good_rows(rng, query), threads=1)
    index.recall(vectors=queries, limit=DEPTH, depth=DEPTH)
    # The whole index is one window. Of the others some three in a thousand scan again.
    assert BATCH + 5 <= windows(index) <= BATCH + 8


def test_guesses_hold_on_rows_in_no_order() -> None:
    rng = np.random.default_rng(3)
    rows, queries = rng.standard_normal((20_000, DIM)), rng.standard_normal((1_024, DIM))
    index = built(rows, threads=1)
    for depth in (10, 100):
        before = windows(index)
        index.recall(vectors=queries.astype(np.float32), limit=depth, depth=depth)
        assert windows(index) - before <= 1.02 * 1_024 * 5  # windows of 4,096 rows
