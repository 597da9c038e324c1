"""Exports a store to JSON lines, and reads such lines."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import apsw
from pydantic import BaseModel, ValidationError

from hyrecall.errors import (
    HyrecallError,
    OptionError,
    StoreFormatError,
    error,
)
from hyrecall.memory.data.fields import check_id
from hyrecall.memory.faces.export_lines import (
    FORMAT,
    AgentLine,
    FeedbackLine,
    Line,
    VersionLine,
)
from hyrecall.memory.sql.cells import Cell, cells_by_number
from hyrecall.memory.sql.codec import (
    CHECKED,
    N_CHECKED,
    content_of,
    decode_vector,
    episode_of,
    from_micros,
    is_sound,
    is_time,
    to_json,
    vector_checksum,
)
from hyrecall.memory.sql.damaged_rows import is_text, rows, warn_of_damage
from hyrecall.memory.sql.edge_rows import edges_in
from hyrecall.memory.sql.fact_rows import FACT_COLUMNS, read_fact
from hyrecall.memory.sql.feedback_rows import Asker, FeedbackRow, feedback_on
from hyrecall.memory.sql.read_policies import read_policy
from hyrecall.memory.sql.reading import HIGHEST

__all__ = [
    "Imported",
    "LineError",
    "Numbered",
    "export_lines",
    "read_lines",
    "why",
]

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


Numbered: TypeAlias = tuple[int, Line | LineError]
"""A line, or what is wrong with it, after its number in the file."""


# ---- export ----


def export_lines(
    connection: apsw.Connection,
    cells: Collection[int],
    *,
    askers: Callable[[Asker], bool] = lambda _: True,
    history: bool = False,
    vectors: bool = True,
) -> Iterator[str]:
    """Yield the contents of cells as lines, in the order of their last changes."""
    yield _told(Line(format=FORMAT))
    homes = cells_by_number(connection, cells)
    n_bad = 0
    for org, workspace, agent in dict.fromkeys(cell[:3] for cell in homes.values()):
        policy = None if agent is None else read_policy(connection, org, workspace, agent)
        if policy is not None:
            where = {"org": org, "workspace": workspace, "agent": agent}
            line = _made(AgentLine, {**where, **policy._asdict()})
            n_bad += line is None
            if line is not None:
                yield _told(Line(agent=line))
    for row in _versions(connection, cells, history=history):
        version = _version_line(homes, row, vectors=vectors)
        n_bad += version is None
        if version is not None:
            yield _told(Line(version=version))
    warn_of_damage(n_bad)
    for edge in edges_in(connection, cells):
        yield _told(Line(edge=edge))
    for row in feedback_on(connection, cells):
        feedback = _feedback_line(homes, row) if askers(row.asker) else None
        if feedback is not None:
            yield _told(Line(feedback=feedback))


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


def _told(line: Line) -> str:
    return line.model_dump_json(exclude_defaults=True)


def _versions(
    connection: apsw.Connection, cells: Collection[int], *, history: bool
) -> Iterator[tuple[Any, ...]]:
    """Return documents in the order of their last change, and their versions by number."""
    which = "" if history else f"AND v.version = {HIGHEST} AND v.status = 'live' "
    select = (
        f"SELECT v.successor, {_DOCUMENT}, {_VECTOR}, {CHECKED}, {FACT_COLUMNS} "
        "FROM documents d JOIN versions v ON v.cell = d.cell AND v.id = d.id "
        "LEFT JOIN facts f ON f.row = v.row "
        "WHERE d.cell IN (SELECT value FROM json_each(?)) "
        f"{which}ORDER BY d.changed, v.version"
    )
    yield from rows(connection, select, (to_json(tuple(cells)),))


def _version_line(
    homes: dict[int, Cell], row: tuple[Any, ...], *, vectors: bool
) -> VersionLine | None:
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
        episode = episode_of(homes[cell], key, pinned, content_of(checked))
        line["content"] = VersionLine.content_of(episode)
    if vectors and _is_vector(blob, model) and seal in (None, vector_checksum(blob, model)):
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


def _parsed(text: str) -> Line:
    try:
        text.encode()
        found = json.loads(text)
    except UnicodeEncodeError:  # bytes of a file that were kept as lone surrogates
        raise error(OptionError, "line", "UTF-8", "other bytes") from None
    except (ValueError, RecursionError) as fault:
        raise error(OptionError, "line", "JSON", type(fault).__name__) from None
    return Line.model_validate(found)


def why(fault: Exception) -> str:
    """Return what is wrong with a line, without its content."""
    if isinstance(fault, ValidationError):
        first = fault.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return f"{where}: {first['msg']}" if where else str(first["msg"])
    return str(fault)
