"""Rows of part B through an index: tokens, query modes, ties, the union of lists, cosines."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import recipes
from oracle.arithmetic import cosines
from seams import Dense, Lexical, Recipe
from spec.episodes import NOW, Stores, stores, times


@pytest.fixture(scope="module")
def many() -> Stores:
    return stores(200, seed=4)


def small(texts: Sequence[str], analyzer: str, **options: Any) -> hr.Index:
    table = pa.table({"id": np.arange(len(texts)), "text": list(texts)})
    schema = hr.Schema(key="id", cell=None, text="text")
    return hr.Index.build(table, schema, analyzer=hr.Analyzer(analyzer), **options)


def test_B04_cafe_finds_cafe_with_an_accent() -> None:
    index = small(["a café", "a cave", "CAFE\u0301"], "unicode61")
    assert sorted(index.recall_one(text="cafe").keys) == [0, 2]
    assert sorted(index.recall_one(text="café").keys) == [0, 2]


def test_B05_a_query_of_stop_words_alone_keeps_them() -> None:
    index = small(["to be or not", "the running man", "he runs"], "porter")
    part = Lexical(stopwords=("the", "to", "be", "or", "not"))
    recipe = Recipe(name="stops", arms=(part,), fusion=hr.RRF())

    def found(text: str) -> list[int]:
        return sorted(index.recall_one(text=text, recipe=recipe).keys)

    assert found("the run") == [1, 2]
    assert found("to be run") == [1, 2]
    assert found("to be") == [0]
    assert found("The") == [1]


NOTES = ("kubernetes cluster", "kube proxy", "Kafka cluster", "c++ code", "code review of C")
# Query, what any of its words finds, what all of them as beginnings find.
MODES = [
    ("kube", {1}, {0, 1}),
    ("kubernetes", {0}, {0}),
    ("KUBE", {1}, {0, 1}),
    ("cluster", {0, 2}, {0, 2}),
    ("kube cluster", {0, 1, 2}, {0}),
    ("cluster kube", {0, 1, 2}, {0}),
    ("kube proxy", {1}, {1}),
    ("kube kafka", {1, 2}, set()),
    ("k", set(), {0, 1, 2}),
    ("clu", set(), {0, 2}),
    ("clu ka", set(), {2}),
    ("code", {3, 4}, {3, 4}),
    ("co", set(), {3, 4}),
    ("c++", {3, 4}, {3, 4}),
    ("c++ code", {3, 4}, {3, 4}),
    ("code review", {3, 4}, {4}),
    ("code-review", {3, 4}, {4}),
    ("review-code", {3, 4}, set()),
    ("zebra", set(), set()),
    ("zebra code", {3, 4}, set()),
]


def test_B06_query_modes() -> None:
    index = small(NOTES, "unicode61")
    for mode, place in (("any", 1), ("and_prefix", 2)):
        recipe = Recipe(name="m", arms=(Lexical(mode=mode),), fusion=hr.RRF())  # type: ignore[arg-type]
        found = {row[0]: set(index.recall_one(text=row[0], recipe=recipe).keys) for row in MODES}
        assert found == {row[0]: row[place] for row in MODES}, mode


PRESETS = {
    "loom": (recipes.loom, "word"),
    "hypergraph": (recipes.hypergraph.without_graphs().replace(more=(), on_no_match=()), "unicode"),
    "l0": (recipes.l0, "unicode61"),
    "honeycomb": (recipes.honeycomb, "unicode"),
    "hebb": (recipes.hebb, "porter"),
}


ORDERS = list(itertools.permutations(range(4)))


def equal_rows(analyzer: str, key: str) -> hr.Index:
    """In a cell for each order of writing, four rows that differ in their key alone."""
    n = 4 * len(ORDERS)
    same = {
        "text": ["hot tea"] * n,
        "pinned": [False] * n,
        "source": ["memory"] * n,
        "importance": [5] * n,
        "tags": [["tea"]] * n,
    }
    moments = ("occurred_at", "updated_at", "created_at", "last_accessed")
    columns = same | dict.fromkeys(moments, times([1.0] * n))
    own = {"order": np.repeat(np.arange(len(ORDERS)), 4), key: [f"k{at}" for at in sum(ORDERS, ())]}
    schema = hr.Schema(
        key=key, cell="order", text="text", vector="v", attributes=(*list(same)[1:], *moments)
    )
    return hr.Index.build(
        pa.table(own | columns), schema,
        vectors={"v": np.ones((n, 2), np.float32)}, analyzer=hr.Analyzer(analyzer),
    )  # fmt: skip


@pytest.mark.parametrize("name", PRESETS)
def test_B12_ties_end_in_the_key(name: str) -> None:
    """Equal rows have equal scores, by one arm and by both, whatever their order of writing."""
    recipe, analyzer = PRESETS[name]
    recipe = recipe.replace(shaping=tuple(s for s in recipe.shaping if not isinstance(s, hr.Dedup)))
    last = recipe.tie_break[-1]
    assert last.column in ("id", "key")
    expected = sorted((f"k{at}" for at in range(4)), reverse=last.descending)
    index, scope = equal_rows(analyzer, last.column), [(at,) for at in range(len(ORDERS))]
    text: dict[str, Any] = {"text": ["tea"] * len(ORDERS)}
    vectors: dict[str, Any] = {"vectors": np.array([[1.0, 0.0]] * len(ORDERS), np.float32)}
    for asked in (text, vectors, text | vectors):
        for hits in index.recall(**asked, scope=scope, recipe=recipe, now=NOW):
            assert len({hit.score for hit in hits}) == 1
            assert hits.keys == expected


def joined(many: Stores, **options: Any) -> hr.Hits:
    return many.ask(recipe=None, fusion=hr.RRF(), limit=60, **options)


def test_B13_E17_arms_give_lists_and_a_row_of_one_list_counts_in_their_union(many: Stores) -> None:
    both = joined(many, min_score={"v": hr.Above(0.0)})
    text = joined(many, vector=False)
    vector = joined(many, text=False, min_score={"v": hr.Above(0.0)})
    assert (text.trace.arms, vector.trace.arms) == (("text",), ("v",))
    assert "fusion" in both.trace.milliseconds
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
