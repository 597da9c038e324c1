"""Rows that say which memories helped with a query, by whoever asked it.

The asker is an (org, workspace, user). A query and a memory make one row, however often they come.
A row goes when its memory is forgotten; an erasure takes every row of a query that names what it
erases, because the query's text may tell of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

import apsw

from hyrecall.memory.sql.codec import (
    checksum,
    from_micros,
    is_text,
    is_time,
    rows,
    to_json,
    to_micros,
    warn_of_damage,
)

Asker: TypeAlias = tuple[str | None, str | None, str | None]
"""Org, workspace and user of whoever asked."""

FEEDBACK_COLUMNS = "b.checksum, b.org, b.workspace, b.user, b.query, b.cell, b.id, b.at"
"""What :func:`is_sound_feedback` takes, of a row b."""

_OF_ASKER = " AND ".join(  # the terms of the index feedback_identity, so that SQLite uses it
    f"ifnull({name}, '') = ifnull(?{at}, '') AND ({name} IS NULL) = (?{at} IS NULL)"
    for at, name in enumerate(("org", "workspace", "user"), start=1)
)
_SAME_ASKER = " AND ".join(
    f"ifnull(b.{name}, '') = ifnull(a.{name}, '') AND (b.{name} IS NULL) = (a.{name} IS NULL)"
    for name in ("org", "workspace", "user")
)
_LIVE = (
    "EXISTS (SELECT 1 FROM documents d JOIN versions v USING (cell, id, version) "
    "WHERE d.cell = b.cell AND d.id = b.id AND v.status = 'live')"
)


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
    known = f"SELECT b.row, {FEEDBACK_COLUMNS} FROM feedback b WHERE {_OF_ASKER} "
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


def feedback_by(
    connection: apsw.Connection, asker: Asker, cells: Collection[int]
) -> list[FeedbackRow]:
    """Return what helped an asker, oldest first: live memories of the cells only."""
    # A warning tells how many damaged rows were left out.
    return _found(connection, cells, asker)


def feedback_on(connection: apsw.Connection, cells: Collection[int]) -> list[FeedbackRow]:
    """Return what helped anybody, oldest first, of the live memories of cells: for an export."""
    # A warning tells how many damaged rows were left out.
    return _found(connection, cells, None)


def _found(
    connection: apsw.Connection, cells: Collection[int], asker: Asker | None
) -> list[FeedbackRow]:
    """Return the undamaged rows of live memories, of one asker or of all."""
    listed = "b.cell IN (SELECT value FROM json_each(?4))"
    which = listed if asker is None else f"{_OF_ASKER} AND {listed}"
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
    connection.execute(f"DELETE FROM feedback WHERE {_OF_ASKER}", asker)
