"""Reads the SQLite file of l0-memory, v0.1 to v0.6, as lines to import."""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import apsw
from pydantic import ValidationError

from hyrecall.errors import HyrecallError, OptionError, StoreFormatError, StoreNotFoundError, error
from hyrecall.memory.faces.export_lines import Line
from hyrecall.memory.faces.transfer import LineError, Numbered, why
from hyrecall.memory.sql.codec import decode_vector, from_micros
from hyrecall.memory.sql.sqlite_errors import sqlite_named

__all__ = ["NOTE", "read_l0"]

NOTE: Final = "note"
"""The kind of a memory that is a note."""

# Values of columns that an older schema does not have.
_DEFAULTS: Final = {
    "scope": "'user'",
    "tags": "''",
    "pinned": "0",
    "archived": "0",
    "origin": "''",
    "verified_at": "0",
    "embedding": "NULL",
    "embedding_model": "''",
}
_NEEDED = {"key", "value", "created_at", "updated_at"}


def read_l0(path: Path) -> Iterator[Numbered]:
    """Read the memories and links of an l0 database; it is not changed."""
    # Each becomes a note: a scope its user, a key its id, a value its output; what is
    # archived stays
    # so. Vectors that are none are left out, and links between two scopes are errors: an edge
    # lies in
    # one cell.
    if not path.is_file():
        raise error(StoreNotFoundError, str(path), "a database of l0", "no file")
    with sqlite_named(str(path)):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
            connection.pragma("trusted_schema", 0)
            yield from _lines(connection, str(path))
        except UnicodeDecodeError:
            raise error(StoreFormatError, str(path), "texts in UTF-8", "other bytes") from None
        finally:
            connection.close(True)


def _lines(connection: apsw.Connection, path: str) -> Iterator[Numbered]:
    there = {row[1] for row in connection.execute("PRAGMA table_info(memories)")}
    if not there >= _NEEDED:
        got = "another database" if not there else f"no column {min(_NEEDED - there)}"
        raise error(StoreFormatError, path, "a database of l0", got)
    columns = ", ".join(
        name if name in there else f"{default} AS {name}" for name, default in _DEFAULTS.items()
    )
    select = f"SELECT key, value, created_at, updated_at, {columns} FROM memories ORDER BY id"
    at = 0
    for row in connection.execute(select):
        at += 1
        yield at, _checked(at, str(row[0]), partial(_memory, *row))
    if list(connection.execute("PRAGMA table_info(memory_links)")):
        links = "SELECT from_scope, from_key, to_scope, to_key, rel FROM memory_links ORDER BY id"
        for row in connection.execute(links):
            at += 1
            yield at, _checked(at, str(row[1]), partial(_link, *row))


def _checked(at: int, name: str, make: Callable[[], Line]) -> Line | LineError:
    try:
        return make()
    except ValidationError as fault:
        return LineError(at, name, why(fault))
    except HyrecallError as fault:
        return LineError(at, name, str(fault))


def _memory(
    key: str,
    value: str,
    created_at: object,
    updated_at: object,
    scope: str,
    tags: object,
    pinned: int,
    archived: int,
    origin: str,
    verified_at: object,
    embedding: object,
    model: str,
) -> Line:
    metadata: dict[str, Any] = {"origin": origin} if origin else {}
    if verified_at:
        metadata["verified_at"] = _time("verified_at", verified_at).isoformat()
    version = {
        "id": key,
        "user_id": scope,
        "status": "archived" if archived else "live",
        "recorded_at": _time("updated_at", updated_at),
        "pinned": bool(pinned),
        "content": {
            "kind": NOTE,
            "output": value,
            "occurred_at": _time("created_at", created_at).isoformat(),
            "tags": _tags(tags),
            "metadata": metadata,
        },
        **_embedding(embedding, model),
    }
    return Line.model_validate({"version": version})


def _link(from_scope: str, from_key: str, to_scope: str, to_key: str, relationship: str) -> Line:
    if from_scope != to_scope:
        raise error(OptionError, "to_scope", f"that of the link ({from_scope!r})", repr(to_scope))
    edge = {
        "id": f"l0:{hashlib.sha256(repr((from_key, to_key, relationship)).encode()).hexdigest()}",
        "user_id": from_scope,
        "participants": [{"id": from_key, "role": "from"}, {"id": to_key, "role": "to"}],
        "relationship": relationship,
    }
    return Line.model_validate({"edge": edge})


def _time(argument: str, milliseconds: object) -> datetime:
    wish = "milliseconds from the year 1 to 9999"
    if not isinstance(milliseconds, int):
        raise error(OptionError, argument, wish, type(milliseconds).__name__)
    try:
        return from_micros(1000 * milliseconds)
    except OverflowError:
        raise error(OptionError, argument, wish, milliseconds) from None


def _tags(text: object) -> list[str]:
    """Split tags at commas, or at spaces where there is none."""
    if text is None:
        return []
    if not isinstance(text, str):
        raise error(OptionError, "tags", "a text", type(text).__name__)
    parts = text.split(",") if "," in text else text.split()
    return [part.strip() for part in parts if part.strip()]


def _embedding(blob: object, model: str) -> dict[str, str]:
    if not isinstance(blob, bytes) or not model:
        return {}
    with contextlib.suppress(OptionError):
        decode_vector(blob)
        return {"embedding": base64.b64encode(blob).decode(), "embedding_model": model}
    return {}
