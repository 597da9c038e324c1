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
