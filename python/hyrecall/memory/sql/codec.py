"""Encodes and decodes columns of a store: times as microseconds, vectors as bytes, tags as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hyrecall.errors import OptionError, ShapeError, error
from hyrecall.memory.data.construct import construct
from hyrecall.memory.data.types import Episode
from hyrecall.memory.sql.cells import Cell
from hyrecall.memory.sql.damaged_rows import checksum

__all__ = [
    "CHECKED",
    "EPISODE_COLUMNS",
    "N_BEFORE_CONTENT",
    "N_CHECKED",
    "EpisodeColumns",
    "content_of",
    "decode_vector",
    "encode_vector",
    "episode_of",
    "from_json",
    "from_micros",
    "is_sound",
    "is_time",
    "to_columns",
    "to_json",
    "to_micros",
    "vector_checksum",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

# ---- times ----


def to_micros(time: datetime) -> int:
    """Return a time as microseconds since 1970."""
    return (time - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """Return the time, in UTC, of so many microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=micros)


# ---- vectors ----


def encode_vector(vector: npt.ArrayLike) -> bytes:
    """Return the bytes of a vector: little-endian float32, no header."""
    with np.errstate(over="ignore"):  # what overflows is refused below
        row = np.asarray(vector, dtype="<f4")
    if row.ndim != 1 or not row.size:
        raise error(ShapeError, "vector", "one row of numbers", f"shape {row.shape}")
    if not np.isfinite(row).all():
        raise error(OptionError, "vector", "finite numbers", "NaN or infinity")
    return row.tobytes()


def decode_vector(blob: bytes) -> npt.NDArray[np.float32]:
    """Return the vector of bytes from :func:`encode_vector`."""
    if not blob or len(blob) % 4:
        raise error(OptionError, "blob", "a multiple of 4 bytes", f"{len(blob)} bytes")
    row = np.frombuffer(blob, dtype="<f4")
    if not np.isfinite(row).all():
        raise error(OptionError, "blob", "finite numbers", "NaN or infinity")
    return row


def vector_checksum(blob: bytes | None, model: str | None) -> int | None:
    """Return the checksum of a vector and its model; of none, None."""
    return None if blob is None else checksum(blob, model)


# ---- JSON ----


# json.loads and json.dumps look at their options first, for each text.
_READ = json.JSONDecoder().decode
_WRITE = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def to_json(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """Write metadata, tags, or a list for SQL."""
    return _WRITE(value)


def from_json(text: str) -> Any:
    """Read what :func:`to_json` wrote."""
    return _READ(text)


# ---- episodes ----


class EpisodeColumns(NamedTuple):
    """The content of an episode as the columns of a version have it."""

    kind: str
    source: str | None
    session_id: str | None
    input: str
    output: str
    occurred_at: int
    importance: float | None
    tags: str
    metadata: str


EPISODE_COLUMNS = ", ".join(EpisodeColumns._fields)
"""The same as SQL."""


def to_columns(episode: Episode) -> EpisodeColumns:
    """Return the columns of an episode; the rest of it is its cell, its id and its pin."""
    return EpisodeColumns(
        episode.kind,
        episode.source,
        episode.session_id,
        episode.input,
        episode.output,
        to_micros(episode.occurred_at),
        episode.importance,
        to_json(episode.tags),
        to_json(episode.metadata),
    )


_STATE = "cell, id, version, status, reason, recorded_at"
_KEPT = f"{_STATE}, {EPISODE_COLUMNS}"

CHECKED = ", ".join(f"v.{name}" for name in f"checksum, {_KEPT}".split(", "))
"""A version's checksum and all that it covers, as SQL: what :func:`is_sound` takes."""

N_CHECKED = CHECKED.count(",") + 1
N_BEFORE_CONTENT = N_CHECKED - len(EpisodeColumns._fields)
"""Columns of :data:`CHECKED` before those of the content."""


def is_sound(checked: Sequence[Any]) -> bool:
    """Return whether a version is undamaged."""
    found, *kept = checked
    return bool(checksum(*kept) == found)


def is_time(micros: object) -> bool:
    """Return whether a value of a column is a time."""
    try:
        return isinstance(micros, int) and bool(from_micros(micros))
    except OverflowError:
        return False


def content_of(checked: Sequence[Any]) -> EpisodeColumns:
    """Return the content of a version from the columns :data:`CHECKED`."""
    return EpisodeColumns(*checked[N_BEFORE_CONTENT:])


def episode_of(
    cell: Cell, key: str, pinned: int, columns: Sequence[Any], stored: int | None = None
) -> Episode:
    """Return the episode that is kept in these columns, in the order of ``EPISODE_COLUMNS``."""
    # It was checked when it was written, and is not checked again.
    kind, source, session_id, given, output, occurred_at, importance, tags, metadata = columns
    time = from_micros(occurred_at)
    try:
        stored_at = _EPOCH + timedelta(microseconds=stored) if isinstance(stored, int) else None
    except OverflowError:  # no checksum covers it
        stored_at = None
    return construct(
        Episode,
        {
            "user_id": cell.user,
            "org": cell.org,
            "workspace": cell.workspace,
            "visibility": cell.visibility,
            "id": key,
            "input": given,
            "output": output,
            "kind": kind,
            "source": source,
            "session_id": session_id,
            "occurred_at": time,
            "created_at": time,
            "stored_at": stored_at,
            "importance": importance,
            "pinned": bool(pinned),
            "tags": () if tags == "[]" else tuple(from_json(tags)),
            "metadata": {} if metadata == "{}" else from_json(metadata),
        },
    )
