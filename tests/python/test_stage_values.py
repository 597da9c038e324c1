"""A stage and its explanation read a document's values alike: missing ones and inexact ones too."""

import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr

NOW = datetime(2026, 1, 9, tzinfo=UTC)
AT = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 3, 5, 7)]


def asked(stage: Any, **columns: pa.Array) -> hr.Hits:
    table = pa.table(
        {"id": ["a", "b", "c", "d"], "text": ["tea", "tea leaf", "tea cup", "tea tea"],
         "at": pa.array(AT, pa.timestamp("us", "UTC")), **columns},
    )  # fmt: skip
    schema = hr.Schema(key="id", cell=None, text="text", attributes=("at", *columns))
    return hr.Index.build(table, schema).recall(text=["tea"], shaping=stage, now=NOW)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("default", [0.0, 5.0])
def test_a_rating_that_is_nan_is_missing(kind: pa.DataType, default: float) -> None:
    stage = hr.Composite(time="at", half_life="2d", rating="rating", default=default)
    numbers = [math.nan, 10.0, None, math.inf]
    hits = asked(stage, rating=pa.array(numbers, kind, from_pandas=False))[0]
    rated = {hit.key: hit.explain().steps[-1].factors["importance"] for hit in hits}
    assert rated == {"a": default / 10, "b": 1.0, "c": default / 10, "d": 1.0}
    given = ["default" if one is None or math.isnan(one) else one for one in numbers]
    plain = [default if one == "default" else 10.0 for one in given]
    same = asked(stage, rating=pa.array(plain, kind))[0]
    assert [(hit.key, hit.score) for hit in hits] == [(hit.key, hit.score) for hit in same]
    assert all(hit.explain().score == hit.score for hit in hits)


VALUES: list[tuple[pa.Array, list[Any]]] = [
    (pa.array([0.1, 0.2, None, 0.3], pa.float32()), [0.1, np.float32(0.2)]),
    (pa.array(AT, pa.timestamp("us", "UTC")), [AT[0].replace(tzinfo=None), AT[1]]),
    (pa.array([1, 2, 3, None], pa.int16()), [np.int64(1), 2]),
    (pa.array(["x", "y", None, "z"]), ["x", np.str_("y")]),
    (pa.array([True, False, None, None]), [True, np.False_]),
]


@pytest.mark.parametrize(("column", "named"), VALUES, ids=lambda one: str(getattr(one, "type", "")))
def test_a_value_is_the_same_to_a_stage_and_to_its_explanation(
    column: pa.Array, named: list[Any]
) -> None:
    weights = dict(zip(named, (0.5, 0.25), strict=True))
    half_lives = dict(zip(named, ("3d", "5d"), strict=True))
    stages = [
        (hr.Provenance("v", weights, default=0.75), "weight", (0.5, 0.25, 0.75)),
        (hr.Recency("at", half_life="7d", by="v", half_lives=half_lives), "half_life",
         (259200.0, 432000.0, 604800.0)),
    ]  # fmt: skip
    for stage, factor, (first, second, other) in stages:
        hits = asked(stage, v=column)[0]
        found = {hit.key: hit.explain().steps[-1].factors[factor] for hit in hits}
        assert found == {"a": first, "b": second, "c": other, "d": other}
        assert [hit.explain().score for hit in hits] == [hit.score for hit in hits]
