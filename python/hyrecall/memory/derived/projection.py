"""Reads rows of a store as Arrow tables for its index.

Everything here is read in the caller's transaction and in the order of ``changed``, which becomes
the order of insertion numbers: an index that followed and one that was built anew get the same
rows in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import apsw
import numpy as np
import pyarrow as pa

from hyrecall.embed.protocol import norms
from hyrecall.memory.derived.layout import CELL, EDGES, UNEMBEDDED, IndexColumn, Layout
from hyrecall.memory.sql.codec import (
    CHECKED,
    N_CHECKED,
    Cell,
    is_sound,
    is_sound_cell,
    is_text,
    rows,
    to_json,
    vector_checksum,
)
from hyrecall.memory.sql.edge_rows import EDGE_COLUMNS
from hyrecall.memory.sql.fact_rows import FACT_COLUMNS, read_fact
from hyrecall.memory.sql.schema import HIGHEST, LIVE

BATCH_ROWS = 50_000

_CELL = ", ".join(("c.checksum", "c.cell", *(f"c.{column}" for column in CELL.values())))
_N_CELL = _CELL.count(",") + 1
_USABLE = "(?1 IS NULL OR v.embedding_model = ?1) AND length(v.embedding) = ?2 * 4"
_DOCUMENTS = """documents d JOIN versions v ON (v.cell, v.id, v.version) = (d.cell, d.id, d.version)
  JOIN cells c ON c.cell = d.cell LEFT JOIN facts f ON f.row = v.row"""
_EDGES = "edges e JOIN cells c ON c.cell = e.cell"


def load_arrow() -> None:
    """Load what Arrow loads for its first array: pandas, where it is installed."""
    pa.array([])


@dataclass(frozen=True)
class ChangeTables:
    """A batch of changes as Arrow tables."""

    live: pa.Table
    gone: list[tuple[str, tuple[str | None, ...]]]
    last: int
    n_read: int
    n_damaged: int


def documents(
    connection: apsw.Connection,
    layout: Layout,
    *,
    model: str | None,
    dim: int,
    after: int = 0,
    only_live: bool = False,
    cells: Collection[int] | None = None,
) -> Iterator[ChangeTables]:
    """Return the documents that changed after a number, in batches; none if nothing has changed."""
    reader = _document_reader(layout)
    select = reader.select_live if only_live else reader.select
    given: tuple[Any, ...] = ()
    if cells is not None:
        select, given = reader.select_of, (to_json(tuple(cells)),)
    is_whole = _SoundOnce()
    field = pa.field("embedding", pa.list_(pa.float32(), dim))
    while True:
        found = list(rows(connection, select, (model, dim, after, BATCH_ROWS, *given)))
        if not found and not only_live:
            return
        batch, live = _batch(found, reader, after, is_whole)
        vectors = _vectors([row[2:5] for row in live], dim)
        table = batch.live.append_column(field, vectors)
        lacks = _lacks_vector(table.column("text"), vectors)
        yield replace(batch, live=table.append_column(UNEMBEDDED, lacks))
        if batch.n_read < BATCH_ROWS:
            return
        after = batch.last


def edges(
    connection: apsw.Connection, *, after: int = 0, only_live: bool = False
) -> Iterator[ChangeTables]:
    """Return the edges that changed after a number, in batches; none if nothing has changed."""
    # ``only_live`` gives one batch at least, as for documents.
    select = _EDGE_READER.select_live if only_live else _EDGE_READER.select
    while True:
        found = list(rows(connection, select, (None, None, after, BATCH_ROWS)))
        if not found and not only_live:
            return
        batch, _ = _batch(found, _EDGE_READER, after, is_sound)
        yield batch
        if batch.n_read < BATCH_ROWS:
            return
        after = batch.last


def live_rows(connection: apsw.Connection) -> set[int]:
    """Return the rows of the live versions."""
    select = f"SELECT v.row FROM {_DOCUMENTS} WHERE v.status = 'live'"
    return {row for (row,) in connection.execute(select)}


def live_edges(connection: apsw.Connection) -> set[int]:
    """Return the change numbers of the live edges."""
    select = "SELECT changed FROM edges WHERE status = 'live'"
    return {changed for (changed,) in connection.execute(select)}


def n_live(connection: apsw.Connection) -> int:
    """Count the live documents."""
    return int(connection.execute(f"SELECT count(*) FROM {_DOCUMENTS} WHERE v.status = 'live'").get)


_FIRST = 5  # the columns before an index's: number, status, vector, its model, its checksum


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind))


class _SelectReader:
    """Turns the rows of one SELECT into an Arrow table; made once and used often."""

    def __init__(
        self,
        columns: Mapping[str, IndexColumn],
        key: str,
        tables: str,
        *,
        number: str,
        is_live: str,
        vector: str,
        checks: str,
        is_shown: str = "",
    ) -> None:
        wanted = ", ".join(column.sql for column in columns.values())
        select = f"SELECT {number}, {is_live}, {vector}, {wanted}, {_CELL}, {checks} FROM {tables}"
        newer = f"{number} > ?3 ORDER BY {number} LIMIT ?4"
        self.select = f"{select} WHERE {newer}"
        self.select_live = f"{select} WHERE {is_live} AND {newer}"
        listed = "(SELECT value FROM json_each(?5))"
        self.select_of = f"{select} WHERE {is_shown or is_live} AND c.cell IN {listed} AND {newer}"
        places = {name: _FIRST + at for at, name in enumerate(columns)}
        self.end = _FIRST + len(columns)
        self.names = tuple(places[name] for name in (key, *CELL))
        self.numbers = tuple(places[name] for name, one in columns.items() if _is_number(one.type))
        self._reads = [
            (places[name] - _FIRST, one.read) for name, one in columns.items() if one.read
        ]
        self._type = pa.struct([(name, column.type) for name, column in columns.items()])

    def table(self, live: Sequence[tuple[Any, ...]]) -> pa.Table:
        """Return the index's columns of rows."""
        # All columns are made in one call: for one row, a call of Arrow for each took three times
        # as long.
        values = []
        for row in live:
            kept = list(row[_FIRST : self.end])
            for at, read in self._reads:
                kept[at] = read(kept[at])
            values.append(tuple(kept))
        return pa.Table.from_struct_array(pa.array(values, self._type))


@lru_cache(maxsize=8)
def _document_reader(layout: Layout) -> _SelectReader:
    return _SelectReader(
        layout.columns,
        layout.key,
        _DOCUMENTS,
        number="d.changed",
        is_live="v.status = 'live'",
        is_shown=LIVE,
        vector=f"CASE WHEN {_USABLE} THEN v.embedding END, v.embedding_model, v.embedding_checksum",
        checks=f"iif(v.version = {HIGHEST}, v.row, NULL), {CHECKED}, {FACT_COLUMNS}",
    )


_EDGE_READER = _SelectReader(
    EDGES,
    "id",
    _EDGES,
    number="e.changed",
    is_live="e.status = 'live'",
    vector="NULL, NULL, NULL",
    checks=EDGE_COLUMNS,
)


def _batch(
    found: Sequence[tuple[Any, ...]],
    reader: _SelectReader,
    after: int,
    is_whole: Callable[[Sequence[Any]], bool],
) -> tuple[ChangeTables, list[tuple[Any, ...]]]:
    """Return rows as a batch, and those of them that are live."""
    # A damaged row is gone for an index; where its cell or its id is damaged, nothing names it.
    sound_cells: dict[tuple[Any, ...], bool] = {}
    end, key, numbers = reader.end, reader.names[0], reader.numbers
    live, gone, kept, n_damaged = [], [], set(), 0
    for row in found:
        cell, checks = row[end : end + _N_CELL], row[end + _N_CELL :]
        if cell not in sound_cells:
            sound_cells[cell] = is_sound_cell(cell)
        is_named = sound_cells[cell] and is_text(row[key])
        if not row[1]:
            is_good = False
        else:
            is_good = is_named and is_whole(checks) and _are_numbers(row, numbers)
            n_damaged += not is_good
        name = (row[key], tuple([row[place] for place in reader.names[1:]]))
        if is_good:
            live.append(row)
            kept.add(name)
        elif is_named:
            gone.append(name)
    # Damage may have changed the id of a row to that of another.
    gone = [name for name in gone if name not in kept]
    last = found[-1][0] if found else after
    return ChangeTables(reader.table(live), gone, last, len(found), n_damaged), live


def _are_numbers(row: Sequence[Any], places: Sequence[int]) -> bool:
    return all(row[at] is None or isinstance(row[at], int) for at in places)


class _SoundOnce:
    """Admits each document once: its highest version, if that row is undamaged."""

    # Damage to a document's id may make it a second document of another's version.

    def __init__(self) -> None:
        self._met: set[int] = set()

    def __call__(self, checks: Sequence[Any]) -> bool:
        row, *columns = checks  # None instead of the row: there is a higher version
        if row is None or row in self._met or not _is_sound_document(columns):
            return False
        self._met.add(row)
        return True


def _is_sound_document(checks: Sequence[Any]) -> bool:
    """Return whether a version, and the fact beside it, are undamaged."""
    checked, fact = checks[:N_CHECKED], checks[N_CHECKED:]
    is_fact = any(value is not None for value in fact)
    return read_fact(_ANY_CELL, checks) is not None if is_fact else is_sound(checked)


_ANY_CELL = Cell(None, None, None, "private")  # only the rows are looked at


def _vectors(kept: Sequence[tuple[bytes | None, str, int | None]], dim: int) -> pa.Array:
    """Return vectors as one column, null where there is none that an index takes."""
    if all(blob is None for blob, _, _ in kept):
        return pa.nulls(len(kept), pa.list_(pa.float32(), dim))
    is_whole = np.array(
        [
            blob is not None and (checksum is None or vector_checksum(blob, model) == checksum)
            for blob, model, checksum in kept
        ],
        np.bool_,
    )
    vectors = np.zeros((len(kept), dim), np.float32)
    blobs = b"".join(
        [blob for (blob, _, _), is_there in zip(kept, is_whole, strict=True) if blob and is_there]
    )
    if blobs:
        vectors[is_whole] = np.frombuffer(blobs, "<f4").reshape(-1, dim)
    is_taken = is_whole & norms(vectors)[1]  # not NaN and infinity, in rows without a checksum
    if is_taken.all():  # without a mask, which costs as much as all else for one row
        return pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), dim)
    vectors[~is_taken] = 0
    mask = pa.array(~is_taken)
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), dim, mask=mask)


def _lacks_vector(texts: pa.ChunkedArray, vectors: pa.Array) -> pa.Array:
    """Say which rows have a text and no vector."""
    if not vectors.null_count:
        return pa.array(np.zeros(len(vectors), np.bool_))
    lacks = vectors.is_null().to_numpy(zero_copy_only=False)
    has_text = [bool(text.strip()) for text in texts.to_pylist()]
    return pa.array(lacks & np.array(has_text, np.bool_))
