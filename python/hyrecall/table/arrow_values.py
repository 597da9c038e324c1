"""Converts Arrow columns to Python values, with the same results with and without pandas.

pyarrow needs pandas for nanoseconds, and fails on times outside datetime's range and on text that
is not UTF-8. A value never depends on others in its column, which may belong to other queries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from hyrecall.table.arrow_checks import is_list

__all__ = ["python_values", "readable"]


NAT = -(2**63)  # NumPy's NaT
# Types without a time in them, which most columns have.
_TIMELESS = frozenset(
    one.id for one in (pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.large_string())
)


def python_values(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values of a column, None for nulls."""
    # Bytes of text that are not UTF-8 become U+FFFD. Times become types of ``datetime`` if
    # that holds
    # them exactly. Other times, also inside lists and structs, become ``numpy.datetime64``
    # (in UTC if
    # the column has a time zone); durations and times of day become ``numpy.timedelta64``.
    kind = array.type if array.type.id in _TIMELESS else _in_microseconds(array.type)
    try:
        values: list[Any] = (array if array.type == kind else array.cast(kind)).to_pylist()
        return values
    except (pa.ArrowNotImplementedError, ValueError, OverflowError):
        return [_value(scalar) for scalar in array]


def readable(array: pa.Array) -> pa.Array:
    """Replace bytes of text that are not UTF-8 by U+FFFD; return other arrays unchanged."""
    # Text is checked on input, but a forged file may hold any bytes.
    if not pa.types.is_large_string(array.type):
        return array
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array(python_values(array), array.type)
    return array


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    """Return the type with every nanosecond unit replaced by microseconds."""
    types, finer = pa.types, _in_microseconds
    if _unit(kind) == "ns":
        if types.is_timestamp(kind):
            return pa.timestamp("us", kind.tz)
        return pa.duration("us") if types.is_duration(kind) else pa.time64("us")
    if types.is_map(kind):
        kind = pa.map_(finer(kind.key_type), finer(kind.item_type))
    elif types.is_fixed_size_list(kind):
        kind = pa.list_(finer(kind.value_type), kind.list_size)
    elif types.is_large_list(kind):
        kind = pa.large_list(finer(kind.value_type))
    elif types.is_struct(kind):
        kind = pa.struct([field.with_type(finer(field.type)) for field in kind])
    return kind


def _unit(kind: pa.DataType) -> str:
    """Return NumPy's name for the unit of a time type; empty for other types."""
    if not pa.types.is_temporal(kind):
        return ""
    unit = str(kind).partition("[")[2].rstrip("]").partition(",")[0]
    return "D" if unit == "day" else unit


def _value(scalar: pa.Scalar) -> Any:  # noqa: PLR0911
    types, kind = pa.types, scalar.type
    if not scalar.is_valid:
        return None
    if _unit(kind):
        return _moment(scalar)
    if types.is_map(kind):
        return [(_value(one["key"]), _value(one["value"])) for one in scalar.values]
    if types.is_struct(kind):
        return {name: _value(part) for name, part in scalar.items()}
    if types.is_union(kind):
        return _value(scalar.value)
    if is_list(kind) or types.is_fixed_size_list(kind):
        return [_value(one) for one in scalar.values]
    if types.is_large_string(kind) or types.is_string(kind):
        return scalar.as_buffer().to_pybytes().decode(errors="replace")
    return scalar.as_py()


def _moment(scalar: pa.Scalar) -> Any:
    kind = scalar.type
    try:
        return scalar.cast(_in_microseconds(kind)).as_py()
    except (ValueError, OverflowError):
        is_moment = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
        count, unit = int(scalar.value), _unit(kind)
        if count == NAT:  # not NaT here: the same (even) count in units twice as long
            count, unit = count // 2, f"2{unit}"
        return np.int64(count).view(f"{'M8' if is_moment else 'm8'}[{unit}]")
