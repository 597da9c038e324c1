"""BM25 over one audience: a thousand queries of about six words in one call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import THREADS, corpus, ours, reference, rivals_lexical
from bench.sizes import Size
from bench.targets import ONE_THREAD
from bench.turns import OURS, Turns

RIVALS = ("bm25s", "tantivy")


@dataclass
class Case:
    """Texts, queries, and the reference over them."""

    texts: corpus.Texts
    words: list[list[int]]
    bm25: reference.Bm25
    engines: dict[tuple[str, int], Any] = field(default_factory=dict)  # made when first asked

    def engine(self, who: str, threads: int) -> Any:
        """Return our index, or a rival's (one for any number of threads)."""
        at = (who, threads if who == OURS else THREADS)
        if at not in self.engines:
            if who == "bm25s":
                self.engines[at] = rivals_lexical.bm25s_index(self.texts)
                return self.engines[at]
            strings = self.texts.strings
            if who == OURS:
                self.engines[at] = ours.build(self.texts.n_docs, texts=strings, threads=threads)
            else:
                self.engines[at] = rivals_lexical.tantivy_index(strings.to_pylist(), THREADS)
        return self.engines[at]

    @property
    def queries(self) -> list[str]:
        return [corpus.spell(q) for q in self.words]


@pytest.fixture(scope="module")
def case(n_texts: int, size: Size) -> Case:
    texts = corpus.zipf_texts(n_texts)
    return Case(texts, corpus.text_queries(size.text_queries), reference.Bm25(texts))


@pytest.mark.parametrize("who", [OURS, *RIVALS, ONE_THREAD])
@pytest.mark.parametrize("threads", sorted({1, THREADS}))
def test_bm25_batch(
    case: Case, k: int, who: str, threads: int, benchmark: BenchmarkFixture, turns: Turns
) -> None:
    if who == ONE_THREAD and threads == 1:
        pytest.skip("that is ours")
    n, queries = case.texts.n_docs, case.queries
    at = reference.sample(len(queries))
    lengths = rivals_lexical.rounded_lengths(case.bm25.lengths) if who == "tantivy" else None
    answer = case.bm25.rank([case.words[i] for i in at], k, lengths=lengths)

    if who in (OURS, ONE_THREAD):
        index = case.engine(OURS, threads if who == OURS else 1)

        def run() -> ours.Reply:
            return ours.arrays(index.recall(text=queries, limit=k, depth=k), k)
    else:
        if who == "bm25s":
            search = rivals_lexical.bm25s_searcher(case.engine(who, threads), threads)
        else:
            search = rivals_lexical.tantivy_searcher(case.engine(who, threads), threads)

        def run() -> ours.Reply:
            return search(queries, k)

    benchmark.group = (
        f"BM25 {n:,} docs, {len(queries):,} queries, k={k}, {threads} thread{'s' * (threads > 1)}"
    )
    benchmark.extra_info.update(
        kind="bm25",
        docs=n,
        queries=len(queries),
        k=k,
        threads=threads,
        postings=case.bm25.n_postings(case.words),
    )
    if who == OURS:
        benchmark.extra_info["bytes"] = ours.nbytes(case.engine(who, threads))
    ids, scores = (part[at] for part in turns.measure(benchmark, who, run))
    if who == "tantivy":
        ids = rivals_lexical.tantivy_rows(case.engine(who, threads), ids)
    reference.check(answer, ids, scores, relative=True)


def test_the_reference_counts_as_the_definition_says() -> None:
    """The sparse reference equals BM25 written out over four tiny documents."""
    import numpy as np

    documents = [[0, 0, 1], [1, 2], [2, 2, 2, 0], [3]]
    texts = corpus.Texts(np.concatenate(documents).astype(np.int32), np.array([0, 3, 5, 9, 10]))
    mean = 10 / 4

    def score(query: list[int], document: list[int]) -> float:
        total = 0.0
        for term in query:
            df = sum(term in d for d in documents)
            tf = document.count(term)
            norm = 1.2 * (0.25 + 0.75 * len(document) / mean)
            total += np.log(1 + (4 - df + 0.5) / (df + 0.5)) * tf / (tf + norm)
        return total

    answer = reference.Bm25(texts).rank([[0, 2]], 4)
    expected = sorted(((score([0, 2], d), -i) for i, d in enumerate(documents)), reverse=True)
    assert answer.ids[0].tolist() == [-i if s > 0 else -1 for s, i in expected]
    assert answer.scores[0, :3] == pytest.approx([s for s, _ in expected[:3]], rel=1e-12)
