"""Rows of part B about joining lists, ties, exactness, and what counts as a vector."""

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import recipes
from oracle.arithmetic import cosines
from oracle.bm25 import LUCENE
from oracle.documents import Row, Shape
from oracle.recall import Oracle
from oracle.words import Words
from seams import Dense, Lexical, Recipe
from spec.episodes import NOW, WORDS, Stores, stores, times


@pytest.fixture(scope="module")
def many() -> Stores:
    return stores(200, seed=4)


def joined(many: Stores, fusion: Any, **options: Any) -> hr.Hits:
    options = {"recipe": None, "fusion": fusion, "limit": 60} | options
    return many.ask(**options)


def crossed() -> hr.Index:
    """Words rank a, b, c; vectors b, a, d."""
    table = pa.table({"id": list("abcd"), "text": ["t t t", "t t x", "t x x x x", "x"]})
    schema = hr.Schema(key="id", cell=None, text="text", vector="v")
    rows = np.array([[1, 0.4], [1, 0.2], [-0.1, -1], [0.2, 1]], np.float32)
    return hr.Index.build(table, schema, vectors={"v": rows}, analyzer=hr.Analyzer("word"))


def test_B09_reciprocal_ranks_from_1_with_60() -> None:
    hits = crossed().recall_one(text="t", vector=[1, 0], min_score={"v": 0.0}, fusion=hr.RRF())
    ranks = {hit.key: (hit.arm_rank("text"), hit.arm_rank("v")) for hit in hits}
    assert ranks == {"a": (1, 2), "b": (2, 1), "c": (3, None), "d": (None, 3)}
    scores = {hit.key: hit.score for hit in hits}
    assert scores["a"] == scores["b"] == 1 / 61 + 1 / 62
    assert scores["c"] == scores["d"] == 1 / 63
    assert [round(scores[key], 6) for key in "ac"] == [0.032522, 0.015873]


def test_B10_weighted_reciprocal_ranks(many: Stores) -> None:
    weights = {"text": 0.3, "v": 1.7}
    for hits in joined(many, hr.RRF(weights)):
        for hit in hits:
            terms = [
                weight / (60 + rank)
                for arm, weight in weights.items()
                if (rank := hit.arm_rank(arm)) is not None
            ]
            assert hit.score == sum(sorted(terms, reverse=True))
    for arm, asked in (("v", {"vector": False}), ("text", {"text": False})):
        out = joined(many, hr.RRF({arm: 0.0}))
        without = joined(many, hr.RRF(), **asked)
        names = ("query", "rank", "key", "score")
        assert out.to_arrow().select(names).equals(without.to_arrow().select(names))
        assert out.n_hits > 500


def reference(
    scores: dict[str, dict[Any, float | None]], kind: str, scaled: bool
) -> dict[Any, float]:
    """The largest or the sum of the arms' scores; scaled from their lowest, 0, to their highest. An
    arm that lists nothing has no scores here.
    """
    out: dict[Any, list[float]] = {}
    for of_arm in scores.values():
        known = [score for score in of_arm.values() if score is not None]
        low, high = min(known, default=0.0), max(known, default=0.0)
        for key, score in of_arm.items():
            value = 0.0 if score is None else float(score)
            if scaled and score is not None:
                value = 1.0 if low == high else (score - low) / (high - low)
            out.setdefault(key, []).append(value)
    return {key: max(values) if kind == "max" else sum(values) for key, values in out.items()}


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize(("kind", "fusion"), [("max", hr.Max), ("sum", hr.WeightedSum)])
def test_B11_the_largest_and_sums_of_scores(
    many: Stores, kind: str, fusion: Any, *, scaled: bool
) -> None:
    hits = joined(many, fusion(normalize="minmax" if scaled else "none"))
    assert hits.n_hits > 2000
    n_blank = 0
    for one in hits:
        listing = [arm for arm in ("text", "v") if any(hit.arm_rank(arm) for hit in one)]
        arms = {
            arm: {hit.key: hit.arm_score(arm) if arm in listing else None for hit in one}
            for arm in ("text", "v")
        }
        n_blank += len(listing) == 1
        expected = reference(arms, kind, scaled=scaled)
        assert {hit.key: hit.score for hit in one} == pytest.approx(expected, rel=1e-12)
        assert [hit.score for hit in one] == sorted((h.score for h in one), reverse=True)
    assert n_blank > 5


def test_B11_weights_of_a_sum(many: Stores) -> None:
    weights = {"text": 0.25, "v": 0.75}
    for one in joined(many, hr.WeightedSum(weights, normalize="none")):
        for hit in one:
            terms = [weight * (hit.arm_score(arm) or 0.0) for arm, weight in weights.items()]
            assert hit.score == pytest.approx(sum(terms), rel=1e-12)


PRESETS = {
    "loom": (recipes.loom, "word"),
    "hypergraph": (recipes.hypergraph.without_graphs().replace(more=(), on_no_match=()), "unicode"),
    "l0": (recipes.l0, "unicode61"),
    "honeycomb": (recipes.honeycomb, "unicode"),
    "hebb": (recipes.hebb, "porter"),
}


def equal_rows(order: tuple[int, ...], analyzer: str, key: str) -> hr.Index:
    """Four rows that differ in their key alone, stored in this order."""
    n = len(order)
    table = pa.table(
        {
            key: [f"k{at}" for at in order],
            "text": ["hot tea"] * n,
            "occurred_at": times([1.0] * n),
            "updated_at": times([1.0] * n),
            "created_at": times([1.0] * n),
            "last_accessed": times([1.0] * n),
            "pinned": [False] * n,
            "source": ["memory"] * n,
            "importance": [5] * n,
            "tags": [["tea"]] * n,
        }
    )
    columns = tuple(name for name in table.column_names if name not in (key, "text"))
    schema = hr.Schema(key=key, cell=None, text="text", vector="v", attributes=columns)
    vectors = {"v": np.ones((n, 2), np.float32)}
    return hr.Index.build(table, schema, vectors=vectors, analyzer=hr.Analyzer(analyzer))


@pytest.mark.parametrize("name", PRESETS)
def test_B12_ties_end_in_the_key(name: str) -> None:
    """Equal rows have equal scores, by one arm and by both, whatever their order of writing."""
    recipe, analyzer = PRESETS[name]
    recipe = recipe.replace(shaping=tuple(s for s in recipe.shaping if not isinstance(s, hr.Dedup)))
    last = recipe.tie_break[-1]
    assert last.column in ("id", "key")
    expected = sorted((f"k{at}" for at in range(4)), reverse=last.descending)
    asks: list[dict[str, Any]] = [{"text": "tea"}, {"vector": [1.0, 0.0]}]
    asks.append(asks[0] | asks[1])
    for order in itertools.permutations(range(4)):
        index = equal_rows(order, analyzer, last.column)
        for asked in asks:
            hits = index.recall_one(**asked, recipe=recipe, now=NOW)
            assert len({hit.score for hit in hits}) == 1
            assert hits.keys == expected


def test_B13_a_row_of_one_list_counts_in_the_union(many: Stores) -> None:
    both = joined(many, hr.RRF(), min_score={"v": hr.Above(0.0)})
    text = joined(many, hr.RRF(), vector=False)
    vector = joined(many, hr.RRF(), text=False, min_score={"v": hr.Above(0.0)})
    n_single = 0
    for one, lexical, dense in zip(both, text, vector, strict=True):
        first = {hit.key: 1 / (60 + hit.arm_rank("text")) for hit in lexical}
        second = {hit.key: 1 / (60 + hit.arm_rank("v")) for hit in dense}
        expected = {
            key: max(first.get(key, 0.0), second.get(key, 0.0))
            + min(first.get(key, 0.0), second.get(key, 0.0))
            for key in first.keys() | second.keys()
        }
        assert {hit.key: hit.score for hit in one} == expected
        n_single += len(first.keys() ^ second.keys())
    assert n_single > 500


def sorted_keys(scores: Any, listed: Any) -> list[int]:
    """All listed documents, best first, the older of equals first."""
    places = np.flatnonzero(listed)
    order = np.lexsort((places, -scores[places]))
    return [int(at) for at in places[order]]


@pytest.mark.parametrize("n", [1, 37, 400])
def test_B14_the_top_of_every_arm_is_that_of_a_full_sort(n: int) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        vectors = rng.choice([-1.0, 0.0, 1.0, 2.0], (n, 5)).astype(np.float32)
        vectors[rng.random(n) < 0.5] = vectors[0]
        texts = [" ".join(rng.choice(WORDS[:5], rng.integers(1, 5))) for _ in range(n)]
        table = pa.table({"id": np.arange(n), "text": texts})
        schema = hr.Schema(key="id", cell=None, text="text", vector="v")
        word = hr.Analyzer("word")
        index = hr.Index.build(table, schema, vectors={"v": vectors}, analyzer=word)
        query = rng.choice([-1.0, 1.0, 2.0], 5).astype(np.float32)
        similar = cosines(vectors, query)
        by_vector = sorted_keys(similar, ~np.isnan(similar))
        plain = Oracle(
            Shape(cell=(), dense={}),
            [Row(at, (), {"text": text}, {}, {}) for at, text in enumerate(texts)],
        )
        scores, found = plain.lexical("text", Words("ash elm"), np.ones(n, bool), LUCENE)
        by_text = sorted_keys(scores, found)
        for limit in (1, 5, 10, max(n - 1, 1), n, n + 7):
            assert index.recall_one(vector=query, limit=limit).keys == by_vector[:limit]
            assert index.recall_one(text="ash elm", limit=limit).keys == by_text[:limit]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_B15_a_vector_that_is_not_finite_is_refused(bad: float) -> None:
    table = pa.table({"id": [1, 2], "text": ["tea", "tea"]})
    schema = hr.Schema(key="id", cell=None, text="text", vector="v")
    rows = np.array([[1, 0], [0, bad]], np.float32)
    with pytest.raises(ValueError, match="expected finite"):
        hr.Index.build(table, schema, vectors={"v": rows})
    index = hr.Index.build(table, schema, vectors={"v": np.eye(2, dtype=np.float32)})
    new = pa.table({"id": [3], "text": ["tea"]})
    with pytest.raises(ValueError, match="expected finite"):
        index.add(new, vectors={"v": rows[1:]})
    with pytest.raises(ValueError, match="expected finite"):
        index.recall_one(vector=[bad, 1.0])
    assert sorted(index.recall_one(text="tea").keys) == [1, 2]  # nothing was written


def test_B15_a_zero_vector_has_no_cosine() -> None:
    table = pa.table({"id": [1, 2], "text": ["tea", "tea"]})
    schema = hr.Schema(key="id", cell=None, text="text", vector="v")
    rows = np.array([[0, 0], [0, 1]], np.float32)
    index = hr.Index.build(table, schema, vectors={"v": rows})
    assert index.recall_one(vector=[1, 1]).keys == [2]
    hybrid = {hit.key: hit for hit in index.recall_one(text="tea", vector=[1, 1])}
    assert hybrid[1].vector_score is None
    assert hybrid[2].vector_score is not None
    assert index.recall_one(vector=[0, 0]).keys == []


@pytest.mark.parametrize(
    ("scale", "scaled"),
    [("none", lambda c: c), ("unit", lambda c: (1 + c) / 2), ("clip", lambda c: min(max(c, 0), 1))],
)
def test_B16_the_scale_of_a_cosine_is_the_recipes_and_the_raw_one_is_kept(
    many: Stores, scale: Any, scaled: Any
) -> None:
    # The words have no say in the largest: their weight is next to nothing.
    arms = (Lexical(scale="none", weight=1e-6), Dense(scale=scale))
    recipe = Recipe(name="s", arms=arms, fusion=hr.Max(normalize="none"))
    assert f"scale={scale!r}" in recipe.explain()
    n_positive = 0
    for store, one in enumerate(many.ask(recipe=recipe, limit=60)):
        rows = many.vectors[many.first[store] : many.first[store + 1]]
        raw = cosines(rows, many.query_vectors[store])
        for hit in one:
            assert hit.vector_score == raw[hit.key - many.first[store]]
            if hit.vector_score > 0.01:
                assert hit.score == pytest.approx(scaled(hit.vector_score), rel=1e-12)
                n_positive += 1
    assert n_positive > 500


def test_B16_a_floor_on_the_cosine_is_the_recipes(many: Stores) -> None:
    for floor, holds in (
        (0.35, lambda c: c >= np.float32(0.35)),
        (hr.Above(0.0), lambda c: c > 0),
    ):
        recipe = Recipe(name="f", arms=(Dense(min_score=floor),), fusion=hr.RRF())
        assert f"min_score={floor!r}" in recipe.explain()
        for store, one in enumerate(many.ask(text=False, recipe=recipe, limit=60)):
            rows = many.vectors[many.first[store] : many.first[store + 1]]
            raw = cosines(rows, many.query_vectors[store])
            assert len(one) == sum(holds(c) for c in raw if not np.isnan(c))
            assert all(holds(hit.vector_score) for hit in one)
