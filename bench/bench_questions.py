"""BM25 for questions as agents ask them, stop words included, and for frequent words alone."""

from __future__ import annotations

import time

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import THREADS, corpus, ours, questions, reference, row_order
from bench.lexical_case import LexicalCase
from bench.sizes import Size
from bench.turns import OURS, Turns

# What is asked, on which texts: (kind, threads).
ASKED = {"natural, real": 1, "natural, zipf": 1, "frequent": THREADS}


@pytest.fixture(scope="module", params=ASKED)
def asked(request: pytest.FixtureRequest, size: Size) -> tuple[str, LexicalCase]:
    """Return a case and its name."""
    real, drawn, frequent = size.questions
    if request.param == "frequent":
        texts, words = questions.frequent_texts(frequent), questions.frequent_queries(size.asked)
        return "frequent words", LexicalCase(texts, words, reference.Bm25(texts))
    if request.param == "natural, real":
        texts, which = questions.real_texts(real)
    else:
        texts, which = corpus.zipf_texts(drawn), "zipf words"
    words = questions.natural_questions(texts, size.asked)
    return f"natural questions, {which}", LexicalCase(texts, words, reference.Bm25(texts))


def named(asked: tuple[str, LexicalCase]) -> str:
    name, case = asked
    return f"BM25 {case.texts.n_docs:,} docs, {len(case.words):,} {name}"


@pytest.mark.parametrize("who", [OURS, "bm25s", "tantivy", "PISA", "Lucene"])
def test_questions_in_one_call(
    asked: tuple[str, LexicalCase], k: int, who: str, benchmark: BenchmarkFixture, turns: Turns
) -> None:
    name, case = asked
    threads = THREADS if name.startswith("frequent") else 1
    benchmark.group = f"{named(asked)}, k={k}, {threads} thread{'s' * (threads > 1)}"
    benchmark.extra_info.update(kind="questions", asked=name)
    case.measure(who, threads, k, benchmark, turns)


def test_one_question_a_call(asked: tuple[str, LexicalCase], benchmark: BenchmarkFixture) -> None:
    """How evenly single calls answer: the 99th percentile beside the median."""
    name, case = asked
    index, k = case.engine(OURS, THREADS), 10
    queries = case.queries

    def each() -> list[float]:
        times = []
        for query in queries:
            begin = time.perf_counter()
            index.recall_one(text=query, limit=k, depth=k)
            times.append(time.perf_counter() - begin)
        return times

    benchmark.group = f"{named(asked)}, one a call, k={k}"
    p50, p99 = np.percentile(np.array(benchmark(each)) * 1e6, [50, 99])
    benchmark.extra_info.update(
        who=OURS,
        kind="one question a call",
        asked=name,
        docs=case.texts.n_docs,
        queries=len(queries),
        k=k,
        p50_us=round(float(p50), 1),
        p99_us=round(float(p99), 1),
        p99_over_p50=round(float(p99 / p50), 2),
    )
    at = reference.sample(len(queries))
    answer = case.bm25.rank([case.words[i] for i in at], k)
    found = [ours.arrays(index.recall(text=[queries[i]], limit=k, depth=k), k) for i in at]
    ids, scores = (np.concatenate(parts) for parts in zip(*found, strict=True))
    reference.check(answer, ids, scores, relative=True)


def test_questions_take_the_way_that_leaves_words_out(size: Size) -> None:
    """A scan that may leave words out first makes bits of the frequent ones, which take memory."""
    texts = corpus.zipf_texts(size.questions[1])
    index = ours.build(texts.n_docs, texts=texts.strings)

    def bytes_after(asked: list[str]) -> int:
        index.recall(text=asked, limit=10, depth=10)
        return ours.nbytes(index)

    before = bytes_after([corpus.word(0)])
    assert bytes_after([corpus.word(1)]) == before  # of one word none can be left out
    asked = [corpus.spell(words) for words in questions.natural_questions(texts, 8)]
    assert bytes_after(asked) > before


def test_natural_questions_hold_the_words_of_a_text() -> None:
    """A question's words are in one text, and frequent words are among them."""
    texts = corpus.zipf_texts(200)
    for question in questions.natural_questions(texts, 50):
        held = [
            set(texts.tokens[texts.offsets[i] : texts.offsets[i + 1]].tolist()) >= set(question)
            for i in range(texts.n_docs)
        ]
        assert any(held)
    drawn = questions.natural_questions(texts, 50)
    assert np.mean([word < 50 for question in drawn for word in question]) > 0.2


def test_bisection_puts_texts_of_a_topic_side_by_side() -> None:
    """Four topics of fifty words each, dealt out in turns: each becomes a quarter of the rows."""
    rng = corpus.generator("topics")
    topics = np.arange(256) % 4
    tokens = rng.integers(50, size=(256, 20)) + 50 * topics[:, None]
    texts = corpus.Texts(tokens.astype(np.int32).ravel(), np.arange(0, 256 * 20 + 1, 20))
    rows = row_order.bisection(texts, leaf_rows=64)
    assert sorted(rows) == list(range(256))
    of_quarters = topics[rows].reshape(4, 64)
    assert (of_quarters == of_quarters[:, :1]).all()


def test_minhash_puts_equal_texts_side_by_side() -> None:
    """Texts that are repeated in turns stand one after the other, with their first row first."""
    texts = corpus.zipf_texts(40, name="repeated texts")
    parts = [texts.tokens[a:b] for a, b in zip(texts.offsets, texts.offsets[1:], strict=False)] * 3
    offsets = np.cumsum([0, *map(len, parts)])
    rows = row_order.minhash(corpus.Texts(np.concatenate(parts), offsets)).reshape(40, 3)
    assert (rows == rows[:, :1] + [0, 40, 80]).all()
