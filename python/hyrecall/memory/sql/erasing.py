"""Erases selected documents, so that no byte of them stays in the database's files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import apsw

from hyrecall.errors import CorruptStoreError, OptionError, StoreError, error
from hyrecall.memory.sql.codec import (
    cells_by_number,
    from_micros,
    home_of_edges,
    to_json,
    to_micros,
)
from hyrecall.memory.sql.database import Database
from hyrecall.memory.sql.edge_rows import erase_feedback_by, erase_feedback_on, is_elsewhere
from hyrecall.memory.sql.schema import EXPIRED, LEFT_EXPIRED, LISTED
from hyrecall.memory.sql.writing import Selection, selected

# ---- Remembers the writes of other processes by their ids, so that a retry is not written twice

ID_BYTES = 16

KEPT = timedelta(hours=1)
"""So long a write is known by its id."""

MOST_FORGOTTEN = 1_000
"""Old entries that one transaction deletes."""


def check_write_id(given: object) -> bytes:
    """Check the id of a write."""
    if not isinstance(given, bytes) or len(given) != ID_BYTES:
        raise error(OptionError, "write_id", f"{ID_BYTES} bytes", repr(given))
    return given


def find_reply(connection: apsw.Connection, write_id: bytes) -> tuple[Any] | None:
    """Return the reply to a write that was made, in a tuple; None: it was not made."""
    found = connection.execute("SELECT reply FROM applied WHERE id = ?", (write_id,)).get
    return None if found is None else (_with_tuples(json.loads(found)),)


def keep_reply(connection: apsw.Connection, write_id: bytes, reply: object) -> None:
    """Keep the reply to a write in its own transaction: numbers, None, and tuples of these."""
    insert = "INSERT INTO applied (id, reply, at) VALUES (?, ?, ?)"
    connection.execute(insert, (write_id, json.dumps(reply), to_micros(datetime.now(UTC))))


def forget_old_replies(connection: apsw.Connection) -> None:
    """Delete entries that are older than an hour, at most a thousand of them."""
    old = "SELECT id FROM applied WHERE at < ? ORDER BY at LIMIT ?"
    before = to_micros(datetime.now(UTC) - KEPT)
    connection.execute(f"DELETE FROM applied WHERE id IN ({old})", (before, MOST_FORGOTTEN))


def _with_tuples(value: Any) -> Any:
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


# ---- Finds what has expired ----

_EXPIRING = (  # in terms of the index versions_expiry, which has few rows
    "FROM versions v JOIN documents d USING (cell, id) WHERE v.expires_at IS NOT NULL AND "
    f"((v.version = d.version AND v.status <> 'deleted') OR {LEFT_EXPIRED})"
)


def next_expiry(connection: apsw.Connection) -> datetime | None:
    """Return when the next memory expires, or the last one did that is still there."""
    soonest = f"SELECT v.expires_at {_EXPIRING} ORDER BY v.expires_at LIMIT 1"
    found = connection.execute(soonest).get
    return None if found is None else from_micros(found)


def expired(connection: apsw.Connection) -> list[Selection]:
    """Return what has expired, a selection for each cell; the transaction looks again."""
    select = f"SELECT DISTINCT v.cell {_EXPIRING} AND {EXPIRED}"
    homes = cells_by_number(connection, [cell for (cell,) in connection.execute(select)])
    return [
        Selection((number,), expired=True, owner=(cell.org, cell.workspace, cell.user))
        for number, cell in homes.items()
    ]


# ---- Erases selected documents, so that no byte of them stays in the database's files ----


@dataclass(frozen=True)
class Erased:
    """The result of an erasure."""

    n: int
    wal_truncated: bool


def erase(
    database: Database, selection: Selection, *, write_id: bytes | None = None, wait: float = 5.0
) -> Erased:
    """Remove documents with all their versions and edges, and overwrite where they were."""
    # A cell in which nothing is left goes too, and with it the entry in the roster of an agent that
    # has no other.
    try:
        with database.transaction() as connection:
            n_erased = _delete_once(connection, selection, write_id)
    except CorruptStoreError:
        if not selection.is_whole:
            raise
        # SQLite does not delete a row that differs from its entry in an index: make the indexes
        # anew. Of a whole user it does not matter which of the two is damaged.
        with database.transaction() as connection:
            connection.execute("REINDEX")
            n_erased = _delete_once(connection, selection, write_id)
    try:
        is_emptied = database.checkpoint(wait=wait)
    except StoreError:  # the erasure itself is committed
        is_emptied = False
    return Erased(n_erased, is_emptied)


def _delete_once(connection: apsw.Connection, selection: Selection, write_id: bytes | None) -> int:
    if write_id is None:
        return _delete(connection, selection)
    known = find_reply(connection, write_id)
    if known is not None:
        return int(known[0])
    n_erased = _delete(connection, selection)
    keep_reply(connection, write_id, n_erased)
    forget_old_replies(connection)
    return n_erased


def _delete(connection: apsw.Connection, selection: Selection) -> int:
    before = connection.total_changes()
    cells = to_json(tuple(selection.cells))
    _delete_conversations(connection, selection)
    if selection.is_whole:
        if selection.owner is not None:
            erase_feedback_by(connection, selection.owner)
        n_deleted = _delete_all(connection, cells)
    else:
        n_deleted = _delete_selected(connection, selection, cells)
    _delete_empty_cells(connection, cells)
    if connection.total_changes() != before:
        change = "UPDATE meta SET value = value + 1 WHERE name IN ('erasures', 'sequence')"
        connection.execute(change)
    return n_deleted


def _delete_all(connection: apsw.Connection, cells: str) -> int:
    """Delete every row of cells, also rows that damage has cut off from their document."""
    erase_feedback_on(connection, f"cell IN {LISTED}", cells)
    for table in ("facts", "versions", "participants", "edges"):
        connection.execute(f"DELETE FROM {table} WHERE cell IN {LISTED}", (cells,))
    connection.execute(f"DELETE FROM documents WHERE cell IN {LISTED}", (cells,))
    return connection.changes()


def _delete_selected(connection: apsw.Connection, selection: Selection, cells: str) -> int:
    """Delete documents with their versions, facts and edges; return how many documents."""
    found = selected(connection, selection, deleted_too=True)
    if selection.expired:  # and what is left of memories that are there no more
        old = "SELECT v.row FROM versions v JOIN documents d USING (cell, id) "
        old += f"WHERE v.expires_at IS NOT NULL AND {LEFT_EXPIRED}"
        delete = f"DELETE FROM versions WHERE cell IN {LISTED} AND row IN ({old})"
        connection.execute(delete, (cells,))
    if selection.ids is not None and (selection.session_id, selection.before) == (None, None):
        # Also versions without a document: damage may have changed the document's id.
        found = [(cell, key) for cell in selection.cells for key in selection.ids]
    n_deleted = 0
    for cell, key in found:
        erase_feedback_on(connection, "cell = ? AND id = ?", cell, key)
        n_rows = 0
        for table in ("versions", "documents"):  # facts are deleted with their version
            connection.execute(f"DELETE FROM {table} WHERE cell = ? AND id = ?", (cell, key))
            n_rows += connection.changes()
        if n_rows:  # an edge may name a memory that never was here: it stays
            n_deleted += 1
            home = home_of_edges(connection, cell)
            if home is None or (home != cell and is_elsewhere(connection, home, cell, key)):
                continue
            connection.execute(
                "DELETE FROM edges WHERE cell = ?1 AND id IN "
                "(SELECT edge FROM participants WHERE cell = ?1 AND node = ?2)",
                (home, key),
            )
    connection.execute(
        f"UPDATE versions SET successor = NULL WHERE cell IN {LISTED} AND successor IN {LISTED}",
        (cells, to_json(tuple(key for _, key in found))),
    )
    return n_deleted


def _delete_conversations(connection: apsw.Connection, selection: Selection) -> None:
    """Delete erased memories from conversations, also from other users' that were shown them."""
    if selection.owner is None:
        return
    org, workspace, user = selection.owner
    if selection.is_whole or selection.session_id is not None:
        connection.execute(
            "DELETE FROM sessions WHERE org IS ?1 AND workspace IS ?2 AND user IS ?3 "
            "AND (?4 IS NULL OR name = ?4)",
            (org, workspace, user, selection.session_id),
        )
    found = selected(connection, selection, deleted_too=True)
    homes = cells_by_number(connection, {cell for cell, _ in found})
    for is_shared in (False, True):
        keys = {
            key
            for cell, key in found
            if cell in homes and (homes[cell].visibility == "global") == is_shared
        }
        connection.execute(
            f"DELETE FROM session_ids WHERE id IN {LISTED} AND session IN (SELECT session FROM "
            "sessions WHERE org IS ?2 AND workspace IS ?3 AND (?4 OR user IS ?5))",
            (to_json(tuple(keys)), org, workspace, is_shared, user),
        )


def _delete_empty_cells(connection: apsw.Connection, cells: str) -> None:
    empty = (
        f"DELETE FROM cells WHERE cell IN {LISTED} AND "
        "NOT EXISTS (SELECT 1 FROM documents d WHERE d.cell = cells.cell) AND "
        "NOT EXISTS (SELECT 1 FROM versions v WHERE v.cell = cells.cell) AND "
        "NOT EXISTS (SELECT 1 FROM edges e WHERE e.cell = cells.cell) "
        "RETURNING org, workspace, user"
    )
    for owner in list(connection.execute(empty, (cells,))):
        connection.execute(
            "DELETE FROM roster WHERE org IS ?1 AND workspace IS ?2 AND agent IS ?3 AND "
            "NOT EXISTS (SELECT 1 FROM cells c WHERE c.org IS ?1 AND c.workspace IS ?2 "
            "AND c.user IS ?3)",
            owner,
        )
