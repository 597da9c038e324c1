"""Arrow columns as Python values, the same whether pandas is installed or not.

pyarrow needs pandas for what is counted in nanoseconds, and fails where a moment is no datetime.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["python_values"]


def python_values(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Give the values of a column, None for nulls.

    Times are those of ``datetime`` where they are exact to the microsecond and in its range.
    Others, also inside lists and structs, are ``numpy.datetime64`` (UTC where the column has a time
    zone) or, as durations and as times since midnight, ``numpy.timedelta64``.

    Examples
    --------
    >>> python_values(pa.array([1_000, 1_001], pa.duration("ns")))
    [datetime.timedelta(microseconds=1), np.timedelta64(1001,'ns')]
    """
    kind = _in_microseconds(array.type)
    try:
        values: list[Any] = (array if array.type == kind else array.cast(kind)).to_pylist()
        return values
    except (pa.ArrowNotImplementedError, ValueError, OverflowError):
        return [_value(scalar) for scalar in array]


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    """Give the type with microseconds wherever it has nanoseconds."""
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
    """Name the unit of a time as NumPy does; empty for other types."""
    if not pa.types.is_temporal(kind):
        return ""
    unit = str(kind).partition("[")[2].rstrip("]").partition(",")[0]
    return "D" if unit == "day" else unit


def _value(scalar: pa.Scalar) -> Any:
    types, kind = pa.types, scalar.type
    if not scalar.is_valid:
        return None
    if _unit(kind):
        return _moment(scalar)
    if types.is_map(kind):
        return [(_value(one["key"]), _value(one["value"])) for one in scalar.values]
    if types.is_struct(kind):
        return {name: _value(part) for name, part in scalar.items()}
    if types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return [_value(one) for one in scalar.values]
    return scalar.as_py()


def _moment(scalar: pa.Scalar) -> Any:
    kind = scalar.type
    try:
        return scalar.cast(_in_microseconds(kind)).as_py()
    except (ValueError, OverflowError):
        is_moment = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
        count = np.int64(scalar.value)
        return count.view(f"{'M8' if is_moment else 'm8'}[{_unit(kind)}]")
