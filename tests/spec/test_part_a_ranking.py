"""Rows of part A about what may happen to a ranking, and what it must find."""

import asyncio
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import recipes
from spec.episodes import Stores, episodes, ranked, stores

DB = ("how to make the database faster", "lunch at noon", "postgres index tuning", "faster cars")


@pytest.fixture(scope="module")
def many() -> Stores:
    return stores(200, seed=3)


def test_A36_normalised_scores_can_be_cut_at_a_threshold(many: Stores) -> None:
    plain = recipes.loom.replace(fill=None, on_empty="empty")
    n_first = 0
    for asked in ({}, {"vector": False}, {"text": False}):
        before = many.ask(**asked, recipe=plain, limit=30)
        after = many.ask(**asked, recipe=plain.replace(normalize=True), limit=30)
        for left, right in zip(before, after, strict=True):
            assert left.keys == right.keys
            assert all(0.0 <= hit.score <= 1.0 for hit in right)
            if not right:
                continue
            arms = before.trace.arms
            if len(arms) == 1:
                assert right[0].score == 1.0
                best = left[0].score
                expected = [hit.score / best for hit in left]
                assert [hit.score for hit in right] == pytest.approx(expected, rel=1e-12)
            for hit in right:
                ranks = [hit.arm_rank(arm) for arm in arms]
                if ranks == [1] * len(arms):
                    assert hit.score == 1.0
                    n_first += 1
            strong = [hit.key for hit in right if hit.score >= 0.6]
            assert strong == right.keys[: len(strong)]
    assert n_first > 400


def overlap_scorer(query: str, texts: list[str]) -> list[float]:
    """A scorer from outside: how many letters of the query's set a text has."""
    return [len(set(query) & set(text)) / 10 - len(text) / 1000 for text in texts]


def test_A37_a_cross_encoder_outside_reorders(many: Stores) -> None:
    hits = many.index.recall_one(
        text=many.queries[0], vector=many.query_vectors[0], scope=many.users[0], limit=30,
        recipe=recipes.loom,
    )  # fmt: skip
    given = overlap_scorer(many.queries[0], [hit.text for hit in hits])
    reranked = sorted(zip(given, hits, strict=True), key=lambda pair: -pair[0])[:5]
    expected = [(hit.key, hit.bm25_score, hit.vector_score, score) for score, hit in reranked]
    assert [score for *_, score in expected] == sorted(given, reverse=True)[:5]
    inside = many.index.recall(
        text=many.queries[:1], vectors=many.query_vectors[:1], scope=many.users[0], limit=5,
        recipe=recipes.loom.replace(shaping=(hr.RerankBy(overlap_scorer),)),
    )  # fmt: skip
    scores = inside.to_arrow()["rerank_score"].to_pylist()
    got = [(hit.key, hit.bm25_score, hit.vector_score) for hit in inside[0]]
    assert [(*one, score) for one, score in zip(got, scores, strict=True)] == expected


def rerank(function: Any, **options: Any) -> hr.Hits:
    index = episodes(["tea b", "tea cc", "tea ddd", "tea eeee"])
    recipe = recipes.loom.replace(shaping=(hr.RerankBy(function, **options),))
    return index.recall(text=["tea"], scope="alice", recipe=recipe)


async def longest_later(query: str, texts: list[str]) -> list[float]:
    await asyncio.sleep(0)
    return longest(query, texts)


def longest(query: str, texts: list[str]) -> list[float]:
    return [float(len(text)) for text in texts]


@pytest.mark.parametrize("function", [longest, longest_later])
def test_A38_a_reranker_sets_its_score_and_the_order(function: Any) -> None:
    hits = rerank(function)
    assert hits[0].keys == ["e3", "e2", "e1", "e0"]
    assert hits.to_arrow()["rerank_score"].to_pylist() == [8.0, 7.0, 6.0, 5.0]
    top = rerank(function, window=2)  # only the first two, which are the newest
    assert top[0].keys == ["e3", "e2", "e1", "e0"]
    assert top.to_arrow()["rerank_score"].to_pylist() == [8.0, 7.0, None, None]
    turned = rerank(lambda query, texts: [-score for score in longest(query, texts)], window=2)
    assert turned[0].keys == ["e2", "e3", "e1", "e0"]


def fails(query: str, texts: list[str]) -> list[float]:
    raise RuntimeError("no model")


def sleeps(query: str, texts: list[str]) -> list[float]:
    time.sleep(0.3)
    return longest(query, texts)


async def sleeps_later(query: str, texts: list[str]) -> list[float]:
    await asyncio.sleep(5)
    return longest(query, texts)


@pytest.mark.parametrize("function", [fails, sleeps, sleeps_later, lambda query, texts: [1.0]])
def test_A38_a_reranker_that_fails_or_is_late_keeps_the_order(function: Any) -> None:
    started = time.perf_counter()
    hits = rerank(function, timeout="50ms")
    assert time.perf_counter() - started < 2
    assert hits[0].keys == ["e3", "e2", "e1", "e0"]  # the newest first, as BM25 ties
    assert hits.to_arrow()["rerank_score"].to_pylist() == [None] * 4
    assert len(hits.trace.stages[0].notes) == 1


# Three clones at cosine .9 from the query, and one at .6 from it and .5 from them.
Y = (0.5 - 0.9 * 0.6) / np.sqrt(1 - 0.9**2)
ODD = [0.6, Y, np.sqrt(1 - 0.6**2 - Y**2)]
CLONES = [[0.9, np.sqrt(1 - 0.9**2), 0.0]] * 3


@pytest.mark.parametrize("relevance", ["raw", "max"])
def test_A39_mmr_puts_the_odd_one_second(relevance: Any) -> None:
    index = episodes(["a", "b", "c", "d"], [*CLONES, ODD])

    def ask(diversity: float) -> hr.QueryHits:
        stage = hr.MMR(1 - diversity, relevance=relevance)
        return index.recall_one(vector=[1, 0, 0], scope="alice", shaping=(stage,))

    plain = index.recall_one(vector=[1, 0, 0], scope="alice")
    assert [round(hit.score, 6) for hit in plain] == [0.9, 0.9, 0.9, 0.6]
    assert ask(0.0).keys == plain.keys == ["e0", "e1", "e2", "e3"]
    assert ask(0.5).keys[:2] == ["e0", "e3"]
    for diversity in (0.3, 0.7, 1.0):
        assert ask(diversity).keys[0] == "e0"
    for bad in (-0.1, 1.1):
        with pytest.raises(ValueError, match="relevance_weight"):
            ask(bad)


def invoices() -> tuple[hr.Index, Any]:
    """10,000 invoices, and a query vector that prefers hundreds of others to INV-2026-0042."""
    rng = np.random.default_rng(40)
    n = 10_000
    vectors = rng.standard_normal((n, 16)).astype(np.float32)
    query = rng.standard_normal(16).astype(np.float32)
    vectors[0] += 20 * query  # the arm is sure of another one
    vectors[42] = query + 2 * rng.standard_normal(16)
    texts = [f"invoice INV-{2020 + at // 1500}-{at % 1500:04} was paid" for at in range(n)]
    place = texts.index("invoice INV-2026-0042 was paid")
    vectors[[42, place]] = vectors[[place, 42]]
    table = pa.table({"id": np.arange(n), "text": texts})
    schema = hr.Schema(key="id", cell=None, text="text", vector="v")
    return hr.Index.build(table, schema, vectors={"v": vectors}), query


def test_A40_an_identifier_is_found_among_its_likes() -> None:
    index, query = invoices()
    target = "invoice INV-2026-0042 was paid"
    misled = index.recall_one(vector=query, limit=1)[0]
    assert misled.text != target
    assert misled.score > 0.9
    found = index.recall_one(text="INV-2026-0042", vector=query, recipe=recipes.default)
    assert found[0].text == target
    assert found[0].arm_rank("v") is None  # far behind the first hundred
    exact = hr.Phrase("INV-2026-0042")
    joined = index.recall_one(text=exact, vector=query, fusion=hr.RRF(), depth=10_000)
    assert joined[0].text == target
    assert joined[0].arm_rank("v") > 500


def test_A41_a_paraphrase_is_found_by_its_vector_only() -> None:
    vectors = [[0.8, 0.6, 0], [0, 0, 1], [0.95, 0.05, 0.3], [0.3, 0.9, 0.3]]
    index = episodes(DB, vectors)
    query = "speed up queries"
    assert not set(query.split()) & set(DB[2].split())
    hybrid = index.recall_one(text=query, vector=[1, 0.1, 0.2], scope="alice", recipe=recipes.loom)
    assert "e2" in hybrid.keys[:3]
    lexical = recipes.loom.replace(fill=None, on_empty="empty")
    assert index.recall_one(text=query, scope="alice", recipe=lexical).keys == []
    assert ranked(index.recall_one(text="postgres", scope="alice", recipe=lexical))[0][0] == "e2"
