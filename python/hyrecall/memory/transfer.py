"""Export to JSON lines, and import from them: a store can be moved, merged and looked at."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, TypeAlias

import apsw
from pydantic import ValidationError

from hyrecall.errors import HyrecallError, OptionError, StoreError, StoreFormatError, error
from hyrecall.memory.cells import Cell, cells_by_number
from hyrecall.memory.codec import EPISODE_COLUMNS, episode_of, from_micros, to_json
from hyrecall.memory.database import Database
from hyrecall.memory.edge_rows import edges_in
from hyrecall.memory.fact_rows import fact_history
from hyrecall.memory.lines import FORMAT, AgentLine, Line, VersionLine
from hyrecall.memory.merging import merge_agent, merge_edge, merge_version
from hyrecall.memory.roster import read_policy
from hyrecall.progress import ProgressFunction

__all__ = [
    "Imported",
    "LineError",
    "Numbered",
    "export_lines",
    "import_lines",
    "read_lines",
    "why",
]

_PAGE = 500  # lines of one transaction
_STATE = "v.cell, v.id, v.version, v.status, v.reason, v.successor, v.recorded_at"
_DOCUMENT = "d.version, d.pinned, d.access_count, d.last_accessed"
_CONTENT = ", ".join(f"v.{name}" for name in EPISODE_COLUMNS.split(", "))


@dataclass(frozen=True)
class LineError:
    """A line that was not taken: its number from 1, the id on it if that could be read, and why."""

    line: int
    id: str
    error: str


@dataclass(frozen=True)
class Imported:
    """What became of the lines of an import; those with errors left the store as it was.

    Attributes
    ----------
    imported : int
        Lines that were new.
    skipped : int
        Lines of which the store had the same.
    errors : tuple of LineError
    """

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
    history: bool = False,
    vectors: bool = True,
) -> Iterator[str]:
    """Give what is in cells, line by line, in the order of the last changes.

    Parameters
    ----------
    connection : apsw.Connection
        Reading, until the last line is taken.
    cells : collection of int
    history : bool, default False
        Every version, also of what is deleted; otherwise what is live.
    vectors : bool, default True
        With the vectors, so that whoever imports it need not embed again.
    """
    yield _told(Line(format=FORMAT))
    homes = cells_by_number(connection, cells)
    for org, workspace, agent in dict.fromkeys(cell[:3] for cell in homes.values()):
        policy = None if agent is None else read_policy(connection, org, workspace, agent)
        if policy is not None:
            where = {"org": org, "workspace": workspace, "agent": agent}
            yield _told(Line(agent=AgentLine.model_validate({**where, **policy._asdict()})))
    for row in _versions(connection, cells, history=history):
        yield _told(Line(version=_version_line(connection, homes, row, vectors=vectors)))
    for edge in edges_in(connection, cells):
        yield _told(Line(edge=edge))


def _told(line: Line) -> str:
    return line.model_dump_json(exclude_defaults=True)


def _versions(
    connection: apsw.Connection, cells: Collection[int], *, history: bool
) -> Iterator[tuple[Any, ...]]:
    """Give documents in the order of their last change, and their versions by number."""
    which = "" if history else "AND v.version = d.version AND v.status = 'live' "
    select = (
        f"SELECT {_STATE}, {_DOCUMENT}, v.embedding, v.embedding_model, {_CONTENT} "
        "FROM documents d JOIN versions v ON v.cell = d.cell AND v.id = d.id "
        "WHERE d.cell IN (SELECT value FROM json_each(?)) "
        f"{which}ORDER BY d.changed, v.version"
    )
    yield from connection.execute(select, (to_json(tuple(cells)),))


def _version_line(
    connection: apsw.Connection,
    homes: dict[int, Cell],
    row: tuple[Any, ...],
    *,
    vectors: bool,
) -> VersionLine:
    cell, key, version, status, reason, successor, recorded_at, *rest = row
    head, pinned, access_count, last_accessed, blob, model, *content = rest
    line: dict[str, Any] = {
        "id": key,
        **homes[cell].identity(),
        "version": version,
        "status": status,
        "reason": reason,
        "successor": successor,
        "recorded_at": from_micros(recorded_at),
    }
    if status != "deleted":
        facts = (one for one in fact_history(connection, cell, key) if one.version == version)
        fact = next(facts, None)
        if fact is not None:
            line["fact"] = VersionLine.content_of(fact.fact)
        else:
            episode = episode_of(homes[cell], key, pinned, content)
            line["content"] = VersionLine.content_of(episode)
    if vectors and blob is not None:
        line |= {"embedding": base64.b64encode(blob).decode(), "embedding_model": model}
    if version == head:
        line |= {"pinned": bool(pinned), "access_count": access_count}
        line["last_accessed"] = None if last_accessed is None else from_micros(last_accessed)
    return VersionLine.model_validate(line)


# ---- import ----


def read_lines(lines: Iterable[str]) -> Iterator[Numbered]:
    """Read the lines of an export, each with its number from 1; blank ones are passed over.

    Raises
    ------
    OptionError
        The first says of no format.
    StoreFormatError
        The format is newer than this version knows.
    """
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
        if line.format is not None and line.format > FORMAT:
            raise error(StoreFormatError, "file", f"format <= {FORMAT}", line.format)
        yield at, line


def _parsed(text: str) -> Line:
    try:
        return Line.model_validate_json(text.encode())
    except UnicodeEncodeError:  # bytes of a file that were kept as lone surrogates
        raise error(OptionError, "line", "UTF-8", "other bytes") from None


def import_lines(
    database: Database,
    lines: Iterable[Numbered],
    *,
    now: datetime,
    progress: ProgressFunction | None = None,
) -> Imported:
    """Merge lines into the store; what is there already stays as it is.

    Lines are kept in pages: what was imported before a crash stays, and importing the same file
    again skips it.

    Parameters
    ----------
    database : Database
    lines : iterable of (int, Line or LineError)
        Numbered, from :func:`read_lines` or another source.
    now : datetime
        When edges count as recorded.
    progress : callable, optional
        Called with (lines done, lines seen).

    Raises
    ------
    StoreError
        The disk or SQLite refuses; the page at work is not kept.
    """
    counts = {True: 0, False: 0}
    errors: list[LineError] = []
    left = iter(lines)
    done = 0
    while page := list(islice(left, _PAGE)):
        with database.transaction() as connection:
            for at, line in page:
                if isinstance(line, LineError):
                    errors.append(line)
                    continue
                if line.format is not None:
                    continue
                try:
                    counts[_merge(connection, line, now)] += 1
                except StoreError:
                    raise
                except (HyrecallError, ValidationError) as fault:
                    errors.append(LineError(at, line.name, why(fault)))
        done += len(page)
        if progress is not None:
            progress(done, done)
    return Imported(counts[True], counts[False], tuple(errors))


def _merge(connection: apsw.Connection, line: Line, now: datetime) -> bool:
    if line.version is not None:
        return merge_version(connection, line.version)
    if line.edge is not None:
        return merge_edge(connection, line.edge, now)
    if line.agent is not None:
        return merge_agent(connection, line.agent)
    raise error(OptionError, "line", "a version, an edge or an agent", "none of them")


def why(fault: Exception) -> str:
    """Say what is wrong with a line; never what is on it."""
    if isinstance(fault, ValidationError):
        first = fault.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return f"{where}: {first['msg']}" if where else str(first["msg"])
    return str(fault)
