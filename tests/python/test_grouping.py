"""Threads as hits and rows around hits: arguments, budgets, recipes, explanations."""

import copy
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import recipe, recipes
from seams import grouping

SCHEMA = hr.Schema(
    key="id", cell="user", text="text", attributes="kind", thread="session", place="turn"
)
TEXTS = (
    "where did you put the key?", "under the red stone", "thanks!",
    "what a day", "the key of the car is lost", "really?", "a note on the key",
)  # fmt: skip
TABLE = pa.table(
    {
        "id": [1, 2, 3, 4, 5, 6, 7],
        "user": ["ann"] * 7,
        "session": ["may", "may", "may", "june", "june", "june", None],
        "turn": [1, 2, 3, 1, 2, 3, 1],
        "kind": ["q", "a", "q", "a", "q", "a", "note"],
        "text": TEXTS,
    }
)


@pytest.fixture(scope="module")
def index() -> hr.Index:
    return hr.Index.build(TABLE, SCHEMA)


def steps(hit: hr.Hit) -> list[tuple[int, int]]:
    return [(row.step, row.key) for row in hit.surrounding]


def test_a_thread_has_one_hit_which_lists_its_best_rows(index: hr.Index) -> None:
    recipe = recipes.conversation
    plain = index.recall_one(text="key", scope="ann", recipe=recipe)
    hits = index.recall_one(text="key", scope="ann", recipe=recipe, group="thread")
    assert [hit.rank for hit in hits] == [1, 2, 3]
    assert hits.keys == [key for key in plain.keys if key in (1, 5, 7)]
    scores = {hit.key: hit.score for hit in plain}
    for hit in hits:
        assert hit.score == scores[hit.key]
        assert hit.thread_rows[0] == hr.ThreadRow(hit.key, hit.score)
        assert all(row.score == scores[row.key] for row in hit.thread_rows)
        assert hit.explain().score == hit.score
    by_key = {hit.key: {row.key for row in hit.thread_rows} for hit in hits}
    assert by_key == {1: {1, 2, 3}, 5: {4, 5, 6}, 7: {7}}


def test_rows_around_a_hit_stand_in_their_order_with_what_was_asked_for(index: hr.Index) -> None:
    hits = index.recall_one(
        text="stone", scope="ann", surrounding=2, filter=hr.Filter(kind="a"), columns=("turn",)
    )
    assert hits.keys == [2]
    assert hits[0].surrounding == (
        hr.NearRow(1, -1, TEXTS[0], {"turn": 1}),
        hr.NearRow(3, 1, TEXTS[2], {"turn": 3}),
    )
    assert hits[0].thread_rows == ()
    assert "surrounding" not in hits.to_arrow().column_names


@pytest.mark.parametrize("tokens", [1, 7, 9, 12, 16, 20, 40])
@pytest.mark.parametrize("group", [None, "thread"])
def test_rows_around_hits_take_part_of_the_budget(
    index: hr.Index, tokens: int, group: str | None
) -> None:
    def cost(text: str | None) -> int:
        return max(1, -(-len((text or "").strip()) // 4))

    hits = index.recall_one(
        text="key stone", scope="ann", surrounding=2, shaping=hr.Budget(tokens), group=group
    )
    spent = [cost(hit.text) + sum(cost(row.text) for row in hit.surrounding) for hit in hits]
    assert len(hits) >= 1
    assert sum(spent) <= tokens or (len(hits) == 1 and not hits[0].surrounding)
    shown = [key for hit in hits for key in (hit.key, *(row.key for row in hit.surrounding))]
    assert len(shown) == len(set(shown))


def test_an_own_estimate_of_tokens_counts_for_rows_around(index: hr.Index) -> None:
    budget = hr.Budget(3, estimate=lambda texts: [1] * len(texts))
    hits = index.recall_one(text="stone", scope="ann", surrounding=2, shaping=budget)
    assert [steps(hit) for hit in hits] == [[(-1, 1), (1, 3)]]
    budget = hr.Budget(2, estimate=lambda texts: [1] * len(texts))
    hits = index.recall_one(text="stone", scope="ann", surrounding=2, shaping=budget)
    assert [steps(hit) for hit in hits] == [[(-1, 1)]]


@pytest.mark.parametrize("group", [None, "thread"])
def test_threads_of_a_large_cell_are_ordered_one_by_one(
    index: hr.Index, monkeypatch: pytest.MonkeyPatch, group: str | None
) -> None:
    asked: dict[str, Any] = {"text": "key stone day", "scope": "ann", "surrounding": 2}
    small = [(hit.key, steps(hit)) for hit in index.recall_one(**asked, group=group)]
    monkeypatch.setattr(grouping, "SMALL_CELL", 1)
    large = [(hit.key, steps(hit)) for hit in index.recall_one(**asked, group=group)]
    assert large == small
    assert any(near for _, near in small)


def many_threads(n_rows: int = 90) -> hr.Index:
    random = np.random.default_rng(3)
    rows = {
        "id": range(n_rows),
        "chat": [f"c{at // 6}" for at in range(n_rows)],
        "turn": [at * 37 % n_rows for at in range(n_rows)],
        "text": ["tea " * random.integers(1, 9) + "leaf" for _ in range(n_rows)],
    }
    schema = hr.Schema(
        key="id", cell=None, text="text", vector="embedding", thread="chat", place="turn"
    )
    vectors = random.standard_normal((n_rows, 5)).astype(np.float32)
    return hr.Index.build(pa.table(rows), schema, vectors={"embedding": vectors})


@pytest.mark.parametrize("options", [{"group": "thread"}, {"surrounding": 2}], ids=str)
@pytest.mark.parametrize(
    "shaping", [(hr.MMR(0.6),), (hr.Budget(200),), (hr.MMR(0.6), hr.Budget(200))], ids=str
)
def test_the_choice_of_rows_leaves_enough_for_a_full_page(
    shaping: tuple[Any, ...], options: dict[str, Any]
) -> None:
    index = many_threads()
    asked: dict[str, Any] = {
        "text": "tea", "vector": np.ones(5, np.float32), "shaping": shaping, **options,
    }  # fmt: skip
    whole = index.recall_one(**asked, limit=100)
    assert len(whole) >= 5
    for limit in (1, 3, 5):
        hits = index.recall_one(**asked, limit=limit)
        assert hits.keys == whole.keys[:limit]
        assert [steps(hit) for hit in hits] == [steps(hit) for hit in whole[:limit]]
        told = hits.explain_dropped().stages
        assert told[0].n_in - sum(stage.n_dropped for stage in told) == limit
        assert not {row.key for stage in told for row in stage.rows} & set(hits.keys)
    pages = [index.recall_one(**asked, limit=1, offset=at) for at in range(len(whole))]
    assert [page.keys for page in pages] == [[key] for key in whole.keys]


@pytest.mark.parametrize("group", [None, "thread"])
def test_what_fills_a_list_is_grouped_alike_for_every_limit(group: str | None) -> None:
    index = many_threads()
    fill = recipe.Fill("turn", when="always")
    asked: dict[str, Any] = {
        "text": ["nothing", "   "], "recipe": recipes.default.replace(fill=fill, on_empty="newest"),
        "group": group, "surrounding": 1,
    }  # fmt: skip
    whole = index.recall(**asked, limit=100)
    for query in (0, 1):
        rows = [(hit.key, hit.score, hit.thread_rows, steps(hit)) for hit in whole[query]]
        assert len(rows) >= 15
        for limit in (1, 6, 15):
            hits = index.recall(**asked, limit=limit)[query]
            found = [(hit.key, hit.score, hit.thread_rows, steps(hit)) for hit in hits]
            assert found == rows[:limit]


def test_queries_by_several_recipes_keep_what_is_beside_their_hits(index: hr.Index) -> None:
    both = [recipes.default.replace(with_threads=None), recipes.conversation]
    hits = index.recall(
        text=["stone", "stone"], scope=["ann", "ann"], recipe=both, surrounding=1, group="thread"
    )
    assert [steps(one[0]) for one in hits] == [[(-1, 1), (1, 3)]] * 2
    assert hits[1][0].thread_rows[1:] != ()


def test_what_is_beside_hits_is_copied_and_pickled(index: hr.Index) -> None:
    hits = index.recall(text=["stone"], scope="ann", surrounding=1, group="thread")
    for again in (copy.deepcopy(hits), pickle.loads(pickle.dumps(hits))):
        assert steps(again[0][0]) == steps(hits[0][0])
        assert again[0][0].thread_rows == hits[0][0].thread_rows


def test_times_name_threads_and_places_too() -> None:
    days = pa.array([0, 0, 1, 1], pa.timestamp("ns", "UTC"))
    at = pa.array([2.5, None, float("nan"), 1.0])
    rows = pa.table(
        {"id": ["a", "b", "c", "d"], "text": ["x", "y", "x", "y"], "day": days, "at": at}
    )
    schema = hr.Schema(key="id", cell=None, text="text", thread="day", place="at")
    hits = hr.Index.build(rows, schema).recall_one(text="x", surrounding=3)
    found = {hit.key: [(row.step, row.key) for row in hit.surrounding] for hit in hits}
    assert found == {"a": [(1, "b")], "c": [(-1, "d")]}


@pytest.mark.parametrize("kind", ["float16", "float32", "uint64", "date32", "duration[s]"])
def test_rows_around_a_hit_stand_in_the_order_that_their_evidence_has(kind: str) -> None:
    given = [None if one is None else np.float16(one) for one in (3, 1, None, 2, 1)]
    at = pa.array(given if kind == "float16" else [3, 1, None, 2, 1], kind)
    rows = pa.table({"id": list("abcde"), "text": ["x"] * 5, "chat": ["c"] * 5, "at": at})
    schema = hr.Schema(key="id", cell=None, text="text", thread="chat", place="at")
    index = hr.Index.build(rows, schema)
    (hit,) = index.recall_one(text="x", group="thread", surrounding=5)
    assert [(row.step, row.key) for row in hit.surrounding] == [
        (-3, "b"), (-2, "e"), (-1, "d"), (1, "c"),
    ]  # fmt: skip
    near = index.recall_one(text="x", shaping=hr.Around((1.0,), 0.0, 0.0))
    spoke = {one.key: one.explain().steps[0].keys["neighbour_1"] for one in near}
    assert spoke == {"a": "d", "b": "e", "c": "a", "d": "e", "e": "b"}


@pytest.mark.parametrize("options", [{"group": "thread"}, {"surrounding": 1}])
def test_an_index_without_threads_refuses_both(options: Any) -> None:
    rows = TABLE.select(["id", "user", "text"])
    index = hr.Index.build(rows, hr.Schema(key="id", cell="user", text="text"))
    name = next(iter(options))
    with pytest.raises(hr.OptionError, match=f"{name}: expected a schema with thread="):
        index.recall(text=["key"], scope="ann", **options)
    assert index.recall(text=["key"], scope="ann", surrounding=0, group=None)[0].keys
