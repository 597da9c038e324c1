"""Reads rows as Python has them, dicts or columns of a dict, into an Arrow table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa

from hyrecall.errors import DTypeError, KeyConflictError, OptionError, ScopeError, ShapeError, error
from hyrecall.table.arrow_values import is_list
from hyrecall.table.schema import Schema, Sparse


def table_of_rows(rows: Sequence[Any], schema: Schema, optional: Iterable[str]) -> pa.Table:
    """Return the table of rows that are dicts; a name that a row does not have is null there."""
    # Every row must have its key and its cell. Of ``optional`` columns and of no rows a column of
    # nulls is made.
    if not rows:
        known = (*schema.row_columns, *schema.text_columns, *_vector_columns(schema))
        return pa.table({name: pa.nulls(0) for name in known})
    names = dict.fromkeys(name for row in rows for name in row)
    for name in (schema.key, *schema.cell_columns):
        _check_in_each(rows, name, schema)
    columns = {name: _column(name, [row.get(name) for row in rows], schema) for name in names}
    absent = [name for name in optional if name not in columns]
    return pa.table(columns | {name: pa.nulls(len(rows)) for name in absent})


def table_of_columns(columns: Mapping[Any, Any], schema: Schema) -> pa.Table:
    """Return the table of a dict of columns: lists, NumPy or Arrow arrays, series."""
    made = {name: _column(name, values, schema) for name, values in columns.items()}
    lengths = {name: len(column) for name, column in made.items()}
    n_rows = next(iter(lengths.values()), 0)
    for name, n in lengths.items():
        if n != n_rows:
            raise error(ShapeError, name, f"{n_rows} rows, as the first column has", n)
    return pa.table(made)


def table_of_texts(texts: Sequence[str], schema: Schema, first_key: int) -> pa.Table:
    """Return the table of texts alone, whose keys are their insertion numbers."""
    named = {*schema.row_columns, *schema.text_columns}
    if schema.cell is not None or len(named) != 2 or len(schema.text_columns) != 1:
        wish = "rows with the columns of the schema (texts alone have a key and one text column)"
        raise error(OptionError, "table", wish, "a list of texts")
    keys = np.arange(first_key, first_key + len(texts), dtype=np.int64)
    text = schema.text_columns[0]
    return pa.table({schema.key: keys, text: _column(text, texts, schema)})


def are_texts(table: object) -> TypeGuard[Sequence[str]]:
    """Return whether rows are texts alone."""
    return isinstance(table, list | tuple) and bool(table) and isinstance(table[0], str)


def are_rows(table: object) -> TypeGuard[Sequence[Any]]:
    """Return whether rows are dicts; refuse a list in which some are not."""
    if not isinstance(table, list | tuple) or (table and not isinstance(table[0], Mapping)):
        return False
    for at, row in enumerate(table):
        if not isinstance(row, Mapping):
            raise error(DTypeError, f"table[{at}]", "a dict, as table[0] is", type(row).__name__)
        for name in row:
            if not isinstance(name, str):
                raise error(DTypeError, f"table[{at}]", "names of columns", repr(name))
    return True


def _vector_columns(schema: Schema) -> tuple[str, ...]:
    return tuple(vector.column for vector in schema.vector_arms.values())


def _check_in_each(rows: Sequence[Any], name: str, schema: Schema) -> None:
    for at, row in enumerate(rows):
        if name in row:
            continue
        if name == schema.key:
            raise error(KeyConflictError, name, "a key in every row", f"none in row {at}")
        wish = "the cell in every row (None names the null cell)"
        raise error(ScopeError, name, wish, f"none in row {at}")


def _column(name: Any, values: Any, schema: Schema) -> pa.Array | pa.ChunkedArray:
    if not isinstance(name, str):
        raise error(DTypeError, "table", "names of columns", repr(name))
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.dtype.kind in "fiu":
        flat = pa.array(np.ascontiguousarray(values).reshape(-1))
        column = pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    else:
        if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
            raise error(DTypeError, name, "a list or array of values", type(values).__name__)
        if any(type(one) is Sparse and one.column == name for one in schema.vector_arms.values()):
            from hyrecall.table.sparse import read_sparse

            return read_sparse([*values], argument=name, row_name="row").to_arrow()
        column = _inferred(name, values)
    is_fixed = pa.types.is_fixed_size_list(column.type)
    if name in _vector_columns(schema) and (is_fixed or is_list(column.type)):
        return _vectors(column, values)
    return column


def _vectors(column: pa.Array | pa.ChunkedArray, values: Any) -> pa.Array | pa.ChunkedArray:
    """Return lists of numbers as vectors: 1 is 1.0, and NaN in one is a value, not none."""
    import pyarrow.compute as pc

    kind = pa.list_(pa.float64()) if pa.types.is_integer(column.type.value_type) else column.type
    if pc.list_flatten(column).null_count:
        rows = zip(column.is_valid().to_pylist(), values, strict=True)
        try:
            return pa.array([row if is_valid else None for is_valid, row in rows], kind)
        except (pa.ArrowException, TypeError, ValueError):
            return column  # its nulls are refused by name
    return column.cast(kind)


def _inferred(name: str, values: Any) -> pa.Array | pa.ChunkedArray:
    """Make an array; NaN of pandas is null, and a value that does not fit the others is named."""
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        rows = list(values)
    low, high = 0, len(rows)  # the first ``low`` rows are good together, the first ``high`` not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _is_good(rows[:middle]) else (low, middle)
    bad = rows[low]
    wish = "values of one type that Arrow holds"
    raise error(DTypeError, name, wish, f"{type(bad).__name__} {repr(bad)[:80]} in row {low}")


def _is_good(values: list[Any]) -> bool:
    try:
        pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True
