"""What recall takes: numbers, sequences, floors and times in every form."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from small_index import BOTH, TEXT, refused


@pytest.mark.parametrize("limit", [np.int64(2), np.uint8(2), np.int32(2)])
def test_numpy_integers_are_integers(index: hr.Index, limit: Any) -> None:
    hits = index.recall(**TEXT, limit=limit, offset=np.int16(1), depth=np.uint64(5))
    assert [hit.rank for hit in hits[0]] == [2, 3]


def test_limits_past_the_end_and_of_nothing(index: hr.Index) -> None:
    whole = index.recall(**TEXT).to_arrow()
    for limit in (3, 4, 1000, 2**31 - 1):
        assert index.recall(**TEXT, limit=limit).to_arrow().equals(whole)
    assert index.recall(**BOTH, limit=2**31 - 1, depth=2**31 - 1).n_hits == 3
    nothing = index.recall(**TEXT, limit=0)
    assert (nothing.n_hits, len(nothing), len(nothing[0])) == (0, 1, 0)
    beyond = index.recall(**TEXT, offset=2**31 - 1, limit=2**31 - 1)
    assert beyond.n_hits == 0
    assert beyond.to_arrow().schema.equals(whole.schema)


def test_an_empty_batch_has_an_empty_reply_with_types(index: hr.Index) -> None:
    full = index.recall(**BOTH).to_arrow().schema
    for options in (
        {"text": []},
        {"text": [], "vectors": []},
        {"vectors": np.zeros((0, 3), np.float32)},
        {"text": pa.array([], pa.string())},
    ):
        for scope in ("ana", [], hr.Scope([])):
            hits = index.recall(**options, scope=scope)
            assert (len(hits), hits.n_hits, list(hits)) == (0, 0, [])
            assert hits.to_arrow().schema.equals(full)
            assert hits.to_list() == []


def test_floors_take_numpy_scalars_and_stay_inclusive(index: hr.Index) -> None:
    scores = [hit.bm25_score for hit in index.recall(**TEXT)[0]]
    for floor in (np.float32(scores[0]), np.float64(scores[0]), scores[0]):
        kept = index.recall(**TEXT, min_score=floor)[0]
        assert [hit.bm25_score for hit in kept] == [s for s in scores if s >= scores[0]]
    assert len(index.recall(**TEXT, min_score=hr.Above(scores[0]))[0]) == 0
    assert len(index.recall(**TEXT, min_score=1e300)[0]) == 0
    assert len(index.recall(**TEXT, min_score=-1e300)[0]) == 3


def test_columns_from_an_iterator_are_all_there(index: hr.Index) -> None:
    table = index.recall(**TEXT, columns=(name for name in ("text", "kind"))).to_arrow()
    assert table.column_names[-2:] == ["text", "kind"]
    assert table.column("text").to_pylist()[0] == "cold tea" or table.num_rows == 3


def test_now_is_echoed_once_and_naive_is_utc(index: hr.Index) -> None:
    naive = datetime(2026, 5, 1, 12)
    assert index.recall(**TEXT, now=naive).now == naive.replace(tzinfo=UTC)
    aware = datetime(2026, 5, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert index.recall(**TEXT, now=aware).now == aware
    before = datetime.now(UTC)
    taken = index.recall(**TEXT).now
    assert before <= taken <= datetime.now(UTC)
    assert taken.tzinfo is not None


def test_an_arm_of_weight_0_is_left_out_and_the_trace_says_so(index: hr.Index) -> None:
    for fusion in (hr.RRF({"embedding": 0.0}), hr.WeightedSum({"embedding": 0}), hr.RRF(alpha=0)):
        hits = index.recall(**BOTH, fusion=fusion)
        assert hits.trace.arms == ("text",)
        assert hits.trace.notes == ("embedding left out: weight 0",)
        assert hits.arm_scores("embedding").null_count == hits.n_hits == 3
    refused(
        lambda: index.recall(**TEXT, fusion=hr.RRF({"text": 0.0, "embedding": 1e-9})),
        hr.OptionError,
        "weights: expected no weight for an arm that does not run (['text'] do), got 'embedding'",
        None,
    )
    refused(
        lambda: index.recall(**TEXT, fusion=hr.RRF(alpha=0.3), min_fused=hr.Above("x")),  # type: ignore[arg-type]
        hr.DTypeError,
        "Above: expected a finite number, got str 'x'",
        None,
    )
    refused(
        lambda: index.recall(**BOTH, fusion=hr.Max({"text": 0, "embedding": 0.0})),
        hr.OptionError,
        "weights: expected a weight above 0 for one of ['text', 'embedding'], "
        "got {'text': 0.0, 'embedding': 0.0}",
        None,
    )
    alone = index.recall(**TEXT, fusion=hr.RRF(alpha=0.3))
    assert alone.trace.notes == ("alpha has no effect: only text runs",)
    assert alone[0][0].score == 1 / 61
