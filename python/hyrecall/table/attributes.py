"""Maps values of attribute columns, and constants of filters, to the codes that a filter compares.

Codes are int64 numbers in the order of the values (``csrc/engine/segment/attributes.hpp``). Both
directions are in this module so that they agree: :func:`attribute_column` turns an Arrow array into
a native column of codes, and :func:`attribute_type` places a Python constant between the codes.
"""

import datetime as dt
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from hyrecall._core import AttributeColumn
from hyrecall.base.times import as_moment
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.table.schema import Schema

MIN_CODE, MAX_CODE = -(2**63), 2**63 - 1
# Greater than every code of every type, also after the shift of uint64.
_BEYOND = 2**66
# The place of NaN: a range that starts or ends here is empty, and nothing equals it.
_NOWHERE = (_BEYOND, -_BEYOND)

Place = tuple[int, int]
"""The least code at or above a constant, and the greatest at or below it; equal if one code is the
constant exactly. A day on a column of times lies from the first code of it to the last. Both may be
outside int64, where no column has a value."""

_PlaceOf = Callable[[Any], Place | None]


@dataclass(frozen=True, slots=True)
class AttributeType:
    """How a filter compares constants with a column of one Arrow type."""

    arrow: pa.DataType
    expected: str  # the accepted constants, for messages
    # Returns the place of a constant, or None for a wrong type. `place` is None for strings: each
    # segment looks them up in its own dictionary.
    place: _PlaceOf | None
    is_list: bool = False
    has_order: bool = True  # allows ranges
    top_code: int = MAX_CODE  # of the greatest value that compares


# --- Arrow arrays ---------------------------------------------------------------------------------

_NUMPY_TYPES: dict[int, type[np.generic]] = {
    pa.lib.Type_INT8: np.int8,
    pa.lib.Type_INT16: np.int16,
    pa.lib.Type_INT32: np.int32,
    pa.lib.Type_INT64: np.int64,
    pa.lib.Type_UINT8: np.uint8,
    pa.lib.Type_UINT16: np.uint16,
    pa.lib.Type_UINT32: np.uint32,
    pa.lib.Type_UINT64: np.uint64,
    pa.lib.Type_HALF_FLOAT: np.float16,
    pa.lib.Type_FLOAT: np.float32,
    pa.lib.Type_DOUBLE: np.float64,
    pa.lib.Type_DATE32: np.int32,
    pa.lib.Type_DATE64: np.int64,
    pa.lib.Type_TIME32: np.int32,
    pa.lib.Type_TIME64: np.int64,
    pa.lib.Type_TIMESTAMP: np.int64,
    pa.lib.Type_DURATION: np.int64,
}


def attribute_column(
    array: pa.Array | pa.ChunkedArray, *, in_place: bool = False
) -> AttributeColumn:
    """Build the native column of an Arrow array whose rows are in the segment's order."""
    if isinstance(array, pa.ChunkedArray):  # of one chunk, combine_chunks() makes a copy
        is_kept = in_place and array.num_chunks == 1
        array = array.chunk(0) if is_kept else array.combine_chunks()
    if array.type.id != pa.lib.Type_LARGE_LIST:
        return AttributeColumn(**_flat_parts(array))
    buffers = array.buffers()
    return AttributeColumn(
        **_flat_parts(array.values),
        offsets=_numbers(buffers[1], np.int64, array.offset, len(array) + 1),
        list_valid=_valid_bits(array, buffers[0]),
        first_list_valid=array.offset,
    )


def is_read_late(array: pa.Array) -> bool:
    """Return whether :func:`attribute_column` leaves an array's values to the first filter."""
    return array.null_count == 0 and _NUMPY_TYPES.get(array.type.id) is np.int64


def _flat_parts(array: pa.Array) -> dict[str, Any]:
    """Return the buffers of an array without lists, as arguments of AttributeColumn."""
    kind, n, offset = array.type.id, len(array), array.offset
    buffers = array.buffers()
    parts: dict[str, Any] = {"valid": _valid_bits(array, buffers[0]), "first_valid": offset}
    if kind == pa.lib.Type_LARGE_STRING:
        parts["values"] = _numbers(buffers[1], np.int64, offset, n + 1)
        text = buffers[2]
        parts["text"] = _numbers(text, np.uint8, 0, 0 if text is None else text.size)
    elif kind == pa.lib.Type_BOOL:
        bits = _numbers(buffers[1], np.uint8, 0, (offset + n + 7) // 8)
        parts["values"] = np.unpackbits(bits, count=offset + n, bitorder="little")[offset:]
    elif kind in _NUMPY_TYPES:
        values = _numbers(buffers[1], _NUMPY_TYPES[kind], offset, n)
        # Exact; so the engine needs no half-precision type.
        parts["values"] = values.astype(np.float32) if kind == pa.lib.Type_HALF_FLOAT else values
    else:
        raise error(DTypeError, "attributes", "a filterable type", array.type)
    return parts


def _numbers(
    buffer: pa.Buffer | None, dtype: type[np.generic], first: int, n: int
) -> np.ndarray[Any, Any]:
    # Arrow may leave out the buffers of an empty array, offsets included.
    if buffer is None or buffer.size == 0:
        return np.zeros(n, dtype)
    return np.frombuffer(buffer, dtype, count=n, offset=first * np.dtype(dtype).itemsize)


def _valid_bits(array: pa.Array, buffer: pa.Buffer | None) -> np.ndarray[Any, Any] | None:
    if buffer is None or array.null_count == 0:
        return None
    return np.frombuffer(buffer, np.uint8)


# --- Constants ------------------------------------------------------------------------------------


def _place_bool(value: object) -> Place | None:
    return (int(value), int(value)) if isinstance(value, (bool, np.bool_)) else None


def _is_number(value: object) -> bool:
    # A bool is a Python int but not a quantity; a longdouble does not fit a float.
    if isinstance(value, (bool, np.longdouble)):
        return False
    return isinstance(value, (int, float, np.integer, np.floating))


def _place_integer(shift: int, value: Any) -> Place | None:
    if not _is_number(value):
        return None
    if isinstance(value, (float, np.floating)):
        if math.isnan(value):
            return _NOWHERE
        if math.isinf(value):
            beyond = _BEYOND if value > 0 else -_BEYOND
            return beyond, beyond
        return math.ceil(float(value)) - shift, math.floor(float(value)) - shift
    return int(value) - shift, int(value) - shift


def _place_float(value: Any) -> Place | None:
    if not _is_number(value):
        return None
    if isinstance(value, (float, np.floating)):
        code = float_code(float(value))
        return _NOWHERE if math.isnan(value) else (code, code)
    exact = int(value)
    try:
        near = float(exact)
    except OverflowError:
        near = math.inf if exact > 0 else -math.inf
    # Python compares int with float exactly, so these are the floats next to an int over 2**53.
    above = near if near >= exact else math.nextafter(near, math.inf)
    below = near if near <= exact else math.nextafter(near, -math.inf)
    return float_code(above), float_code(below)


def float_code(value: float) -> int:
    """Map a float (not NaN) to an int of the same order, as float_code in attributes.cpp does."""
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    if bits == MIN_CODE:
        return 0  # -0 equals +0
    return bits ^ MAX_CODE if bits < 0 else bits


def values_of_codes(arrow: pa.DataType, codes: np.ndarray[Any, Any]) -> pa.Array:
    """Return the values that codes of a column without texts stand for; no code is NaN's."""
    if pa.types.is_boolean(arrow):
        return pa.array(codes != 0)
    if pa.types.is_floating(arrow):
        bits = np.where(codes < 0, codes ^ MAX_CODE, codes)
        return pa.array(bits.view(np.float64).astype(arrow.to_pandas_dtype()))
    kind = _NUMPY_TYPES[arrow.id]
    if kind is np.uint64:
        return pa.array(codes.view(np.uint64) ^ np.uint64(2**63))
    return pa.array(codes.astype(kind)).view(arrow)


# Times are integers of attoseconds, NumPy's finest unit; ticks are attoseconds per unit.
_TICKS = {"W": 604_800 * 10**18, "D": 86_400 * 10**18, "h": 3_600 * 10**18, "m": 60 * 10**18}
_TICKS |= {
    unit: 10 ** (18 - 3 * i) for i, unit in enumerate(("s", "ms", "us", "ns", "ps", "fs", "as"))
}
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


def _place_moment(
    attoseconds_of: Callable[[Any], int | None], tick: int, value: object
) -> Place | None:
    moment = attoseconds_of(value)
    return None if moment is None else (-(-moment // tick), moment // tick)


def _place_instant(tick: int, value: object) -> Place | None:
    """Place a time on a column of times; a date is the whole day, in UTC."""
    if isinstance(value, str):
        value = _written(as_moment, value)
    day = _day(value)
    if day is None:
        return _place_moment(_instant, tick, value)
    return -(-day // tick), (day + _TICKS["D"] - 1) // tick


def _instant(value: Any) -> int | None:
    # pandas.Timestamp is a datetime whose nanoseconds datetime arithmetic drops.
    if hasattr(value, "to_datetime64"):
        value = value.to_datetime64()
    if isinstance(value, np.datetime64):
        return _numpy_attoseconds(value)
    if not isinstance(value, dt.datetime):
        return None
    since = value.replace(tzinfo=None) - _EPOCH - (value.utcoffset() or dt.timedelta(0))
    return _attoseconds(since)


def _written(read: Callable[[str], object], text: str) -> object:
    """Read a time that is written as ISO 8601; None: it is none."""
    try:
        return read(text)
    except ValueError:
        return None


def _date(value: object) -> int | None:
    if isinstance(value, str):
        value = _written(dt.date.fromisoformat, value)
    return _numpy_attoseconds(value) if isinstance(value, np.datetime64) else _day(value)


def _day(value: object) -> int | None:
    if isinstance(value, np.datetime64) and np.datetime_data(value.dtype) == ("D", 1):
        return _numpy_attoseconds(value)
    if isinstance(value, dt.datetime) or not isinstance(value, dt.date):
        return None
    return (value.toordinal() - _EPOCH.toordinal()) * _TICKS["D"]


def _time_of_day(value: object) -> int | None:
    if isinstance(value, str):
        value = _written(dt.time.fromisoformat, value)
    if not isinstance(value, dt.time) or value.tzinfo is not None:
        return None
    hours = dt.timedelta(hours=value.hour, minutes=value.minute)
    return _attoseconds(hours + dt.timedelta(seconds=value.second, microseconds=value.microsecond))


def _duration(value: Any) -> int | None:
    if hasattr(value, "to_timedelta64"):
        value = value.to_timedelta64()
    if isinstance(value, np.timedelta64):
        return _numpy_attoseconds(value)
    return _attoseconds(value) if isinstance(value, dt.timedelta) else None


def _attoseconds(value: dt.timedelta) -> int:
    return value // _MICROSECOND * _TICKS["us"]


def _numpy_attoseconds(value: np.datetime64 | np.timedelta64) -> int | None:
    """Convert a NumPy time exactly; None for NaT, and for durations in months or years."""
    if np.isnat(value):
        return None
    unit, count = np.datetime_data(value.dtype)
    if unit in {"Y", "M"} and isinstance(value, np.datetime64):
        # This limit keeps the conversion to days far from overflow.
        if abs(int(value.astype("datetime64[Y]").astype(np.int64))) > 10**9:
            return None
        value, unit, count = value.astype("datetime64[D]"), "D", 1
    if unit not in _TICKS:
        return None
    return int(value.astype(np.int64)) * count * _TICKS[unit]


# Per kind of Arrow type: its test, the accepted constants, and their places.
_KINDS: tuple[tuple[Callable[[Any], bool], str, Callable[[Any], _PlaceOf | None]], ...] = (
    (pa.types.is_boolean, "True or False", lambda _: _place_bool),
    (
        pa.types.is_integer,
        "an int or float",
        lambda arrow: partial(_place_integer, 2**63 if arrow == pa.uint64() else 0),
    ),
    (pa.types.is_floating, "an int or float", lambda _: _place_float),
    (pa.types.is_large_string, "a str", lambda _: None),
    (
        pa.types.is_date,
        "a datetime.date, or one as ISO 8601",
        lambda arrow: partial(_place_moment, _date, _TICKS["D" if arrow == pa.date32() else "ms"]),
    ),
    (
        pa.types.is_timestamp,
        "a datetime.datetime or datetime.date, or one as ISO 8601",
        lambda arrow: partial(_place_instant, _TICKS[arrow.unit]),
    ),
    (
        pa.types.is_time,
        "a datetime.time without a time zone, or one as ISO 8601",
        lambda arrow: partial(_place_moment, _time_of_day, _TICKS[arrow.unit]),
    ),
    (
        pa.types.is_duration,
        "a datetime.timedelta",
        lambda arrow: partial(_place_moment, _duration, _TICKS[arrow.unit]),
    ),
)


@lru_cache(maxsize=256)
def attribute_type(arrow: pa.DataType) -> AttributeType | None:
    """Return how filters compare a type of :func:`attribute_column`; None for other types."""
    if pa.types.is_large_list(arrow):
        inner = attribute_type(arrow.value_type)
        return None if inner is None or inner.is_list else replace(inner, arrow=arrow, is_list=True)
    for is_kind, expected, place_for in _KINDS:
        if is_kind(arrow):
            has_order = not pa.types.is_boolean(arrow)
            top_code = float_code(math.inf) if pa.types.is_floating(arrow) else MAX_CODE
            place = place_for(arrow)
            return AttributeType(arrow, expected, place, has_order=has_order, top_code=top_code)
    return None


# ---- Columns and keys that a call names, checked against an index ----


class RowTypes(Protocol):
    """The schema of an index, and the types of its row columns."""

    @property
    def schema(self) -> Schema:
        """The schema."""
        ...

    @property
    def row_types(self) -> Mapping[str, pa.DataType]:
        """The types by column."""
        ...


def read_keys(argument: str, keys: Sequence[Any], facts: RowTypes) -> pa.Array:
    """Take keys of the index's kind as one Arrow array."""
    kind = facts.row_types[facts.schema.key]
    is_text = pa.types.is_large_string(kind)
    plain = [key.item() if isinstance(key, np.generic) else key for key in keys]
    for at, key in enumerate(plain):
        if not isinstance(key, str if is_text else int) or isinstance(key, bool):
            wish = f"{'str' if is_text else 'int64'} keys"
            raise error(DTypeError, argument, wish, f"{type(key).__name__} {key!r} at {at}")
    try:
        return pa.array(plain, kind)
    except (OverflowError, pa.ArrowInvalid, UnicodeEncodeError) as fault:
        raise error(OptionError, argument, "keys that the index can hold", fault) from None


def ordered_attribute(argument: str, column: str, facts: RowTypes) -> int:
    """Return the number of an attribute column of numbers, dates or times."""
    number, kind = _attribute(argument, column, facts)
    types = pa.types
    tests = (types.is_integer, types.is_floating, types.is_temporal)
    if not any(test(kind) for test in tests):
        raise error(DTypeError, argument, "a column of numbers, dates or times", kind)
    return number


def tag_attribute(argument: str, column: str, facts: RowTypes) -> int:
    """Return the number of an attribute column of strings or lists of strings."""
    number, kind = _attribute(argument, column, facts)
    types = pa.types
    inner = kind.value_type if types.is_list(kind) or types.is_large_list(kind) else kind
    if not (types.is_string(inner) or types.is_large_string(inner)):
        raise error(DTypeError, argument, "a column of strings or lists of strings", kind)
    return number


def _attribute(argument: str, column: str, facts: RowTypes) -> tuple[int, pa.DataType]:
    """Return the number and the type of an attribute column."""
    known = list(facts.schema.attributes)
    if column not in known:
        raise error(OptionError, argument, f"an attribute column of {known}", repr(column))
    return known.index(column), facts.row_types[column]
