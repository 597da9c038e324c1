"""Column types of random tables: which values they hold, and what those are in Python.

A value is kept *raw*: an int for everything that Arrow counts (so times are counts of their unit),
else a str, float or bool. The oracle compares raw values. ``said`` gives the constant of a filter
and ``shown`` what a hit must give, both computed here in exact integers, not by the package.
"""

import datetime as dt
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from oracle.corpus import Draw

Raw = Any
NANOSECONDS = {"D": 86_400 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
EPOCH = dt.datetime(1970, 1, 1)
LEAST, MOST = -(2**63), 2**63 - 1
STRINGS = ("", "a", "b", "B", "é", "e\u0301", "a\0b", "\U0010ffff", "zz" * 40, " ")
FLOATS = (0.0, -0.0, 1.5, -2.25, 1e-45, 3.0e38, float("inf"), -float("inf"), float("nan"))


@dataclass(frozen=True)
class Kind:
    """A column type."""

    name: str
    arrow: pa.DataType
    draw: Callable[[Draw], Raw]
    said: Callable[[Raw], Any] = lambda raw: raw
    shown: Callable[[Raw], Any] = lambda raw: raw
    can_ask: Callable[[Raw], bool] = lambda raw: True  # whether a filter can name the value
    has_order: bool = True
    is_list: bool = False
    is_time: bool = False  # a stage can take its age
    unit: str = ""
    is_attribute: bool = True

    def array(self, raws: list[Raw]) -> pa.Array:
        """The values as Arrow holds them."""
        if self.is_list:
            inner = KINDS[self.name.partition(" of ")[2]]
            flat = [one for raw in raws if raw is not None for one in raw]
            lengths = [0 if raw is None else len(raw) for raw in raws]
            offsets = np.cumsum([0, *lengths])
            mask = pa.array([raw is None for raw in raws], pa.bool_())
            values = inner.array(flat)
            return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values, mask=mask)
        if self.unit:
            wide = pa.int32() if self.arrow.bit_width == 32 else pa.int64()
            return pa.array(raws, wide).view(self.arrow)
        return pa.array(raws, self.arrow)


def _counts(unit: str, least: int, most: int) -> Callable[[Draw], int]:
    """Counts of a unit: extremes, the epoch, the ends of datetime, and moments of these years."""
    tick = NANOSECONDS[unit]
    edges = [least, least + 1, most, most - 1, 0, 1, -1, 2**62, -(2**62), -(2**61) - 1]
    for year in (1, 1600, 1677, 1678, 2026, 2262, 2263, 9999):
        seconds = (dt.datetime(year, 6, 1) - EPOCH) // dt.timedelta(seconds=1)
        edges.append(seconds * 10**9 // tick)
    known = [count for count in edges if least <= count <= most]

    def draw_count(draw: Draw) -> int:
        if draw.chance(0.5):
            return draw.choice(known)
        near = 1_767_225_600 * 10**9 + draw.randrange(4) * 86_400 * 10**9  # from 2026-01-01 on
        return min(most, near // tick + draw.choice((0, 0, 1)))

    return draw_count


def _moment(count: int, unit: str, letter: str) -> Any:
    if count == LEAST:  # NumPy reads it as NaT
        count, unit = count // 2, f"2{unit}"
    return np.int64(count).view(f"{letter}8[{unit}]")


def _instant(unit: str, zone: str | None) -> Callable[[int], Any]:
    def shown(count: int) -> Any:
        micros, rest = divmod(count * NANOSECONDS[unit], 1000)
        try:
            if rest:
                raise OverflowError
            moment = EPOCH + dt.timedelta(microseconds=micros)
            return moment.replace(tzinfo=dt.UTC).astimezone(ZoneInfo(zone)) if zone else moment
        except OverflowError:
            return _moment(count, unit, "M")

    return shown


def _date(unit: str) -> Callable[[int], Any]:
    def shown(count: int) -> Any:
        try:
            return EPOCH.date() + dt.timedelta(days=count * NANOSECONDS[unit] // NANOSECONDS["D"])
        except OverflowError:
            return _moment(count, unit, "M")

    return shown


def _span(unit: str) -> Callable[[int], Any]:
    def shown(count: int) -> Any:
        micros, rest = divmod(count * NANOSECONDS[unit], 1000)
        try:
            return _moment(count, unit, "m") if rest else dt.timedelta(microseconds=micros)
        except OverflowError:
            return _moment(count, unit, "m")

    return shown


def _time(unit: str) -> Callable[[int], Any]:
    def shown(count: int) -> Any:
        micros, rest = divmod(count * NANOSECONDS[unit], 1000)
        if rest:
            return _moment(count, unit, "m")
        return (EPOCH + dt.timedelta(microseconds=micros)).time()

    return shown


def _timed(kind: pa.DataType, unit: str, shown: Callable[[int], Any], letter: str) -> Kind:
    bits = kind.bit_width - 1
    return Kind(
        str(kind), kind, _counts(unit, -(2**bits), 2**bits - 1),
        said=lambda raw: np.int64(raw).view(f"{letter}8[{unit}]"), shown=shown,
        can_ask=lambda raw: raw != LEAST, is_time=letter == "M", unit=unit,
    )  # fmt: skip


def _time_of_day(kind: pa.DataType, unit: str) -> Kind:
    a_day = NANOSECONDS["D"] // NANOSECONDS[unit]
    return Kind(
        str(kind), kind, lambda draw: draw.choice((0, 1, 999, 1000, a_day // 2, a_day - 1)),
        said=_time(unit), shown=_time(unit), can_ask=lambda raw: unit != "ns" or raw % 1000 == 0,
        unit=unit,
    )  # fmt: skip


def _integers(kind: pa.DataType) -> Kind:
    info = np.iinfo(kind.to_pandas_dtype())
    low, high = int(info.min), int(info.max)
    return Kind(
        str(kind), kind, lambda draw: draw.choice((low, low + 1, 0, 1, 2, 3, high - 1, high))
    )


def _floats(kind: pa.DataType) -> Kind:
    def draw_float(draw: Draw) -> float:
        with np.errstate(over="ignore"):
            return float(kind.to_pandas_dtype()(draw.choice(FLOATS)))

    return Kind(str(kind), kind, draw_float, can_ask=lambda raw: not math.isnan(raw))


def _whole_days() -> Kind:
    kind = _timed(pa.date64(), "ms", _date("ms"), "M")
    day = NANOSECONDS["D"] // NANOSECONDS["ms"]
    object.__setattr__(kind, "draw", lambda draw, of=kind.draw: int(of(draw) / day) * day)
    return kind


def _lists_of(inner: Kind) -> Kind:
    def draw_list(draw: Draw) -> list[Raw]:
        return [
            None if draw.chance(0.2) else inner.draw(draw) for _ in range(draw.choice((0, 1, 2, 3)))
        ]

    def shown(raw: list[Raw]) -> Any:
        return [None if one is None else inner.shown(one) for one in raw]

    return Kind(
        f"list of {inner.name}", pa.large_list(inner.arrow), draw_list, said=inner.said,
        shown=shown, can_ask=inner.can_ask, has_order=False, is_list=True,
    )  # fmt: skip


def _kinds() -> list[Kind]:
    strings = [
        Kind(str(kind), kind, lambda draw: draw.choice(STRINGS))
        for kind in (pa.string(), pa.large_string(), pa.string_view())
    ]
    kinds = [
        *strings,
        Kind("bool", pa.bool_(), lambda draw: draw.chance(0.5), has_order=False),
        *map(_integers, (pa.int8(), pa.uint8(), pa.int16(), pa.uint32(), pa.int64(), pa.uint64())),
        *map(_floats, (pa.float16(), pa.float32(), pa.float64())),
        _timed(pa.date32(), "D", _date("D"), "M"),
        _whole_days(),
        _time_of_day(pa.time32("s"), "s"),
        _time_of_day(pa.time32("ms"), "ms"),
        _time_of_day(pa.time64("us"), "us"),
        _time_of_day(pa.time64("ns"), "ns"),
    ]
    for unit in ("s", "ms", "us", "ns"):
        kinds.append(_timed(pa.duration(unit), unit, _span(unit), "m"))
        kinds += [
            _timed(pa.timestamp(unit, zone), unit, _instant(unit, zone), "M")
            for zone in (None, "UTC", "Europe/Paris")
        ]
    named = {kind.name: kind for kind in kinds}
    inner = ("large_string", "int64", "timestamp[ns]", "timestamp[s]", "date32[day]", "double")
    return [*kinds, *(_lists_of(named[name]) for name in inner), *_stored_only()]


def _stored_only() -> list[Kind]:
    decimal = pa.decimal128(20, 2)
    pair = pa.struct({"a": pa.int64(), "b": pa.large_string()})

    def draw_pair(draw: Draw) -> Raw:
        return {"a": draw.choice((None, LEAST, MOST)), "b": draw.choice((None, *STRINGS))}

    return [
        Kind("decimal", decimal, lambda draw: pa.scalar(draw.choice((1, -7, 10**15)), decimal)
             .as_py(), is_attribute=False),
        Kind("binary", pa.binary(), lambda draw: draw.choice((b"", b"\xff\0")), is_attribute=False),
        Kind("struct", pair, draw_pair, is_attribute=False),
    ]  # fmt: skip


KINDS: dict[str, Kind] = {kind.name: kind for kind in _kinds()}
