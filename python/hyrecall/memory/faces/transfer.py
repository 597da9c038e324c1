"""Exports a store to JSON lines, and reads such lines."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, TypeAlias, TypeVar

import apsw
from pydantic import BaseModel, ValidationError

from hyrecall.base.arguments import read_path
from hyrecall.base.disk import check_outside, open_replacement
from hyrecall.errors import (
    DTypeError,
    HyrecallError,
    OptionError,
    StoreFormatError,
    StoreNotFoundError,
    error,
)
from hyrecall.memory.data.types import check_id
from hyrecall.memory.faces.import_rows import (
    FORMAT,
    AgentLine,
    ExportLine,
    FeedbackLine,
    VersionLine,
)
from hyrecall.memory.sql.codec import (
    CHECKED,
    N_CHECKED,
    Cell,
    cells_by_number,
    content_of,
    decode_vector,
    episode_of,
    from_micros,
    is_sound,
    is_text,
    is_time,
    rows,
    to_json,
    vector_checksum,
    warn_of_damage,
)
from hyrecall.memory.sql.connecting import sqlite_named
from hyrecall.memory.sql.edge_rows import Asker, FeedbackRow, edges_in, feedback_rows
from hyrecall.memory.sql.fact_rows import FACT_COLUMNS, read_fact
from hyrecall.memory.sql.reading import policies
from hyrecall.memory.sql.schema import HAS_EXPIRED, HIGHEST, LEFT_EXPIRED, LISTED, LIVE

_DOCUMENT = "d.version, d.pinned, d.access_count, d.last_accessed"
_VECTOR = "v.embedding, v.embedding_model, v.embedding_checksum"
_Part = TypeVar("_Part", bound=BaseModel)


@dataclass(frozen=True)
class LineError:
    """A line that was not imported: its number from 1, its id if that could be read, and why."""

    line: int
    id: str
    error: str


@dataclass(frozen=True)
class Imported:
    """The result of an import; lines with errors change nothing."""

    imported: int
    skipped: int
    errors: tuple[LineError, ...]


Numbered: TypeAlias = tuple[int, ExportLine | LineError]
"""A line, or what is wrong with it, after its number in the file."""


# ---- export ----


def export_lines(
    connection: apsw.Connection,
    cells: Collection[int],
    *,
    askers: Callable[[Asker], bool] = lambda _: True,
    history: bool = False,
) -> Iterator[str]:
    """Yield the contents of cells as lines, in the order of their last changes."""
    yield _told(ExportLine(format=FORMAT))
    homes = cells_by_number(connection, cells)
    n_bad = 0
    for entry in policies(connection):  # also of an agent without memories
        if askers((entry["org"], entry["workspace"], entry["agent"])):
            line = _made(AgentLine, entry)
            n_bad += line is None
            if line is not None:
                yield _told(ExportLine(agent=line))
    for row in _versions(connection, cells, history=history):
        version = _version_line(homes, row)
        n_bad += version is None
        if version is not None:
            yield _told(ExportLine(version=version))
    warn_of_damage(n_bad)
    for edge in edges_in(connection, cells):
        yield _told(ExportLine(edge=edge))
    for row in feedback_rows(connection, cells):
        feedback = _feedback_line(homes, row) if askers(row.asker) else None
        if feedback is not None:
            yield _told(ExportLine(feedback=feedback))


def _feedback_line(homes: dict[int, Cell], row: FeedbackRow) -> FeedbackLine | None:
    """Return the line of a row; None: the row of its cell is damaged."""
    home, (org, workspace, user) = homes.get(row.cell), row.asker
    if home is None:
        return None
    where = {"owner": home.user, "visibility": home.visibility, "table": home.source}
    who = {"user_id": user, "org": org, "workspace": workspace}
    line = {**who, **where, "query": row.query, "at": row.at, "id": row.id}
    return _made(FeedbackLine, line)


def _made(kind: type[_Part], fields: dict[str, Any]) -> _Part | None:
    """Return a part of a line, or None if a damaged row has a value that no line may have."""
    try:
        return kind.model_validate(fields)
    except (ValidationError, HyrecallError):
        return None


def _told(line: ExportLine) -> str:
    return line.model_dump_json(exclude_defaults=True)


def _versions(
    connection: apsw.Connection, cells: Collection[int], *, history: bool
) -> Iterator[tuple[Any, ...]]:
    """Return documents in the order of their last change, and their versions by number."""
    there = f"AND NOT {HAS_EXPIRED} AND NOT {LEFT_EXPIRED} "
    which = there if history else f"AND v.version = {HIGHEST} AND {LIVE} "
    select = (
        f"SELECT v.successor, {_DOCUMENT}, {_VECTOR}, {CHECKED}, {FACT_COLUMNS} "
        "FROM documents d JOIN versions v ON v.cell = d.cell AND v.id = d.id "
        "LEFT JOIN facts f ON f.row = v.row "
        f"WHERE d.cell IN {LISTED} "
        f"{which}ORDER BY d.changed, v.version"
    )
    yield from rows(connection, select, (to_json(tuple(cells)),))


def _version_line(homes: dict[int, Cell], row: tuple[Any, ...]) -> VersionLine | None:
    """Return the line of a version; None: its row is damaged."""
    # No checksum covers the counts of a document: a damaged count or time becomes 0 or None.
    successor, head, pinned, access_count, last_accessed, blob, model, seal, *columns = row
    checked, fact_columns = columns[:N_CHECKED], columns[N_CHECKED:]
    _, cell, key, version, status, reason, recorded_at, *_ = checked
    is_readable = is_sound(checked) and (successor is None or is_text(successor))
    if cell not in homes or not is_readable:
        return None
    line: dict[str, Any] = {
        "id": key,
        **homes[cell].identity(),
        "table": homes[cell].source,
        "version": version,
        "status": status,
        "reason": reason,
        "successor": successor,
        "recorded_at": from_micros(recorded_at),
    }
    if any(value is not None for value in fact_columns):
        fact = read_fact(homes[cell], columns)
        if fact is None:
            return None
        line["fact"] = VersionLine.content_of(fact)
    elif status != "deleted":
        episode = episode_of(homes[cell], key, pinned, content_of(checked), version)
        line["content"] = VersionLine.content_of(episode)
    if _is_vector(blob, model) and seal in (None, vector_checksum(blob, model)):
        line |= {"embedding": base64.b64encode(blob).decode(), "embedding_model": model}
    if version == head:
        is_count = isinstance(access_count, int) and access_count >= 0
        line |= {"pinned": bool(pinned), "access_count": access_count if is_count else 0}
        line["last_accessed"] = from_micros(last_accessed) if is_time(last_accessed) else None
    return _made(VersionLine, line)


def _is_vector(blob: object, model: object) -> bool:
    """Return whether an import accepts the vector; without a checksum, only this shows damage."""
    if not isinstance(blob, bytes):
        return False
    try:
        decode_vector(blob)
        check_id("embedding_model", model)
    except HyrecallError:
        return False
    return True


# ---- import ----


def read_lines(lines: Iterable[str]) -> Iterator[Numbered]:
    """Read the lines of an export, each with its number from 1; blank ones are passed over."""
    is_first = True
    for at, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            line = _parsed(text)
        except (ValidationError, HyrecallError) as fault:
            if is_first:
                raise error(OptionError, "file", "lines of an export", "others") from None
            yield at, LineError(at, "", why(fault))
            continue
        if is_first and line.format is None:
            raise error(OptionError, "file", "lines of an export", "others")
        is_first = False
        if line.format not in (None, FORMAT):
            raise error(StoreFormatError, "file", f"format {FORMAT}", line.format)
        yield at, line


def _parsed(text: str) -> ExportLine:
    try:
        text.encode()
        found = json.loads(text)
    except UnicodeEncodeError:  # bytes of a file that were kept as lone surrogates
        raise error(OptionError, "line", "UTF-8", "other bytes") from None
    except (ValueError, RecursionError) as fault:
        raise error(OptionError, "line", "JSON", type(fault).__name__) from None
    return ExportLine.model_validate(found)


def why(fault: Exception) -> str:
    """Return what is wrong with a line, without its content."""
    if isinstance(fault, ValidationError):
        first = fault.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return f"{where}: {first['msg']}" if where else str(first["msg"])
    return str(fault)


# ---- Reads the SQLite file of l0-memory, v0.1 to v0.6, as lines to import ----

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
    # Each becomes a note: a scope its user, a key its id, a value its text; what is archived
    # stays so. Vectors that are none are left out, and links between two scopes are errors: an edge
    # lies in one cell.
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


def _checked(at: int, name: str, make: Callable[[], ExportLine]) -> ExportLine | LineError:
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
) -> ExportLine:
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
            "text": value,
            "occurred_at": _time("created_at", created_at).isoformat(),
            "tags": _tags(tags),
            "metadata": metadata,
        },
        **_embedding(embedding, model),
    }
    return ExportLine.model_validate({"version": version})


def _link(
    from_scope: str, from_key: str, to_scope: str, to_key: str, relationship: str
) -> ExportLine:
    if from_scope != to_scope:
        raise error(OptionError, "to_scope", f"that of the link ({from_scope!r})", repr(to_scope))
    edge = {
        "id": f"l0:{hashlib.sha256(repr((from_key, to_key, relationship)).encode()).hexdigest()}",
        "user_id": from_scope,
        "participants": [{"id": from_key, "role": "from"}, {"id": to_key, "role": "to"}],
        "relationship": relationship,
    }
    return ExportLine.model_validate({"edge": edge})


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


# ---- Files of JSON lines: writes lines to a path or an open file, and opens what an import reads

File = str | os.PathLike[str] | IO[str]


def write_lines(file: File, lines: Iterable[str], folder: Path | None) -> int:
    """Write lines to a path outside ``folder``, or to an open file, and return how many."""
    if not isinstance(file, str | os.PathLike):
        return _write_to(file, lines)
    path = read_path(file)
    if folder is not None:
        check_outside("file", path, folder)
    n_lines = 0
    # Readable by its owner only, as the store is.
    with open_replacement("file", path, mode=0o600) as out:
        for line in lines:
            out.write(f"{line}\n".encode())
            n_lines += 1
    return n_lines


def _write_to(out: IO[str], lines: Iterable[str]) -> int:
    is_binary = isinstance(out, io.RawIOBase | io.BufferedIOBase)
    if is_binary or not callable(getattr(out, "write", None)):
        raise error(DTypeError, "file", "a path, or a text file to write to", type(out).__name__)
    n_lines = 0
    for line in lines:
        out.write(f"{line}\n")
        n_lines += 1
    return n_lines


@contextmanager
def lines_of(file: File, source: str) -> Iterator[Iterable[Numbered]]:
    """Open the lines of an export, or those that another program's database is read as."""
    if source == "l0":
        if not isinstance(file, str | os.PathLike):
            raise error(OptionError, "file", "the path of a database of l0", type(file).__name__)
        yield read_l0(read_path(file))
    elif not isinstance(file, str | os.PathLike):
        yield read_lines(_text_lines(file))
    else:
        # A line that is not UTF-8 is refused alone: the others are taken.
        with read_path(file).open(encoding="utf-8", errors="surrogateescape") as given:
            yield read_lines(given)


def _text_lines(file: object) -> Iterator[str]:
    """Return the lines of a text file, or of any iterable of them."""
    wish = "a path, or a text file or its lines"
    if not isinstance(file, Iterable) or isinstance(file, bytes):
        raise error(DTypeError, "file", wish, type(file).__name__)
    for line in file:
        if not isinstance(line, str):
            raise error(DTypeError, "file", wish, f"a line that is a {type(line).__name__}")
        yield line
