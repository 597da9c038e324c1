"""The rows of an index of documents: its schema, and rows by filter in the order of writing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from hyrecall.adapters.document_table import ROW_COLUMNS
from hyrecall.arms import Newest
from hyrecall.ask.filters import Filter
from hyrecall.ask.scope import ANY, Scope, ScopePattern
from hyrecall.index import Index
from hyrecall.table.schema import Schema, Text

__all__ = ["UNKNOWN_DIM", "dim_of_index", "everyone", "rows_for_vectors", "rows_of", "schema_of"]

# The vector arm of an index that has met no vector: its one value is null in every document.
# The arm is there from the start, so that the first vector of one cell changes no reply of another.
UNKNOWN_DIM: Final = 1
_ALL_ROWS: Final = 2**31 - 1  # the largest limit


def schema_of(
    table: pa.Table, cell_columns: tuple[str, ...], text: Text, *, keep_vectors: bool
) -> Schema:
    """Return the schema of a table of documents."""
    own = {*ROW_COLUMNS, *cell_columns}
    return Schema(
        key="id",
        cell=cell_columns,
        text={"text": text},
        vector="vector",
        attributes=("id", "position", *(name for name in table.column_names if name not in own)),
        stored=("text", "metadata", *(("vector",) if keep_vectors else ())),
    )


def everyone(index: Index) -> ScopePattern:
    """Return the scope of every cell: for the index's own upkeep, never for a caller."""
    return Scope.matching(**dict.fromkeys(index.schema.cell_columns, ANY))


def rows_of(
    index: Index,
    scope: object,
    narrowed: Filter | None,
    columns: Sequence[str],
    *,
    limit: int = _ALL_ROWS,
) -> pa.Table:
    """Return rows of a scope that pass a filter, in the order of writing; the newest few."""
    hits = index.recall_one(
        arms=Newest("position"), scope=scope, filter=narrowed, limit=limit, columns=columns
    )
    return hits.to_arrow()[::-1].select(["key", *index.schema.cell_columns, *columns])


def dim_of_index(index: Index) -> int | None:
    """Return the length of an index's vectors, or None if it holds none yet."""
    dim: int = index.stats()["dims"]["vector"]
    return None if dim == UNKNOWN_DIM else dim


def rows_for_vectors(index: Index, dim: int) -> pa.Table:
    """Return all rows of an index without vectors, with a column for vectors of a length."""
    own = {index.schema.key, *index.schema.cell_columns, "vector"}
    columns = [name for name in index.schema.row_columns if name not in own]
    rows = rows_of(index, everyone(index), None, columns).rename_columns({"key": "id"})
    return rows.append_column("vector", pa.nulls(len(rows), pa.list_(pa.float32(), dim)))
