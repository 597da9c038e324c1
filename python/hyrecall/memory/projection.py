"""Rows of a store as Arrow tables that an index takes.

Everything here is read in the caller's transaction and in the order of ``changed``, which becomes
the order of insertion numbers: an index that followed and one that was built anew get the same
rows in the same order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apsw
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.embed.protocol import norms
from hyrecall.errors import OptionError
from hyrecall.memory.codec import decode_vector
from hyrecall.memory.layout import CELL, EDGES, Column, Layout

__all__ = [
    "BATCH_ROWS",
    "Batch",
    "documents",
    "edges",
    "live_edges",
    "live_rows",
    "n_live",
    "n_without_vector",
]

BATCH_ROWS = 50_000

_USABLE = "(?1 IS NULL OR v.embedding_model = ?1) AND length(v.embedding) = ?2 * 4"
_DOCUMENTS = """documents d JOIN versions v ON (v.cell, v.id, v.version) = (d.cell, d.id, d.version)
  JOIN cells c ON c.cell = d.cell LEFT JOIN facts f ON f.row = v.row"""
_EDGES = "edges e JOIN cells c ON c.cell = e.cell"


@dataclass(frozen=True)
class Batch:
    """What changed.

    Attributes
    ----------
    live : pyarrow.Table
        The rows that an index should have.
    gone : list of (str, tuple)
        Id and cell of each that it should not have.
    last : int
        The number of the last change that was read.
    n_read : int
        How many changes were.
    """

    live: pa.Table
    gone: list[tuple[str, tuple[str | None, ...]]]
    last: int
    n_read: int


def documents(
    connection: apsw.Connection,
    layout: Layout,
    *,
    model: str | None,
    dim: int,
    after: int = 0,
    only_live: bool = False,
) -> Iterator[Batch]:
    """Give the documents that changed after a number, in batches.

    Parameters
    ----------
    connection : apsw.Connection
        In a transaction.
    layout : Layout
    model : str or None
        Whose vectors are given; those of another length or model, and damaged ones, are null. None:
        only the length counts.
    dim : int
        The length.
    after : int, default 0
    only_live : bool, default False
        Leave out what is gone: for an index that is built anew.
    """
    embedding = f"CASE WHEN {_USABLE} THEN v.embedding END"
    select = _select(layout.columns, f"v.status = 'live', {embedding}", "d.changed", _DOCUMENTS)
    if only_live:
        select = select.replace("WHERE", "WHERE v.status = 'live' AND")
    while True:
        rows = list(connection.execute(select, (model, dim, after, BATCH_ROWS)))
        batch = _batch(rows, layout.columns, layout.key, after)
        blobs = [row[2] for row in rows if row[1]]
        field = pa.field("embedding", pa.list_(pa.float32(), dim))
        live = batch.live.append_column(field, _vectors(blobs, dim))
        yield Batch(live, batch.gone, batch.last, batch.n_read)
        if batch.n_read < BATCH_ROWS:
            return
        after = batch.last


def edges(
    connection: apsw.Connection, *, after: int = 0, only_live: bool = False
) -> Iterator[Batch]:
    """Give the edges that changed after a number, in batches."""
    select = _select(EDGES, "e.status = 'live', NULL", "e.changed", _EDGES)
    if only_live:
        select = select.replace("WHERE", "WHERE e.status = 'live' AND")
    while True:
        rows = list(connection.execute(select, (None, None, after, BATCH_ROWS)))
        batch = _batch(rows, EDGES, "id", after)
        yield batch
        if batch.n_read < BATCH_ROWS:
            return
        after = batch.last


def live_rows(connection: apsw.Connection) -> set[int]:
    """Give the rows of the live versions."""
    select = f"SELECT v.row FROM {_DOCUMENTS} WHERE v.status = 'live'"
    return {row for (row,) in connection.execute(select)}


def live_edges(connection: apsw.Connection) -> set[int]:
    """Give the change numbers of the live edges."""
    select = "SELECT changed FROM edges WHERE status = 'live'"
    return {changed for (changed,) in connection.execute(select)}


def n_live(connection: apsw.Connection) -> int:
    """Count the live documents."""
    return int(connection.execute(f"SELECT count(*) FROM {_DOCUMENTS} WHERE v.status = 'live'").get)


def n_without_vector(connection: apsw.Connection, *, model: str | None, dim: int) -> int:
    """Count the live documents without a vector of this model and length."""
    select = f"SELECT count(*) FROM {_DOCUMENTS} WHERE v.status = 'live' AND ({_USABLE}) IS NOT 1"
    return int(connection.execute(select, (model, dim)).get)


def _select(columns: Mapping[str, Column], more: str, number: str, tables: str) -> str:
    wanted = ", ".join(column.sql for column in columns.values())
    return (
        f"SELECT {number}, {more}, {wanted} FROM {tables} "
        f"WHERE {number} > ?3 ORDER BY {number} LIMIT ?4"
    )


def _batch(
    rows: Sequence[tuple[Any, ...]], columns: Mapping[str, Column], key: str, after: int
) -> Batch:
    first = 3  # after the number, the status and the vector
    names = list(columns)
    places = [first + names.index(name) for name in (key, *CELL)]
    gone = [
        (row[places[0]], tuple(row[place] for place in places[1:])) for row in rows if not row[1]
    ]
    live = list(zip(*(row for row in rows if row[1]), strict=True)) or [()] * (first + len(names))
    arrays = [_array(live[first + at], column) for at, column in enumerate(columns.values())]
    last = rows[-1][0] if rows else after
    return Batch(pa.table(arrays, names=names), gone, last, len(rows))


def _array(values: Sequence[Any], column: Column) -> pa.Array:
    if column.in_json:
        values = [_parsed(value) for value in values]
    elif pa.types.is_boolean(column.type):
        values = [bool(value) for value in values]
    return pa.array(values, column.type)


def _vectors(blobs: Sequence[bytes | None], dim: int) -> pa.Array:
    """Give vectors as one column, null where there is none that an index takes."""
    rows = np.zeros((len(blobs), dim), np.float32)
    missing = np.ones(len(blobs), np.bool_)
    for at, blob in enumerate(blobs):
        vector = _decoded(blob)
        if vector is not None:
            rows[at], missing[at] = vector, False
    missing |= ~norms(rows)[1]
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), dim, mask=pa.array(missing))


def _decoded(blob: bytes | None) -> npt.NDArray[np.float32] | None:
    if blob is None:
        return None
    try:
        return decode_vector(blob)
    except OptionError:
        return None


def _parsed(text: str) -> Any:
    """Read JSON; what was damaged on the disk is null: doctor tells, recall goes on."""
    try:
        return json.loads(text)
    except ValueError:
        return None
