"""BM25 options, fusions, floors and normalize: what each does to scores and order."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from laws.effort import Effort
from laws.engine import EngineSubject, arguments
from oracle.corpus import Draw, draw_call, draw_mix, draw_rows, draw_shape
from oracle.recall import Oracle

F = np.float32


def index_of(texts: list[str | None], vectors: list[list[float]]) -> hr.Index:
    table = pa.table({"id": np.arange(len(texts)), "text": pa.array(texts, pa.string())})
    schema = hr.Schema(key="id", cell=None, text="text", vector="v")
    matrix = np.array(vectors, F).reshape(len(texts), -1)
    return hr.Index.build(table, schema, vectors={"v": matrix}, analyzer=hr.Analyzer("word"))


def test_options_are_frozen_and_equal_by_value() -> None:
    assert hr.RRF({"a": 1}) == hr.RRF({"a": 1.0})
    assert hr.RRF() != hr.RRF(rank_constant=1)
    assert hr.WeightedSum() != hr.Max()
    assert hr.DBSF() != hr.WeightedSum()
    assert hr.DBSF({"a": 2}) == hr.DBSF({"a": 2.0}, complete=True)
    assert hr.BM25("bm25+") == hr.BM25("bm25+", delta=1) != hr.BM25("bm25+", delta=0)
    assert hr.BM25("bm25l").delta == 0.5
    assert hr.BM25().delta is None
    assert hr.BM25(b=(0, 1)) == hr.BM25(b=[0.0, 1.0]) == hr.BM25(**hr.BM25(b=(0, 1)).to_dict())
    assert repr(hr.BM25(b=(0.25, 0.75))) == "BM25(variant='lucene', k1=1.2, b=(0.25, 0.75))"
    assert repr(hr.BM25()) == "BM25(variant='lucene', k1=1.2, b=0.75)"
    assert repr(hr.BM25("bm25l")) == "BM25(variant='bm25l', k1=1.2, b=0.75, delta=0.5)"
    assert hr.BM25("okapi") == hr.BM25("okapi", k1=1.5)
    assert len({hr.RRF(), hr.RRF(), hr.Max(), hr.BM25(), hr.Above(1)}) == 4
    for option in (hr.BM25(), hr.RRF(), hr.Max(), hr.DBSF(), hr.Above(0.5)):
        with pytest.raises(AttributeError):
            option.weights = None  # type: ignore[union-attr,misc]


def test_numpy_scalars_are_numbers() -> None:
    assert hr.BM25(k1=np.float64(0.5), b=np.float32(0.5)) == hr.BM25(k1=0.5, b=0.5)
    assert hr.RRF({"a": np.int64(2)}) == hr.RRF({"a": 2})
    assert hr.Above(np.float16(0.5)) == hr.Above(0.5)


def test_an_arm_that_is_not_named_has_weight_1_in_every_fusion() -> None:
    index = index_of(["hot tea", "tea", "milk"], [[1, 0], [1, 1], [0, 1]])
    for kind in (hr.RRF, hr.WeightedSum, hr.Max):
        short, full = kind({"text": 3}), kind({"text": 3, "v": 1})
        asked: dict[str, Any] = {"text": ["hot tea"], "vectors": [[0, 1]]}
        wanted = index.recall(**asked, fusion=full).to_arrow()
        assert index.recall(**asked, fusion=short).to_arrow().equals(wanted)
        assert index.recall(**asked, fusion=kind({"text": 0})).trace.arms == ("v",)


# ---- normalize ----


def test_normalize_keeps_the_order_and_brings_scores_to_0_1(effort: Effort) -> None:
    seen = set()
    for seed in range(effort.cases(quick=60, full=5000)):
        draw = Draw(f"normalize {seed}")
        shape = draw_shape(draw)
        rows = draw_rows(draw, shape, draw_mix(draw))
        call = draw_call(draw, Oracle(shape, rows), 8)
        asked = arguments(shape, call)
        index = EngineSubject(shape, rows).index
        plain = index.recall(**asked).to_arrow()
        scaled = index.recall(**asked, normalize=True).to_arrow()
        same = [name for name in plain.column_names if name != "score"]
        assert plain.select(same).equals(scaled.select(same))
        raw, new = (np.array(table.column("score")) for table in (plain, scaled))
        assert ((new >= 0) & (new <= 1)).all()
        queries = np.array(plain.column("query"))
        for query in np.unique(queries):
            here = new[queries == query]
            assert (np.diff(here) <= 0).all()
            positive = raw[queries == query] > 0
            assert (here[positive] > 0).all()
        seen.add(type(asked.get("fusion")).__name__)
    assert seen == {"NoneType", "RRF", "WeightedSum", "Max", "DBSF"}


def test_first_in_every_arm_has_the_best_score_possible() -> None:
    index = index_of(["hot tea", "tea pot jug cup", "milk"], [[1, 0], [1, 1], [0, 1]])
    for fusion in (
        None,
        hr.RRF(alpha=0.3),
        hr.RRF({"text": 3}, rank_constant=0),
        hr.WeightedSum(),
        hr.Max(),
        hr.DBSF(),
    ):
        hits = index.recall_one(text="hot", vector=[1, 0], fusion=fusion, normalize=True)
        assert (hits[0].key, hits[0].score) == (0, 1.0)
        assert all(hit.score < 1.0 for hit in hits[1:])
    split = index.recall_one(text="milk", vector=[1, 0], normalize=True)
    assert all(hit.score < 1.0 for hit in split)


def test_normalize_with_one_arm_divides_by_the_lists_best() -> None:
    index = index_of(["tea", "tea cup", "milk"], [[1, 0], [1, 1], [-1, 0]])
    raw = [hit.score for hit in index.recall_one(vector=[1, 0])]
    scaled = [hit.score for hit in index.recall_one(vector=[1, 0], normalize=True)]
    assert scaled == [max(score / raw[0], 0.0) for score in raw]
    assert scaled[0] == 1.0
    second = index.recall_one(vector=[1, 0], normalize=True, offset=1)
    assert [hit.score for hit in second] == scaled[1:]
    negative = index.recall_one(vector=[-1, -1e-3], normalize=True, min_score=-2, limit=3)
    assert [hit.key for hit in negative] == [2, 1, 0]
    worst = index.recall_one(vector=[-1, 0], min_score={"v": -2}, normalize=True, limit=3)
    assert [hit.score for hit in worst] == [1.0, 0.0, 0.0]


# ---- fusions in their corners ----


def test_one_hit_and_equal_scores_scale_to_1() -> None:
    index = index_of(["tea", "tea", None], [[1, 0], [2, 0], [3, 0]])
    every = (hr.WeightedSum(), hr.Max(), hr.WeightedSum(complete=False))
    for fusion in (*every, hr.DBSF(), hr.DBSF(complete=False)):
        both = index.recall_one(text="tea", vector=[1, 0], fusion=fusion)
        assert [hit.key for hit in both] == [0, 1, 2]  # ties go by seq
        top = 1.0 if isinstance(fusion, hr.Max) else 2.0
        assert [hit.score for hit in both] == [top, top, 1.0]
    one = index_of(["tea"], [[0, 0]])
    for fusion in (hr.WeightedSum(), hr.Max(), hr.DBSF()):
        assert [hit.score for hit in one.recall_one(text="tea", vector=[1, 0], fusion=fusion)] == [
            1.0
        ]
        assert len(one.recall_one(text="milk", vector=[1, 0], fusion=fusion)) == 0


def test_dbsf_counts_standard_deviations_and_clips_nothing() -> None:
    cosines = [1.0] + [0.0] * 20  # one of 21: four and a half deviations above the mean
    index = index_of([None] * 21, [[c, math.sqrt(1 - c * c)] for c in cosines])
    hits = index.recall_one(vector=[1, 0], fusion=hr.DBSF({"v": 2}), limit=21)
    mean, deviation = 1 / 21, math.sqrt(20) / 21
    expected = [2 * (c - (mean - 3 * deviation)) / (6 * deviation) for c in cosines]
    assert [hit.score for hit in hits] == pytest.approx(expected, rel=1e-12)
    assert hits[0].score > 2.0
    scaled = index.recall_one(vector=[1, 0], fusion=hr.DBSF(), limit=21, normalize=True)
    assert [hit.score for hit in scaled] == pytest.approx([c / expected[0] for c in expected])
    assert scaled[0].score == 1.0


def test_dbsf_takes_its_moments_of_the_union_or_of_the_list() -> None:
    index = index_of(["tea", "tea tea", "milk"], [[1, 0], [3, 4], [4, 3]])
    asked: dict[str, Any] = {"text": "tea", "vector": [1, 0], "depth": 2, "limit": 2}
    whole = index.recall_one(**asked, fusion=hr.DBSF({"text": 1e-6}))
    by_key = {hit.key: hit for hit in whole}
    assert by_key.keys() <= {0, 1, 2}
    cosines = [hit.vector_score for hit in index.recall_one(vector=[1, 0], depth=3)]
    values = np.array(cosines)
    z = (values - values.mean() + 3 * values.std()) / (6 * values.std())
    assert by_key[0].explain().components[1].contribution == pytest.approx(z[0], rel=1e-6)
    own = index.recall_one(**asked, fusion=hr.DBSF({"text": 1e-6}, complete=False))
    assert own[0].explain().components[1].contribution == pytest.approx(2 / 3)  # one above the mean


def test_null_components_add_0_and_never_win_over_a_negative_cosine() -> None:
    index = index_of([None, "milk"], [[-1, 0], [0, 0]])
    asked: dict[str, Any] = {"text": "milk", "vector": [1, 0]}
    summed = index.recall_one(**asked, fusion=hr.WeightedSum(normalize="none"))
    assert [(hit.key, hit.bm25_score is None, hit.vector_score) for hit in summed] == [
        (1, False, None),
        (0, True, -1.0),
    ]
    assert summed[1].score == -1.0
    largest = index.recall_one(**asked, fusion=hr.Max(normalize="none"))
    assert largest[1].score == 0.0  # the text arm's missing score counts 0
    assert (
        index_of(["tea"], [[-1, 0]])
        .recall_one(text=None, vector=[1, 0], fusion=hr.Max(normalize="none"))[0]
        .score
        == -1.0
    )


def test_complete_scores_what_the_list_left_out() -> None:
    index = index_of(["tea", "tea tea", "milk"], [[1, 0], [1, 1], [0, 1]])
    asked: dict[str, Any] = {"text": "tea", "vector": [0, 1], "depth": 1, "limit": 1}
    options: dict[str, Any] = {"weights": {"text": 8}, "normalize": "none"}
    full = index.recall_one(**asked, fusion=hr.WeightedSum(**options))[0]
    short = index.recall_one(**asked, fusion=hr.WeightedSum(**options, complete=False))[0]
    for hit in (full, short):
        assert (hit.key, hit.arm_rank("text"), hit.arm_rank("v")) == (1, 1, None)
        assert hit.vector_score == float(F(1) / np.sqrt(F(2)))
    assert full.score == 8 * full.bm25_score + full.vector_score
    assert short.score == 8 * short.bm25_score


def test_a_floor_acts_before_ranks_and_completion_still_scores() -> None:
    index = index_of(["tea", "tea tea tea", "milk tea pot cup"], [[1, 0], [1, 1], [0, 1]])
    scores = {hit.key: hit.bm25_score for hit in index.recall_one(text="tea")}
    both: dict[str, Any] = {"text": "tea", "vector": [0, 1], "fusion": hr.RRF()}
    cut = index.recall_one(**both, min_score={"text": hr.Above(scores[0])})
    ranks = {hit.key: (hit.arm_rank("text"), hit.bm25_score) for hit in cut}
    assert ranks == {1: (1, scores[1]), 0: (None, scores[0]), 2: (None, scores[2])}
    kept = index.recall_one(**both, min_score={"text": scores[0]})
    assert {hit.key: hit.arm_rank("text") for hit in kept} == {1: 1, 0: 2, 2: None}


def test_min_fused_acts_after_fusion_and_before_offset() -> None:
    index = index_of(["tea", "tea", "milk"], [[1, 0], [0, 1], [1, 1]])
    asked: dict[str, Any] = {"text": "tea", "vector": [1, 0]}
    scores = [hit.score for hit in index.recall_one(**asked)]
    kept = index.recall_one(**asked, min_fused=scores[1])
    assert [hit.score for hit in kept] == scores[:2]
    strict = index.recall_one(**asked, min_fused=hr.Above(scores[1]))
    assert [hit.score for hit in strict] == scores[:1]
    assert len(index.recall_one(**asked, min_fused=scores[1], offset=2)) == 0
    scaled = index.recall_one(**asked, min_fused=scores[1], normalize=True)
    assert len(scaled) == 2  # the floor is in the unit of the fused score


def test_alpha_weighs_the_arms() -> None:
    index = index_of(["tea", "milk"], [[0, 1], [1, 0]])
    for alpha in (0.1, 0.25, 0.75):
        hits = index.recall_one(text="tea", vector=[1, 0], fusion=hr.RRF(alpha=alpha))
        weights = hr.RRF({"text": 2 * (1 - alpha), "v": 2 * alpha})
        by_hand = index.recall_one(text="tea", vector=[1, 0], fusion=weights)
        assert [(hit.key, hit.score) for hit in hits] == [(hit.key, hit.score) for hit in by_hand]
    even = index.recall_one(text="tea", vector=[1, 0], fusion=hr.RRF(alpha=0.5))
    plain = index.recall_one(text="tea", vector=[1, 0], fusion=hr.RRF())
    assert [hit.score for hit in even] == [hit.score for hit in plain]


def test_bm25_options_come_from_the_call_the_arm_or_the_index() -> None:
    table = pa.table({"id": [1, 2], "a": ["tea tea", "pot tea cup"], "b": ["tea", "tea milk"]})
    okapi = hr.BM25("okapi", k1=0.4, b=0.1)
    schema = hr.Schema(key="id", cell=None, text={"a": hr.Text("a", bm25=okapi), "b": "b"})
    index = hr.Index.build(table, schema, bm25=hr.BM25("fts5"))

    def scores(arm: str, bm25: Any = None) -> list[float]:
        return [hit.score for hit in index.recall_one(text={arm: "tea"}, bm25=bm25)]

    assert scores("a") == scores("a", okapi) == scores("a", {"a": okapi})
    assert scores("b") == scores("b", hr.BM25("fts5"))
    assert scores("a") != scores("a", hr.BM25())
    both = {"text": ["tea"], "limit": 5}
    changed = index.recall(**both, bm25={"b": hr.BM25("lucene")})
    assert changed.arm_scores("a").equals(index.recall(**both).arm_scores("a"))
    assert not changed.arm_scores("b").equals(index.recall(**both).arm_scores("b"))
