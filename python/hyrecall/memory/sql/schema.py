"""Brings a database to the newest format of a store, and refuses one that is too new."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import apsw

from hyrecall.errors import StoreFormatError, error
from hyrecall.memory.sql.formats import MIGRATIONS, Migration

__all__ = [
    "APPLICATION_ID",
    "FORMAT",
    "MIGRATIONS",
    "Migration",
    "check_format",
    "has_tables",
    "is_empty",
    "meta",
    "migrate",
    "set_tables",
    "show_newest",
    "take_sequence",
]

APPLICATION_ID = 0x48795243  # "HyRC"

_TABLES = 3  # the format that knows them

FORMAT = MIGRATIONS[-1].format
"""The newest format, which this version writes."""


def meta(connection: apsw.Connection, name: str) -> Any:
    """Return a value of the table ``meta``."""
    return connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).get


def has_tables(connection: apsw.Connection) -> bool:
    """Return whether the store has tables: memories of another source lie in another cell."""
    return bool(meta(connection, "tables"))


def set_tables(connection: apsw.Connection) -> None:
    """Turn the store into one with tables; older versions of the program can no longer open it."""
    least = {name: max(meta(connection, name), _TABLES) for name in ("min_reader", "min_writer")}
    facts = {"tables": 1, **least}
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", list(facts.items()))


def take_sequence(connection: apsw.Connection, n: int = 1) -> int:
    """Reserve the next n change numbers inside the transaction and return the first."""
    update = "UPDATE meta SET value = value + ? WHERE name = 'sequence' RETURNING value"
    last: int = connection.execute(update, (n,)).get
    return last - n + 1


def migrate(
    connection: apsw.Connection,
    migrations: tuple[Migration, ...] = MIGRATIONS,
    *,
    now: datetime,
    made_by: str,
) -> bool:
    """Bring a database to the newest format in one transaction; return whether it was older.

    Raises
    ------
    apsw.Error
        From SQLite; the database is then as it was.
    """
    wanted = [one for one in migrations if one.format > _user_version(connection)]
    if not wanted:
        return False
    with connection:  # a transaction
        with _unchecked(connection):
            for one in wanted:
                connection.execute(one.statements)
        facts: dict[str, object] = {
            "store_id": secrets.token_hex(16),
            "made_at": now.isoformat(),
            "made_by": made_by,
            "sequence": 0,
            "erasures": 0,
        }
        connection.executemany("INSERT OR IGNORE INTO meta VALUES (?, ?)", list(facts.items()))
        least = {"min_reader": wanted[-1].min_reader, "min_writer": wanted[-1].min_writer}
        if has_tables(connection):
            least = {name: max(value, _TABLES) for name, value in least.items()}
        connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", list(least.items()))
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", wanted[-1].format)
    return True


@contextmanager
def _unchecked(connection: apsw.Connection) -> Iterator[None]:
    """Let ADD COLUMN skip the check of every row in a STRICT table.

    One damaged row would fail it, and the store could not be opened for writing any more.
    """
    check = (apsw.SQLITE_PRAGMA, "quick_check")  # as which SQLite runs it
    connection.authorizer = lambda action, name, *_: (
        apsw.SQLITE_IGNORE if (action, name) == check else apsw.SQLITE_OK
    )
    try:
        yield
    finally:
        connection.authorizer = None


def show_newest(connection: apsw.Connection) -> None:
    """Make a file of an older format look like the newest one to a connection that only reads."""
    found = _user_version(connection)
    for one in MIGRATIONS:
        if 0 < found < one.format:
            connection.execute(one.before)


def check_format(
    connection: apsw.Connection, path: str, *, writing: bool, known: int = FORMAT
) -> None:
    """Refuse a database that is not a store, or is too new to read or write.

    An empty database is none yet, which is fine for a writer.

    Raises
    ------
    StoreFormatError
        Both formats are named.
    """
    if writing and is_empty(connection):
        return
    found = _user_version(connection)
    if connection.pragma("application_id") != APPLICATION_ID or found < 1:
        raise error(StoreFormatError, path, "a store of hyrecall", "another SQLite database")
    if found <= known:
        return
    least = meta(connection, "min_writer" if writing else "min_reader")
    if least > known:
        verb = "written" if writing else "read"
        wish = f"a format that can be {verb} by one that knows {known}"
        raise error(StoreFormatError, path, wish, f"format {found}, which needs {least}")


def is_empty(connection: apsw.Connection) -> bool:
    """Say whether a database has no tables yet."""
    n_tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    return not n_tables and _user_version(connection) == 0


def _user_version(connection: apsw.Connection) -> int:
    return int(connection.pragma("user_version"))
