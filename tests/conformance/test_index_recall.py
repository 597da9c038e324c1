"""Recall from an index: what is found, in which order, with which scores and ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import hyrecall as hr
from conformance.faces import refused
from conformance.index_faces import IN_PYTHON, Index, World, reference
from conformance.index_worlds import DRAWN, ONE_ARM, TEAS, ask, cells, keys, row, same
from oracle import marks
from oracle.bm25 import Bm25
from oracle.corpus import SHAPES, Draw, Mix, draw_rows, draw_weights
from oracle.documents import Above, Call
from oracle.words import All, Any, Boost, Fuzzy, Not, Phrase, Prefix, Query, Words


def test_B14_words_find_by_bm25(index: Index) -> None:
    same(index, TEAS, ask("hot tea"), ask("tea mint"))
    assert keys(index.recall(ask("hot tea"))) == [["hot", "cold", "green"]]


def test_B14_vectors_find_by_cosine(index: Index) -> None:
    call = ask(vector=[2, 1, 0])
    same(index, TEAS, call)
    assert keys(index.recall(call)) == [["cold", "hot", "green", "bean"]]


def test_both_arms_are_fused(index: Index) -> None:
    same(index, TEAS, ask("mint tea", [1, 0, 0]), ask("coffee", [0, 1, 0]))


def test_many_ties_nulls_and_empty_texts(make_index: Callable[..., Index]) -> None:
    index = make_index(DRAWN)
    for tenant in ("ana", "bob", "cyd"):
        calls = [
            ask("grow ash", [1, 0, 2], cells(tenant), limit=30),
            ask("zen", scope=cells(tenant)),
        ]
        same(index, DRAWN, *calls)


def test_H07_a_batch_answers_each_query_as_if_it_were_alone(index: Index) -> None:
    scopes = (cells("ana"), cells("bob"), cells("nobody at all"), cells("ana"))
    texts = {"text": tuple(map(Words, ("tea", "hot", "tea", "mint")))}
    call = Call(scopes, texts)
    same(index, TEAS, call, *(call.take([query]) for query in range(4)))
    assert keys(index.recall(call)) == [["hot", "cold", "green"], ["hot", "milk"], [], ["green"]]


def test_equal_scores_stand_in_the_order_of_insertion(make_index: Callable[..., Index]) -> None:
    twins = [row(key, "ana", "tea", [1, 0, 0]) for key in ("z", "a", "m")]
    index = make_index(World(ONE_ARM, (row("x", "bob", "tea", None), *twins)))
    for call in (ask("tea"), ask(vector=[1, 0, 0]), ask("tea", [1, 0, 0])):
        assert keys(index.recall(call)) == [["z", "a", "m"]]


def test_a_reply_of_fewer_hits_is_the_begin_of_a_longer_one(index: Index) -> None:
    (whole,) = index.recall(ask("hot tea mint", [1, 1, 0]))
    assert len(whole) == 4
    for limit in range(5):
        assert index.recall(ask("hot tea mint", [1, 1, 0], limit=limit)) == [whole[:limit]]
    assert index.recall(ask("hot tea mint", [1, 1, 0], limit=2, offset=1)) == [whole[1:3]]


def test_limit_beyond_depth_is_refused_where_arms_are_joined(index: Index) -> None:
    with refused("value", "limit"):
        index.recall(ask("tea", [1, 0, 0], limit=5, depth=4))
    same(index, TEAS, ask("tea", limit=5), ask("tea", [1, 0, 0], limit=1, depth=1))


def test_a_vector_that_is_missing_or_zero_is_not_found(index: Index) -> None:
    call = ask(vector=[1, 1, 1], scope=cells("bob"))
    assert keys(index.recall(call)) == [["hot"]]
    assert index.recall(ask(vector=[0, 0, 0])) == [()]


def test_a_floor_of_an_arm_is_inclusive(index: Index) -> None:
    (found,) = index.recall(ask("tea"))
    least = found[1].score
    call = ask("tea", min_score={"text": least})
    same(index, TEAS, call, ask(vector=[2, 1, 0], min_score={"embedding": 0.5}))
    assert keys(index.recall(call)) == [["hot", "cold"]]


def test_a_strict_floor(index: Index) -> None:
    (found,) = index.recall(ask("hot tea"))
    call = ask("hot tea", min_score={"text": Above(found[1].score)})
    assert keys(index.recall(call)) == [["hot"]]
    same(index, TEAS, call)


def test_completion_scores_a_hit_in_the_arm_that_did_not_list_it(index: Index) -> None:
    (found,) = index.recall(ask("coffee", [1, 0, 0]))
    assert {hit.key: hit.arm_ranks[0] for hit in found} == {
        "bean": 1, "hot": None, "cold": None, "green": None,
    }  # fmt: skip
    assert [hit.arm_scores[0] for hit in found if hit.key != "bean"] == [0.0, 0.0, 0.0]
    same(index, TEAS, ask("coffee", [1, 0, 0]))


@pytest.mark.parametrize(
    "query",
    [
        Phrase("hot tea"), Phrase("tea mint", 1), Prefix("te"), All((Words("hot"), Words("tea"))),
        Any((Phrase("green tea"), Boost(Words("coffee"), 3.0))),
        Any((Words("tea mint"), Not(Phrase("hot tea")))), Fuzzy("tae"), Fuzzy("hot taa", 2),
        Phrase("green t", 1, prefix_last=True),
    ],
    ids=[
        "phrase", "slop", "prefix", "all", "any and boost", "not", "fuzzy", "fuzzy in a row",
        "prefix with slop",
    ],
)  # fmt: skip
def test_typed_queries(index: Index, query: Query) -> None:
    same(index, TEAS, Call((cells("ana"),), {"text": (query,)}))


def test_B07_a_repeated_word_counts_again(index: Index) -> None:
    (once,), (twice,) = index.recall(ask("mint")), index.recall(ask("mint mint"))
    assert (twice[0].key, twice[0].score) == ("green", 2 * once[0].score)
    same(index, TEAS, ask("mint mint"))


def test_two_text_arms_with_weights_and_two_vector_arms(make_index: Callable[..., Index]) -> None:
    weights = {"body": {"title": 3}}
    shape = replace(SHAPES[3], dense={"near": 2, "far": 3}, weights=weights)
    world = World(shape, tuple(draw_rows(Draw(5), shape, Mix(n_rows=30))))
    index, text = make_index(world), (Words("grow ash"),)
    scope = frozenset(one.cell for one in world.rows[:3])
    near = np.array([1, 2], np.float32), np.array([0, 1, 1], np.float32)
    vectors = {"near": (near[0],), "far": (near[1],)}
    both = {"title": text, "body": text}
    same(index, world, Call((scope,), both), Call((scope,), both, vectors, limit=30))


def test_an_arm_of_many_vectors_and_one_of_sparse_ones(make_index: Callable[..., Index]) -> None:
    forms = {"many": frozenset({"far"}), "sparse": frozenset({"near"})}
    shape = replace(SHAPES[3], dense={"near": 12, "far": 3}, **forms)
    world = World(shape, tuple(draw_rows(Draw(8), shape, Mix(n_rows=30))))
    scope, draw = frozenset(one.cell for one in world.rows[:3]), Draw(9)
    near = draw_weights(draw, Mix(null=0, empty=0), 12)
    far = np.array([[1, 2, 0], [0, -1, 1]], np.float32)
    vectors = {"near": (near,), "far": (far,)}
    same(
        make_index(world),
        world,
        Call((scope,), {}, {"near": (near,)}),
        Call((scope,), dict.fromkeys(("title", "body"), (Words("grow ash"),)), vectors, limit=30),
    )


def test_a_table_with_one_audience(make_index: Callable[..., Index]) -> None:
    shape = replace(SHAPES[2], dense={"embedding": 2})
    world = World(shape, tuple(draw_rows(Draw(6), shape, Mix(n_rows=20))))
    text, vector = (Words("bay elm"),), (np.array([1, -1], np.float32),)
    call = Call((frozenset({()}),), {"text": text}, {"embedding": vector}, limit=20)
    same(make_index(world), world, call)


@pytest.mark.parametrize("variant", ["okapi", "fts5", "robertson", "atire", "lucene"])
def test_B01_B02_variants_of_bm25(index: Index, variant: str) -> None:
    calls = [ask("hot tea", bm25=Bm25(variant, k1, b)) for k1, b in ((1.5, 0.75), (0.9, 0.4))]
    same(index, TEAS, *calls)


def test_hits_bring_their_columns(index: Index) -> None:
    (found,) = index.shown(ask("hot"), ["text", "kind", "number", "tags"])
    assert found == [{"text": "hot tea", "kind": "note", "number": 1, "tags": ["red"]}]


def test_normalised_scores_are_shares_of_the_best_possible(index: Index) -> None:
    (found,) = index.recall(ask("hot tea", [1, 0, 0]), normalize=True)
    plain = index.recall(ask("hot tea", [1, 0, 0]))
    assert [hit.key for hit in found] == keys(plain)[0]
    assert found[0].score == 1.0
    assert all(0 <= hit.score <= 1 for hit in found)


def test_a_recipe_by_name_ranks_alike(make_index: Callable[..., Index], index_face: str) -> None:
    recipe = hr.recipes.default if index_face in IN_PYTHON else "default"
    index, known = make_index(DRAWN), reference(DRAWN)
    for tenant in ("ana", "bob"):
        call = ask("grow ash zen", [1, 0, 2], cells(tenant))
        found = index.recall(call, recipe=recipe)
        assert found == known.recall(call, recipe=hr.recipes.default)
        assert found[0]


@pytest.mark.parametrize("text_only", [True, False], ids=["text", "both"])
def test_explanations_recompute_the_scores(index: Index, text_only: bool) -> None:
    (found,) = index.explained(ask("hot tea", None if text_only else [1, 1, 0]))
    assert found
    assert all(score == told for score, told in found)


@pytest.mark.parametrize("vector", [None, [1, 1, 0]], ids=["text", "both"])
def test_words_of_the_query_are_marked(index: Index, vector: list[float] | None) -> None:
    call = ask("hot tea", vector)
    (texts,), (found,) = index.shown(call, ["text"]), index.marked(call)
    assert texts
    for row_of, (spans, snippet) in zip(texts, found, strict=True):
        text = row_of["text"]
        expected = marks.merged(marks.found(text, Words("hot tea")))
        assert [tuple(one) for one in spans] == expected
        assert snippet.replace("<mark>", "").replace("</mark>", "") == text
        assert snippet.count("<mark>") == len(expected)
