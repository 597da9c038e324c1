"""Reads, writes and removes edges between memories of one cell, and told feedback."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

import apsw

from hyrecall.errors import KeyConflictError, error
from hyrecall.memory.data.types import Edge, Participant
from hyrecall.memory.sql.codec import (
    OF_OWNER,
    Cell,
    cell_of,
    cells_by_number,
    checksum,
    find_cell,
    find_cells,
    from_json,
    from_micros,
    home_of_edges,
    is_sound,
    is_text,
    is_time,
    make_cell,
    rows,
    same,
    to_json,
    to_micros,
    warn_of_damage,
)
from hyrecall.memory.sql.schema import HEAD, LISTED, LIVE, take_sequence

_KEPT = "cell, id, relationship, description, metadata"
# The participants as one text, which can be read even if they are damaged.
_ENDS = (
    "(SELECT group_concat(typeof(node) || hex(node) || ' ' || typeof(role) || hex(role), ',' "
    "ORDER BY ordinal) FROM participants p WHERE p.cell = e.cell AND p.edge = e.id)"
)
EDGE_COLUMNS = ", ".join(f"e.{name}" for name in f"checksum, {_KEPT}".split(", ")) + f", {_ENDS}"
"""The checksum of an edge e and all that it covers, as SQL: what :func:`is_sound` takes."""
_EDGE = f"SELECT e.changed, e.status, {EDGE_COLUMNS} FROM edges e"
_BY_ID = f"{_EDGE} WHERE e.cell = ? AND e.id = ?"


class EdgeChange(NamedTuple):
    """An edge that changed; its edge is None if it was removed or is damaged."""

    changed: int
    cell: int
    id: str
    edge: Edge | None


# ---- writing: inside a transaction ----


def link(connection: apsw.Connection, edge: Edge, now: datetime) -> int:
    """Insert an edge into its cell and return its change number."""
    # Its participants may come later, or be gone: who follows the graph passes over such an edge.
    cell = make_cell(connection, cell_of(edge))
    status = connection.execute(
        "SELECT status FROM edges WHERE cell = ? AND id = ?", (cell, edge.id)
    ).get
    if status == "live":
        raise error(KeyConflictError, "id", "an edge that is not there yet", repr(edge.id))
    changed = take_sequence(connection)
    connection.execute(
        "INSERT OR REPLACE INTO edges (cell, id, changed, status, recorded_at, relationship, "
        "description, metadata) VALUES (?, ?, ?, 'live', ?, ?, ?, ?)",
        (
            cell,
            edge.id,
            changed,
            to_micros(now),
            edge.relationship,
            edge.description,
            to_json(edge.metadata),
        ),
    )
    connection.executemany(
        "INSERT INTO participants (cell, edge, ordinal, node, role) VALUES (?, ?, ?, ?, ?)",
        [
            (cell, edge.id, ordinal, end.id, end.role)
            for ordinal, end in enumerate(edge.participants)
        ],
    )
    _, _, _, *kept = connection.execute(_BY_ID, (cell, edge.id)).get
    seal = "UPDATE edges SET checksum = ? WHERE cell = ? AND id = ?"
    connection.execute(seal, (checksum(*kept), cell, edge.id))
    return changed


def unlink(
    connection: apsw.Connection, cell: Cell, key: str, reason: str | None, now: datetime
) -> bool:
    """Remove an edge; return whether it was there."""
    number = find_cell(connection, cell)
    return number is not None and bool(_delete(connection, number, [key], reason, now))


def unlink_incident(
    connection: apsw.Connection,
    cell: int,
    nodes: Iterable[str],
    reason: str | None,
    now: datetime,
) -> int:
    """Remove the edges of a cell that have one of the nodes; return how many."""
    # Where memories lie in tables, a node is an id in any of them: it is there as long as one is.
    home = home_of_edges(connection, cell)
    if home is None:
        return 0
    if home != cell:
        nodes = [key for key in nodes if not is_elsewhere(connection, home, cell, key)]
    cell = home
    select = (
        "SELECT DISTINCT e.id FROM participants p JOIN edges e ON e.cell = p.cell "
        f"AND e.id = p.edge WHERE p.cell = ? AND p.node IN {LISTED} AND e.status = 'live' "
        "ORDER BY e.changed"
    )
    keys = [key for (key,) in connection.execute(select, (cell, to_json(tuple(nodes))))]
    return _delete(connection, cell, keys, reason, now)


def is_elsewhere(connection: apsw.Connection, home: int, cell: int, key: str) -> bool:
    """Return whether another table of the same user has a live memory of that id."""
    (one,) = cells_by_number(connection, [home]).values()
    others = set(find_cells(connection, one)) - {cell}
    select = (
        f"SELECT EXISTS (SELECT 1 FROM {HEAD} "
        f"WHERE d.cell IN {LISTED} AND d.id = ? AND v.status = 'live')"
    )
    return bool(connection.execute(select, (to_json(tuple(others)), key)).get)


def unlink_all(
    connection: apsw.Connection, cells: Collection[int], reason: str | None, now: datetime
) -> int:
    """Remove every edge of cells; return how many."""
    select = "SELECT id FROM edges WHERE cell = ? AND status = 'live' ORDER BY changed"
    return sum(
        _delete(
            connection, cell, [key for (key,) in connection.execute(select, (cell,))], reason, now
        )
        for cell in cells
    )


def _delete(
    connection: apsw.Connection,
    cell: int,
    keys: Sequence[str],
    reason: str | None,
    now: datetime,
) -> int:
    n_deleted = 0
    for key in keys:
        connection.execute(
            "UPDATE edges SET status = 'deleted', reason = ?, recorded_at = ? "
            "WHERE cell = ? AND id = ? AND status = 'live'",
            (reason, to_micros(now), cell, key),
        )
        if connection.changes():
            n_deleted += 1
            connection.execute(
                "UPDATE edges SET changed = ? WHERE cell = ? AND id = ?",
                (take_sequence(connection), cell, key),
            )
    return n_deleted


# ---- reading ----


def edge_ever(connection: apsw.Connection, cell: int, key: str) -> Edge | None:
    """Return the edge of an id in a cell, also if it was removed."""
    found = _read(connection, _BY_ID, (cell, key), deleted_too=True)
    return found[0].edge if found else None


def edges_in(connection: apsw.Connection, cells: Collection[int]) -> list[Edge]:
    """Return the edges of cells, in the order they were put there."""
    given = (to_json(tuple(cells)),)
    return _live(_read(connection, f"{_EDGE} WHERE e.cell IN {LISTED} ORDER BY e.changed", given))


def incident(connection: apsw.Connection, cells: Collection[int], node: str) -> list[Edge]:
    """Return the edges of cells in which a node takes part, in the order they were put there."""
    select = (
        f"{_EDGE} WHERE e.cell IN {LISTED} AND EXISTS (SELECT 1 FROM participants p "
        "WHERE p.cell = e.cell AND p.edge = e.id AND p.node = ?) ORDER BY e.changed"
    )
    return _live(_read(connection, select, (to_json(tuple(cells)), node)))


def edges_between(connection: apsw.Connection, nodes: Collection[tuple[int, str]]) -> list[Edge]:
    """Return the edges with two or more ends among nodes of the cells, in insertion order."""
    select = (
        f"{_EDGE} WHERE (e.cell, e.id) IN (SELECT p.cell, p.edge FROM json_each(?) n "
        "CROSS JOIN participants p ON p.cell = n.value ->> 0 AND p.node = n.value ->> 1 "
        "GROUP BY p.cell, p.edge HAVING count(DISTINCT p.node) > 1) ORDER BY e.changed"
    )
    return _live(_read(connection, select, (to_json([list(node) for node in nodes]),)))


def _live(found: Iterable[EdgeChange]) -> list[Edge]:
    return [one.edge for one in found if one.edge is not None]


def _read(
    connection: apsw.Connection, select: str, given: tuple[Any, ...], *, deleted_too: bool = False
) -> list[EdgeChange]:
    found = list(rows(connection, select, given))
    homes = cells_by_number(connection, {row[3] for row in found})
    ends = "SELECT node, role FROM participants WHERE cell = ? AND edge = ? ORDER BY ordinal"
    read, n_bad = [], 0
    for changed, status, *columns in found:
        _, cell, key, relationship, description, metadata, _ = columns
        edge = None
        is_wanted = status == "live" or deleted_too
        if is_wanted and (cell not in homes or not is_sound(columns)):
            n_bad += 1
        elif is_wanted:
            edge = Edge.model_construct(
                **homes[cell].identity(),
                id=key,
                participants=tuple(
                    Participant.model_construct(id=node, role=role)
                    for node, role in connection.execute(ends, (cell, key))
                ),
                relationship=relationship,
                description=description,
                metadata=from_json(metadata),
            )
        read.append(EdgeChange(changed, cell, key, edge))
    warn_of_damage(n_bad)
    return read


# ---- Rows that say which memories helped with a query, by whoever asked it ----
# The asker is an (org, workspace, user). A query and a memory make one row, however often they
# come. A row goes when its memory is forgotten; an erasure takes every row of a query that names
# what it erases, because the query's text may tell of it.

Asker: TypeAlias = tuple[str | None, str | None, str | None]
"""Org, workspace and user of whoever asked."""

FEEDBACK_COLUMNS = "b.checksum, b.org, b.workspace, b.user, b.query, b.cell, b.id, b.at"
"""What :func:`is_sound_feedback` takes, of a row b."""

_SAME_ASKER = " AND ".join(same(f"b.{one}", f"a.{one}") for one in ("org", "workspace", "user"))
_LIVE = f"EXISTS (SELECT 1 FROM {HEAD} WHERE d.cell = b.cell AND d.id = b.id AND {LIVE})"


class FeedbackRow(NamedTuple):
    """A memory that helped with a query: its cell and id, and when that was last said."""

    asker: Asker
    query: str
    cell: int
    id: str
    at: datetime


def add_feedback(
    connection: apsw.Connection,
    asker: Asker,
    query: str,
    used: Iterable[tuple[int, str]],
    at: datetime,
) -> int:
    """Keep that memories, by cell and id, helped with a query; return how many are new for it."""
    # What was there before gets the later of both times, and is whole again where it was damaged.
    known = f"SELECT b.row, {FEEDBACK_COLUMNS} FROM feedback b WHERE {OF_OWNER} "
    known += "AND b.query = ?4 AND b.cell = ?5 AND b.id = ?6"
    insert = (
        "INSERT OR REPLACE INTO feedback "
        "(row, org, workspace, user, query, cell, id, at, checksum) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    )
    n_new = 0
    for cell, key in used:
        kept, time = (*asker, query, cell, key), to_micros(at)
        row, *columns = next(rows(connection, known, kept), (None,))
        if row is None:
            n_new += 1
        elif is_sound_feedback(columns):
            time = max(time, columns[-1])
        connection.execute(insert, (row, *kept, time, checksum(*kept, time)))
    return n_new


def feedback_rows(
    connection: apsw.Connection, cells: Collection[int], asker: Asker | None = None
) -> list[FeedbackRow]:
    """Return what helped an asker, oldest first: live memories of the cells only. An export asks
    for everybody's.
    """
    # A warning tells how many damaged rows were left out.
    listed = "b.cell IN (SELECT value FROM json_each(?4))"
    which = listed if asker is None else f"{OF_OWNER} AND {listed}"
    select = f"SELECT {FEEDBACK_COLUMNS} FROM feedback b WHERE {which} AND {_LIVE} ORDER BY b.row"
    given = (*(asker or (None, None, None)), to_json(tuple(cells)))
    found, n_damaged = [], 0
    for row in rows(connection, select, given):
        _, org, workspace, user, query, cell, key, at = row
        # SQLite does not compare the row with the terms that the index has satisfied.
        is_asked = asker in (None, (org, workspace, user)) and cell in cells
        if is_asked and is_sound_feedback(row):
            found.append(FeedbackRow((org, workspace, user), query, cell, key, from_micros(at)))
        else:
            n_damaged += 1
    warn_of_damage(n_damaged)
    return found


def is_sound_feedback(columns: Sequence[Any]) -> bool:
    """Return whether a row is undamaged."""
    found, *kept = columns
    *names, query, cell, key, at = kept
    if not is_text(query, key, *(name for name in names if name is not None)):
        return False
    return isinstance(cell, int) and is_time(at) and checksum(*kept) == found


def forget_feedback_on(connection: apsw.Connection, cell: int, key: str) -> None:
    """Delete the rows of a memory that is out of recall."""
    connection.execute("DELETE FROM feedback WHERE cell = ? AND id = ?", (cell, key))


def move_feedback(connection: apsw.Connection, cell: int, key: str, target: int) -> None:
    """Let the rows of a memory follow it to another cell; a damaged one is deleted."""
    select = f"SELECT b.row, {FEEDBACK_COLUMNS} FROM feedback b WHERE cell = ? AND id = ?"
    for row, *columns in list(rows(connection, select, (cell, key))):
        _, *asker, query, _, _, at = columns
        if is_sound_feedback(columns):
            kept = (*asker, query, target, key, at)
            connection.execute(
                "UPDATE feedback SET cell = ?, checksum = ? WHERE row = ?",
                (target, checksum(*kept), row),
            )
        else:
            connection.execute("DELETE FROM feedback WHERE row = ?", (row,))


def erase_feedback_on(connection: apsw.Connection, which: str, *given: Any) -> None:
    """Delete every row of the queries, whoever asked them, of which a row is selected."""
    same = (
        f"SELECT b.row FROM (SELECT * FROM feedback WHERE {which}) a "
        f"JOIN feedback b ON {_SAME_ASKER} AND b.query = a.query"
    )
    connection.execute(f"DELETE FROM feedback WHERE row IN ({same})", given)


def erase_feedback_by(connection: apsw.Connection, asker: Asker) -> None:
    """Delete all that an asker said."""
    connection.execute(f"DELETE FROM feedback WHERE {OF_OWNER}", asker)
