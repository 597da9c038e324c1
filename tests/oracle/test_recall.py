"""The oracle's recall and fusion by hand, on tables small enough to check by eye."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from oracle.bm25 import LUCENE, Bm25
from oracle.corpus import Draw, Mix, draw_mix, draw_rows, draw_scope, draw_shape
from oracle.documents import Above, Call, Reply, Row, Shape
from oracle.fusion import Dbsf, Rrf, Weighted, alpha_weights, fuse
from oracle.life import ConflictError, Life
from oracle.recall import Oracle
from oracle.scope import And, AnyOf, Equal, IsNull, NoneOf, Not, NotNull, Or, Range, passes
from oracle.words import Words

# ---- recall ----

SHAPE = Shape(dense={"embedding": 2})
ANA, BOB = frozenset({("ana",)}), frozenset({("bob",)})


def row(
    key: str,
    tenant: str | None,
    text: str | None,
    vector: Sequence[float] | None,
    **attributes: object,
) -> Row:
    matrix = None if vector is None else np.array(vector, np.float32)
    return Row(key, (tenant,), {"text": text}, {"embedding": matrix}, attributes)


ROWS = (
    row("1", "ana", "ash bay", (1, 0), number=1),
    row("2", "bob", "ash", (1, 0), number=1),
    row("3", "ana", "ash bay", (0, 1), number=2),
    row("4", "ana", None, (3, 0), number=None),
    row("5", None, "ash", None, number=5),
    row("6", "ana", "fog", (0, 0), number=3),
)
QUERY = np.array((2, 0), np.float32)


def ask(call: Call) -> Reply:
    return Oracle(SHAPE, ROWS).recall(call, 0)


def keys(call: Call) -> list[object]:
    return [hit.key for hit in ask(call)]


def text(words: str, scope: frozenset = ANA, **options: object) -> Call:
    return replace(Call((scope,), texts={"text": (Words(words),)}), **options)


def vector(scope: frozenset = ANA, **options: object) -> Call:
    return replace(Call((scope,), vectors={"embedding": (QUERY,)}), **options)


def both(words: str, scope: frozenset = ANA, **options: object) -> Call:
    return replace(text(words, scope), vectors={"embedding": (QUERY,)}, **options)


def test_scope_decides_what_is_seen_and_counted() -> None:
    assert keys(text("ash")) == ["1", "3"]
    assert keys(text("ash", ANA | BOB)) == ["2", "1", "3"]
    assert keys(text("ash", frozenset())) == keys(text("ash", frozenset({("nobody",)}))) == []
    assert keys(text("ash", frozenset({(None,)}))) == ["5"]
    (hit,) = ask(text("ash", BOB))
    assert hit.score == Oracle(SHAPE, [ROWS[1]]).recall(text("ash", BOB), 0)[0].score


def test_ties_go_to_the_earlier_document_and_missing_vectors_are_no_candidates() -> None:
    assert keys(vector()) == ["1", "4", "3"]
    assert [hit.score for hit in ask(vector())] == [1.0, 1.0, 0.0]


def test_filters_narrow_the_reply_and_leave_the_scores_alone() -> None:
    (hit,) = ask(text("ash", filters=(Equal("number", 2),)))
    assert hit._replace(rank=2) == ask(text("ash"))[1]


def test_completion_scores_the_union_in_every_arm() -> None:
    first, second, third = ask(both("bay", depth=10, fusion=Rrf()))
    assert (first.key, second.key, third.key) == ("1", "3", "4")
    assert first.score == 1 / 61 + 1 / 61
    assert second.score == 1 / 61 + 1 / 63
    assert second.arm_ranks == (1, 3)
    assert third.arm_scores == (None, 1.0)
    assert third.arm_ranks == (None, 1)  # as near as the first, and so of its rank


def test_depth_cuts_an_arm_and_completion_still_scores() -> None:
    first, second = (ask(both("fog", depth=n, limit=n, fusion=Rrf())) for n in (1, 3))
    assert [hit.key for hit in first] == ["1"]  # 1/61 each for documents 1 and 6: the earlier one
    assert first[0].arm_scores == (0.0, 1.0)
    assert first[0].arm_ranks == (None, 1)
    assert [hit.key for hit in second] == ["1", "4", "6"]
    assert {hit.score for hit in second} == {1 / 61}


def test_floors_act_before_ranks() -> None:
    assert keys(vector(min_score={"embedding": 1.0})) == ["1", "4"]
    assert keys(vector(min_score={"embedding": Above(1.0)})) == []
    assert keys(vector(min_score={"embedding": 1.0 + 2.0**-40})) == [
        "1",
        "4",
    ]  # rounded to float32 first
    cut = ask(both("ash", min_score={"embedding": Above(1.0)}))
    assert [hit.arm_ranks for hit in cut] == [(1, None), (1, None)]
    assert [hit.arm_scores[1] for hit in cut] == [1.0, 0.0]
    above = ask(both("ash", min_score={"embedding": 1.0}))
    assert [hit.arm_ranks for hit in above] == [(1, 1), (None, 1), (1, None)]


def test_offset_keeps_the_rank_in_the_whole_list() -> None:
    assert [(hit.rank, hit.key) for hit in ask(vector(offset=1, limit=2))] == [(2, "4"), (3, "3")]


def test_alpha_leaves_an_arm_out_at_its_ends() -> None:
    hits = ask(both("ash", fusion=Rrf(alpha=0.0)))
    assert [hit.score for hit in hits] == [2 / 61, 2 / 61]
    assert [hit.arm_scores[1] for hit in hits] == [None, None]


def test_a_query_without_its_vector_uses_the_other_arm() -> None:
    hits = ask(replace(both("ash"), vectors={"embedding": (np.zeros(2, np.float32),)}))
    assert [hit.arm_ranks for hit in hits] == [(1, None), (1, None)]
    assert [hit.arm_scores[1] for hit in hits] == [None, None]
    assert ask(Call((ANA,), texts={"text": (None,)})) == ()


def test_several_arms_are_joined_by_a_balanced_sum_with_bm25_constants_of_its_own() -> None:
    plain = ask(both("bay"))
    named = both("bay", fusion=Weighted(balance=0.85), bm25=Bm25("lucene", 0.75, 0.25))
    assert plain == ask(named) != ask(both("bay", fusion=Rrf()))
    # Words: 1 and 3 hold it alike and 4 has no text, so all that scored are at 1. Cosines: 1, 1, 0.
    share = 0.85 + 1.0 - 2 / 3
    assert share > 1
    assert [(hit.key, hit.score) for hit in plain] == [("1", 1.0), ("4", 1.0), ("3", 0.0)]
    flat = replace(LUCENE, b=0.0)
    assert ask(both("bay", bm25=flat))[0].arm_scores[0] == ask(text("bay", bm25=flat))[0].score
    named_by_index = Oracle(SHAPE, ROWS, bm25=flat).recall(both("bay"), 0)
    assert named_by_index == ask(both("bay", bm25=flat))
    assert ask(both("bay", fusion=Rrf()))[0].arm_scores[0] == ask(text("bay"))[0].score


def test_bm25_of_the_call_replaces_that_of_the_index() -> None:
    flat = replace(LUCENE, b=0.0)
    assert ask(text("ash", bm25=flat)) == Oracle(SHAPE, ROWS, bm25=flat).recall(text("ash"), 0)


def test_filters_are_two_valued() -> None:
    null, two = {"n": None, "tags": None}, {"n": 2, "tags": ["a", "b"]}
    assert not passes(Equal("n", 2), null)
    assert passes(Not(Equal("n", 2)), null)
    assert passes(NoneOf("n", (2,)), null)
    assert passes(IsNull("n"), null)
    assert passes(NotNull("n"), two)
    assert passes(Range("n", 2, 2), two)
    assert passes(Range("n", None, 2), two)
    assert not passes(Range("n", 3, None), two)
    assert passes(AnyOf("tags", ("b", "c")), two)
    assert not passes(AnyOf("tags", ("c",)), two)
    assert passes(And(Equal("n", 2), Or(IsNull("n"), NotNull("tags"))), two)


def test_an_update_moves_to_the_end_and_a_conflict_adds_nothing() -> None:
    life = Life(ROWS[:3])
    life.upsert([replace(ROWS[0], texts={"text": "new"})])
    assert [row.key for row in life.rows] == ["2", "3", "1"]
    with pytest.raises(ConflictError):
        life.add([ROWS[4], ROWS[1]])
    assert len(life.rows) == 3
    assert life.delete(["2", "3"], [ANA, ANA]) == 1
    assert [row.key for row in life.rows] == ["2", "1"]


def test_drawn_tables_have_unique_identities_shared_keys_ties_and_nulls() -> None:
    shared = twins = nulls = unknown = 0
    for seed in range(60):
        draw = Draw(seed)
        shape = draw_shape(draw)
        rows = draw_rows(draw, shape, draw_mix(draw))
        assert len({row.identity for row in rows}) == len(rows)
        shared += len({row.key for row in rows}) < len(rows)
        twins += len({id(row.texts) for row in rows}) < len(rows)
        nulls += any(None in row.texts.values() for row in rows)
        unknown += any(
            not draw_scope(draw, shape, rows) & {row.cell for row in rows} for _ in range(5)
        )
    assert min(shared, twins, nulls, unknown) > 10


def test_the_same_seed_draws_the_same_table() -> None:
    first, second = (draw_rows(Draw(5), SHAPE, Mix()) for _ in range(2))
    assert repr(first) == repr(second)


# ---- fusion, with the published numbers of the systems that use it ----

BOTH = {"a": 1.0, "b": 1.0}
RANKS = {"a": {1: 1, 2: 2, 3: 3}, "b": {2: 1, 1: 2}}
SCORES = {"a": {1: 9.0, 2: 5.0, 3: 1.0}, "b": {1: 0.25, 2: 0.75, 3: None}}


def test_rrf_gives_the_published_numbers() -> None:
    fused = fuse(Rrf(), SCORES, RANKS, BOTH)
    assert fused[1] == fused[2] == 1 / 61 + 1 / 62
    assert fused[1] == pytest.approx(0.032522, abs=5e-7)
    assert fused[3] == 1 / 63


def test_alpha_gives_the_dense_arm_twice_alpha() -> None:
    assert alpha_weights(0.25, "a", "b") == {"a": 1.5, "b": 0.5}
    assert fuse(Rrf(), SCORES, RANKS, {"a": 1.5, "b": 0.5})[3] == 1.5 / 63


def test_minmax_is_over_the_union_and_null_adds_nothing() -> None:
    fused = fuse(Weighted(), SCORES, RANKS, BOTH)
    assert fused == {1: 1.0 + 0.0, 2: 0.5 + 1.0, 3: 0.0}


def test_minmax_of_equal_scores_is_one() -> None:
    scores = {"a": {1: 3.0, 2: 3.0}}
    assert fuse(Weighted(), scores, {"a": {1: 1, 2: 2}}, {"a": 0.5}) == {1: 0.5, 2: 0.5}


@pytest.mark.parametrize("fusion", [Weighted(), Weighted(largest=True), Dbsf()])
def test_an_arm_that_lists_nothing_adds_nothing(fusion: Weighted) -> None:
    scores = {"a": {1: 0.0, 2: 0.0, 3: None}, "b": {1: 0.25, 2: 0.75, 3: 0.5}}
    ranks = {"a": {}, "b": {2: 1, 3: 2, 1: 3}}
    alone = fuse(fusion, {"b": scores["b"]}, {"b": ranks["b"]}, BOTH)
    assert fuse(fusion, scores, ranks, BOTH) == alone
    heard = fuse(fusion, scores, ranks | {"a": {1: 1}}, BOTH)  # control: with one hit it counts
    assert heard[1] == alone[1] + 1.0 if not fusion.largest else heard[1] == 1.0


def test_without_completion_what_is_not_listed_is_zero() -> None:
    scores = {"a": {1: 8.0, 2: 4.0, 3: 0.0}, "b": {1: 0.5, 2: 0.25, 3: 0.75}}
    ranks = {"a": {1: 1, 2: 2}, "b": {3: 1}}
    assert fuse(Weighted(complete=False), scores, ranks, BOTH) == {1: 1.0, 2: 0.0, 3: 1.0}
    assert fuse(Weighted(), scores, ranks, BOTH) == {1: 1.5, 2: 0.5, 3: 1.0}


def test_maximum_takes_the_larger_weighted_score() -> None:
    fused = fuse(Weighted(largest=True, normalize="none"), SCORES, RANKS, {"a": 0.1, "b": 2.0})
    assert fused == {1: 9.0 * 0.1, 2: 1.5, 3: 0.1}


def test_contributions_are_added_largest_first() -> None:
    tiny = 2.0**-53
    scores = {"a": {1: tiny}, "b": {1: tiny}, "c": {1: 1.0}}
    fused = fuse(
        Weighted(normalize="none"),
        scores,
        {arm: {1: 1} for arm in scores},
        dict.fromkeys(scores, 1.0),
    )
    assert fused[1] == 1.0  # smallest first would give 1 + 2^-52
