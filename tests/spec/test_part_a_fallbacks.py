"""Rows of part A about what is found with one arm, with none, and within which bounds."""

from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import recipes
from laws.effort import Effort
from seams import reply_of
from spec.episodes import NOW, SCHEMA, WORDS, Stores, episodes, origins, ranked, stores, times

LUNCH = (
    "Postgres replication is configured asynchronously.",
    "Today's lunch was great.",
    "We migrated to logical replication on the primary.",
)


@pytest.fixture(scope="module")
def many() -> Stores:
    return stores(200, seed=2)


def one(index: hr.Index, text: str, *, scope: Any = "alice", **options: Any) -> hr.QueryHits:
    options = {"recipe": recipes.loom, "now": NOW} | options
    return index.recall_one(text=text, scope=scope, **options)


@pytest.mark.parametrize("vectors", [None, np.eye(3)], ids=["no arm", "not asked"])
def test_A08_without_vectors_the_score_is_that_of_bm25(vectors: Any) -> None:
    hits = one(episodes(LUNCH, vectors), "postgres replication", limit=3)
    assert len(hits) == 3
    for hit in hits:
        assert hit.bm25_score == hit.score
        if vectors is not None:
            assert hit.vector_score is None
        else:
            assert "v" not in reply_of(hits).trace.arms


def test_A09_a_lexical_match_beats_a_newer_non_match() -> None:
    hits = one(episodes(LUNCH, hours_ago=(3, 1, 2)), "postgres replication", limit=3)
    assert [hit.text for hit in hits] == [LUNCH[0], LUNCH[2], LUNCH[1]]
    assert [hit.score for hit in hits] == pytest.approx([1.568, 0.409, 0.0], abs=5e-4)
    assert hits[0].score > hits[1].score > 0
    assert hits[2].score == hits[2].bm25_score == 0.0


def test_A10_short_lists_are_filled_with_the_newest_of_the_same_user(many: Stores) -> None:
    hits = many.ask(vector=False, limit=20)
    owner = np.repeat(np.arange(len(many)), np.diff(many.first))
    table = hits.to_arrow()
    assert (owner[table["key"].to_numpy()] == table["query"].to_numpy()).all()
    n_filled = 0
    for store, reply in enumerate(hits):
        size = len(many.documents(store))
        assert len(reply) == min(20, size)
        kinds = origins(hits)[reply._begin : reply._end]
        n_hits = kinds.count("hit")
        assert kinds == ["hit"] * n_hits + ["fill"] * (len(kinds) - n_hits)
        assert all(hit.score > 0 for hit in reply[:n_hits])
        filled = reply[n_hits:]
        assert all(hit.score == 0.0 and hit.arm_rank("text") is None for hit in filled)
        found = set(reply.keys[:n_hits])
        rest = [many.hours_ago[key] for key in many.documents(store) if key not in found]
        assert [many.hours_ago[hit.key] for hit in filled] == sorted(rest)[: len(filled)]
        n_filled += len(filled)
    assert n_filled > 500


@pytest.mark.parametrize("text", ["", "  "])
def test_A20_an_empty_query_gives_the_newest(text: str) -> None:
    index = episodes(LUNCH, np.eye(3), hours_ago=(3, 1, 2))
    for vector in (None, [1.0, 0.0, 0.0]):
        hits = one(index, text, vector=vector, limit=2)
        assert ranked(hits) == [("e1", 1.0), ("e2", 1.0)]
        assert [(hit.bm25_score, hit.vector_score) for hit in hits] == [(None, None)] * 2


def test_A21_a_query_that_matches_nothing_gives_the_newest_at_zero() -> None:
    index = episodes(LUNCH, -np.eye(3), hours_ago=(3, 1, 2))
    for vector in (None, [1.0, 1.0, 1.0]):
        hits = one(index, "zebra", vector=vector, limit=2)
        assert ranked(hits) == [("e1", 0.0), ("e2", 0.0)]


def test_A22_an_empty_partition_gives_nothing() -> None:
    index = episodes(LUNCH, np.eye(3))
    for text in ("replication", "zebra", ""):
        assert one(index, text, scope="nobody", vector=[1, 0, 0]).keys == []


def test_A23_limits() -> None:
    index = episodes(LUNCH, np.eye(3))
    assert one(index, "replication", limit=0).keys == []
    assert len(one(index, "replication", limit=50)) == 3
    assert len(one(index, "replication", limit=1000, depth=1000)) == 3
    for limit in (-1, 1.5, "3", None, True):
        with pytest.raises(ValueError, match="limit: expected an int"):
            one(index, "replication", limit=limit)


MICROSECOND = timedelta(microseconds=1)


def test_A24_a_time_range_includes_both_ends() -> None:
    start, end = NOW - timedelta(hours=2), NOW - timedelta(hours=1)
    hours = (2, 1, 1.5, 2 + 1 / 3.6e9, 1 - 1 / 3.6e9)
    index = episodes(["tea"] * 5, hours_ago=hours)

    def inside(first: Any, last: Any) -> list[str]:
        hits = one(index, "tea", filter=hr.Filter(occurred_at=(first, last)))
        return sorted(hits.keys)

    assert inside(start, end) == ["e0", "e1", "e2"]
    assert inside(start - MICROSECOND, end + MICROSECOND) == ["e0", "e1", "e2", "e3", "e4"]
    assert inside(start + MICROSECOND, end - MICROSECOND) == ["e2"]
    assert inside(start.replace(tzinfo=None), end.replace(tzinfo=None)) == ["e0", "e1", "e2"]
    assert inside(None, end) == ["e0", "e1", "e2", "e3"]
    assert inside(start, None) == ["e0", "e1", "e2", "e4"]
    assert inside(end, start) == []


def test_A25_a_filter_on_the_kind() -> None:
    kinds = ("episodic", "semantic", "episodic", "")
    index = episodes(["tea", "hot tea", "milk", "tea"], kinds=kinds)
    assert one(index, "tea", filter=hr.Filter(kind="episodic")).keys == ["e0", "e2"]
    assert one(index, "tea", filter=hr.Filter(kind="semantic")).keys == ["e1"]
    assert one(index, "tea", filter=hr.Filter(kind="Episodic")).keys == []
    assert sorted(one(index, "tea").keys) == ["e0", "e1", "e2", "e3"]


@pytest.mark.slow
def test_A26_no_row_of_another_user(effort: Effort) -> None:
    """10,000 stores of three users each (one of them anonymous), side by side in one index."""
    n_stores = effort.cases(quick=1_500, full=10_000)
    rng = np.random.default_rng(26)
    n = 6 * n_stores
    users = np.array(["ann", "bob", None], object)[rng.integers(0, 3, n)]
    owner = np.repeat(np.arange(n_stores), 6)
    table = pa.table(
        {
            "id": [f"m{at}" for at in rng.integers(0, 10**9, n)],
            "store": owner,
            "user": pa.array(users.tolist(), pa.string()),
            "text": [" ".join(two) for two in rng.choice(WORDS, (n, 2))],
            "kind": ["episodic"] * n,
            "occurred_at": times(rng.integers(0, 9, n).astype(float)),
        }
    )
    schema = hr.Schema(
        key="id", cell=("store", "user"), text="text", vector="v",
        attributes=SCHEMA.attributes,
    )  # fmt: skip
    vectors = rng.standard_normal((n, 4)).astype(np.float32)
    index = hr.Index.build(table, schema, vectors={"v": vectors}, analyzer=hr.Analyzer("word"))
    asked = [("ann", "bob", None)[at] for at in rng.integers(0, 3, n_stores)]
    texts = [" ".join(two) for two in rng.choice([*WORDS, "zebra"], (n_stores, 2))]
    texts[::10] = ["  "] * len(texts[::10])
    queries = rng.standard_normal((n_stores, 4)).astype(np.float32)
    for alpha in (0.0, 0.5, 1.0):
        recipe = recipes.loom.replace(fusion=hr.RRF(alpha=alpha))
        for given in (queries, None) if alpha == 0.5 else (queries,):
            hits = index.recall(
                text=texts, vectors=given, scope=list(zip(range(n_stores), asked, strict=True)),
                recipe=recipe, limit=10, now=NOW,
            )  # fmt: skip
            reply = hits.to_arrow()
            query = reply["query"].to_numpy()
            assert (reply["store"].to_numpy() == query).all()
            assert reply["user"].to_pylist() == [asked[at] for at in query]
            assert set(origins(hits)) == {"hit", "fill"}
            assert reply.num_rows > n_stores


def test_A27_the_anonymous_bucket() -> None:
    index = episodes(["tea one", "tea two", "tea three"], users=["alice", None, "bob"])
    nobody = hr.Scope([None])
    for text in ("tea", "zebra", ""):
        assert one(index, text, scope=nobody).keys == ["e1"]
        assert one(index, text, scope="alice").keys == ["e0"]
        assert one(index, text, scope="bob").keys == ["e2"]
    with pytest.raises(hr.ScopeError):
        one(index, "tea", scope=None)  # no scope is not the anonymous one


def test_A28_statistics_of_one_user_do_not_reach_another(many: Stores) -> None:
    texts, vectors = [*many.texts[:30]], many.vectors[:30]
    index = episodes(texts, vectors)
    asked = {
        "text": many.queries, "vectors": many.query_vectors, "scope": "alice", "limit": 30,
        "recipe": recipes.loom, "now": NOW,
    }  # fmt: skip
    before = index.recall(**asked).to_arrow()
    rng = np.random.default_rng(28)
    bobs = pa.table(
        {
            "id": [f"b{at}" for at in range(1000)],
            "user": ["bob"] * 1000,
            "text": [" ".join(rng.choice(WORDS, 12)) for _ in range(1000)],
            "kind": ["episodic"] * 1000,
            "occurred_at": times([0.0] * 1000),
        }
    )
    index.add(bobs, vectors={"v": rng.standard_normal((1000, 6)).astype(np.float32)})
    assert index.recall(**asked).to_arrow().equals(before)
    assert before.num_rows > 1000
