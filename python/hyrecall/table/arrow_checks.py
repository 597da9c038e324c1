"""Checks the values of an Arrow column against its type, before other code reads its memory.

Arrow arrays come from other programs, and pyarrow imports them without checking offsets, indices or
text. An error names the row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.errors import OptionError, error

__all__ = ["check_column", "first_bad", "is_list"]


_LISTS = {
    pa.lib.Type_LIST,
    pa.lib.Type_LARGE_LIST,
    pa.lib.Type_LIST_VIEW,
    pa.lib.Type_LARGE_LIST_VIEW,
}


def is_list(kind: pa.DataType) -> bool:
    """Return whether the type is a list of variable length, in any layout."""
    return kind.id in _LISTS


def check_column(
    column: pa.ChunkedArray | pa.Array, argument: str, where: Callable[[int], str]
) -> None:
    """Refuse a column with values that its type does not allow."""
    # It checks the offsets of strings and lists in every layout, dictionary indices and run
    # ends, and
    # that text is UTF-8, a date64 a whole day, a time within its day and a decimal within its
    # precision; also inside lists and structs. Arrow's own offsets and lengths, which other
    # programs
    # set, must be at least 0.
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    first_row = 0
    for chunk in chunks:
        _core.check_layout(chunk, argument)  # before validate() reads by its offsets
        try:
            chunk.validate(full=True)
        except pa.ArrowException as fault:
            row = _first_bad_row(chunk)
            place = None if row is None else where(first_row + row)
            raise _refusal(chunk.type, fault, argument, place) from fault
        first_row += len(chunk)


def _refusal(kind: pa.DataType, fault: Exception, argument: str, place: str | None) -> OptionError:
    got = str(fault) if place is None else f"{fault} {place}"
    if "UTF8" not in str(fault):
        return error(OptionError, argument, f"valid {kind} values", got)
    remedy = ""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        decoded = "None if text is None else text.decode(errors='replace')"
        column = f"table[{argument!r}].cast(pa.binary()).to_pylist()"
        remedy = f"replace such bytes: pa.array([{decoded} for text in {column}])"
    return error(OptionError, argument, "valid UTF-8", got, remedy)


def first_bad(n_rows: int, is_good: Callable[[int, int], bool]) -> int:
    """Return the first bad row of `n_rows` by bisection; at least one must be bad."""
    # `is_good(start, n)` returns whether n rows from `start` are all good.
    low, high = 0, n_rows
    while high - low > 1:
        middle = (low + high) // 2
        if is_good(low, middle - low):
            low = middle
        else:
            high = middle
    return low


def _first_bad_row(array: pa.Array) -> int | None:
    """Return the first row with a value that is not allowed, or None if it cannot be found."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        array, kind = array.storage, array.storage.type
    if pa.types.is_nested(kind) or pa.types.is_dictionary(kind):
        return _first_bad_nested(array) if _is_valid(array, full=False) else None
    if _is_valid(array, full=True):
        return None
    return _first_bad_slice(array)


def _first_bad_slice(array: pa.Array) -> int:
    return first_bad(len(array), lambda at, n: _is_valid(array.slice(at, n), full=True))


def _first_bad_nested(array: pa.Array) -> int | None:
    """Find the row through the inner values, because Arrow checks all of them for every slice."""
    kind, row = array.type, None
    if pa.types.is_struct(kind):
        rows = (_first_bad_row(array.field(at)) for at in range(kind.num_fields))
        row = min((row for row in rows if row is not None), default=None)
    elif is_list(kind) or pa.types.is_fixed_size_list(kind):
        row = _first_bad_list(array)
    elif pa.types.is_dictionary(kind):
        value = _first_bad_row(array.dictionary)
        if value is None:  # then an index is wrong
            return _first_bad_slice(array)
        import pyarrow.compute as pc

        at = pc.index(array.indices, pa.scalar(value, kind.index_type)).as_py()
        row = None if at < 0 else at
    return row  # None for maps, unions and run ends


def _first_bad_list(array: pa.Array) -> int | None:
    begins, ends = _bounds(array)
    values = array.values
    wrong = (begins < 0) | (ends < begins) | (ends > len(values))
    if wrong.any():
        return int(wrong.argmax())
    value = _first_bad_row(values)
    if value is None:
        return None
    holds = (begins <= value) & (value < ends)
    return int(holds.argmax()) if holds.any() else None


def _bounds(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the begin and end of each row's values, unchecked."""
    kind, n, first = array.type, len(array), array.offset
    if pa.types.is_fixed_size_list(kind):
        begins = (first + np.arange(n, dtype=np.int64)) * kind.list_size
        return begins, begins + kind.list_size
    is_large = pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind)
    dtype = np.dtype(np.int64 if is_large else np.int32)
    is_view = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
    offsets, sizes = (
        np.frombuffer(buffer, dtype, n + (not is_view), first * dtype.itemsize).astype(np.int64)
        for buffer in (array.buffers()[1], array.buffers()[2 if is_view else 1])
    )
    return (offsets, offsets + sizes) if is_view else (offsets[:-1], offsets[1:])


def _is_valid(array: pa.Array, *, full: bool) -> bool:
    try:
        array.validate(full=full)
    except pa.ArrowException:
        return False
    return True
