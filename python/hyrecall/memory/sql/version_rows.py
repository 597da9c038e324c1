"""Inserts the rows of versions, each once with its checksum; later only its vector may change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import apsw

from hyrecall.memory.data.types import Episode, Status
from hyrecall.memory.sql.codec import EPISODE_COLUMNS, to_columns, vector_checksum
from hyrecall.memory.sql.damaged_rows import checksum, rows
from hyrecall.memory.sql.reading import is_sound_vector

__all__ = [
    "Embedding",
    "embedding_of",
    "insert_row",
    "insert_version",
    "set_embedding",
    "set_embeddings",
]

Embedding: TypeAlias = tuple[bytes, str] | tuple[None, None]
"""The columns of a vector: its bytes and its model, or none."""

_INSERT = (
    "INSERT INTO versions (checksum, cell, id, version, status, reason, recorded_at, "
    f"{EPISODE_COLUMNS}, successor, embedding, embedding_model, embedding_checksum) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING row"
)


def insert_version(
    connection: apsw.Connection,
    cell: int,
    episode: Episode,
    version: int,
    embedding: Embedding,
    recorded_at: int,
    *,
    status: Status = "live",
    reason: str | None = None,
    successor: str | None = None,
) -> int:
    """Insert the row of a version and return its number; the caller updates the document."""
    state = (cell, episode.id, version, status, reason, recorded_at)
    return insert_row(connection, (*state, *to_columns(episode)), successor, embedding)


def insert_row(
    connection: apsw.Connection,
    kept: Sequence[Any],
    successor: str | None,
    embedding: Embedding = (None, None),
) -> int:
    """Insert the row of a version, what never changes of it in the order of ``CHECKED``."""
    seals = checksum(*kept), vector_checksum(*embedding)
    given = (seals[0], *kept, successor, *embedding, seals[1])
    row: int = connection.execute(_INSERT, given).get
    _know_model(connection, embedding)
    return row


def embedding_of(connection: apsw.Connection, row: int) -> Embedding:
    """Return the columns of a version's vector; none if the vector is damaged."""
    select = "SELECT embedding, embedding_model, embedding_checksum FROM versions WHERE row = ?"
    (found,) = rows(connection, select, (row,))
    blob, model, kept = found
    return (blob, model) if is_sound_vector(blob, model, kept) else (None, None)


def set_embedding(connection: apsw.Connection, row: int, embedding: Embedding) -> None:
    """Replace or remove the vector of a version."""
    set_embeddings(connection, [(row, embedding)])


def set_embeddings(connection: apsw.Connection, rows: Sequence[tuple[int, Embedding]]) -> None:
    """Replace or remove the vectors of versions."""
    set_it = (
        "UPDATE versions SET embedding = ?, embedding_model = ?, embedding_checksum = ? "
        "WHERE row = ?"
    )
    given = [(*embedding, vector_checksum(*embedding), row) for row, embedding in rows]
    connection.executemany(set_it, given)
    for one in {embedding[1]: embedding for _, embedding in rows}.values():
        _know_model(connection, one)


def _know_model(connection: apsw.Connection, embedding: Embedding) -> None:
    blob, model = embedding
    if blob is not None:
        know = (
            "INSERT INTO models (model, dim) VALUES (?, ?) ON CONFLICT (model) "
            "DO UPDATE SET dim = excluded.dim WHERE dim <> excluded.dim"
        )
        connection.execute(know, (model, len(blob) // 4))
