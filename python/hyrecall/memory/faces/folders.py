"""Lists the folders of a browsed store: kinds, users, sessions, subjects, linked ids."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import apsw

from hyrecall.memory.sql.cells import cells_by_number
from hyrecall.memory.sql.codec import to_json
from hyrecall.memory.sql.damaged_rows import is_text, rows

__all__ = ["kinds", "linked", "rows_about", "sessions", "sharers", "subjects"]

_LISTED = "(SELECT value FROM json_each(?))"
_LIVE = (
    "documents d JOIN versions v USING (cell, id, version) "
    f"WHERE d.cell IN {_LISTED} AND v.status = 'live'"
)


def kinds(connection: apsw.Connection, cells: Collection[int], limit: int) -> list[str]:
    """Return the kinds of live memories, by name."""
    select = f"SELECT DISTINCT v.kind FROM {_LIVE} ORDER BY 1 LIMIT ?"
    return _column(connection, select, cells, limit)


def sharers(connection: apsw.Connection, cells: Collection[int]) -> list[str | None]:
    """Return the users whose cells have live memories, sorted so that the order tells nothing."""
    select = f"SELECT DISTINCT d.cell FROM {_LIVE}"
    numbers = [row[0] for row in connection.execute(select, (to_json(tuple(cells)),))]
    users = {cell.user for cell in cells_by_number(connection, numbers).values()}
    return sorted(users, key=lambda user: (user is not None, user or ""))


def sessions(connection: apsw.Connection, cells: Collection[int], limit: int) -> list[str]:
    """Return the sessions, the one with the newest memory first."""
    select = (
        f"SELECT v.session_id FROM {_LIVE} AND v.session_id IS NOT NULL "
        "GROUP BY v.session_id ORDER BY max(v.occurred_at) DESC, 1 LIMIT ?"
    )
    return _column(connection, select, cells, limit)


def subjects(connection: apsw.Connection, cells: Collection[int], limit: int) -> list[str]:
    """Return the subjects of facts, by name."""
    select = (
        "SELECT DISTINCT f.subject FROM facts f JOIN versions v USING (row) "
        "JOIN documents d ON d.cell = v.cell AND d.id = v.id AND d.version = v.version "
        f"WHERE d.cell IN {_LISTED} AND v.status = 'live' ORDER BY 1 LIMIT ?"
    )
    return _column(connection, select, cells, limit)


def rows_about(
    connection: apsw.Connection, cells: Collection[int], subject: str
) -> list[tuple[int, str]]:
    """Return row and id of the facts about a subject, newest first."""
    select = (
        "SELECT v.row, v.id FROM facts f JOIN versions v USING (row) "
        "JOIN documents d ON d.cell = v.cell AND d.id = v.id AND d.version = v.version "
        f"WHERE d.cell IN {_LISTED} AND v.status = 'live' AND f.subject = ? "
        "ORDER BY v.occurred_at DESC, v.row DESC"
    )
    found = rows(connection, select, (to_json(tuple(cells)), subject))
    return [(row, key) for row, key in found]


def linked(connection: apsw.Connection, cells: Collection[int], limit: int) -> list[str]:
    """Return the ids that take part in edges, by name."""
    select = (
        "SELECT DISTINCT p.node FROM edges e JOIN participants p ON p.cell = e.cell "
        f"AND p.edge = e.id WHERE e.cell IN {_LISTED} AND e.status = 'live' ORDER BY 1 LIMIT ?"
    )
    return _column(connection, select, cells, limit)


def _column(
    connection: apsw.Connection, select: str, cells: Collection[int], limit: int
) -> list[Any]:
    found = rows(connection, select, (to_json(tuple(cells)), limit))
    return [name for (name,) in found if is_text(name)]
