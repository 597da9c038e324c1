"""Scoped recall: each query in its own tenant; the cost must follow the rows in scope."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import hyrecall as hr
from bench import corpus, ours, reference, rivals_dense
from bench.sizes import Size
from bench.targets import ONE_CELL
from bench.turns import OURS, Turns

WINDOW = (250_000, 749_999)  # of created_at, which is uniform in [0, 1,000,000): half of a tenant
N_QUERIES = 256
RIVALS = (
    "numpy, slice a query",
    "numpy, product a tenant",
    "faiss* IDSelectorRange",
    "faiss* IDSelectorArray",
)


@dataclass
class Case:
    """Rows of tenants, and queries of theirs: drawn by row, so large tenants ask more."""

    kind: str
    rows: corpus.Floats
    tenants: corpus.Ints
    times: corpus.Ints
    queries: corpus.Floats
    asking: corpus.Ints
    index: hr.Index
    held: rivals_dense.SortedRows

    def inside(self, query: int) -> corpus.Ints:
        mine = self.tenants == self.asking[query]
        return np.flatnonzero(mine & (self.times >= WINDOW[0]) & (self.times <= WINDOW[1]))


@pytest.fixture(scope="module")
def case(tenants: str, size: Size) -> Case:
    n, dim, n_tenants = size.scoped
    rows = corpus.gaussian_rows(n, dim, "scoped")
    owner = (corpus.uniform_tenants if tenants == "uniform" else corpus.zipf_tenants)(n, n_tenants)
    rng = corpus.generator(f"scoped {tenants}")
    times = rng.integers(0, 1_000_000, size=n)
    index = ours.build(
        n,
        vectors=rows,
        columns={"tenant": owner, "created_at": times},
        cell="tenant",
        cluster="created_at",
    )
    asking = owner[rng.integers(n, size=N_QUERIES)]
    queries = corpus.gaussian_rows(N_QUERIES, dim, "queries")
    return Case(
        tenants,
        rows,
        owner,
        times,
        queries,
        asking,
        index,
        rivals_dense.SortedRows(rows, owner, times),
    )


@pytest.mark.parametrize("who", [OURS, *RIVALS])
def test_own_tenant_and_half_the_time(
    case: Case, who: str, benchmark: BenchmarkFixture, turns: Turns
) -> None:
    k = 10
    at = reference.sample(N_QUERIES)
    expected = []
    for query in at:
        inside = case.inside(int(query))
        found = reference.dense(case.rows[inside], case.queries[query : query + 1], k)
        expected.append(
            reference.Answer(np.where(found.ids >= 0, inside[found.ids], -1), found.scores)
        )
    answer = reference.Answer(
        np.concatenate([a.ids for a in expected]), np.concatenate([a.scores for a in expected])
    )
    run: Callable[[], Any]
    if who == OURS:
        scope = [int(t) for t in case.asking]
        window = hr.Filter(created_at=WINDOW)
        run = lambda: ours.arrays(  # noqa: E731
            case.index.recall(vectors=case.queries, scope=scope, filter=window, limit=k, depth=k), k
        )
    else:
        search: rivals_dense.Scoped
        if who.startswith("numpy"):
            one = rivals_dense.numpy_slices if "slice" in who else rivals_dense.numpy_tenants
            search = one(case.held)
        else:
            index = rivals_dense.faiss_index(case.held.rows)
            search = rivals_dense.faiss_selected(
                index, case.held, "range" if "Range" in who else "array"
            )
        run = lambda: search(case.queries, case.asking, WINDOW, k)  # noqa: E731

    spans = [case.held.span(int(t), WINDOW) for t in case.asking]
    candidates = sum(end - begin for begin, end in spans)
    distinct = sum(end - begin for begin, end in set(spans))
    dim = case.rows.shape[1]
    benchmark.group = (
        f"dense {len(case.rows):,} x {dim}, own tenant ({case.kind}) + half the time, "
        f"{N_QUERIES} queries, k={k}"
    )
    benchmark.extra_info.update(
        kind="scoped",
        docs=len(case.rows),
        dim=dim,
        queries=N_QUERIES,
        k=k,
        tenants=case.kind,
        bytes=distinct * dim * 4,
        limit_bytes=distinct * dim,
        limit_int8_ops=2 * candidates * dim,
        candidates_a_query=candidates / N_QUERIES,
    )
    ids, scores = turns.measure(benchmark, who, run)
    reference.check(answer, ids[at], scores[at])


def test_bm25_in_the_own_tenant(tenants: str, size: Size, benchmark: BenchmarkFixture) -> None:
    n, n_tenants, k = size.texts[-1], size.scoped[2], 10
    texts = corpus.zipf_texts(n)
    owner = (corpus.uniform_tenants if tenants == "uniform" else corpus.zipf_tenants)(n, n_tenants)
    index = ours.build(n, texts=texts.strings, columns={"tenant": owner}, cell="tenant")
    words = corpus.text_queries(size.text_queries)
    queries = [corpus.spell(q) for q in words]
    scope = [int(t) for t in owner[corpus.generator("asking").integers(n, size=len(queries))]]
    at = reference.sample(len(queries))
    bm25 = reference.Bm25(texts)
    parts = [bm25.rank([words[q]], k, of=np.flatnonzero(owner == scope[q])) for q in at]
    answer = reference.Answer(
        np.concatenate([p.ids for p in parts]), np.concatenate([p.scores for p in parts])
    )
    benchmark.group = (
        f"BM25 {n:,} docs, own tenant of {n_tenants:,} ({tenants}), {len(queries):,} queries, k={k}"
    )
    benchmark.extra_info.update(
        who=OURS, kind="bm25 scoped", docs=n, queries=len(queries), k=k, tenants=tenants
    )
    ids, scores = benchmark(
        lambda: ours.arrays(index.recall(text=queries, scope=scope, limit=k, depth=k), k)
    )
    reference.check(answer, ids[at], scores[at], relative=True)


@pytest.mark.parametrize("arms", ["dense", "hybrid"])
def test_many_small_cells(arms: str, size: Size, benchmark: BenchmarkFixture) -> None:
    """Ten documents a cell: a query costs its ten, not the index, and sees its cell whole."""
    n, dim, _ = size.scoped
    k, n_queries = 10, min(1_024, n // 10)
    rows = corpus.gaussian_rows(n, dim, "scoped")
    owner = corpus.uniform_tenants(n, n // 10)
    texts = corpus.zipf_texts(n) if arms == "hybrid" else None
    index = ours.build(
        n,
        vectors=rows,
        texts=texts.strings if texts else None,
        columns={"tenant": owner},
        cell="tenant",
    )
    queries = corpus.gaussian_rows(n_queries, dim, "queries")
    scope = [int(t) for t in owner[corpus.generator("asking").integers(n, size=n_queries)]]
    asked: dict[str, Any] = {"vectors": queries}
    if arms == "hybrid":
        asked["text"] = [corpus.spell(q) for q in corpus.text_queries(n_queries)]
        asked["fusion"] = hr.RRF()

    benchmark.group = (
        f"{arms} {n:,} docs in {n // 10:,} cells of 10, {n_queries:,} own-cell queries"
    )
    benchmark.extra_info.update(
        who=OURS, kind="cells of ten", docs=n, dim=dim, queries=n_queries, k=k, arms=arms
    )
    ids, scores = benchmark(lambda: ours.arrays(index.recall(**asked, scope=scope, limit=k), k))
    for query in reference.sample(n_queries):
        inside = np.flatnonzero(owner == scope[query])
        assert set(ids[query]) == set(inside)
        if arms == "dense":
            row = slice(query, query + 1)
            found = reference.dense(rows[inside], queries[row], k)
            answer = reference.Answer(inside[found.ids], found.scores)
            reference.check(answer, ids[row], scores[row])


@pytest.mark.parametrize("where", ["scattered cells", "one cell"])
@pytest.mark.parametrize("arm", ["dense", "BM25"])
def test_scattered_cells_cost_what_one_cell_costs(
    arm: str, where: str, size: Size, benchmark: BenchmarkFixture, turns: Turns
) -> None:
    """A scope of every tenth small cell, against the same rows in a cell of their own."""
    n, dim, _ = size.scoped
    k, n_queries, n_cells = 10, 32, n // 10
    owner = corpus.uniform_tenants(n, n_cells)
    chosen = np.arange(0, n_cells, 10)
    inside = np.isin(owner, chosen)
    if where == "one cell":
        owner = np.where(inside, 0, owner + 1)
        scope = hr.Scope([0])
    else:
        scope = hr.Scope([int(c) for c in chosen])
    given: dict[str, Any]
    asked: dict[str, Any]
    rows = np.flatnonzero(inside)
    limits: dict[str, int] = {}  # the int8 rows in scope read once, and their products
    at = reference.sample(n_queries)
    if arm == "dense":
        vectors, queries = (
            corpus.gaussian_rows(n, dim, "scoped"),
            corpus.gaussian_rows(n_queries, dim, "queries"),
        )
        given, asked = {"vectors": vectors}, {"vectors": queries}
        wanted = len(rows) * dim
        limits = {"limit_bytes": wanted, "limit_int8_ops": 2 * wanted * n_queries}
        found = reference.dense(vectors[rows], queries[at], k)
        answer = reference.Answer(rows[found.ids], found.scores)
    else:
        texts, words = corpus.zipf_texts(n), corpus.text_queries(n_queries)
        given, asked = {"texts": texts.strings}, {"text": [corpus.spell(q) for q in words]}
        answer = reference.Bm25(texts).rank([words[q] for q in at], k, of=rows)
    index = ours.build(n, **given, columns={"tenant": owner}, cell="tenant")
    benchmark.group = (
        f"{arm} {n:,} docs, a scope of {len(chosen):,} cells of 10, {n_queries} queries, k={k}"
    )
    benchmark.extra_info.update(
        kind="scattered",
        docs=n,
        dim=dim if arm == "dense" else 0,
        queries=n_queries,
        k=k,
        arm=arm,
        **limits,
    )
    ids, scores = turns.measure(
        benchmark,
        OURS if where == "scattered cells" else ONE_CELL,
        lambda: ours.arrays(index.recall(**asked, scope=scope, limit=k, depth=k), k),
    )
    reference.check(answer, ids[at], scores[at], relative=arm == "BM25")
