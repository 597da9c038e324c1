"""Exports a store to JSON lines, and reads such lines into a store; existing rows stay."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import io
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import IO, Annotated, Any, Final, TypeAlias, TypeVar

import apsw
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from hyrecall.arm.newest import Newest
from hyrecall.ask.scope import ANY, Scope
from hyrecall.base import starting
from hyrecall.base.arguments import read_path
from hyrecall.base.disk import check_outside, open_replacement
from hyrecall.errors import (
    CorruptStoreError,
    DTypeError,
    HyrecallError,
    KeyConflictError,
    NotFoundError,
    OptionError,
    StoreFormatError,
    StoreNotFoundError,
    error,
)
from hyrecall.index import Index
from hyrecall.memory.data.types import (
    Edge,
    Episode,
    Fact,
    Label,
    Name,
    Participant,
    Status,
    Time,
    User,
    Visibility,
    check_id,
    read_query,
)
from hyrecall.memory.derived.layout import CELL
from hyrecall.memory.sql.codec import (
    CHECKED,
    FACT_SOURCE,
    N_CHECKED,
    Cell,
    cell_of,
    cells_by_number,
    content_of,
    decode_vector,
    episode_of,
    find_cell,
    find_cells,
    from_micros,
    is_sound,
    is_text,
    is_time,
    make_cell,
    rows,
    to_columns,
    to_json,
    to_micros,
    vector_checksum,
    warn_of_damage,
)
from hyrecall.memory.sql.connecting import sqlite_named
from hyrecall.memory.sql.database import DATABASE, Database
from hyrecall.memory.sql.edge_rows import (
    Asker,
    FeedbackRow,
    add_feedback,
    edge_ever,
    edges_in,
    feedback_rows,
    link,
    move_feedback,
)
from hyrecall.memory.sql.fact_rows import FACT_COLUMNS, KIND, as_episode, put_interval, read_fact
from hyrecall.memory.sql.lost_changes import (
    INDEX,
    PARTS,
    Header,
    StaleError,
    last_change,
    read_header,
)
from hyrecall.memory.sql.reading import (
    Embedding,
    ReadPolicy,
    embedding_of,
    episode_by_id,
    insert_row,
    insert_version,
    policies,
    read_policy,
    set_policy,
)
from hyrecall.memory.sql.schema import (
    HAS_EXPIRED,
    HEAD,
    HIGHEST,
    LEFT_EXPIRED,
    LISTED,
    LIVE,
    has_tables,
    set_tables,
    take_sequence,
)
from hyrecall.memory.sql.writing import Written

# ---- The lines of an export: JSON objects, each with one version, edge, agent or piece of feedback
# Whatever names a memory (id, user, partition, visibility) stands beside its content, since a
# tombstone has no content.

FORMAT = 2
"""Of the lines; a file of a higher one is refused."""

_STRICT = ConfigDict(
    frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=starting.is_brief
)
_IDENTITY = {"id", "user_id", "org", "workspace", "visibility"}
_SELDOM = ("expires_at", "author")  # left out where there is none
_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Number = Annotated[int, Field(ge=1, lt=2**63)]
_MOST = 2**52  # of a number that comes in: it has room to grow, and stays exact in JSON


class VersionLine(BaseModel):
    """One version of a memory; ``content`` or ``fact`` is there unless it was deleted."""

    model_config = _STRICT

    id: Name
    user_id: User = None
    org: User = None
    workspace: User = None
    visibility: Visibility = "private"
    table: Label = None
    version: _Number = 1
    status: Status = "live"
    reason: str | None = None
    successor: Label = None
    recorded_at: Time
    content: dict[str, Any] | None = None
    fact: dict[str, Any] | None = None
    embedding: str | None = None
    embedding_model: Name | None = None
    pinned: bool = False
    access_count: _Count = 0
    last_accessed: Time | None = None

    @property
    def cell(self) -> Cell:
        """The cell it lies in."""
        return Cell(self.org, self.workspace, self.user_id, self.visibility, self.table)

    def read_episode(self) -> Episode | None:
        """Check and return the content."""
        if self.content is None:
            return None
        return Episode.model_validate(self._whole(self.content))

    def read_fact(self) -> Fact | None:
        """Check and return the fact."""
        if self.fact is None:
            return None
        return Fact.model_validate(self._whole(self.fact))

    def check_counts(self) -> None:
        """Refuse a version or a count of accesses that leaves no room to grow."""
        for name, value in (("version", self.version), ("access_count", self.access_count)):
            if value > _MOST:
                raise error(OptionError, name, f"at most {_MOST}", value)

    def read_embedding(self) -> tuple[bytes, str] | tuple[None, None]:
        """Check the vector and return its columns."""
        if self.embedding is None or self.embedding_model is None:
            if self.embedding is not self.embedding_model:
                raise error(OptionError, "embedding", "a vector and its model", "one of them")
            return None, None
        try:
            blob = base64.b64decode(self.embedding, validate=True)
        except (binascii.Error, ValueError):
            raise error(OptionError, "embedding", "base64", "something else") from None
        decode_vector(blob)
        return blob, self.embedding_model

    def _whole(self, content: dict[str, Any]) -> dict[str, Any]:
        twice = sorted(_IDENTITY & set(content))
        if twice:
            raise error(OptionError, "content", "no identity: it stands beside it", twice[0])
        if "output" in content:  # Loom's name, which only a constructor takes
            raise error(OptionError, "content", "text", "output")
        return {**content, **self.cell.identity(), "id": self.id}

    @staticmethod
    def content_of(kept: Episode | Fact) -> dict[str, JsonValue]:
        """Return the content of a line: without identity and pin."""
        unsaid = {"created_at", "stored_at", "version", "pinned"}
        if isinstance(kept, Fact) and kept.single:
            unsaid.add("single")
        unsaid |= {name for name in _SELDOM if getattr(kept, name, None) is None}
        return kept.model_dump(mode="json", exclude={*_IDENTITY, *unsaid})


class AgentLine(BaseModel):
    """The read policy of an agent."""

    model_config = _STRICT

    org: User = None
    workspace: User = None
    agent: Name
    policy: str
    policy_group: Label = None


class FeedbackLine(BaseModel):
    """A memory that helped a user with a query; ``owner`` is the user whose memory it is."""

    model_config = _STRICT

    user_id: User = None
    org: User = None
    workspace: User = None
    query: str
    at: Time
    id: Name
    owner: User = None
    visibility: Visibility = "private"
    table: Label = None

    @property
    def cell(self) -> Cell:
        """The cell of the memory."""
        return Cell(self.org, self.workspace, self.owner, self.visibility, self.table)


class ExportLine(BaseModel):
    """One line: exactly one of its fields is there."""

    model_config = _STRICT

    format: _Number | None = None
    version: VersionLine | None = None
    edge: Edge | None = None
    agent: AgentLine | None = None
    feedback: FeedbackLine | None = None

    @property
    def name(self) -> str:
        """What an error calls it."""
        if self.version is not None:
            return self.version.id
        if self.edge is not None:
            return self.edge.id
        if self.feedback is not None:
            return self.feedback.id
        return "" if self.agent is None else self.agent.agent


# ---- Divides a store into tables: another source is another cell, so ids may repeat ----


def divide(connection: apsw.Connection) -> None:
    """Turn a store into one with tables, permanently; existing memories move to their table."""
    if not has_tables(connection):
        set_tables(connection)
        settle(connection)


def settle(connection: apsw.Connection) -> int:
    """Move memories without a table to the table of their source; return how many."""
    # One of which a version is damaged stays where it is.
    if not has_tables(connection):
        return 0
    source = f"iif(f.row IS NULL, v.source, '{FACT_SOURCE}')"
    select = (
        f"SELECT d.cell, d.id, {source} FROM {HEAD} "
        "JOIN cells c ON c.cell = d.cell LEFT JOIN facts f ON f.row = v.row "
        f"WHERE c.source IS NULL AND v.status <> 'deleted' AND {source} IS NOT NULL "
        "ORDER BY d.changed"
    )
    found = list(rows(connection, select))
    n_moved = sum(_move(connection, *one) for one in found)
    if n_moved:  # an index that holds the old rows drops them
        connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'erasures'")
    return n_moved


def cell_of_line(connection: apsw.Connection, line: VersionLine) -> int:
    """Return the cell that an imported version goes to."""
    # A line that names no table belongs to the memory of its id that has moved to one, if any.
    if line.table is None and has_tables(connection):
        select = "SELECT 1 FROM documents WHERE cell = ? AND id = ?"
        for number in find_cells(connection, line.cell):
            if connection.execute(select, (number, line.id)).get:
                return number
    return make_cell(connection, line.cell)


def _move(connection: apsw.Connection, cell: int, key: str, source: str) -> bool:
    home = cells_by_number(connection, [cell]).get(cell)
    select = (
        f"SELECT v.row, v.successor, {CHECKED}, {FACT_COLUMNS} FROM versions v "
        "LEFT JOIN facts f ON f.row = v.row WHERE v.cell = ? AND v.id = ? ORDER BY v.version"
    )
    versions = list(rows(connection, select, (cell, key)))
    if home is None or not all(is_sound(one[2 : 2 + N_CHECKED]) for one in versions):
        return False
    target = make_cell(connection, home._replace(source=source))
    taken = "SELECT 1 FROM documents WHERE cell = ? AND id = ?"
    if connection.execute(taken, (target, key)).get:
        return False
    connection.execute(
        "INSERT INTO documents SELECT ?, id, version, ?, pinned, access_count, last_accessed "
        "FROM documents WHERE cell = ? AND id = ?",
        (target, take_sequence(connection), cell, key),
    )
    for row, successor, *columns in versions:
        _, _, *kept = columns[:N_CHECKED]
        fact = read_fact(home, columns)
        made = insert_row(connection, (target, *kept), successor, embedding_of(connection, row))
        if fact is not None:
            put_interval(connection, Written(target, key, kept[1], made, 0), fact)
    connection.execute("DELETE FROM documents WHERE cell = ? AND id = ?", (cell, key))
    move_feedback(connection, cell, key, target)
    return True


# ---- Writes imported versions, edges, agents and feedback; existing ones stay as they are ----

_KEPT = (
    f"SELECT v.row, v.successor, {CHECKED}, {FACT_COLUMNS} "
    "FROM versions v LEFT JOIN facts f ON f.row = v.row "
    "WHERE v.cell = ? AND v.id = ? AND v.version = ?"
)


def merge_version(connection: apsw.Connection, line: VersionLine) -> bool:
    """Insert a version beside the others of its memory; the highest counts (E39)."""
    line.check_counts()
    fact = line.read_fact()
    episode = line.read_episode() if fact is None else as_episode(fact)
    embedding = line.read_embedding()
    if (episode is None) != (line.status == "deleted") or (line.fact and line.content):
        raise error(OptionError, "content", "content or a fact unless it is deleted", line.status)
    cell = cell_of_line(connection, line)
    if _is_there(connection, cell, line, episode, fact):
        return False
    select = "SELECT version FROM documents WHERE cell = ? AND id = ?"
    head: int = connection.execute(select, (cell, line.id)).get or 0
    if line.version > head:
        _point(connection, cell, line)
    row = _insert(connection, cell, line, episode, embedding)
    if fact is not None:
        put_interval(connection, Written(cell, line.id, line.version, row, 0), fact)
    return True


def merge_edge(connection: apsw.Connection, edge: Edge, now: datetime) -> bool:
    """Insert an edge; return whether it is new. One that was removed here stays removed."""
    cell = find_cell(connection, cell_of(edge))
    known = None if cell is None else edge_ever(connection, cell, edge.id)
    if known is None:
        link(connection, edge, now)
        return True
    if known != edge:
        wish, got = "an id of the store with the same content", f"another {edge.id!r}"
        raise error(KeyConflictError, "id", wish, got)
    return False


def merge_agent(connection: apsw.Connection, line: AgentLine) -> bool:
    """Insert the read policy of an agent; return whether it is new."""
    known = read_policy(connection, line.org, line.workspace, line.agent)
    if known == ReadPolicy(line.policy, line.policy_group):
        return False
    if known is not None:
        raise error(KeyConflictError, "policy", f"that of the roster ({known.policy})", line.policy)
    where = (line.org, line.workspace, line.agent)
    set_policy(connection, *where, line.policy, line.policy_group)
    return True


def merge_feedback(connection: apsw.Connection, line: FeedbackLine) -> bool:
    """Insert a piece of feedback; return whether it is new."""
    query = read_query(line.query)
    homes = find_cells(connection, line.cell)
    for number, home in homes.items():
        is_table = line.table in (None, home.source) or not has_tables(connection)
        if is_table and episode_by_id(connection, number, line.id) is not None:
            asker = line.org, line.workspace, line.user_id
            return bool(add_feedback(connection, asker, query, [(number, line.id)], line.at))
    raise error(NotFoundError, "id", "a memory that is there", repr(line.id))


def _is_there(
    connection: apsw.Connection,
    cell: int,
    line: VersionLine,
    episode: Episode | None,
    fact: Fact | None,
) -> bool:
    """Return whether the store has the version already."""
    found = next(rows(connection, _KEPT, (cell, line.id, line.version)), None)
    if found is None:
        return False
    row, successor, *columns = found
    checked, fact_columns = columns[:N_CHECKED], columns[N_CHECKED:]
    has_fact = any(value is not None for value in fact_columns)
    held = read_fact(line.cell, columns) if has_fact else None
    is_readable = is_sound(checked) and (successor is None or is_text(successor))
    if not is_readable or (has_fact and held is None):
        wish, remedy = "an undamaged row in the store", "forget(id, erase=True), then import it"
        raise error(CorruptStoreError, "id", wish, f"the damaged row {row}", remedy)
    _, _, _, _, status, reason, recorded_at, *content = checked
    state = (line.status, line.reason, line.successor, to_micros(line.recorded_at))
    is_same = (status, reason, successor, recorded_at) == state
    if episode is not None:
        is_same &= tuple(content) == to_columns(episode)
    if fact is not None:
        is_same &= held == fact
    if not is_same:
        wish, got = "an id of the store with the same content", f"another {line.id!r}"
        raise error(KeyConflictError, "id", f"{wish} (version {line.version})", got)
    return True


def _point(connection: apsw.Connection, cell: int, line: VersionLine) -> None:
    connection.execute(
        "INSERT INTO documents (cell, id, version, changed, pinned, access_count, last_accessed) "
        "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (cell, id) DO UPDATE SET "
        "version = excluded.version, changed = excluded.changed, pinned = excluded.pinned, "
        "access_count = excluded.access_count, last_accessed = excluded.last_accessed",
        (
            cell,
            line.id,
            line.version,
            take_sequence(connection),
            line.pinned,
            line.access_count,
            None if line.last_accessed is None else to_micros(line.last_accessed),
        ),
    )


def _insert(
    connection: apsw.Connection,
    cell: int,
    line: VersionLine,
    episode: Episode | None,
    embedding: Embedding,
) -> int:
    content = episode or Episode(id=line.id, occurred_at=line.recorded_at)
    return insert_version(
        connection,
        cell,
        content,
        line.version,
        embedding,
        to_micros(line.recorded_at),
        status=line.status,
        reason=line.reason,
        successor=line.successor,
    )


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


# ---- Rescues rows that a saved index still holds and its database has lost, as lines to import
# An index holds less than the database: the text of a memory as one (not input and text apart), no
# history, no metadata in most layouts, of a fact its sentence and its times, of an edge's ends no
# roles. So it is the last resort after a backup.

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
