"""Writes imported versions, edges, agents and feedback; existing ones stay as they are."""

from __future__ import annotations

from datetime import datetime

import apsw

from hyrecall.errors import (
    CorruptStoreError,
    KeyConflictError,
    NotFoundError,
    OptionError,
    error,
)
from hyrecall.memory.data.feedback import read_query
from hyrecall.memory.data.types import Edge, Episode, Fact
from hyrecall.memory.faces.export_lines import AgentLine, FeedbackLine, VersionLine
from hyrecall.memory.faces.table_cells import cell_of_line
from hyrecall.memory.sql.cells import cell_of, find_cell, find_cells
from hyrecall.memory.sql.codec import CHECKED, N_CHECKED, is_sound, to_columns, to_micros
from hyrecall.memory.sql.damaged_rows import is_text, rows
from hyrecall.memory.sql.edge_rows import edge_ever, link
from hyrecall.memory.sql.fact_rows import FACT_COLUMNS, as_episode, put_interval, read_fact
from hyrecall.memory.sql.feedback_rows import add_feedback
from hyrecall.memory.sql.read_policies import ReadPolicy, read_policy, set_policy
from hyrecall.memory.sql.reading import episode_by_id
from hyrecall.memory.sql.schema import has_tables, take_sequence
from hyrecall.memory.sql.version_rows import Embedding, insert_version
from hyrecall.memory.sql.writing import Written

__all__ = ["merge_agent", "merge_edge", "merge_feedback", "merge_version"]

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
