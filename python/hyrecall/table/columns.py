"""Reads an Arrow table and vectors into checked columns: the only way in for documents.

Each column is converted to one plain layout, so that later code need not distinguish more: strings
are large_string, lists are large_list, dictionaries and run-end encodings are decoded. Buffers are
shared with the input if the layout allows. Rows count from 0 in the order of the input.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from hyrecall import _core
from hyrecall.base.arguments import nearest
from hyrecall.errors import (
    DTypeError,
    HyrecallError,
    KeyConflictError,
    OptionError,
    ShapeError,
    error,
    without_remedy,
)
from hyrecall.table.arrow_values import (
    cast_line,
    check_column,
    is_list,
    join_column,
    plain_column,
    type_nulls,
)
from hyrecall.table.matrices import Mask, VectorInput, describe_row
from hyrecall.table.python_rows import are_rows, are_texts, table_of_columns, table_of_rows
from hyrecall.table.schema import Schema
from hyrecall.table.vectors import read_vectors

__all__ = [
    "Columns",
    "OpenedRows",
    "VectorInput",
    "check_arms",
    "open_source",
    "read_rows",
    "read_table",
    "read_texts",
    "select_columns",
]


# ---- Takes from an Arrow source the columns that a schema names; each must be there exactly once

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def check_arms(given: Mapping[str, object], schema: Schema) -> None:
    """Refuse vectors of what is no dense arm of the schema."""
    if not isinstance(given, Mapping):
        raise error(OptionError, "vectors", "a mapping {arm: array}", type(given).__name__)
    for arm in given:
        if arm not in schema.vector_arms:
            known = ", ".join(map(repr, schema.vector_arms)) or "none in this schema"
            raise error(OptionError, "vectors", f"names of dense arms ({known})", repr(arm))


class OpenedRows(NamedTuple):
    """Rows that can be read once, and code that makes their table of the input; "" for Python."""

    rows: Any  # a table, or a reader of batches
    shown: str = "pa.table(table)"


def open_source(
    source: Any, schema: Schema, types: Mapping[str, pa.DataType] | None = None
) -> OpenedRows:
    """Return rows in any form as a table or a reader; with the ``types`` of an index that they
    join, rows of Python need not have columns that only filters and hits read.
    """
    if isinstance(source, OpenedRows):
        return source
    if isinstance(source, pa.Table):
        return OpenedRows(source, "table")
    try:
        if hasattr(source, "__arrow_c_stream__"):
            return OpenedRows(pa.RecordBatchReader.from_stream(source))
        if hasattr(source, "__arrow_c_array__"):
            batch = pa.record_batch(source)
            return OpenedRows(pa.RecordBatchReader.from_batches(batch.schema, [batch]))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as fault:
        raise _not_a_table(f"{type(source).__name__} ({fault})") from fault
    if isinstance(source, Mapping):
        return OpenedRows(_typed(table_of_columns(source, schema), schema, types), "")
    if are_rows(source):
        needed = {schema.key, *schema.cell_columns, *schema.text_columns, schema.cluster}
        optional = [name for name in types or () if name not in needed]
        return OpenedRows(_typed(table_of_rows(source, schema, optional), schema, types), "")
    if are_texts(source):
        wish = "rows with keys (only build and add give keys to texts alone)"
        raise error(DTypeError, "table", wish, "a list of texts")
    raise _not_a_table(type(source).__name__)


def _typed(table: pa.Table, schema: Schema, types: Mapping[str, pa.DataType] | None) -> pa.Table:
    """Return rows of Python that join no index with types for what has none: cells of only None."""
    if types is not None:
        return table
    if not table.num_rows and (not table.num_columns or pa.null() in table.schema.types):
        wish = "rows, or an Arrow table with types"
        raise error(DTypeError, "table", wish, "no rows (an empty list has no types)")
    for name in schema.cell_columns:
        at = table.schema.get_field_index(name)
        if at >= 0 and pa.types.is_null(table.schema.field(at).type):
            table = table.set_column(at, name, table.column(at).cast(pa.string()))
    return table


@contextmanager
def _code_for(opened: OpenedRows) -> Iterator[None]:
    """Leave code for Arrow columns out of errors about rows of Python."""
    try:
        yield
    except HyrecallError as fault:
        if opened.shown or not getattr(fault, "remedy", ""):
            raise
        made = type(fault)(without_remedy(fault))
        made.argument = fault.argument
        raise made from None


def select_columns(
    found: Any, schema: Schema, given: Mapping[str, object], more: Sequence[str] = ()
) -> pa.Table:
    """Read the columns of a source that the schema names, and some more."""
    return _taken(found, _find(found.schema, schema, given, more))


def _taken(found: Any, places: Sequence[int]) -> pa.Table:
    """Read some columns of a table or a reader."""
    if isinstance(found, pa.Table):
        return _check_rows(found, places).select(places)
    kept = pa.schema([found.schema.field(place) for place in places])
    batches = [_check_rows(batch, places).select(places) for batch in found]
    return pa.Table.from_batches(batches, kept)


def _check_rows(rows: Rows, places: Sequence[int]) -> Rows:
    """Refuse columns of different lengths, which other programs can hand over."""
    n_rows = int(rows.num_rows)
    for place in places:
        column = rows.column(place)
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        for chunk in chunks:
            _core.check_layout(chunk, rows.schema.field(place).name)
        n = sum(map(len, chunks))
        if n != n_rows:
            name = rows.schema.field(place).name
            raise error(ShapeError, name, f"{n_rows} rows, as its table has", n)
    return rows


def _not_a_table(got: str) -> DTypeError:
    wish = (
        "an Arrow table (pyarrow, polars, pandas, duckdb: anything with __arrow_c_stream__), "
        "a list of dicts or of texts, or a dict of lists"
    )
    return error(DTypeError, "table", wish, got)


def _find(
    found: pa.Schema, schema: Schema, given: Mapping[str, object], more: Sequence[str]
) -> list[int]:
    """Return the positions of the needed columns."""
    arms = schema.vector_arms
    _check_given_once(found, schema, given)
    needed: dict[str, str | None] = dict.fromkeys(
        (*schema.row_columns, *schema.text_columns, *more)
    )
    needed |= {vector.column: arm for arm, vector in arms.items() if arm not in given}
    return _places(found, needed)


def _check_given_once(found: pa.Schema, schema: Schema, given: Mapping[str, object]) -> None:
    for arm in given:
        column = schema.vector_arms[arm].column
        if column in found.names:
            wish = f"rows from the table's column {column!r} or from vectors="
            raise error(OptionError, f"vectors[{arm!r}]", wish, "both")


def _places(found: pa.Schema, needed: Mapping[str, str | None]) -> list[int]:
    """Return the positions of columns, each of which must exist exactly once."""
    # A column of vectors has the name of its arm, which ``vectors=`` may give instead.
    places = []
    for name, absent in needed.items():
        at = found.get_all_field_indices(name)
        if len(at) == 1:
            places.append(at[0])
            continue
        wish = "one column of the table" + (f", or vectors={{{absent!r}: array}}" if absent else "")
        shown = ", ".join(map(repr, found.names[:20])) + (", ..." if len(found.names) > 20 else "")
        got = f"{len(at)} of that name" if at else f"none among {shown or 'no columns'}"
        raise error(OptionError, name, wish, got)
    return places


# ---- Reads an Arrow table and vectors into checked columns: the only way in for documents ----

MOST_ROWS = 2**32 - 2
"""The most rows of a segment: a row number is a uint32, whose last value means no row."""


@dataclass(frozen=True, eq=False)
class Columns:
    """The checked columns of a table, ready for the engine."""

    n_rows: int
    rows: pa.Table
    texts: dict[str, tuple[pa.ChunkedArray, ...]]
    vectors: dict[str, VectorInput]
    shown: str = "table"


def read_table(
    source: object,
    schema: Schema,
    *,
    vectors: Mapping[str, object] | None = None,
    row_name: str = "row",
    dims: Mapping[str, int] | None = None,
    types: Mapping[str, pa.DataType] | None = None,
) -> Columns:
    """Read and check the columns that a schema names."""
    given = {} if vectors is None else vectors
    check_arms(given, schema)
    opened = open_source(source, schema, types)
    with _code_for(opened):
        return _read(opened, schema, given, row_name, dims or {}, types or {})


def _read(
    opened: OpenedRows,
    schema: Schema,
    given: Mapping[str, object],
    row_name: str,
    dims: Mapping[str, int],
    types: Mapping[str, pa.DataType],
) -> Columns:
    table, shown = select_columns(opened.rows, schema, given), opened.shown
    if table.num_rows > MOST_ROWS:
        raise error(ShapeError, "table", f"at most {MOST_ROWS} rows", table.num_rows)
    reader = _TableReader(table, row_name, types, shown)
    rows = _row_columns(reader, schema, schema.row_columns)
    texts = {
        arm: tuple(_text(reader, name) for name in text.columns)
        for arm, text in schema.text_arms.items()
    }
    dense = {}
    for arm, vector in schema.vector_arms.items():
        argument = f"vectors[{arm!r}]" if arm in given else vector.column
        dense[arm] = read_vectors(
            given[arm] if arm in given else reader.table.column(vector.column),
            n_rows=reader.table.num_rows,
            dim=dims.get(arm),
            dtype=vector.dtype,
            argument=argument,
            row_name=row_name,
            form=type(vector),
        )
    return Columns(reader.table.num_rows, pa.table(rows), texts, dense, shown)


def _row_columns(
    reader: _TableReader, schema: Schema, names: Sequence[str]
) -> dict[str, pa.ChunkedArray]:
    """Check and convert row columns, to the types of the index that they join."""
    rows = {name: _row_column(reader, schema, name) for name in names}
    for name in names:
        if (kind := reader.types.get(name)) is not None:
            given = reader.table.column(name)
            rows[name] = join_column(rows[name], given, kind, name, reader.where, reader.shown)
    return rows


class GivenColumns(NamedTuple):
    """Some columns of rows, checked, and which rows have a value for them."""

    n_rows: int
    columns: dict[str, pa.ChunkedArray]
    vectors: dict[str, VectorInput]  # by arm
    vector_columns: Collection[str]
    masks: Mapping[str, Mask]  # of rows that are dicts; other rows have each column
    shown: str

    def mask(self, name: str) -> Mask:
        """Return which rows have a value for a column."""
        if self.masks:
            return self.masks.get(name, np.zeros(self.n_rows, np.bool_))
        return np.full(self.n_rows, name in self.columns or name in self.vector_columns)


def _check_known(names: Sequence[str], known: Collection[str]) -> None:
    """Refuse a column of changes that changes nothing: its name is a slip, say."""
    wrong = next((name for name in names if name not in known), None)
    if wrong is not None:
        near = nearest(wrong, known)
        hint = "" if near is None else f" (did you mean {near!r}?)"
        wish = f"columns of {', '.join(map(repr, dict.fromkeys(known)))}"
        raise error(OptionError, "table", wish, f"{wrong!r}{hint}")


def read_given(
    source: object,
    schema: Schema,
    types: Mapping[str, pa.DataType],
    dims: Mapping[str, int],
    vectors: Mapping[str, object],
    more: Sequence[str],
) -> GivenColumns:
    """Read keys and cells, and those other columns that are there, of a schema or of ``more``."""
    check_arms(vectors, schema)
    opened = open_source(source, schema, {})  # a column that is not there makes none of nulls
    masks: dict[str, Mask] = {}
    if are_rows(source):
        names = {name for row in source for name in row}
        masks = {name: np.array([name in row for row in source]) for name in names}
    found = opened.rows.schema
    _check_given_once(found, schema, vectors)
    of_arms = {arm: one.column for arm, one in schema.vector_arms.items() if arm not in vectors}
    needed = dict.fromkeys((schema.key, *schema.cell_columns))
    known = (*schema.row_columns, *schema.text_columns, *of_arms.values(), *more)
    _check_known(found.names, known)
    needed |= dict.fromkeys(name for name in known if name in found.names)
    with _code_for(opened):
        table = _taken(opened.rows, _places(found, needed))
        reader = _TableReader(table, "row", types, opened.shown)
        columns = _row_columns(reader, schema, [n for n in schema.row_columns if n in needed])
        texts = {*schema.text_columns, *more} & set(needed)
        columns |= {name: _text(reader, name) for name in texts if name not in columns}
        dense = {
            arm: read_vectors(
                table.column(name), n_rows=table.num_rows, dim=dims[arm],
                dtype=schema.vector_arms[arm].dtype, argument=name, row_name="row",
                form=type(schema.vector_arms[arm]),
            )
            for arm, name in of_arms.items()
            if name in needed and name not in columns
        }  # fmt: skip
    read = [of_arms[arm] for arm in dense]
    return GivenColumns(table.num_rows, columns, dense, read, masks, opened.shown)


def read_rows(table: pa.Table, schema: Schema, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    """Read and check some row columns of a table, as :func:`read_table` does."""
    reader = _TableReader(table, "row", {})
    return {name: _row_column(reader, schema, name) for name in names}


def read_texts(
    source: object,
    schema: Schema,
    vectors: Mapping[str, object],
    columns: Mapping[str, Sequence[str]],
    types: Mapping[str, pa.DataType] | None = None,
) -> tuple[OpenedRows, dict[str, list[pa.ChunkedArray]]]:
    """Return a table, and the text columns of each arm for which it has no vectors."""
    check_arms(vectors, schema)
    opened = open_source(source, schema, types)
    with _code_for(opened):
        return _read_texts(opened, schema, vectors, columns)


def _read_texts(
    opened: OpenedRows,
    schema: Schema,
    vectors: Mapping[str, object],
    columns: Mapping[str, Sequence[str]],
) -> tuple[OpenedRows, dict[str, list[pa.ChunkedArray]]]:
    found, shown = opened
    names = {arm: schema.vector_arms[arm].column for arm in columns}
    absent = [arm for arm in columns if arm not in vectors and names[arm] not in found.schema.names]
    wanted = [name for arm in absent for name in columns[arm]]
    table = select_columns(found, schema, {**vectors, **dict.fromkeys(absent)}, wanted)
    reader = _TableReader(table, "row", {}, shown)
    texts = {arm: [_text(reader, name) for name in columns[arm]] for arm in absent}
    return OpenedRows(table, shown), texts


class _TableReader:
    """A table whose columns are converted to plain layout once and shared by all roles."""

    def __init__(
        self,
        table: pa.Table,
        row_name: str,
        types: Mapping[str, pa.DataType],
        shown: str = "table",
    ) -> None:
        self.table = table
        self.shown = shown  # code that makes it of the input
        self.row_name = row_name
        self.types = types  # required by the index that the rows join
        self._plain: dict[str, pa.ChunkedArray] = {}

    def plain(self, name: str) -> pa.ChunkedArray:
        if name not in self._plain:
            given = self.table.column(name)
            check_column(given, name, self.where)  # before other code follows its offsets
            column = plain_column(given)
            kind = self.types.get(name)
            self._plain[name] = column if kind is None else type_nulls(column, kind)
        return self._plain[name]

    def where(self, row: int) -> str:
        return describe_row(self.row_name, row)

    def joins_integers(self, name: str, column: pa.ChunkedArray) -> bool:
        """Return whether floats join an index that has int64: whole ones are taken there."""
        return bool(self.types.get(name) == pa.int64() and pa.types.is_floating(column.type))

    def wrong_type(self, name: str, wish: str, *targets: pa.DataType) -> DTypeError:
        """Make the error for a column whose type its role, or the index, does not allow."""
        # It shows how the column becomes the first of the targets that it can become.
        kind = self.types.get(name)
        if kind is not None:
            wish, targets = f"{kind}, the index's type", (kind,)
        lines = (cast_line(self.table.column(name), one, name, self.shown) for one in targets)
        remedy = next((line for line in lines if line), "")
        return error(DTypeError, name, wish, self.plain(name).type, remedy)


# ---- row columns ----


def _row_column(reader: _TableReader, schema: Schema, name: str) -> pa.ChunkedArray:
    """Check and convert a column for its most restrictive role."""
    if name == schema.cluster:
        _check_cluster(reader, name)
    if name == schema.thread:
        _check_thread(reader, name)
    if name == schema.place:
        _check_place(reader, name)
    if name == schema.key:
        return _key(reader, name)
    if name in schema.cell_columns:
        return _cell(reader, name)
    if name in schema.attributes:
        return _attribute(reader, name)
    return _stored(reader, name)


def _key(reader: _TableReader, name: str) -> pa.ChunkedArray:
    column = reader.plain(name)
    if column.null_count:
        import pyarrow.compute as pc

        row = pc.index(column.is_null(), True).as_py()
        got = f"null {reader.where(row)}"
        shown = reader.shown
        remedy = f"drop such rows: {shown}.filter({shown}[{name!r}].is_valid())"
        raise error(KeyConflictError, name, "a key in every row", got, remedy)
    if pa.types.is_large_string(column.type):
        return column
    if pa.types.is_integer(column.type):
        return _int64(reader, name, column)
    if reader.joins_integers(name, column):
        return column
    raise reader.wrong_type(name, "a string or integer key", pa.string())


def _cell(reader: _TableReader, name: str) -> pa.ChunkedArray:
    column = reader.plain(name)
    if pa.types.is_large_string(column.type):
        return column
    if pa.types.is_integer(column.type):
        return _int64(reader, name, column)
    if pa.types.is_boolean(column.type) or reader.joins_integers(name, column):
        return column
    fixes = (pa.int64(), pa.string()) if _is_number(column.type) else (pa.string(),)
    raise reader.wrong_type(name, "a string, integer or boolean cell", *fixes)


def _attribute(reader: _TableReader, name: str) -> pa.ChunkedArray:
    column = reader.plain(name)
    if pa.types.is_fixed_size_list(column.type):
        column = plain_column(column, fixed_too=True)
    listed = is_list(column.type)
    kind = column.type.value_type if listed else column.type
    if not _is_scalar(kind):
        fix = pa.float64() if pa.types.is_decimal(kind) else pa.string()
        wish = "an attribute (boolean, number, string, date, time, duration, or a list of those)"
        raise reader.wrong_type(name, wish, pa.list_(fix) if listed else fix)
    return column


def _stored(reader: _TableReader, name: str) -> pa.ChunkedArray:
    column = reader.plain(name)
    bad = _unstorable(column.type)
    if bad is not None:
        wish = "a stored column of Arrow's own types, without nested dictionaries"
        raise error(DTypeError, name, wish, f"{bad}; store its parts as columns of their own")
    return column


def _check_cluster(reader: _TableReader, name: str) -> None:
    kind = reader.plain(name).type
    types = pa.types
    if not (types.is_integer(kind) or types.is_floating(kind) or _is_date(kind)):
        wish = "a number, date or timestamp to cluster by"
        raise reader.wrong_type(name, wish, pa.int64())


def _check_thread(reader: _TableReader, name: str) -> None:
    kind = reader.plain(name).type
    if pa.types.is_floating(kind) or not _is_scalar(kind):
        wish = "a string, integer, boolean, date or time that names a thread"
        raise reader.wrong_type(name, wish, pa.string())


def _check_place(reader: _TableReader, name: str) -> None:
    kind = reader.plain(name).type
    if pa.types.is_large_string(kind) or pa.types.is_boolean(kind) or not _is_scalar(kind):
        wish = "a number, date or time that orders the rows of a thread"
        raise reader.wrong_type(name, wish, pa.int64())


def _text(reader: _TableReader, name: str) -> pa.ChunkedArray:
    column = reader.plain(name)
    if pa.types.is_large_string(column.type):
        return column
    if pa.types.is_null(column.type):  # a column of only None
        return column.cast(pa.large_string())
    raise reader.wrong_type(name, "a text column", pa.string())


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_date(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _is_scalar(kind: pa.DataType) -> bool:
    types = pa.types
    plain = (types.is_boolean, types.is_integer, types.is_floating, types.is_large_string)
    return _is_date(kind) or any(
        is_kind(kind) for is_kind in (*plain, types.is_time, types.is_duration)
    )


def _unstorable(kind: pa.DataType) -> pa.DataType | None:
    """Return a nested type that a file or another process cannot hold, or None."""
    if pa.types.is_dictionary(kind):
        return kind
    if isinstance(kind, pa.BaseExtensionType):
        return None if kind.extension_name.startswith("arrow.") else kind
    inner = (_unstorable(kind.field(i).type) for i in range(kind.num_fields))
    return next((bad for bad in inner if bad is not None), None)


def _int64(reader: _TableReader, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    largest = np.iinfo(np.int64).max
    if pa.types.is_uint64(column.type):
        import pyarrow.compute as pc

        row = pc.index(pc.greater(column, pa.scalar(largest, pa.uint64())), True).as_py()
        if row >= 0:
            got = f"{column[row]} {reader.where(row)}"
            wish = f"integers of at most {largest} (int64)"
            is_open = reader.types.get(name) is None  # else the index holds int64
            remedy = cast_line(column, pa.string(), name, reader.shown) if is_open else ""
            raise error(OptionError, name, wish, got, remedy)
    return column.cast(pa.int64())
