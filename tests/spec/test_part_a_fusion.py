"""Rows of part A about how two arms become one list."""

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import recipes
from oracle.references import textbook
from spec.episodes import Stores, episodes, ranked, stores
from spec.loom_by_definition import (
    assert_same_order,
    lexical_ranking,
    overlap,
    vector_ranking,
    voted,
)

ALPHAS = (0.0, 0.1, 0.3, 0.44, 0.45, 0.5, 0.56, 0.7, 0.9, 1.0)


def loom(alpha: float, **changes: Any) -> Any:
    """Loom's recipe without what fills short lists."""
    changes = {"fill": None, "on_empty": "empty"} | changes
    return recipes.loom.replace(fusion=hr.RRF(alpha=alpha), **changes)


@pytest.fixture(scope="module")
def many() -> Stores:
    return stores(200, seed=1)


def test_A07_order_is_by_score_then_newer_then_id() -> None:
    """1,000 random queries; two runs are the same to the byte."""
    made = stores(1000, seed=7)
    columns = ("occurred_at",)
    table = made.ask(limit=30, columns=columns).to_arrow()
    query = table["query"].to_numpy()
    score = table["score"].to_numpy()
    newness = table["occurred_at"].cast(pa.int64()).to_numpy()
    key = table["key"].to_numpy()
    n_ties = 0
    for at in np.flatnonzero(query[1:] == query[:-1]):
        before = (-score[at], -newness[at], key[at])
        after = (-score[at + 1], -newness[at + 1], key[at + 1])
        assert before < after, at
        n_ties += score[at] == score[at + 1]
    assert n_ties > 500
    again = made.ask(limit=30, columns=columns).to_arrow()
    assert as_bytes(again) == as_bytes(table)


def as_bytes(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def test_A11_a_hybrid_hit_has_both_components(many: Stores) -> None:
    """Cosine to 1e-5 and BM25 to 1e-6, both relative; the score is the sum of both ranks' terms."""
    n_both = 0
    for store, hits in enumerate(many.ask(limit=30)):
        keys = many.documents(store)
        texts = [many.texts[key] for key in keys]
        bm25 = textbook("okapi", texts, many.queries[store], 1.5, 0.75)
        query = many.query_vectors[store].astype(np.float64)
        for hit in hits:
            ranks = hit.arm_rank("text"), hit.arm_rank("v")
            if None in ranks:
                continue
            n_both += 1
            row = many.vectors[hit.key].astype(np.float64)
            cosine = row @ query / (np.linalg.norm(row) * np.linalg.norm(query))
            assert hit.vector_score == pytest.approx(cosine, rel=1e-5)
            assert hit.bm25_score == pytest.approx(bm25[hit.key - keys[0]], rel=1e-6)
            assert hit.score == sum(sorted((1 / (60 + rank) for rank in ranks), reverse=True))
    assert n_both > 500


def test_A12_alpha_0_ranks_by_bm25(many: Stores) -> None:
    """Equal BM25 scores may stand in any order: one list has ranks to tell them by, one has not."""
    for both, alone in zip(
        many.ask(recipe=loom(0.0), limit=30),
        many.ask(vector=False, recipe=loom(0.5), limit=30),
        strict=True,
    ):
        assert [hit.bm25_score for hit in both] == [hit.score for hit in alone]
        by_key = {hit.key: hit.score for hit in alone}
        assert {hit.key: hit.bm25_score for hit in both} == by_key
    index = episodes(["error E-1234", "error E-9999", "something else"], np.eye(3))
    hits = index.recall_one(text="E-1234", vector=[0, 0.1, 1], scope="alice", recipe=loom(0.0))
    assert hits.keys[0] == "e0"


def test_A13_alpha_1_ranks_by_positive_cosine(many: Stores) -> None:
    n_left_out = 0
    for store, hits in enumerate(many.ask(recipe=loom(1.0), limit=30)):
        keys = many.documents(store)
        rows = many.vectors[keys.start : keys.stop]
        expected = vector_ranking(rows, many.query_vectors[store])
        found = [hit.key - keys.start for hit in hits]
        assert sorted(found) == sorted(at for at, _ in expected)
        assert_same_order(found, [(at, round(cosine, 9)) for at, cosine in expected])
        assert all(hit.vector_score is not None and hit.vector_score > 0 for hit in hits)
        n_left_out += len(keys) - len(hits)
    assert n_left_out > 500


def test_A14_alpha_one_half_is_the_plain_sum_of_reciprocal_ranks(many: Stores) -> None:
    plain = many.ask(recipe=loom(0.5), limit=30)
    assert plain.n_hits > 1000
    for hits in plain:
        for hit in hits:
            ranks = [rank for arm in ("text", "v") if (rank := hit.arm_rank(arm)) is not None]
            assert hit.score == sum(1 / (60 + rank) for rank in sorted(ranks))


def scores(hits: hr.QueryHits) -> dict[Any, float]:
    return dict(ranked(hits))


def test_A15_alpha_weighs_the_arms_continuously(many: Stores) -> None:
    for alpha in (0.0, 0.2, 0.5, 0.8, 0.999):
        step = 1e-6
        here, there = (many.ask(recipe=loom(a), limit=30) for a in (alpha, alpha + step))
        for left, right in zip(here, there, strict=True):
            a, b = scores(left), scores(right)
            for key in a.keys() | b.keys():
                assert abs(a.get(key, 0.0) - b.get(key, 0.0)) <= 2.001 * step / 61
        for hit in (hit for hits in here for hit in hits):
            weights = {"text": 2 * (1 - alpha), "v": 2 * alpha}
            terms = [
                weight / (60 + rank)
                for arm, weight in weights.items()
                if (rank := hit.arm_rank(arm)) is not None
            ]
            assert hit.score == pytest.approx(sum(terms), rel=1e-15)


def test_A15_a_larger_alpha_never_lowers_what_the_vectors_put_first(many: Stores) -> None:
    places = []
    for alpha in np.linspace(0.02, 1.0, 50):
        hits = many.ask(recipe=loom(float(alpha)), limit=60)
        tops = [next((h.rank for h in one if h.arm_rank("v") == 1), None) for one in hits]
        places.append([31 if rank is None else rank for rank in tops])
    steps = np.diff(np.array(places), axis=0)
    assert (steps <= 0).all()
    assert (steps < 0).sum() > 100


def test_A16_votes_rank_as_loom_does() -> None:
    """200 random stores, every alpha; Loom itself is asked in tests/parity."""
    made = stores(200, seed=16)
    for alpha in ALPHAS:
        recipe = replace(loom(0.5), fusion=hr.RRF(alpha=alpha, alpha_mode="votes"))
        for store, hits in enumerate(made.ask(recipe=recipe, limit=30)):
            keys = made.documents(store)
            rows = made.vectors[keys.start : keys.stop]
            expected = voted(
                lexical_ranking([made.texts[key] for key in keys], made.queries[store]),
                vector_ranking(rows, made.query_vectors[store]),
                alpha,
            )
            found = [key - keys.start for key in hits.keys]
            assert sorted(found) == sorted(at for at, _ in expected)
            assert overlap(found, expected) == 1.0
            assert_same_order(found, expected)


@pytest.mark.parametrize("alpha", [float("nan"), float("inf"), "0.5", True, None, -0.1, 1.1])
def test_A17_a_bad_alpha_is_refused(alpha: Any) -> None:
    """Outside of [0, 1] too: it is not clamped in silence."""
    if alpha is None:
        with pytest.raises(ValueError, match="alpha_mode"):
            hr.RRF(alpha=alpha, alpha_mode="votes")
        return
    with pytest.raises((ValueError, TypeError), match=r"alpha: expected a number in \[0, 1\]"):
        hr.RRF(alpha=alpha)


def test_A18_alpha_has_no_effect_on_a_single_arm(many: Stores) -> None:
    for asked in ({"vector": False}, {"text": False}):
        replies = [many.ask(**asked, recipe=loom(alpha)).to_arrow() for alpha in (0.0, 0.5, 1.0)]
        assert replies[0].num_rows > 200
        assert replies[1].equals(replies[0])
        assert replies[2].equals(replies[0])
    index = episodes(["hot tea", "tea", "milk"])  # without a vector arm at all
    found = [
        ranked(index.recall_one(text="tea", scope="alice", recipe=loom(alpha)))
        for alpha in (0.0, 0.5, 1.0)
    ]
    assert found[0] == found[1] == found[2]
    assert [key for key, _ in found[0]] == ["e1", "e0"]


def test_A19_vector_scores_lie_in_minus_one_to_one(many: Stores) -> None:
    hits = many.ask(recipe=loom(0.5), limit=30)
    values = hits.arm_scores("v").to_numpy(zero_copy_only=False)
    assert (np.abs(values) <= 1.0).all()
    assert (values < -0.5).sum() > 10  # found by their words, and told as they are
    assert all(hit.arm_rank("v") is None for one in hits for hit in one if hit.vector_score <= 0)
    alone = many.ask(vector=False, recipe=loom(0.5))
    assert alone.arm_scores("v").null_count == alone.n_hits > 0


def test_A42_rrf_does_not_see_the_size_of_scores(many: Stores) -> None:
    expected = many.ask(recipe=loom(0.5), limit=30).to_arrow()
    larger_vectors = replace(many, query_vectors=many.query_vectors * 64)
    louder_words = replace(many, queries=[hr.Boost(text, 4.0) for text in many.queries])
    for other in (larger_vectors, louder_words):
        found = other.ask(recipe=loom(0.5), limit=30).to_arrow()
        for name in ("query", "key", "rank", "score"):
            assert found[name].equals(expected[name])
    assert not found["text_score"].equals(expected["text_score"])


def test_A47_two_second_places_beat_one_first() -> None:
    texts = ["tea tea", "tea and more", "milk", "bread"]
    vectors = [[0, 1], [0.9, 0.1], [1, 0], [-1, 0]]
    hits = episodes(texts, vectors).recall_one(
        text="tea", vector=[1, 0], scope="alice", recipe=loom(0.5)
    )
    assert ranked(hits) == [("e1", 2 / 62), ("e2", 1 / 61), ("e0", 1 / 61)]
    assert [hit.arm_rank("text") for hit in hits] == [2, None, 1]
    assert [hit.arm_rank("v") for hit in hits] == [2, 1, None]
