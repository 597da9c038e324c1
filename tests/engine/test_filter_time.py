"""Times compare exactly: any constant against any unit, by the integers behind both."""

import datetime as dt
import zoneinfo
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyrecall.errors import OptionError
from seams import Filter, attribute_column, compile_filter

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
EPOCH = dt.datetime(1970, 1, 1)
MICRO = dt.timedelta(microseconds=1)
INT64 = st.integers(-(2**63), 2**63 - 1)

units = st.sampled_from(sorted(PER_SECOND))
close = st.datetimes(EPOCH - dt.timedelta(seconds=2), EPOCH + dt.timedelta(seconds=2))
near_or_any = st.one_of(close, st.datetimes())


def matched(test: Any, raw: list[int], arrow: pa.DataType) -> list[bool]:
    column = attribute_column(pa.array(raw, arrow))
    answer: list[bool] = compile_filter(Filter(x=test), {"x": arrow}).evaluate([column]).tolist()
    return answer


def around(seconds: Fraction, unit: str) -> list[int]:
    """Raw values about a moment, within int64."""
    near = int(seconds * PER_SECOND[unit])
    return [min(max(near + i, -(2**63)), 2**63 - 1) for i in (-2, -1, 0, 1, 2)]


@given(near_or_any, near_or_any, units, INT64, st.sampled_from([None, "UTC", "Asia/Tokyo"]))
def test_a_range_of_datetimes_includes_just_the_ticks_between_its_ends(
    start: dt.datetime, end: dt.datetime, unit: str, far: int, zone: str | None
) -> None:
    low, high = (Fraction((moment - EPOCH) // MICRO, 10**6) for moment in (start, end))
    raw = [*around(low, unit), *around(high, unit), far]
    times = [Fraction(value, PER_SECOND[unit]) for value in raw]
    arrow = pa.timestamp(unit, zone)
    aware = end.replace(tzinfo=dt.UTC)
    assert matched((start, aware), raw, arrow) == [low <= time <= high for time in times]
    assert matched((start, None), raw, arrow) == [low <= time for time in times]
    assert matched((None, end), raw, arrow) == [time <= high for time in times]
    assert matched([start, end], raw, arrow) == [time in {low, high} for time in times]


@given(st.timedeltas(), units)
def test_a_duration_equals_only_its_own_length(span: dt.timedelta, unit: str) -> None:
    length = Fraction(span // MICRO, 10**6)
    raw = around(length, unit)
    times = [Fraction(value, PER_SECOND[unit]) for value in raw]
    assert matched(span, raw, pa.duration(unit)) == [time == length for time in times]
    assert matched((span, None), raw, pa.duration(unit)) == [time >= length for time in times]


@given(
    INT64.filter(lambda value: value != -(2**63)),
    st.sampled_from(["h", "m", *PER_SECOND, "ps", "fs", "as"]),
    units,
)
def test_a_numpy_moment_of_any_unit_is_exact(count: int, numpy_unit: Any, unit: str) -> None:
    seconds = {
        "h": Fraction(3600),
        "m": Fraction(60),
        "ps": Fraction(1, 10**12),
        "fs": Fraction(1, 10**15),
    }
    seconds |= {"as": Fraction(1, 10**18)} | {
        name: Fraction(1, n) for name, n in PER_SECOND.items()
    }
    moment = count * seconds[numpy_unit]
    raw = around(moment, unit)
    times = [Fraction(value, PER_SECOND[unit]) for value in raw]
    at = np.datetime64(count, numpy_unit)
    assert matched((at, None), raw, pa.timestamp(unit)) == [moment <= time for time in times]
    assert matched((None, at), raw, pa.timestamp(unit)) == [time <= moment for time in times]
    assert matched(at, raw, pa.timestamp(unit)) == [time == moment for time in times]
    assert matched(np.timedelta64(count, numpy_unit), raw, pa.duration(unit)) == [
        time == moment for time in times
    ]


def test_zones_and_numpy_calendars_name_the_same_instant() -> None:
    noon = [int(dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC).timestamp())]
    berlin = dt.datetime(2024, 7, 1, 14, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))
    for same in (berlin, dt.datetime(2024, 7, 1, 12), np.datetime64("2024-07-01T12")):
        assert matched(same, noon, pa.timestamp("s")) == [True]
        assert matched(same, noon, pa.timestamp("s", "America/New_York")) == [True]
    assert matched((np.datetime64("2024"), np.datetime64("2024-08")), noon, pa.timestamp("s")) == [
        True
    ]
    assert matched((np.datetime64("2024-08"), None), noon, pa.timestamp("s")) == [False]
    assert matched(np.datetime64("1970-01-02"), [0, 1], pa.date32()) == [False, True]
    assert matched((np.datetime64(1, "W"), None), [6, 7], pa.date32()) == [False, True]
    # Extremes of the calendar in a zone: the instant lies outside what datetime itself can hold.
    for last in (dt.datetime.max, dt.datetime.min):
        for hours in (-14, 14):
            there = last.replace(tzinfo=dt.timezone(dt.timedelta(hours=hours)))
            assert matched((None, there), [0], pa.timestamp("s")) == [last is dt.datetime.max]


def test_pandas_moments_keep_their_nanoseconds() -> None:
    pd = pytest.importorskip("pandas")
    at = pd.Timestamp("1970-01-01 00:00:00.000000005", tz="UTC")
    assert matched(at, [4, 5, 6], pa.timestamp("ns")) == [False, True, False]
    assert matched((at, None), [0, 1], pa.timestamp("us")) == [False, True]
    assert matched(pd.Timedelta(5, "ns"), [4, 5], pa.duration("ns")) == [False, True]
    with pytest.raises(OptionError, match=r"x: expected a datetime\.datetime"):
        matched(pd.NaT, [0], pa.timestamp("s"))
