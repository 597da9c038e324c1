"""BM25 and cosine joined by RRF: a batch in one call, against separate libraries plus RRF."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import hyrecall as hr
from bench import THREADS, corpus, grown, ours, reference, rivals_dense, rivals_lexical
from bench.sizes import Size
from bench.turns import OURS, Turns

DEPTH, K, N_QUERIES, RANK_CONSTANT = 100, 10, 256, 60


@dataclass
class Case:
    """Rows with texts, and queries with both."""

    rows: corpus.Floats
    texts: corpus.Texts
    queries: corpus.Floats
    words: list[list[int]]
    data: str = ""  # kind of rows, where they are not Gaussian

    @property
    def strings(self) -> list[str]:
        return [corpus.spell(q) for q in self.words]


@pytest.fixture(scope="module")
def case(size: Size) -> Case:
    n, dim = size.hybrid
    queries = corpus.gaussian_rows(N_QUERIES, dim, "queries")
    return Case(
        corpus.gaussian_rows(n, dim, "hybrid"),
        corpus.zipf_texts(n),
        queries,
        corpus.text_queries(N_QUERIES),
    )


@pytest.fixture(scope="module")
def grown_case(size: Size) -> Case:
    n, _ = size.hybrid
    return Case(
        grown.rows(n),
        corpus.zipf_texts(n),
        grown.queries(N_QUERIES),
        corpus.text_queries(N_QUERIES),
        grown.named("grown"),
    )


def rrf(lists: list[np.ndarray], k: int) -> ours.Reply:
    """Join ranked lists as a Python user would: a dict a query."""
    n_queries = len(lists[0])
    ids = np.full((n_queries, k), -1, np.int64)
    scores = np.full((n_queries, k), -np.inf)
    for query in range(n_queries):
        sums: dict[int, float] = defaultdict(float)
        for ranked in lists:
            for rank, doc in enumerate(ranked[query].tolist(), 1):
                if doc >= 0:
                    sums[doc] += 1.0 / (RANK_CONSTANT + rank)
        best = sorted(sums.items(), key=lambda item: (-item[1], item[0]))[:k]
        ids[query, : len(best)] = [doc for doc, _ in best]
        scores[query, : len(best)] = [score for _, score in best]
    return ids, scores


def joined(arms: Sequence[reference.Answer], who: str) -> reference.Answer:
    """Join the arms of the reference: ours give equal scores one rank, RRF by place does not."""
    if who != OURS:
        return reference.Answer(*rrf([arm.ids for arm in arms], K))
    n_queries = len(arms[0].ids)
    ids, scores = np.full((n_queries, K), -1, np.int64), np.full((n_queries, K), -np.inf)
    for query in range(n_queries):
        sums: dict[int, float] = defaultdict(float)
        for arm in arms:
            reached = arm.scores[query].astype(np.float32)
            for doc, score in zip(arm.ids[query].tolist(), reached, strict=True):
                if doc >= 0:
                    sums[doc] += 1.0 / (RANK_CONSTANT + 1 + np.count_nonzero(reached > score))
        best = sorted(sums.items(), key=lambda item: (-item[1], item[0]))[:K]
        ids[query, : len(best)] = [doc for doc, _ in best]
        scores[query, : len(best)] = [score for _, score in best]
    return reference.Answer(ids, scores)


def check_fused(answer: reference.Answer, reply: ours.Reply, at: corpus.Ints, who: str) -> None:
    """Fused scores are sums of ranks: a tie inside an arm moves them; only ours go by row."""
    assert np.array_equal(reply[0][at] >= 0, answer.ids >= 0)
    close = (
        np.abs(np.where(answer.ids >= 0, reply[1][at] - answer.scores, 0.0)) <= reference.TOLERANCE
    )
    allowed = 0.98 if who == OURS else 0.8
    assert close.mean() >= allowed, f"{1 - close.mean():.1%} of the fused scores differ"


def _padded(ids: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rest = (0, DEPTH - len(ids[:DEPTH]))
    return (
        np.pad(ids[:DEPTH], rest, constant_values=-1),
        np.pad(scores[:DEPTH], rest, constant_values=-np.inf),
    )


@pytest.mark.parametrize("who", [OURS, "bm25s + faiss* + RRF", "tantivy + faiss* + RRF"])
def test_hybrid_batch(case: Case, who: str, benchmark: BenchmarkFixture, turns: Turns) -> None:
    measure_batch(case, who, benchmark, turns)


@pytest.mark.parametrize("who", [OURS, "bm25s + faiss* + RRF"])
def test_hybrid_batch_over_grown_rows(
    grown_case: Case, who: str, benchmark: BenchmarkFixture, turns: Turns
) -> None:
    measure_batch(grown_case, who, benchmark, turns)


def measure_batch(case: Case, who: str, benchmark: BenchmarkFixture, turns: Turns) -> None:
    """Time one call with all queries over all rows, and hold a sample of it to the reference."""
    n, dim = case.rows.shape
    at = reference.sample(N_QUERIES)
    lengths = np.diff(case.texts.offsets)
    bm25 = reference.Bm25(case.texts).rank(
        [case.words[q] for q in at],
        DEPTH,
        lengths=rivals_lexical.rounded_lengths(lengths) if "tantivy" in who else None,
    )
    dense = reference.dense(case.rows, case.queries[at], DEPTH)
    answer = joined([bm25, dense], who)
    strings = case.strings
    if who == OURS:
        index = ours.build(n, vectors=case.rows, texts=case.texts.strings)

        def run() -> ours.Reply:
            hits = index.recall(
                text=strings, vectors=case.queries, limit=K, depth=DEPTH, fusion=hr.RRF()
            )
            return ours.arrays(hits, K)
    else:
        near = rivals_dense.faiss_searcher(case.rows)
        if "bm25s" in who:
            find = rivals_lexical.bm25s_searcher(rivals_lexical.bm25s_index(case.texts), THREADS)
        else:
            tantivy = rivals_lexical.tantivy_index(
                case.texts.strings.to_pylist(), 1
            )  # one segment: doc = row
            find = rivals_lexical.tantivy_searcher(tantivy, THREADS)
            assert tantivy.searcher().num_segments == 1

        def run() -> ours.Reply:
            return rrf([find(strings, DEPTH)[0], near(case.queries, DEPTH)[0]], K)

    rows = f"{n:,} x {dim} {case.data}".strip()
    benchmark.group = f"hybrid {rows}, {N_QUERIES} queries, depth {DEPTH}, k={K}, unscoped"
    if case.data:
        benchmark.extra_info["data"] = case.data
    benchmark.extra_info.update(
        kind="hybrid",
        docs=n,
        dim=dim,
        queries=N_QUERIES,
        k=K,
        limit_bytes=n * dim,
        limit_int8_ops=2 * n * dim * N_QUERIES,
    )
    check_fused(answer, turns.measure(benchmark, who, run), at, who)


@pytest.mark.parametrize("who", [OURS, "bm25s + faiss* IDSelectorRange + RRF"])
def test_hybrid_in_the_own_tenant(
    case: Case, who: str, size: Size, benchmark: BenchmarkFixture, turns: Turns
) -> None:
    """The rival scores every text, then masks: its BM25 has all tenants' statistics."""
    n, dim = case.rows.shape
    owner = corpus.uniform_tenants(n, size.scoped[2])
    asking = owner[corpus.generator("asking").integers(n, size=N_QUERIES)]
    at = reference.sample(N_QUERIES)
    strings = case.strings
    if who == OURS:
        index = ours.build(
            n, vectors=case.rows, texts=case.texts.strings, columns={"tenant": owner}, cell="tenant"
        )
        scope = [int(t) for t in asking]

        def run() -> ours.Reply:
            hits = index.recall(
                text=strings, vectors=case.queries, scope=scope, limit=K, depth=DEPTH,
                fusion=hr.RRF(),
            )  # fmt: skip
            return ours.arrays(hits, K)
    else:
        held = rivals_dense.SortedRows(case.rows, owner, np.zeros(n, np.int64))
        near = rivals_dense.faiss_selected(rivals_dense.faiss_index(held.rows), held, "range")
        bm25s = rivals_lexical.bm25s_index(case.texts)
        masks = {int(t): (owner == t).astype(np.float32) for t in np.unique(asking)}

        def run() -> ours.Reply:
            lists = []
            for text, tenant in zip(strings, asking, strict=True):
                found, scores = bm25s.retrieve(
                    [text.split()],
                    k=DEPTH,
                    n_threads=1,
                    show_progress=False,
                    weight_mask=masks[int(tenant)],
                )
                lists.append(np.where(scores[0] > 0, found[0].astype(np.int64), -1))
            return rrf([np.stack(lists), near(case.queries, asking, (0, 0), DEPTH)[0]], K)

    bm25 = reference.Bm25(case.texts)
    lexical, near_rows = [], []
    for query in at:
        mine = np.flatnonzero(owner == asking[query])
        if who == OURS:
            found = bm25.rank([case.words[query]], DEPTH, of=mine)
            is_mine = found.ids[0] >= 0
        else:
            found = bm25.rank([case.words[query]], n)
            is_mine = (found.ids[0] >= 0) & (owner[found.ids[0]] == asking[query])
        lexical.append(_padded(found.ids[0][is_mine], found.scores[0][is_mine]))
        near_found = reference.dense(case.rows[mine], case.queries[query : query + 1], DEPTH)
        is_row = near_found.ids[0] >= 0
        near_rows.append(_padded(mine[near_found.ids[0][is_row]], near_found.scores[0][is_row]))
    arms = [
        reference.Answer(np.stack([ids for ids, _ in arm]), np.stack([scores for _, scores in arm]))
        for arm in (lexical, near_rows)
    ]
    answer = joined(arms, who)

    benchmark.group = (
        f"hybrid {n:,} x {dim}, {N_QUERIES} queries, depth {DEPTH}, k={K}, "
        f"own tenant of {size.scoped[2]:,}"
    )
    benchmark.extra_info.update(kind="hybrid scoped", docs=n, dim=dim, queries=N_QUERIES, k=K)
    check_fused(answer, turns.measure(benchmark, who, run), at, who)
