"""Time the stage Around: hybrid queries with it and without it, in turns.

Rows are turns of 5 to 34 words, 25 a thread. One index has one audience, the other one tenants of
1,000 rows each. The first query after a write also numbers the threads of what changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import hyrecall as hr
from bench import THREADS, corpus
from bench.sizes import Size
from bench.turns import OURS, Clock, Turns

DEPTH, K, N_QUERIES, N_SINGLE = 100, 10, 256, 32
A_THREAD, A_TENANT = 25, 1000
AROUND = hr.Around((0.3, 0.15), thread=0.25, length=0.4)
WITH = f"{OURS} with Around"
SCOPES = ("all rows", "own tenant")
CLOCK = Clock()


@dataclass
class Case:
    """Turns as an index, and queries with their scopes."""

    index: hr.Index
    texts: list[str]
    vectors: corpus.Floats
    scope: list[int] | None

    def one(self, at: int, **options: Any) -> hr.QueryHits:
        """Ask one query."""
        scope: dict[str, Any] = {} if self.scope is None else {"scope": self.scope[at]}
        asked: dict[str, Any] = {"limit": K, "depth": DEPTH, **scope, **options}
        return self.index.recall_one(text=self.texts[at], vector=self.vectors[at], **asked)

    def batch(self, **options: Any) -> list[pa.Table]:
        """Ask all queries in one call."""
        scope: dict[str, Any] = {} if self.scope is None else {"scope": self.scope}
        asked: dict[str, Any] = {"limit": K, "depth": DEPTH, **scope, **options}
        return [self.index.recall(text=self.texts, vectors=self.vectors, **asked).to_arrow()]

    def single(self, **options: Any) -> list[pa.Table]:
        """Ask the first queries in a call each."""
        return [self.one(at, **options).to_arrow() for at in range(N_SINGLE)]


def turns_table(n: int, first: int = 0) -> pa.Table:
    """Return the columns of n turns."""
    rows = np.arange(first, first + n)
    texts = corpus.zipf_texts(n, 5, 34).strings
    return pa.table(
        {"id": rows, "tenant": rows // A_TENANT, "thread": rows // A_THREAD, "text": texts}
    )


@pytest.fixture(scope="module", params=SCOPES)
def case(size: Size, request: pytest.FixtureRequest) -> Case:
    n, dim = size.hybrid
    has_tenants = request.param == SCOPES[1]
    schema = hr.Schema(
        key="id", cell="tenant" if has_tenants else None, text="text", vector="v", thread="thread",
        stored=(),
    )  # fmt: skip
    index = hr.Index.build(
        turns_table(n), schema, vectors={"v": corpus.gaussian_rows(n, dim, "turns")},
        analyzer=hr.Analyzer("word"), threads=THREADS,
    )  # fmt: skip
    asking = corpus.generator("asking").integers(n // A_TENANT, size=N_QUERIES)
    texts = [corpus.spell(q) for q in corpus.text_queries(N_QUERIES)]
    vectors = corpus.gaussian_rows(N_QUERIES, dim, "queries")
    return Case(index, texts, vectors, [int(t) for t in asking] if has_tenants else None)


def check_evidence(case: Case, queries: range) -> list[list[int]]:
    """Check every score of some queries by its parts; return their first keys."""
    out = []
    for at in queries:
        table = case.one(at, limit=DEPTH, shaping=(AROUND,)).to_arrow()
        plain = case.one(at, limit=DEPTH).to_arrow()
        fused = dict(zip(table["key"].to_pylist(), table["fused_score"].to_pylist(), strict=True))
        before = dict(zip(plain["key"].to_pylist(), plain["score"].to_pylist(), strict=True))
        for key in fused.keys() & before.keys():
            assert fused[key] == before[key]
        for row in table.to_pylist():
            parts = [row[f"{part}_evidence"] or 0.0 for part in ("neighbour", "thread", "length")]
            assert np.isclose(row["score"], row["fused_score"] + sum(parts))
            least = most = 0.0
            for distance, weight in enumerate(AROUND.neighbours, 1):
                near = [row["key"] - distance, row["key"] + distance]
                near = [key for key in near if key // A_THREAD == row["key"] // A_THREAD]
                least += weight * max([fused.get(key, 0.0) for key in near], default=0.0)
                most += weight * bool(near)
            assert least - 1e-9 <= parts[0] <= most + 1e-9
        out.append(table["key"].to_pylist()[:K])
    return out


def keys_of(tables: list[pa.Table], queries: range) -> list[list[int]]:
    """Return the keys of the first queries of a reply."""
    if len(tables) > 1:
        return [tables[at]["key"].to_pylist() for at in queries]
    (table,) = tables
    query, key = table["query"].to_numpy(), table["key"].to_numpy()
    return [key[query == at].tolist() for at in queries]


@pytest.mark.parametrize("who", [OURS, WITH])
@pytest.mark.parametrize("work", ["batch", "single"])
def test_around(case: Case, work: str, who: str, benchmark: BenchmarkFixture, turns: Turns) -> None:
    n_queries = N_QUERIES if work == "batch" else N_SINGLE
    where = SCOPES[0] if case.scope is None else SCOPES[1]
    n = case.index.stats()["n_docs"]
    benchmark.group = f"around, {where} of {n:,}, {n_queries} queries, {work}"
    benchmark.extra_info.update(kind="around", docs=n, queries=n_queries, k=K)
    ask: Callable[..., list[pa.Table]] = getattr(case, work)
    options: dict[str, Any] = {} if who == OURS else {"shaping": (AROUND,)}
    found = turns.measure(benchmark, who, lambda: ask(**options))
    sample = range(4)
    if who == WITH:
        assert keys_of(found, sample) == check_evidence(case, sample)


@pytest.mark.benchmark(timer=CLOCK)
@pytest.mark.parametrize("who", [OURS, WITH])
def test_around_after_a_write(
    case: Case, who: str, benchmark: BenchmarkFixture, turns: Turns
) -> None:
    """Each round adds one turn to a thread of the index, and then times one query."""
    n, dim = case.index.stats()["n_docs"], case.vectors.shape[1]
    where = SCOPES[0] if case.scope is None else SCOPES[1]
    benchmark.group = f"around, {where} of {size_name(n)}, one query after a write"
    benchmark.extra_info.update(kind="around after a write", docs=n, queries=1, k=K)
    options: dict[str, Any] = {} if who == OURS else {"shaping": (AROUND,)}
    took: list[float] = []

    def run() -> pa.Table:
        key = 10**9 + case.index.stats()["next_seq"]
        turn = turns_table(1).set_column(0, "id", pa.array([key]))
        case.index.add(turn, vectors={"v": np.ones((1, dim), np.float32)})
        begin = CLOCK()
        found = case.one(0, **options).to_arrow()
        took.append(CLOCK() - begin)
        return found

    counted = CLOCK.counting(lambda _: took[-1], run)
    found = turns.measure(benchmark, who, counted, rounds=15, timer=CLOCK)
    assert found.equals(case.one(0, **options).to_arrow())


def size_name(n: int) -> str:
    """Return a number of rows without what was added to it."""
    return f"{n // 1000 * 1000:,}"
