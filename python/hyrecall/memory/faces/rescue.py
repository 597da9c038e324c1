"""Rows that a saved index still holds and its database has lost, as lines that an import reads.

An index holds less than the database: the text of a memory as one (not input and text apart), no
history, no metadata in most layouts, of a fact its sentence and its times, of an edge's ends no
roles. So it is the last resort after a backup.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from hyrecall.arm.newest import Newest
from hyrecall.ask.scope import ANY, Scope
from hyrecall.base.arguments import read_path
from hyrecall.errors import CorruptStoreError, HyrecallError, StoreFormatError, error
from hyrecall.index import Index
from hyrecall.memory.data.types import Edge, Episode, Participant
from hyrecall.memory.derived.layout import CELL
from hyrecall.memory.faces.import_rows import FORMAT, ExportLine, VersionLine
from hyrecall.memory.faces.transfer import File, write_lines
from hyrecall.memory.sql.codec import Cell
from hyrecall.memory.sql.database import DATABASE, Database
from hyrecall.memory.sql.fact_rows import KIND
from hyrecall.memory.sql.lost_changes import (
    INDEX,
    PARTS,
    Header,
    StaleError,
    last_change,
    read_header,
)

RESCUED_FACT = "rescued fact"
"""Kind of the memories that facts are rescued as: their parts are not in an index."""

_EVERYWHERE = Scope.matching(**dict.fromkeys(CELL, ANY))
_OF_ROWS = ("updated_at", "version", "text", "kind", "source", "session_id", "occurred_at",
            "importance", "tags", "pinned", "valid_from", "valid_to")  # fmt: skip
_OF_EDGES = ("relationship", "description", "participants", "changed")

Identity = tuple[Any, ...]


def rescue_lines(folder: Path) -> Iterator[str]:
    """Return what the saved index of a store holds and its database does not, oldest first."""
    # A store that has lost nothing gives no memory: what it lacks then was forgotten. The database
    # may be damaged or missing. Nothing is changed.
    saved = folder / INDEX
    try:
        header = read_header(saved)
        nodes, edges = (Index.open(saved / part, verify="full") for part in PARTS)
    except (StaleError, HyrecallError, OSError) as fault:
        raise error(CorruptStoreError, str(saved), "an undamaged saved index", fault) from None
    with nodes, edges:
        yield ExportLine(format=FORMAT).model_dump_json(exclude_defaults=True)
        kept = _kept(folder, header)
        if kept is None:
            return
        versions, known_edges = kept
        data = tuple({"data"} & set(nodes.schema.row_columns))  # of recipe hypergraph
        for row in _rows(nodes, "updated_at", (*_OF_ROWS, *data)):
            if row["version"] > versions.get(_identity(row), 0):
                line = ExportLine(version=_version(row))
                yield line.model_dump_json(exclude_defaults=True)
        for row in _rows(edges, "recorded_at", _OF_EDGES):
            if _identity(row) not in known_edges:
                yield ExportLine(edge=_edge(row)).model_dump_json(exclude_defaults=True)


def _kept(folder: Path, header: Header) -> tuple[dict[Identity, int], set[Identity]] | None:
    """Return which memories, with their versions, and which edges the database has."""
    # None: it has every change that the index has.
    path = folder / DATABASE
    if not path.is_file() or not path.stat().st_size:
        return {}, set()  # no connection: SQLite deletes the log of an empty database
    try:
        database = Database.open(folder, read_only=True, accept_loss=True)
    except (StoreFormatError, CorruptStoreError):
        return {}, set()
    cells = ", ".join(f"c.{column}" for column in CELL.values())
    documents = f"SELECT {cells}, d.id, d.version FROM documents d JOIN cells c USING (cell)"
    edges = f"SELECT {cells}, e.id FROM edges e JOIN cells c USING (cell)"
    try:
        with suppress(CorruptStoreError), database.reading() as connection:
            found = last_change(connection, str(folder))
            end = found.sequence if found.store_id == header.store_id else -1
            if end >= header.sequence:
                return None
            versions = {tuple(row[:-1]): row[-1] for row in connection.execute(documents)}
            return versions, set(connection.execute(edges))
    finally:
        database.close()
    return {}, set()


def _rows(index: Index, newest: str, columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    hits = index.recall(
        arms=Newest(newest), scope=_EVERYWHERE, limit=max(len(index), 1), columns=columns
    )
    yield from reversed(hits.to_arrow().to_pylist())


def _identity(row: dict[str, Any]) -> Identity:
    return (*(row[name] for name in CELL), row["key"])


def _where(row: dict[str, Any]) -> dict[str, Any]:
    return {"id": row["key"], **Cell(*(row[name] for name in CELL)).identity()}


def _version(row: dict[str, Any]) -> VersionLine:
    episode = Episode(
        **_where(row),
        text=row["text"] or "",
        kind=RESCUED_FACT if row["kind"] == KIND else row["kind"],
        metadata=json.loads(row.get("data") or "{}") | _times(row),
        tags=tuple(row["tags"] or ()),
        **{name: row[name] for name in ("source", "session_id", "occurred_at", "importance")},
    )
    return VersionLine(
        **_where(row),
        table=row["table"],
        version=row["version"],
        recorded_at=row["updated_at"],
        content=VersionLine.content_of(episode),
        pinned=row["pinned"],
    )


def _times(row: dict[str, Any]) -> dict[str, Any]:
    times: dict[str, datetime | None] = {name: row[name] for name in ("valid_from", "valid_to")}
    return {name: at.isoformat() for name, at in times.items() if at is not None}


def _edge(row: dict[str, Any]) -> Edge:
    return Edge(
        **_where(row),
        participants=tuple(Participant(id=node) for node in row["participants"]),
        relationship=row["relationship"],
        description=row["description"] or "",
    )


def rescue(path: str | os.PathLike[str], file: File) -> int:
    """Write the rows that a saved index holds and its damaged store has lost; return how many."""
    folder = read_path(path)
    return write_lines(file, rescue_lines(folder), folder) - 1  # the first line is the format's
