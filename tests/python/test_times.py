"""Ages are exact for every time and every `now`; fine times come back as they were."""

import datetime as dt
import random
import subprocess
import sys
from typing import Any

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


# ---- nanoseconds, and moments beyond datetime, with and without pandas ----


EXACT_NS, ODD_NS = 1_709_208_000_123_456_000, 1_709_208_000_123_456_789
EXACT_TIME = dt.datetime(2024, 2, 29, 12, 0, 0, 123456)
PARIS = "Europe/Paris"
FINE: list[tuple[pa.DataType, int, Any]] = [
    (pa.timestamp("ns"), EXACT_NS, EXACT_TIME),
    (pa.timestamp("ns"), ODD_NS, np.datetime64(ODD_NS, "ns")),
    (pa.timestamp("ns", PARIS), EXACT_NS, EXACT_TIME.replace(tzinfo=dt.UTC)),
    (pa.timestamp("ns", PARIS), ODD_NS, np.datetime64(ODD_NS, "ns")),
    (pa.duration("ns"), 2_000, dt.timedelta(microseconds=2)),
    (pa.duration("ns"), -2_001, np.timedelta64(-2_001, "ns")),
    (pa.time64("ns"), 3_000, dt.time(microsecond=3)),
    (pa.time64("ns"), 3_001, np.timedelta64(3_001, "ns")),
    (pa.timestamp("s"), 10**12, np.datetime64(10**12, "s")),
    (pa.timestamp("us", PARIS), 10**18, np.datetime64(10**18, "us")),
    (pa.date32(), 10**7, np.datetime64(10**7, "D")),
]
NESTINGS: dict[str, tuple[Any, Any]] = {  # the type and a value of it, from an inner one
    "flat": (lambda kind: kind, lambda value: value),
    "list": (pa.list_, lambda value: [None, value]),
    "fixed list": (lambda kind: pa.list_(kind, 2), lambda value: [value, None]),
    "struct": (lambda kind: pa.struct({"a": kind, "b": pa.int8()}), lambda v: {"a": v, "b": 1}),
    "map": (lambda kind: pa.map_(pa.string(), kind), lambda value: [("k", value)]),
    "structs": (lambda kind: pa.list_(pa.struct({"a": kind})), lambda value: [{"a": value}]),
}


def recalled(array: pa.Array) -> hr.Hits:
    table = pa.table({"id": range(len(array)), "text": ["tea"] * len(array), "x": array})
    schema = hr.Schema(key="id", cell=None, text="text", stored="x")
    return hr.Index.build(table, schema).recall(text=["tea"], columns=["x"])


def innermost(value: Any) -> Any:
    while isinstance(value, list | tuple | dict):
        parts = value.values() if isinstance(value, dict) else value
        value = next(part for part in parts if part is not None and part != "k")
    return value


@pytest.mark.parametrize(("kind", "raw", "wanted"), FINE, ids=str)
def test_a_time_is_datetimes_where_that_is_exact_and_numpys_elsewhere(
    kind: pa.DataType, raw: int, wanted: Any
) -> None:
    for nesting, (outer, wrap) in NESTINGS.items():
        hits = recalled(pa.array([None, wrap(raw)], outer(kind)))
        for values in ([row["x"] for row in hits.to_list()[0]], [hit["x"] for hit in hits[0]]):
            assert values == [None, wrap(wanted)], nesting
            assert type(innermost(values[1])) is type(wanted), nesting


def test_a_column_of_nanoseconds_needs_no_pandas() -> None:
    code = f"""
import sys
class NoPandas:
    def find_spec(self, name, *rest):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NoPandas())
import pyarrow as pa, hyrecall as hr
x = pa.array([{ODD_NS}, {EXACT_NS}, None], pa.timestamp("ns"))
y = pa.StructArray.from_arrays([x], ["a"])
table = pa.table({{"id": [1, 2, 3], "text": ["tea"] * 3, "x": x, "y": y}})
schema = hr.Schema(key="id", cell=None, text="text", attributes="x", stored=("text", "y"))
hits = hr.Index.build(table, schema).recall(text=["tea"], columns=["x", "y"])
print([hit["x"] for hit in hits[0]], [row["y"] for row in hits.to_list()[0]])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    odd, exact = np.datetime64(ODD_NS, "ns"), EXACT_TIME
    assert done.stdout == f"{[odd, exact, None]} {[{'a': odd}, {'a': exact}, {'a': None}]}\n"
