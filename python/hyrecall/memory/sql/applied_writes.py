"""Remembers the writes of other processes by their ids, so that a retry is not written twice."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import apsw

from hyrecall.errors import OptionError, error
from hyrecall.memory.sql.codec import to_micros

__all__ = ["KEPT", "check_write_id", "find_reply", "forget_old_replies", "keep_reply"]

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
