"""Choosing ten of a pool of a hundred by maximal marginal relevance, for a batch of queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import hyrecall as hr
from bench import corpus, ours, reference
from bench.rivals_dense import one_blas_thread
from bench.sizes import Size
from bench.turns import OURS, Clock, Turns

POOL, PICK, WEIGHT = 100, 10, 0.7
N_DOCS = 20_000
CLOCK = Clock()  # counts of ours the stage alone
Ids = npt.NDArray[np.int64]


@dataclass
class Case:
    """Rows, queries, and each query's pool: ids and relevances, best first."""

    rows: corpus.Floats
    queries: corpus.Floats
    index: hr.Index
    ids: Ids
    relevance: npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def case(size: Size) -> Case:
    n_queries, dim = size.mmr
    rows = corpus.clustered_rows(N_DOCS, dim)
    queries = corpus.clustered_rows(n_queries, dim, "queries")
    index = ours.build(N_DOCS, vectors=rows)
    ids, scores = ours.arrays(index.recall(vectors=queries, limit=POOL, depth=POOL), POOL)
    return Case(rows, queries, index, ids, scores / scores[:, :1])


def incremental(rows: corpus.Floats, ids: Ids, relevance: npt.NDArray[np.float64]) -> Ids:
    """Gather the pool once; each pick brings the largest similarities up to date by a product."""
    out = np.empty((len(ids), PICK), np.int64)
    for query, pool in enumerate(ids):
        held = rows[pool]
        value = (WEIGHT * relevance[query]).astype(np.float32)
        nearest = np.zeros(POOL, np.float32)
        left = np.ones(POOL, bool)
        at = 0  # the best of the list comes first
        for place in range(PICK):
            out[query, place] = pool[at]
            left[at] = False
            np.maximum(nearest, held @ held[at], out=nearest)
            at = int(np.argmax(np.where(left, value - (1 - WEIGHT) * nearest, -np.inf)))
    return out


def by_definition(case: Case, query: int) -> tuple[Ids, npt.NDArray[np.float64]]:
    """Return picks and their values in float64, from the whole matrix of similarities."""
    held = case.rows[case.ids[query]].astype(np.float64)
    held /= np.linalg.norm(held, axis=1, keepdims=True)
    similarity = held @ held.T
    chosen: list[int] = []
    values = []
    for _ in range(PICK):
        nearest = similarity[:, chosen].max(axis=1).clip(0) if chosen else np.zeros(POOL)
        value = WEIGHT * case.relevance[query] - (1 - WEIGHT) * nearest
        value[chosen] = -np.inf
        at = 0 if not chosen else int(np.argmax(value))
        chosen.append(at)
        values.append(value[at])
    return case.ids[query][chosen], np.array(values)


def seconds_of_the_stage(hits: hr.Hits) -> float:
    return hits.trace.stages[0].milliseconds / 1e3


@pytest.mark.benchmark(timer=CLOCK)
@pytest.mark.parametrize("who", [OURS, "numpy, incremental loop"])
def test_mmr(case: Case, who: str, benchmark: BenchmarkFixture, turns: Turns) -> None:
    """Both start from the ranked pools; of ours, the time of the stage is read off the trace."""
    n_queries, dim = case.queries.shape

    def ask() -> hr.Hits:
        return case.index.recall(
            vectors=case.queries, limit=PICK, depth=POOL, shaping=(hr.MMR(WEIGHT),)
        )

    def loop() -> Ids:
        with one_blas_thread():  # its best: two threads stall on products this small
            return incremental(case.rows, case.ids, case.relevance)

    benchmark.group = f"MMR, {n_queries:,} queries, pool {POOL}, pick {PICK}, d={dim}"
    benchmark.extra_info.update(kind="mmr", docs=N_DOCS, dim=dim, queries=n_queries)
    run = CLOCK.counting(seconds_of_the_stage, ask) if who == OURS else loop
    reply = turns.measure(benchmark, who, run, timer=CLOCK)
    ids = ours.arrays(reply, PICK)[0] if who == OURS else reply
    at = reference.sample(n_queries)
    differ = sum(not np.array_equal(ids[query], by_definition(case, int(query))[0]) for query in at)
    assert differ <= len(at) // 8, "picks differ beyond rounding"
