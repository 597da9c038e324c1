"""Reads Arrow list columns as NumPy matrices, without a copy if the rows are contiguous.

Two properties of pyarrow need care: ``values`` of a list array ignores its slice, and ``flatten()``
drops null rows. Row numbers must stay right in both cases.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hyrecall import _core
from hyrecall.errors import DTypeError, OptionError, ShapeError, error
from hyrecall.table.arrow_values import check_column, is_list
from hyrecall.table.matrices import Array, Mask, SourceDtype, describe_row, for_rows


@dataclass(frozen=True, eq=False)
class ListRows:
    """A list column as matrices; values are not checked yet, those of null rows are undefined."""

    dtype: SourceDtype
    dim: int
    chunks: tuple[Array, ...]  # each (n, dim)
    valid: Mask | None  # (n_rows,); None when no row is null


def is_arrow(value: object) -> bool:
    """Return whether the value supports the Arrow PyCapsule protocol."""
    return hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")


def arrow_column(value: Any) -> pa.ChunkedArray:
    """Convert an Arrow array, chunked array or series to a chunked array."""
    if isinstance(value, pa.ChunkedArray):
        column = value
    elif hasattr(value, "__arrow_c_stream__"):
        column = pa.chunked_array(value)
    else:
        array = pa.array(value)
        _core.check_layout(array, "vectors")  # a chunked array trusts its length
        return pa.chunked_array([array])
    for chunk in column.chunks:
        _core.check_layout(chunk, "vectors")
    return column


def read_lists(
    column: pa.ChunkedArray, *, bits: bool, dim: int | None, argument: str, row_name: str,
    takes_ints: bool = False,
) -> ListRows:  # fmt: skip
    """Read a column of equal-length lists in any layout, with any chunks and slices."""
    check_column(column, argument, lambda row: describe_row(row_name, row))
    if pa.types.is_null(column.type) and dim is not None:  # a column of only None
        nothing = np.zeros((len(column), dim), np.float32)
        return ListRows("float32", dim, (nothing,), np.zeros(len(column), np.bool_))
    chunks = [_storage(chunk) for chunk in column.chunks]
    kind = _storage_type(column, argument, row_name)
    value, stored = kind.value_type, None
    dtype: SourceDtype
    if takes_ints and pa.types.is_integer(value) and not pa.types.is_uint16(value):
        dtype, stored = "float64", np.dtype(value.to_pandas_dtype())
    else:
        dtype = _value_dtype(column, kind, argument, bits)
    fixed = kind.list_size if pa.types.is_fixed_size_list(kind) else None
    if fixed is not None and dim not in (None, fixed):
        raise error(ShapeError, argument, f"{dim} values in every {row_name}", fixed)
    width = dim if fixed is None else fixed
    if width is None:
        width = _first_length(chunks)
    if width is None:
        wish = f"a {row_name} with a vector, or a column of type pa.list_({dtype}, dim)"
        raise error(ShapeError, argument, wish, f"none in {column.type}")
    if width == 0:
        raise error(ShapeError, argument, f"at least 1 value in every {row_name}", 0)

    valid = np.ones(len(column), np.bool_)
    matrices = []
    first_row = 0
    for chunk in chunks:
        rows = slice(first_row, first_row + len(chunk))
        if chunk.null_count:
            valid[rows] = chunk.is_valid().to_numpy(zero_copy_only=False)
        place = _ColumnPlace(argument, row_name, first_row)
        read = _fixed_rows if fixed is not None else _list_rows
        matrix = read(chunk, width, valid[rows], stored or _NUMPY[dtype], place)
        matrices.append(matrix.astype(_NUMPY[dtype], copy=False))
        first_row = rows.stop
    return ListRows(dtype, width, tuple(matrices), None if valid.all() else valid)


@dataclass(frozen=True)
class _ColumnPlace:
    argument: str
    row_name: str
    first_row: int

    def row(self, row: int) -> str:
        return describe_row(self.row_name, self.first_row + row)


_ARROW: dict[pa.DataType, SourceDtype] = {
    pa.float16(): "float16",
    pa.float32(): "float32",
    pa.float64(): "float64",
}
_LOOKED_AT = 1000  # rows, before a remedy says how to read them
_NUMPY: dict[SourceDtype, np.dtype[Any]] = {
    "float16": np.dtype(np.float16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "bfloat16": np.dtype(np.uint16),
}


def _storage(chunk: pa.Array) -> pa.Array:
    return chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk


def _storage_type(column: pa.ChunkedArray, argument: str, row_name: str) -> pa.DataType:
    """Return the list type of a column of vectors; refuse other types."""
    kind = column.type
    if isinstance(kind, pa.FixedShapeTensorType):
        if len(kind.shape) != 1:
            raise error(ShapeError, argument, "tensors of shape (dim,)", f"{tuple(kind.shape)}")
        kind = kind.storage_type
    if not (pa.types.is_fixed_size_list(kind) or is_list(kind)):
        wish, remedy = "a fixed_size_list or list column of floats", ""
        if pa.types.is_null(kind):
            remedy = "give them a width: pa.nulls(len(rows), pa.list_(pa.float32(), dim))"
        elif _is_json(column):
            lists = "[None if row is None else json.loads(row) for row in rows.to_pylist()]"
            remedy = f"read them: pa.array({lists}, pa.list_(pa.float32()))"
        raise error(DTypeError, argument, wish, kind, for_rows(row_name, remedy))
    return kind


def _is_json(column: pa.ChunkedArray) -> bool:
    """Return whether the first rows of a column are vectors written as JSON."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return False
    try:
        first = column.slice(0, _LOOKED_AT).drop_null().to_pylist()
        pa.array([json.loads(row) for row in first], pa.list_(pa.float32()))
    except (ValueError, TypeError, RecursionError, pa.ArrowException):
        return False
    return True


def _value_dtype(
    column: pa.ChunkedArray, kind: pa.DataType, argument: str, bits: bool
) -> SourceDtype:
    value = kind.value_type
    if bits and pa.types.is_uint16(value):
        return "bfloat16"
    if value in _ARROW:
        return _ARROW[value]
    remedy = "cast it: pc.cast(column, pa.list_(pa.float32()))"
    if pa.types.is_uint16(value):
        remedy = "uint16 means bfloat16 only under hr.Vector(column, dtype='bfloat16')"
    else:
        try:
            column.cast(pa.list_(pa.float32()))
        except pa.ArrowException:
            remedy = ""
    raise error(DTypeError, argument, "float16, float32 or float64 values", value, remedy)


def _first_length(chunks: list[pa.Array]) -> int | None:
    import pyarrow.compute as pc

    for chunk in chunks:
        lengths = pc.list_value_length(chunk).drop_null()
        if len(lengths):
            return int(lengths[0].as_py())
    return None


def _primitive(values: pa.Array, dtype: np.dtype[Any]) -> Array:
    """View the values of a primitive array with nulls, which pyarrow's own view refuses."""
    buffer = values.buffers()[1]
    if buffer is None or len(values) == 0:
        return np.empty(0, dtype)
    return np.frombuffer(buffer, dtype, len(values), values.offset * dtype.itemsize)


def _fixed_rows(
    chunk: pa.Array, dim: int, valid: Mask, dtype: np.dtype[Any], place: _ColumnPlace
) -> Array:
    values = chunk.values.slice(chunk.offset * dim, len(chunk) * dim)
    if values.null_count:
        empty = values.is_null().to_numpy(zero_copy_only=False).reshape(len(chunk), dim)
        _refuse_nulls(empty.any(axis=1) & valid, place)
    return _primitive(values, dtype).reshape(len(chunk), dim)


def _list_rows(
    chunk: pa.Array, dim: int, valid: Mask, dtype: np.dtype[Any], place: _ColumnPlace
) -> Array:
    import pyarrow.compute as pc

    lengths = pc.list_value_length(chunk).fill_null(dim).to_numpy(zero_copy_only=False)
    ragged = np.flatnonzero(lengths != dim)
    if len(ragged):
        row = int(ragged[0])
        wish = f"{dim} values in every {place.row_name}"
        good = f"pc.equal(pc.list_value_length(rows), {dim})"
        remedy = for_rows(place.row_name, f"make them null: pc.if_else({good}, rows, None)")
        raise error(ShapeError, place.argument, wish, f"{lengths[row]} {place.row(row)}", remedy)
    values = chunk.flatten()  # without the rows that are null
    if values.null_count:
        empty = values.is_null().to_numpy(zero_copy_only=False).reshape(-1, dim)
        bad = np.zeros(len(chunk), np.bool_)
        bad[valid] = empty.any(axis=1)
        _refuse_nulls(bad, place)
    dense = _primitive(values, dtype).reshape(-1, dim)
    if len(dense) == len(chunk):
        return dense
    spread = np.zeros((len(chunk), dim), dtype)
    spread[valid] = dense
    return spread


def _refuse_nulls(bad: Mask, place: _ColumnPlace) -> None:
    if bad.any():
        where = place.row(int(bad.argmax()))
        wish = f"no null inside a {place.row_name}'s vector"
        whole = "[None if v and None in v else v for v in rows.to_pylist()]"
        remedy = for_rows(place.row_name, f"make such rows null: pa.array({whole}, rows.type)")
        raise error(OptionError, place.argument, wish, f"one {where}", remedy)
