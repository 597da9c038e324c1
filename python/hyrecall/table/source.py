"""Takes from an Arrow source the columns that a schema names; each must be there exactly once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from hyrecall import _core
from hyrecall.errors import DTypeError, OptionError, ShapeError, error
from hyrecall.table.schema import Schema

__all__ = ["check_arms", "open_source", "select_columns"]

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def check_arms(given: Mapping[str, object], schema: Schema) -> None:
    """Refuse vectors of what is no dense arm of the schema."""
    if not isinstance(given, Mapping):
        raise error(OptionError, "vectors", "a mapping {arm: array}", type(given).__name__)
    for arm in given:
        if arm not in schema.vector_arms:
            known = ", ".join(map(repr, schema.vector_arms)) or "none in this schema"
            raise error(OptionError, "vectors", f"names of dense arms ({known})", repr(arm))


def open_source(source: Any) -> Any:
    """Return a table, or a reader of the source's batches."""
    if isinstance(source, pa.Table):
        return source
    try:
        if hasattr(source, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(source)
        if hasattr(source, "__arrow_c_array__"):
            batch = pa.record_batch(source)
            return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    except (pa.ArrowInvalid, pa.ArrowTypeError) as fault:
        raise _not_a_table(f"{type(source).__name__} ({fault})") from fault
    raise _not_a_table(type(source).__name__)


def select_columns(
    found: Any, schema: Schema, given: Mapping[str, object], more: Sequence[str] = ()
) -> pa.Table:
    """Read the columns of a source that the schema names, and some more."""
    places = _find(found.schema, schema, given, more)
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
    wish = "an Arrow table (pyarrow, polars, pandas, duckdb: anything with __arrow_c_stream__)"
    return error(DTypeError, "table", wish, got)


def _find(
    found: pa.Schema, schema: Schema, given: Mapping[str, object], more: Sequence[str]
) -> list[int]:
    """Return the positions of the needed columns; each must exist exactly once."""
    arms = schema.vector_arms
    for arm in given:
        column = arms[arm].column
        if column in found.names:
            wish = f"rows from the table's column {column!r} or from vectors="
            raise error(OptionError, f"vectors[{arm!r}]", wish, "both")
    needed: dict[str, str | None] = dict.fromkeys(
        (*schema.row_columns, *schema.text_columns, *more)
    )
    needed |= {vector.column: arm for arm, vector in arms.items() if arm not in given}
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
