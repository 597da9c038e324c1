"""Ages of documents are exact for every value of a time column and every `now`."""

import datetime as dt
import random

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from seams import age_seconds

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
NANOSECONDS = {"D": 86_400 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
KINDS = [(pa.date32(), "D"), (pa.date64(), "ms")]
KINDS += [(pa.timestamp(unit), unit) for unit in ("s", "ms", "us", "ns")]
NOWS = [
    EPOCH,
    dt.datetime.min.replace(tzinfo=dt.UTC),
    dt.datetime.max.replace(tzinfo=dt.UTC),
    dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-23))),
    dt.datetime(1677, 1, 1, tzinfo=dt.UTC),
    dt.datetime(2024, 2, 29, 12, 30, 1, 123457, tzinfo=dt.UTC),
    dt.datetime(2500, 1, 1, tzinfo=dt.UTC),
]


def expected(count: int, unit: str, now: dt.datetime) -> float:
    """now - time in Python's integers, in the finer of the unit and microseconds."""
    fine = min(NANOSECONDS[unit], NANOSECONDS["us"])
    instant = (now - EPOCH) // dt.timedelta(microseconds=1) * (NANOSECONDS["us"] // fine)
    return float(instant - count * (NANOSECONDS[unit] // fine)) / (10**9 // fine)


def counts_of(kind: pa.DataType, unit: str, now: dt.datetime) -> list[int]:
    """Extremes, the places where a difference leaves int64, and random counts of every size."""
    bits = kind.bit_width - 1
    rng = random.Random(f"{kind} {now}")
    counts = [sign * (2**bits - near) for sign in (1, -1) for near in (0, 1, 2)]
    counts += [0, 1, -1, 2**62, -(2**62)]
    fine = min(NANOSECONDS[unit], NANOSECONDS["us"])
    instant = (now - EPOCH) // dt.timedelta(microseconds=1) * (NANOSECONDS["us"] // fine)
    for edge in (instant, instant - 2**63, instant + 2**63):
        counts += [edge // (NANOSECONDS[unit] // fine) + near for near in range(-2, 3)]
    counts += [rng.randrange(-(2**bits), 2**bits) >> rng.randrange(bits) for _ in range(50)]
    return [count for count in counts if -(2**bits) <= count < 2**bits]


@pytest.mark.parametrize("now", NOWS, ids=str)
@pytest.mark.parametrize(("kind", "unit"), KINDS, ids=str)
def test_an_age_is_exact_whatever_the_unit_and_the_time(
    kind: pa.DataType, unit: str, now: dt.datetime
) -> None:
    counts = counts_of(kind, unit, now)
    raw = pa.array([*counts, None], pa.int32() if kind.bit_width == 32 else pa.int64())
    ages = age_seconds(raw.view(kind), now)
    assert ages[:-1].tolist() == [expected(count, unit, now) for count in counts]
    assert np.isnan(ages[-1])
    assert age_seconds(raw.view(kind).slice(3), now)[:-1].tolist() == ages[3:-1].tolist()


@pytest.mark.parametrize(
    ("kind", "count", "now", "factor"),
    [
        (pa.timestamp("ns"), -9_214_560_000 * 10**9, dt.datetime(2024, 1, 1), 0.0),  # 1678
        (pa.timestamp("s"), 2**62, dt.datetime(2024, 1, 1), 1.0),
        (pa.timestamp("ms"), 2**62, dt.datetime(2024, 1, 1), 1.0),
        (pa.timestamp("s"), -(2**62), dt.datetime(2024, 1, 1), 0.0),
        (pa.timestamp("ns"), 0, dt.datetime(9999, 1, 1), 0.0),
        (pa.timestamp("ns"), 0, dt.datetime(1600, 1, 1), 1.0),
        (pa.timestamp("ns"), -(2**63), dt.datetime(2024, 1, 1), 0.0),
        (pa.date64(), 0, dt.datetime(2024, 1, 1), 0.0),
    ],
    ids=str,
)
def test_recency_of_extreme_times(
    kind: pa.DataType, count: int, now: dt.datetime, factor: float
) -> None:
    at = pa.array([count], pa.int64()).view(kind)
    schema = hr.Schema(key="id", cell=None, text="text", attributes="at")
    index = hr.Index.build(pa.table({"id": [1], "text": ["tea"], "at": at}), schema)
    for stage in (
        hr.Recency("at", half_life="1d"),
        hr.Composite(time="at", half_life="1d", rating="id"),
    ):
        hits = index.recall(text=["tea"], shaping=stage, now=now)
        table = hits.to_arrow()
        name = "recency_factor" if isinstance(stage, hr.Recency) else "recency_score"
        assert table[name].to_pylist() == [factor]
        assert hits[0][0].explain().score == hits[0][0].score
