"""Pages of results: totals, rows by columns, facets; what the laws and the faces do not show."""

import pickle
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.distributed import ShardedIndex
from small_index import ONE, VECTORS, built, documents, refused

BEYOND = 2**63 + 5
VALUES: dict[str, pa.Array] = {
    "small": pa.array([3, -2, None, 3], pa.int8()),
    "large": pa.array([BEYOND, 2, None, BEYOND], pa.uint64()),
    "half": pa.array(np.array([1.5, -0.25, np.nan, 1.5], np.float16)),
    "double": pa.array([0.1, -7.5, None, 0.1]),
    "flag": pa.array([True, False, None, True]),
    "day": pa.array([date(2024, 2, 29), date(1960, 1, 1), None, date(2024, 2, 29)]),
    "hour": pa.array([time(12), time(3, 4, 5), None, time(12)], pa.time64("us")),
    "long": pa.array([timedelta(1), timedelta(-1), None, timedelta(1)], pa.duration("us")),
    "at": pa.array(
        [datetime(2024, 1, 2, tzinfo=UTC), datetime(1950, 1, 1, tzinfo=UTC), None] * 2
    ).take(pa.array([0, 1, 2, 3])),
    "word": pa.array(["zen", "ash", None, "zen"]),
}


def index_of(name: str, column: pa.Array) -> hr.Index:
    table = pa.table({"id": range(len(column)), "text": ["tea"] * len(column), name: column})
    return hr.Index.build(table, hr.Schema(key="id", cell=None, text="text", attributes=name))


@pytest.mark.parametrize("name", VALUES)
def test_a_facet_and_an_order_have_the_values_of_any_type(name: str) -> None:
    column = VALUES[name]
    index = index_of(name, column)
    hits = index.recall_one(sort=name, facets=name)
    high, low = column[0].as_py(), column[1].as_py()
    assert hits.keys == [1, 0, 3, 2]
    assert hits.facets == {name: [(high, 2), (low, 1)]}
    assert index.recall_one(sort=[(name, "desc")]).keys == [0, 3, 1, 2]
    assert {type(value) for value, _ in hits.facets[name]} == {type(high)}


def test_edges_compare_exactly_and_may_lie_beyond_a_column() -> None:
    index = index_of("n", pa.array([0, 1, 2, 2**53 + 1, None], pa.int64()))
    for edges, counts in (
        ([0.5, 1.5, None], [1, 2]),
        ([None, -1e30, 1e30], [0, 4]),
        ([2**53, 2**53 + 1, 1e300, None], [0, 1, 0]),
        ([1e30, 1e31, None], [0, 0]),
    ):
        found = index.recall_one(limit=0, facets=hr.Buckets("n", edges)).facets["n"]
        assert [count for _, count in found] == counts
        assert [ends for ends, _ in found] == list(pairwise(edges))


def test_times_are_bounds_as_in_a_filter() -> None:
    index = index_of("at", pa.array([datetime(2024, 1, day, 12) for day in (1, 2, 3)]))
    edges = ["2024-01-01", "2024-01-02", date(2024, 1, 4)]
    with pytest.raises(hr.OptionError, match="edges: expected two edges or more, rising"):
        hr.Buckets("at", edges)
    found = index.recall_one(facets=hr.Buckets("at", ["2024-01-01", "2024-01-02", "2024-01-04"]))
    assert [count for _, count in found.facets["at"]] == [1, 2]


def test_a_total_is_counted_when_it_is_read_on_the_snapshot_of_the_call() -> None:
    index = built()
    hits = index.recall(text=["tea", "coffee", None], scope=["ana", "bob", "ana"], limit=1)
    index.delete(["k0"], scope="ana")
    assert hits.total == [3, 1, 0] == [one.total for one in hits]
    assert index.recall_one(text="tea", scope="ana", limit=1).total == 2
    assert index.count(text="tea", scope="ana") == 2
    known = index.recall_one(text="tea", scope="ana", limit=1)  # by options that are known
    assert known.total == 2


def test_a_batch_of_recipes_has_the_total_of_each() -> None:
    recipes = [hr.recipes.default, hr.recipes.conversation, hr.recipes.default]
    hits = built().recall(text=["tea", "hot", "  "], scope="ana", recipe=recipes, facets="kind")
    assert hits.total == [3, 1, 0]
    assert hits.facets == [{"kind": [(0, 2), (1, 1)]}, {"kind": [(0, 1)]}, {"kind": []}]


def test_rows_that_an_arm_of_the_call_lists_are_counted() -> None:
    index, newest = built(), hr.arms.Newest("kind")
    assert index.recall_one(arms=newest, scope="ana").total == 3
    assert index.recall_one(text="cold", arms=newest, scope="ana", depth=10).total == 3
    assert index.recall(text=["cold"] * 5000, arms=newest, scope="ana").total[4999] == 3


def test_rows_of_a_query_of_many_words_are_counted_without_a_step_for_each_word_of_a_row() -> None:
    n_rows = 200_000
    table = pa.table({"id": range(n_rows), "text": ["z", "z y"] * (n_rows // 2)})
    index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text", attributes="id"))
    others = " ".join(f"a{number}" for number in range(30_000))
    hits = index.recall_one(text=hr.Any(others, "z", hr.Not("y")), sort=("id", "desc"), limit=1)
    assert (hits.total, hits.keys) == (n_rows // 2, [n_rows - 2])


def test_queries_of_a_batch_are_browsed_each_in_its_scope_and_filter() -> None:
    index = built()
    hits = index.recall(scope=["ana", hr.Scope([]), "bob"], sort=("kind", "desc"), columns=["kind"])
    assert [one.keys for one in hits] == [["k1", "k0", "k2"], [], ["k3", "k4"]]
    assert hits.total == [3, 0, 2]
    assert hits.to_arrow()["score"].null_count == 5
    filters = [hr.Filter(kind=0), None]
    assert [one.keys for one in index.recall(scope="ana", filter=filters)] == [
        ["k0", "k2"],
        ["k0", "k1", "k2"],
    ]
    refused(
        lambda: index.recall(scope=["ana"], filter=filters),
        hr.ShapeError,
        "filter: expected 1 entries, one per query, got 2",
    )


def test_a_text_that_is_not_searched_is_told() -> None:
    wide = " ".join(map(str, range(70_000)))
    hits = built().recall(text=["tea", wide, ""], scope="ana", sort="kind")
    assert [one.keys for one in hits] == [["k0", "k2", "k1"], [], []]
    assert [one.degraded for one in hits] == [False, True, False]
    assert hits[2].trace.notes == ("text has no indexable token",)


def test_pages_are_values_when_they_are_shipped() -> None:
    hits = built().recall(scope=["ana", "bob"], sort="kind", facets="kind", limit=1)
    again = pickle.loads(pickle.dumps(hits))
    assert again.total == hits.total == [3, 2]
    assert again.facets == hits.facets
    assert again[1].to_list() == hits[1].to_list()
    assert again.only(np.array([True, False])).facets == [{"kind": [(0, 2), (1, 1)]}, {}]
    plain = pickle.loads(pickle.dumps(built().recall(text=["tea"], scope="ana")))
    with pytest.raises(hr.OptionError, match="hits: expected hits as a recall gives them"):
        _ = plain.total


RANKS: dict[str, Any] = {
    "depth": 5, "fusion": hr.RRF(), "min_score": 0.5, "min_fused": 0.5, "bm25": hr.BM25(),
    "normalize": True, "arms": hr.arms.Newest("kind"), "shaping": hr.Gate(0.0),
    "expansion": hr.Context("g"), "recipe": hr.recipes.default, "group": "thread", "surrounding": 1,
    "candidates": {"x": [["k0"]]}, "session": hr.Session(), "graphs": {"g": None},
}  # fmt: skip


@pytest.mark.parametrize("name", RANKS)
def test_what_ranks_is_refused_where_columns_order_the_rows(name: str) -> None:
    with pytest.raises(hr.OptionError, match=f"^{name}: expected .* where columns order the rows"):
        built().recall(text=["tea"], scope="ana", sort="kind", **{name: RANKS[name]})


@pytest.mark.parametrize("sort", ["-price", "price:desc", "price desc"])
def test_a_direction_that_others_write_is_told_as_it_is_written_here(sort: str) -> None:
    with pytest.raises(hr.OptionError, match=r"; sort=\('price', 'desc'\) puts the largest first$"):
        index_of("price", pa.array([1, 2])).recall_one(text="tea", sort=sort)


def test_hits_in_the_order_of_columns_have_no_scores_to_explain() -> None:
    hits = built().recall_one(scope="ana", sort="kind")
    for call in (hits[0].explain, hits.explain_dropped):
        refused(
            call, hr.OptionError, "hits: expected hits by score, got hits in the order of columns"
        )
    assert (hits[0].score, hits[0].bm25_score, hits[0].arm_rank("text")) == (None, None, None)
    assert "-" in repr(hits)


def test_shards_of_this_process_answer_as_one_index() -> None:
    index, table = built(), documents()
    vectors = [{"embedding": one} for one in np.split(VECTORS, [2])]
    shards = ShardedIndex.build(
        [table.slice(0, 2), table.slice(2)], index.schema,
        vectors=vectors, device="cpu",
    )  # fmt: skip
    for asked in ({"text": ["tea"]}, {"vectors": ONE}, {}):
        given: dict[str, Any] = {**asked, "scope": "ana", "facets": ["kind"], "limit": 2}
        for order in ({}, {"sort": [("kind", "desc")]}):
            one, many = index.recall(**given, **order), shards.recall(**given, **order)
            assert (one.total, one.facets) == (many.total, many.facets)
            assert one[0].keys == many[0].keys
