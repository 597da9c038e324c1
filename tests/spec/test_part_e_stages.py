"""Acceptance rows E: stages, reranking and near-duplicates."""

import threading
import time
from itertools import pairwise, permutations

import numpy as np
import pytest

import hyrecall as hr
from seams import Dense, Lexical
from spec.honeycomb_world import (
    DEDUP,
    DIM,
    NOW,
    PROVENANCE,
    QUERY,
    RECENCY,
    SOURCES,
    Row,
    ask,
    build,
    honeycomb,
    nth,
    random_rows,
    scores,
    towards,
)

YEAR = np.timedelta64(365, "D").item()
CLOSE = towards(1.0, 1)  # two of them are near-duplicates


def counting(query: str, texts: list[str]) -> list[float]:
    return [float(len(text)) for text in texts]


def test_E18_stages_run_in_one_order_and_the_trace_counts_them() -> None:
    stages = (PROVENANCE, hr.Rerank(50), DEDUP, RECENCY, hr.Budget(150, column="text"))
    recipe = honeycomb.replace(shaping=stages)
    hits = ask(build(random_rows(np.random.default_rng(18), 120)), "tea milk", QUERY, recipe=recipe)
    traced = hits.trace.stages
    assert [one.stage for one in traced] == ["Provenance", "Rerank", "Dedup", "Recency", "Budget"]
    assert all(one.n_out == following.n_in for one, following in pairwise(traced))
    n_in, n_out = [one.n_in for one in traced], [one.n_out for one in traced]
    assert n_in[0] == n_in[1] == n_in[2] > n_out[2]  # only the duplicates go there
    assert n_in[3] == n_out[3] == n_in[4] > n_out[4] == len(hits[0])
    for order in permutations(stages[1:]):
        if order == stages[1:]:
            honeycomb.replace(shaping=order)
            continue
        with pytest.raises(hr.OptionError, match="shaping: expected at most one of each"):
            honeycomb.replace(shaping=order)


def test_E18_a_reranked_order_survives_neutral_recency() -> None:
    # The nearest has the worst text, and is a year old.
    rows = [
        Row("words", text=nth(1), vector=towards(0.5, 1)),
        Row("near", text=nth(3), vector=towards(0.6, 2), created_at=NOW - YEAR),
        Row("far", text=nth(2), vector=towards(0.1, 3)),
    ]
    index = build(rows)
    plain = honeycomb.replace(shaping=(PROVENANCE, DEDUP))
    reranked = honeycomb.replace(shaping=(PROVENANCE, hr.Rerank(50), DEDUP))
    with_age = reranked.replace(shaping=(*reranked.shaping, RECENCY))
    before = ask(index, "tea", QUERY, recipe=plain)
    assert before[0].keys == ["words", "near", "far"]
    assert ask(index, "tea", QUERY, recipe=reranked)[0].keys == ["near", "words", "far"]
    after = ask(index, "tea", QUERY, recipe=with_age)
    assert after[0].keys == ["near", "words", "far"]
    # The stage's score goes on: of the first place, less what a year costs.
    assert after[0][0].score == pytest.approx(before[0][0].score * 0.5 ** (365 / 36500), rel=1e-12)
    assert after[0][0].score < before[0][0].score


def test_E19_the_default_output_is_the_fusion_s_where_no_stage_has_a_reason() -> None:
    rng = np.random.default_rng(19)
    for seed in range(20):
        rows = random_rows(np.random.default_rng(seed), 60, source="memory", created_at=NOW)
        rows = [
            row if row.vector is None else Row(row.id, text=row.text, vector=axis)
            for row, axis in zip(rows, rng.standard_normal((60, DIM)).tolist(), strict=True)
        ]
        index = build(rows)
        hits = ask(index, "tea milk", QUERY)
        fused = ask(index, "tea milk", QUERY, recipe=honeycomb.replace(shaping=()))
        assert scores(hits) == scores(fused)
        assert len(hits[0]) == 50
    assert not any(isinstance(stage, hr.Rerank | hr.RerankBy) for stage in honeycomb.shaping)
    assert ask(index, "tea", QUERY).trace.stages[0].stage == "Provenance"


def test_E20_the_first_50_are_put_in_order_of_raw_cosine() -> None:
    for seed in range(10):
        index = build(random_rows(np.random.default_rng(seed), 120))
        # Words weigh more, so that rows without a vector are among the first.
        recipe = honeycomb.replace(arms=(Lexical(), Dense(weight=0.01)), shaping=(PROVENANCE,))
        options = {"limit": 120, "recipe": recipe}
        before = list(ask(index, "tea milk", QUERY, **options)[0])
        assert len(before) > 70
        options["recipe"] = recipe.replace(shaping=(PROVENANCE, hr.Rerank()))
        after = list(ask(index, "tea milk", QUERY, **options)[0])
        assert hr.Rerank().window == 50
        moving = [at for at in range(50) if before[at].vector_score is not None]
        still = [at for at in range(len(before)) if at not in moving]
        assert 5 < len(moving) < 50
        nearest = sorted(moving, key=lambda at: -before[at].vector_score)
        assert [after[at].key for at in moving] == [before[at].key for at in nearest]
        assert [after[at].key for at in still] == [before[at].key for at in still]
        assert nearest != moving
        cosines = [after[at].vector_score for at in moving]
        assert cosines == sorted(cosines, reverse=True)


def test_E21_a_reranker_over_its_time_keeps_the_order() -> None:
    index = build(random_rows(np.random.default_rng(21), 40))
    before = ask(index, "tea")
    assert hr.RerankBy(counting).timeout == "300ms"
    shaping = (PROVENANCE, hr.RerankBy(counting, column="text"), DEDUP, RECENCY)
    quick = ask(index, "tea", recipe=honeycomb.replace(shaping=shaping))
    assert quick[0].keys != before[0].keys
    released = threading.Event()

    def hangs(query: str, texts: list[str]) -> list[float]:
        released.wait(10)
        return counting(query, texts)

    def fails(query: str, texts: list[str]) -> list[float]:
        raise ConnectionError("no model")

    for function, note in ((hangs, "out of time for 1"), (fails, "ConnectionError for 1")):
        shaping = (PROVENANCE, hr.RerankBy(function, column="text"), DEDUP, RECENCY)
        started = time.perf_counter()
        hits = ask(index, "tea", recipe=honeycomb.replace(shaping=shaping))
        spent = time.perf_counter() - started
        assert scores(hits) == scores(before)
        assert hits.trace.stages[1].notes == (f"RerankBy kept the order: {note}",)
        assert hits.to_arrow()["rerank_score"].null_count == hits.n_hits  # none was applied
        assert spent < 2.0
    released.set()


def test_E22_of_near_duplicates_the_copy_of_the_best_source_stays_whatever_the_scores() -> None:
    for order in permutations(SOURCES):
        for kept_of in (3, 2):
            rows = [
                Row(f"copy{at}", source, nth(at), CLOSE)
                for at, source in enumerate(order[:kept_of])
            ]
            rows.append(Row("other", "memory", nth(4), towards(0.0, 2)))
            hits = ask(build(rows), "tea", QUERY)
            best = min(order[:kept_of], key=SOURCES.index)
            kept = [one for one in scores(hits) if one[1] != "other"]
            assert [source for source, _, _ in kept] == [best]
            assert "other" in hits[0].keys
            (stage,) = [one for one in hits.trace.stages if one.stage == "Dedup"]
            assert (stage.n_in, stage.n_out) == (kept_of + 1, 2)


NEAR = {"below": [3.999, 3.0], "equal": [4.0, 3.0], "above": [4.001, 3.0]}


@pytest.mark.parametrize("place", NEAR)
def test_E23_the_threshold_is_strict_on_the_unit_scale(place: str) -> None:
    assert (DEDUP.threshold, DEDUP.scale) == (0.9, "unit")
    rows = [Row("first", vector=[5.0, 0.0]), Row("second", vector=NEAR[place])]
    index = build(rows)
    alone = ask(index, None, [1.0, 0.0], recipe=honeycomb.replace(shaping=()))
    cosine = alone[0][1].vector_score
    assert cosine is not None
    assert {"below": cosine < 0.8, "equal": cosine == np.float32(0.8), "above": cosine > 0.8}[place]
    kept = ["first"] if place == "above" else ["first", "second"]
    assert ask(index, None, [1.0, 0.0])[0].keys == kept


def test_E23_the_threshold_is_a_setting() -> None:
    rows = [Row("first", vector=[5.0, 0.0]), Row("second", vector=[4.0, 3.0])]
    index = build(rows)
    for stage, n in (
        (hr.Dedup(0.89, scale="unit"), 1),
        (hr.Dedup(0.91, scale="unit"), 2),
        (hr.Dedup(0.8), 2),  # the same, as a raw cosine
        (hr.Dedup(0.79), 1),
    ):
        assert len(ask(index, None, [1.0, 0.0], recipe=honeycomb.replace(shaping=(stage,)))[0]) == n


def test_E24_without_vectors_the_list_is_left_as_it_is() -> None:
    rows = [Row(f"copy{at}", source, "tea") for at, source in enumerate(SOURCES)]
    off = honeycomb.replace(shaping=(PROVENANCE, RECENCY))
    bare = ask(build(rows), "tea", QUERY)
    assert len(bare[0]) == 3
    assert scores(bare) == scores(ask(build(rows), "tea", QUERY, recipe=off))
    # One has a vector: it is alone all the same.
    partly = [*rows[:2], Row("copy2", "session", "tea", CLOSE)]
    assert len(ask(build(partly), "tea", QUERY)[0]) == 3
    # All have: one stays, and the off switch keeps them.
    index = build([Row(row.id, row.source, row.text, CLOSE) for row in rows])
    assert ask(index, "tea", QUERY)[0].keys == ["copy0"]
    assert len(ask(index, "tea", QUERY, recipe=off)[0]) == 3
    # A query without a vector can still collapse them: their own are compared.
    assert ask(index, "tea")[0].keys == ["copy0"]
