"""Search of a store: what is found, in which order, with which scores."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conformance.faces import at, ids, moment, refused
from conformance.store_face import Found, Store
from hyrecall.embed import HashEmbedder
from oracle.arithmetic import plain_cosine

TEAS = ("hot tea at four", "cold tea", "coffee", "tea with mint at four")


def scores(found: Found) -> list[float]:
    return [one["score"] for one in found]


def test_A08_without_vectors_the_score_is_bm25s(store: Store) -> None:
    store.fill(*TEAS)
    found = store.search("hot tea")
    assert ids(found)[0] == "m0"
    assert sorted(ids(found)) == ["m0", "m1", "m3"]
    assert all(one["score"] == one["bm25_score"] > 0 for one in found)
    assert all(one["vector_score"] is None for one in found)


def test_words_of_the_query_are_marked(store: Store) -> None:
    store.fill(*TEAS, {"text": "none", "input": "Is <tea> hot?"})
    assert sorted(store.marked("hot tea")) == [
        ("m0", [[0, 3], [4, 7]], "<mark>hot</mark> <mark>tea</mark> at four"),
        ("m1", [[5, 8]], "cold <mark>tea</mark>"),
        ("m3", [[0, 3]], "<mark>tea</mark> with mint at four"),
        ("m4", [[4, 7], [9, 12]], "Is &lt;<mark>tea</mark>&gt; <mark>hot</mark>?\nnone"),
    ]


def test_every_door_is_as_sure(store: Store) -> None:
    store.fill(*TEAS)
    assert store.sure("hot tea at four") == 0.9645539909317041
    assert store.sure("the coffee of Bob") == 0.056582198495460485
    assert store.sure("zebra") == 0.0


def test_A48_recall_scored_has_the_scores_of_search(make_store: Callable[..., Store]) -> None:
    store = make_store("loom", place=())  # recall_scored takes users without a partition
    store.fill(*TEAS)
    found = store.recall_scored("hot tea", limit=3)
    assert [(one["id"], one["score"]) for one in found] == [
        (one["id"], one["score"]) for one in store.search("hot tea", limit=3)
    ]


def test_H13_scores_are_those_of_python_to_the_last_bit(store: Store) -> None:
    store.fill(*TEAS)
    for query in ("hot tea", "four", "mint tea at"):
        assert scores(store.search(query)) == scores(store.setup.search(query))


def test_A07_equal_scores_are_newest_first(make_store: Callable[..., Store]) -> None:
    store = make_store("loom")
    store.fill({"text": "tea", "occurred_at": at(5)}, "tea", {"text": "tea", "occurred_at": at(5)})
    assert ids(store.search("tea")) == ["m0", "m2", "m1"]


def test_A23_a_shorter_reply_is_the_begin_of_a_longer_one(store: Store) -> None:
    store.fill(*TEAS)
    whole = ids(store.search("tea four"))
    assert len(whole) == 3
    assert ids(store.search("tea four", limit=2)) == whole[:2]
    assert ids(store.search("tea four", limit=2, offset=1)) == whole[1:]


def test_A23_a_negative_limit_is_refused(store: Store) -> None:
    store.fill(*TEAS)
    with refused("value", "limit"):
        store.search("tea", limit=-1)


def test_A23_a_limit_of_0_gives_nothing(store: Store) -> None:
    store.fill(*TEAS)
    assert store.search("tea", limit=0) == []


def test_A25_F17_kind_and_tags_narrow_before_the_cut(store: Store) -> None:
    store.fill(
        {"text": "tea tea", "kind": "note"}, {"text": "tea", "tags": ["x"]}, "tea with much else"
    )
    assert ids(store.search("tea", kind="note", limit=1)) == ["m0"]
    assert ids(store.search("tea", tags=["x", "none"], limit=1)) == ["m1"]
    assert store.search("tea", kind="other") == []


def test_A24_both_ends_of_a_time_are_included(store: Store) -> None:
    store.fill("tea", "tea", "tea", "tea")
    assert sorted(ids(store.search("tea", since=at(1), until=at(2)))) == ["m1", "m2"]
    assert sorted(ids(store.search("tea", since=at(3)))) == ["m3"]
    assert store.search("tea", since=at(2), until=at(1)) == []


def test_A24_a_date_alone_is_the_whole_day(store: Store) -> None:
    store.fill("tea", {"text": "tea", "occurred_at": "2026-01-02T23:59:59+00:00"},
               {"text": "tea", "occurred_at": "2026-01-03T00:00:00+00:00"})  # fmt: skip
    assert ids(store.search("tea", since="2026-01-02", until="2026-01-02")) == ["m1"]
    for days in ({"from": "2026-01-02", "to": "2026-01-02"}, ["2026-01-02"]):
        assert ids(store.search("tea", filter={"occurred_at": days})) == ["m1"]


def test_filters_on_attributes_and_metadata(store: Store) -> None:
    rows = [{"text": "tea", "importance": n, "metadata": {"n": n}} for n in range(4)]
    store.fill(*rows, {"text": "tea", "session_id": "s"})
    assert sorted(ids(store.search("tea", filter={"importance": {"from": 1, "to": 2}}))) == [
        "m1",
        "m2",
    ]
    assert ids(store.search("tea", filter={"metadata.n": 3})) == ["m3"]
    assert sorted(ids(store.search("tea", filter={"importance": [0, 3]}))) == ["m0", "m3"]
    assert ids(store.search("tea", filter={"metadata.n": [1, 2], "importance": 2})) == ["m2"]
    for only in ({"metadata.n": None}, {"session_id": "s"}):
        assert ids(store.search("tea", filter=only)) == ["m4"]
    with refused("value", "colour"):
        store.search("tea", filter={"colour": 1})


def test_a_floor_on_bm25_is_inclusive(store: Store) -> None:
    store.fill(*TEAS)
    found = store.search("hot tea")
    floor = found[1]["bm25_score"]
    kept = store.search("hot tea", min_score={"bm25": floor})
    assert ids(kept) == [one["id"] for one in found if one["bm25_score"] >= floor]
    assert store.search("hot tea", min_score={"bm25": 1000.0}) == []
    assert store.search("hot tea", recipe="loom", min_score=1000.0) == []


def test_A36_normalised_scores_begin_at_1(store: Store) -> None:
    store.fill(*TEAS)
    found = store.search("hot tea", normalize=True)
    assert scores(found)[0] == 1.0
    assert ids(found) == ids(store.search("hot tea"))
    assert all(0 < one <= 1 for one in scores(found))


def test_A09_A10_short_lists_are_filled_with_the_newest(make_store: Callable[..., Store]) -> None:
    store = make_store("loom")
    store.fill("tea", "one", "two", "three")
    store.as_user("bob").fill("tea of bob")
    found = store.search("tea", limit=3)
    assert ids(found) == ["m0", "m3", "m2"]
    assert [one["is_fill"] for one in found] == [False, True, True]
    assert scores(found)[0] > 0
    assert scores(found)[1:] == [0.0, 0.0]


def test_A21_a_query_that_matches_nothing_gives_the_newest(
    make_store: Callable[..., Store],
) -> None:
    store = make_store("loom")
    store.fill("one", "two", "three")
    found = store.search("zebra", limit=2)
    assert (ids(found), scores(found)) == (["m2", "m1"], [0.0, 0.0])


def test_A20_a_blank_query_gives_the_newest(make_store: Callable[..., Store]) -> None:
    store = make_store("loom")
    store.fill("one", "two", "three")
    for query in ("", "  "):
        found = store.search(query, limit=2)
        assert (ids(found), scores(found)) == (["m2", "m1"], [1.0, 1.0])


def test_A22_a_user_without_memories_finds_nothing(store: Store) -> None:
    store.fill("tea")
    assert store.as_user("nobody at all").search("tea") == []


def test_F04_quoted_words_stand_side_by_side(make_store: Callable[..., Store]) -> None:
    store = make_store("hebb")
    store.fill("blue green deploy", "green and blue deploy", "deploy of blue green things")
    assert sorted(ids(store.search('"blue green deploy"'))) == ["m0"]
    assert len(store.search("blue green deploy")) == 3


def test_an_identifier_comes_first(store: Store) -> None:
    store.fill(*(f"invoice INV-2026-00{n} is due" for n in range(10, 60)))
    assert ids(store.search("INV-2026-0042", limit=1)) == ["m32"]


def test_F25_odd_characters_are_only_words(store: Store) -> None:
    store.fill("tea (hot) AND/OR cold*", "coffee")
    for query in ('"', "tea AND (", "NEAR/3 tea", "*", "'; drop table x; --", "tea" * 2000):
        store.search(query, limit=1)
    assert ids(store.search("tea AND (", limit=1)) == ["m0"]


def test_memories_around_a_match_in_its_session(store: Store) -> None:
    store.fill(
        *({"text": text, "session_id": "s"} for text in ("one", "two", "tea", "four", "five"))
    )
    (found,) = store.search("tea", around=1, limit=1)
    assert (found["id"], found["around"]) == ("m2", ["m1", "m3"])
    assert store.as_user("bob").search("tea", around=1) == []
    with refused("value", "around"):
        store.search("tea", around=101)


def test_E28_a_token_budget_keeps_the_first(store: Store) -> None:
    store.fill("tea tea tea", "tea " * 30, "tea")
    whole = ids(store.search("tea"))
    assert ids(store.search("tea", token_budget=1)) == whole[:1]
    assert len(store.search("tea", token_budget=10_000)) == 3


def test_F15_weights_of_one_search(make_store: Callable[..., Store]) -> None:
    store = make_store("hebb")
    store.fill({"text": "tea", "importance": 0}, {"text": "tea with much else", "importance": 10})
    by_words = {"recency": 0, "importance": 0, "relevance": 1}
    by_rating = {"recency": 0, "importance": 1, "relevance": 0}
    assert ids(store.search("tea", weights=by_words)) == ["m0", "m1"]
    found = store.search("tea", weights=by_rating)
    assert (ids(found), scores(found)) == (["m1", "m0"], [1.0, 0.0])


def test_candidates_are_one_more_list(store: Store) -> None:
    store.fill("tea", "coffee", "milk")
    assert ids(store.search("tea", candidates=["m2"])) == ["m0", "m2"]


def test_A39_diversity_puts_the_odd_one_second(make_store: Callable[..., Store]) -> None:
    store = make_store(embeds=True)
    store.fill("tea tea cup", "tea cup tea", "tea with plenty of other words", "cup tea tea")
    assert ids(store.search("tea cup")) == ["m0", "m1", "m3", "m2"]
    assert ids(store.search("tea cup", diversity=0.9)) == ["m0", "m2", "m1", "m3"]


def test_a_recipe_by_name(store: Store) -> None:
    store.fill("tea", "one", "two")
    assert ids(store.search("tea")) == ["m0"]
    assert ids(store.search("tea", recipe="loom")) == ["m0", "m2", "m1"]
    with refused("value", "recipe"):
        store.search("tea", recipe="none")


def test_F20_accesses_are_counted_where_asked(make_store: Callable[..., Store]) -> None:
    store = make_store("hebb")
    store.fill(*({"text": "tea", "occurred_at": at(n)} for n in range(3)))
    store.search("tea", limit=3)
    assert [line for line in store.setup.export() if '"access_count":1' in line] == []
    store.search("tea", limit=3, touch=True)
    assert len([line for line in store.setup.export() if '"access_count":1' in line]) == 3


def test_C12_a_conversation_remembers_what_it_received(make_store: Callable[..., Store]) -> None:
    store = make_store("hypergraph")
    store.fill("tea one", "tea two", "coffee three")
    assert ids(store.search("coffee", session_id="chat", limit=1)) == ["m2"]
    plain = store.search("tea coffee", session_id="other")
    found = store.search("tea coffee", session_id="chat")
    score = {one["id"]: one["score"] for one in found}
    assert ids(found)[0] == "m2"
    assert score["m2"] != {one["id"]: one["score"] for one in plain}["m2"]


# ---- with an embedder, and with one that is switched off ----


def test_F02_words_answer_and_say_that_embeddings_are_off(
    make_store: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYRECALL_EMBED_DISABLE", "1")
    store = make_store(embeds=None)
    store.fill(*TEAS)
    found = store.search("hot tea")
    assert ids(found)[0] == "m0"
    assert found.reasons == ["embeddings_off"]


def vector(text: str) -> object:
    return HashEmbedder(16).embed([text])[0]


def test_A11_a_hybrid_match_has_both_scores(make_store: Callable[..., Store]) -> None:
    store = make_store("loom", embeds=True)
    store.fill("hot tea", "cold tea", "coffee")
    found = store.search("hot tea", limit=3)
    assert found.reasons == []
    assert ids(found)[:2] == ["m0", "m1"]
    for one in found:
        cosine = plain_cosine(vector(one["text"]), vector("hot tea"))
        assert one["vector_score"] == float(cosine or 0.0)


def test_a_memory_stays_that_reaches_the_floor_of_either_arm(
    make_store: Callable[..., Store],
) -> None:
    store = make_store(embeds=True)
    store.fill("tea tea tea", "hot milk", "water", "hot tea with milk and plenty of sugar")
    every = store.search("hot tea", limit=4)
    floors = {
        "bm25": max(one["bm25_score"] or 0.0 for one in every),
        "cosine": max(one["vector_score"] for one in every),
    }
    wanted = {
        one["id"]
        for one in every
        if floors["bm25"] == one["bm25_score"] or floors["cosine"] == one["vector_score"]
    }
    assert len(wanted) == 2
    assert set(ids(store.search("hot tea", limit=4, min_score=floors))) == wanted
    with refused("value", "min_score"):
        store.search("hot tea", min_score={"text": 1.0})


def test_A12_A13_A14_alpha_weighs_the_arms(make_store: Callable[..., Store]) -> None:
    store = make_store("loom", embeds=True)
    store.fill("hot tea", "tea", "tea with cold milk", "coffee")
    plain = store.search("hot tea", limit=4)
    by_words = [one["id"] for one in sorted(plain, key=lambda one: -one["bm25_score"])]
    by_cosine = [one["id"] for one in sorted(plain, key=lambda one: -one["vector_score"])]
    assert ids(store.search("hot tea", alpha=0.0, limit=3)) == by_words[:3]
    assert ids(store.search("hot tea", alpha=1.0, limit=3)) == by_cosine[:3]
    (best,) = store.search("hot tea", alpha=0.5, limit=1)
    assert (best["id"], best["score"]) == ("m0", 2 / 61)


def test_A18_alpha_has_no_effect_on_words_alone(make_store: Callable[..., Store]) -> None:
    store = make_store("loom")
    store.fill(*TEAS)
    plain = [(one["id"], one["score"]) for one in store.search("hot tea", alpha=0.5)]
    for alpha in (0.0, 1.0):
        assert [(one["id"], one["score"]) for one in store.search("hot tea", alpha=alpha)] == plain
    with refused("value", "alpha"):
        store.search("tea", alpha=1.5)


def test_H10_vectors_are_there_after_reopening(make_store: Callable[..., Store]) -> None:
    store = make_store(embeds=True)
    store.fill(*TEAS)
    before = store.search("hot tea", limit=4)
    store.reopen()
    assert store.search("hot tea", limit=4) == before
    assert all(one["vector_score"] is not None for one in before)


def test_search_of_a_time_has_no_clock_in_its_scores(store: Store) -> None:
    store.fill("tea", "tea")
    first = store.search("tea", now="2026-02-01T00:00:00+00:00")
    assert store.search("tea", now="2027-02-01T00:00:00+00:00") == first
    assert [one["occurred_at"] for one in first] == [moment(at(0)), moment(at(1))]
