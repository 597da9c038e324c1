"""BM25 over one audience: a thousand queries of about six words in one call."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import hyrecall as hr
from bench import THREADS, corpus, ours, reference
from bench.lexical_case import LexicalCase
from bench.sizes import Size
from bench.targets import ONE_THREAD
from bench.turns import OURS, Turns

RIVALS = ("bm25s", "tantivy", "PISA", "Lucene")
WEIGHTED = "hyrecall, weight 3"


@pytest.fixture(scope="module")
def case(n_texts: int, size: Size) -> LexicalCase:
    texts = corpus.zipf_texts(n_texts)
    return LexicalCase(texts, corpus.text_queries(size.text_queries), reference.Bm25(texts))


@pytest.mark.parametrize("who", [OURS, *RIVALS, ONE_THREAD])
@pytest.mark.parametrize("threads", sorted({1, THREADS}))
def test_bm25_batch(
    case: LexicalCase, k: int, who: str, threads: int, benchmark: BenchmarkFixture, turns: Turns
) -> None:
    if who == ONE_THREAD and threads == 1:
        pytest.skip("that is ours")
    benchmark.group = (
        f"BM25 {case.texts.n_docs:,} docs, {len(case.words):,} queries, k={k}, "
        f"{threads} thread{'s' * (threads > 1)}"
    )
    benchmark.extra_info["kind"] = "bm25"
    case.measure(who, threads, k, benchmark, turns)


@pytest.fixture(scope="module")
def titled(case: LexicalCase) -> dict[str, hr.Index]:
    """An index of titles and texts; the same with a weight; the same with titles copied."""
    texts = case.texts.strings
    titles = pc.utf8_slice_codeunits(texts, 0, 40)
    columns = {"id": np.arange(len(texts)), "text": texts, "a": titles, "b": titles, "c": titles}
    arms = {
        OURS: hr.Text("a", "text"),
        WEIGHTED: hr.Text("a", "text", weights={"a": 3}),
        "copied": hr.Text("a", "b", "c", "text"),
    }
    schemas = {n: hr.Schema(key="id", cell=None, text=a, stored=()) for n, a in arms.items()}
    return {
        name: hr.Index.build(pa.table(columns), schema, device="cpu", threads=1)
        for name, schema in schemas.items()
    }


@pytest.mark.parametrize("who", [OURS, WEIGHTED])
def test_weights_of_columns(
    case: LexicalCase,
    titled: dict[str, hr.Index],
    k: int,
    who: str,
    benchmark: BenchmarkFixture,
    turns: Turns,
) -> None:
    """A weighted arm takes at most 1.5 times as long as a plain one over the same texts."""
    docs, queries = case.texts.n_docs, case.queries
    benchmark.group = f"weights of columns, {docs:,} docs, {len(queries):,} queries, k={k}"
    benchmark.extra_info.update(kind="weights", docs=docs, queries=len(queries), k=k, threads=1)

    def ask(name: str) -> ours.Reply:
        return ours.arrays(titled[name].recall(text=queries, limit=k, depth=k), k)

    found = turns.measure(benchmark, who, lambda: ask(who))
    if who == WEIGHTED:
        for got, expected in zip(found, ask("copied"), strict=True):
            assert np.array_equal(got, expected)
        assert turns.is_tiny or benchmark.extra_info["ratio"]["median"] <= 1.5


@pytest.mark.parametrize("edits", [1, 2])
def test_fuzzy_word(n_texts: int, edits: int, benchmark: BenchmarkFixture) -> None:
    """One misspelt word over texts of a vocabulary like that of a language, on one thread."""
    rng = np.random.default_rng(5)
    syllables = [a + b for a in "bcdfghklmnprstvw" for b in ("a", "e", "i", "o", "u", "an", "er")]
    vocabulary = sorted(
        {"".join(rng.choice(syllables, rng.integers(2, 6))) for _ in range(n_texts)}
    )
    ranks = rng.zipf(1.1, 12 * n_texts) % len(vocabulary)
    words = np.array(vocabulary)[rng.permutation(len(vocabulary))[ranks]].reshape(n_texts, 12)
    texts = [" ".join(row) for row in words]
    table = pa.table({"id": np.arange(n_texts), "text": texts})
    index = hr.Index.build(
        table, hr.Schema(key="id", cell=None, text="text"), threads=1, device="cpu"
    )
    word = str(words[0, 0])
    asked = hr.Fuzzy(word[1] + word[0] + word[2:], edits)
    benchmark.group = f"a fuzzy word, {n_texts:,} docs, 1 thread"
    benchmark.extra_info.update(who=OURS, kind="fuzzy", docs=n_texts, edits=edits, threads=1)
    benchmark.extra_info["terms"] = len({*words.reshape(-1)})
    index.recall_one(text=asked)  # sorts the terms
    hits = benchmark(index.recall_one, text=asked)
    (leaf,) = hits[0].explain().components[0].terms
    near = (words == word).any(axis=1)
    assert leaf.doc_freq >= near.sum() > 0


def test_the_reference_counts_as_the_definition_says() -> None:
    """The sparse reference equals BM25 written out over four tiny documents."""
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
