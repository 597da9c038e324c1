"""Writes imported versions, edges, agents and feedback; existing ones stay as they are."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Annotated, Any

import apsw
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from hyrecall.base import lazily
from hyrecall.errors import CorruptStoreError, KeyConflictError, NotFoundError, OptionError, error
from hyrecall.memory.data.types import (
    Edge,
    Episode,
    Fact,
    Label,
    Name,
    Status,
    Time,
    User,
    Visibility,
    read_query,
)
from hyrecall.memory.sql.codec import (
    CHECKED,
    FACT_SOURCE,
    N_CHECKED,
    Cell,
    cell_of,
    cells_by_number,
    decode_vector,
    find_cell,
    find_cells,
    is_sound,
    is_text,
    make_cell,
    rows,
    to_columns,
    to_micros,
)
from hyrecall.memory.sql.edge_rows import add_feedback, edge_ever, link, move_feedback
from hyrecall.memory.sql.fact_rows import FACT_COLUMNS, as_episode, put_interval, read_fact
from hyrecall.memory.sql.reading import (
    Embedding,
    ReadPolicy,
    embedding_of,
    episode_by_id,
    insert_row,
    insert_version,
    read_policy,
    set_policy,
)
from hyrecall.memory.sql.schema import has_tables, set_tables, take_sequence
from hyrecall.memory.sql.writing import Written

# ---- The lines of an export: JSON objects, each with one version, edge, agent or piece of feedback
# Whatever names a memory (id, user, partition, visibility) stands beside its content, since a
# tombstone has no content.

FORMAT = 2
"""Of the lines; a file of a higher one is refused."""

_STRICT = ConfigDict(
    frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=lazily.is_brief
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
        f"SELECT d.cell, d.id, {source} FROM documents d JOIN versions v USING (cell, id, version) "
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
