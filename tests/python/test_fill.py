"""What fills a list that found too little, and what a query of blank text gets."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import recipes
from seams import Dense, Fill, Lexical, Recipe, fill, reply_of

NOW = datetime(2026, 6, 1, tzinfo=UTC)
TEXTS = [
    "Postgres replication is configured asynchronously.",
    "Today's lunch was great.",
    "We migrated to logical replication on the primary.",
    "Bob has replication too.",
    None,
]
AGES = [5, 4, 3, 1, None]
USERS = ["alice", "alice", "alice", "bob", "alice"]


def built() -> hr.Index:
    table = pa.table(
        {
            "id": list("abcde"),
            "user": USERS,
            "text": TEXTS,
            "occurred_at": pa.array(
                [None if age is None else NOW - timedelta(days=age) for age in AGES],
                pa.timestamp("us", "UTC"),
            ),
        }
    )
    schema = hr.Schema(key="id", cell="user", text="text", vector="v", attributes="occurred_at")
    return hr.Index.build(table, schema, vectors={"v": np.eye(5, dtype=np.float32)})


def ask(text: Any, *, recipe: Recipe = recipes.loom, **options: Any) -> hr.QueryHits:
    return built().recall(text=[text], scope="alice", recipe=recipe, **options)[0]


def rows(hits: hr.QueryHits) -> list[dict[str, Any]]:
    names = ["key", "rank", "score", "text_score", "text_rank", "origin"]
    return hits.to_arrow().select(names).to_pylist()


def test_A09_A10_one_arm_is_filled_with_the_newest_of_the_same_scope_at_zero() -> None:
    found = rows(ask("postgres replication", limit=4))
    assert [row["key"] for row in found] == ["a", "c", "b", "e"]  # not d, which is bob's
    assert [row["rank"] for row in found] == [1, 2, 3, 4]
    assert [row["origin"] for row in found] == ["hit", "hit", "fill", "fill"]
    assert found[0]["score"] > found[1]["score"] > 0
    assert [row["score"] for row in found[2:]] == [0.0, 0.0]
    # It has no word of the query: its BM25 is 0. A document without a text has none.
    assert [row["text_score"] for row in found[2:]] == [0.0, None]
    assert [row["text_rank"] for row in found[2:]] == [None, None]


def test_A20_blank_text_gives_the_newest_with_score_1_and_no_components() -> None:
    for text in ("", "  "):
        found = rows(ask(text, limit=3))
        assert [row["key"] for row in found] == ["c", "b", "a"]
        assert {(row["score"], row["text_score"], row["origin"]) for row in found} == {
            (1.0, None, "fill")
        }


def test_two_arms_fill_only_where_nothing_was_found() -> None:
    index = built()
    vectors = np.stack([np.eye(5)[0], -np.ones(5)])
    hits = index.recall(
        text=["postgres", "zebra"], vectors=vectors, scope="alice", recipe=recipes.loom
    )
    assert [one.keys for one in hits] == [["a"], ["c", "b", "a", "e"]]


def test_blank_text_leaves_the_vector_unasked() -> None:
    index = built()
    one = np.eye(5)[:1]
    hits = index.recall(text=[" "], vectors=one, scope="alice", recipe=recipes.loom, limit=2)
    assert hits[0].keys == ["c", "b"]
    empty = Recipe(name="x", arms=(Lexical(), Dense()), fusion=hr.RRF())
    assert index.recall(text=[" "], vectors=one, scope="alice", recipe=empty).n_hits == 0
    strict = empty.replace(on_empty="error")
    with pytest.raises(hr.OptionError, match=r"text\[0\]: expected words \(x\), got blank text"):
        index.recall(text=[" "], vectors=one, scope="alice", recipe=strict)


@pytest.mark.parametrize("when", ["always", "one_arm", "no_match"])
def test_pages_of_a_filled_list_join(when: Any) -> None:
    recipe = recipes.loom.replace(fill=Fill("occurred_at", when=when))
    whole = ask("replication", limit=4, recipe=recipe).keys
    assert whole == (["a", "c"] if when == "no_match" else ["a", "c", "b", "e"])
    paged = [ask("replication", limit=1, offset=at, recipe=recipe).keys for at in range(4)]
    assert [key for page in paged for key in page] == whole


def test_a_filled_row_is_explained_as_one() -> None:
    hits = ask("postgres", limit=3)
    made = hits[1].explain()
    assert (made.score, made.fusion, made.components) == (0.0, "fill, by occurred_at", ())
    assert hits[0].explain().score == hits[0].score


def test_newest_for_blank_text_needs_a_fill() -> None:
    with pytest.raises(hr.OptionError, match="on_empty: expected 'newest' with fill="):
        Recipe(name="x", arms=(Lexical(),), fusion=hr.RRF(), on_empty="newest")


NOTE = "fill has no effect: a Budget bounds the lists"


def test_a_budget_makes_fill_step_aside_and_the_trace_says_so() -> None:
    for when in ("no_match", "one_arm", "always"):
        filled = recipes.loom.replace(fill=Fill("occurred_at", when=when))  # type: ignore[arg-type]
        bounded = filled.replace(shaping=(hr.Budget(1000),))
        hits = ask("replication", recipe=bounded)
        assert hits.keys == ["a", "c"]
        assert NOTE in reply_of(hits).trace.notes
        assert "origin" not in hits.to_arrow().column_names
        for text in ("zebra", "", "  "):
            assert ask(text, recipe=bounded).keys == []


@pytest.mark.parametrize("tokens", [None, 0, -3])
def test_a_budget_that_bounds_nothing_leaves_fill_alone(tokens: int | None) -> None:
    free = recipes.loom.replace(shaping=(hr.Budget(tokens),))
    assert ask("replication", recipe=free).keys == ask("replication").keys == ["a", "c", "b", "e"]
    assert NOTE not in reply_of(ask("replication", recipe=free)).trace.notes


@pytest.mark.parametrize("n_times", [1, 2, 7, 60])
def test_A07_what_fills_with_one_time_comes_in_the_order_of_the_tie_break(n_times: int) -> None:
    rng = np.random.default_rng(n_times)
    n = 60
    times = [None if at % 11 == 10 else NOW - timedelta(days=int(at % n_times)) for at in range(n)]
    ids = [f"k{one}" for one in rng.permutation(n)]
    table = pa.table(
        {
            "id": ids,
            "user": rng.choice(["ann", "bob"], n),
            "text": [["tea", "milk"][at % 20 == 3] for at in range(n)],
            "occurred_at": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )
    schema = hr.Schema(key="id", cell="user", text="text", attributes="occurred_at")
    index = hr.Index.build(table.slice(0, 25), schema)
    index.add(table.slice(25))  # a second segment
    rows_of = {one["id"]: (at, one) for at, one in enumerate(table.to_pylist())}

    def by_definition(users: list[str], found: list[str]) -> list[str]:
        others = [key for key, (_, row) in rows_of.items() if row["user"] in users]
        newest_last = datetime(1970, 1, 1, tzinfo=UTC)

        def place(key: str) -> tuple[float, str]:
            time = rows_of[key][1]["occurred_at"] or newest_last
            return -time.timestamp(), key

        return found + sorted(set(others) - set(found), key=place)

    scopes = [["ann"], ["bob"], ["ann", "bob"]]
    texts = ["milk", "zebra", ""]
    for limit in (1, 2, 5, 30, 100):
        hits = index.recall(
            text=texts, scope=[hr.Scope([(one,) for one in users]) for users in scopes],
            recipe=recipes.loom, limit=limit,
        )  # fmt: skip
        for users, one in zip(scopes, hits, strict=True):
            found = [hit.key for hit in one if hit.bm25_score]
            assert one.keys == by_definition(users, found)[:limit]
    plain = recipes.loom.replace(tie_break=())  # which names none: the order of arrival
    one = index.recall(text=["zebra"], scope="ann", recipe=plain, limit=100)[0]
    places = [(-(t.timestamp() if (t := rows_of[k][1]["occurred_at"]) else 0.0), rows_of[k][0])
              for k in one.keys]  # fmt: skip
    assert places == sorted(places)


def test_queries_of_one_scope_look_once_at_documents_of_one_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n = 500
    table = pa.table({
        "id": [f"k{at:03}" for at in reversed(range(n))],
        "user": ["ann", "bob"] * (n // 2),
        "text": ["tea"] * n,
        "occurred_at": pa.array([NOW] * n, pa.timestamp("us", "UTC")),
    })  # fmt: skip
    schema = hr.Schema(key="id", cell="user", text="text", attributes="occurred_at")
    index = hr.Index.build(table, schema)
    read: list[int] = []
    newest = fill.newest_rows

    def counted(*asked: Any) -> Any:
        found = newest(*asked)
        read.append(len(found[2]))
        return found

    monkeypatch.setattr(fill, "newest_rows", counted)
    recipe = recipes.loom.replace(depth=100)
    hits = index.recall(text=["zebra"] * 40, scope=["ann", "bob"] * 20, recipe=recipe, limit=3)
    assert [one.keys for one in hits] == [["k001", "k003", "k005"], ["k000", "k002", "k004"]] * 20
    assert sum(read) < 2 * n
