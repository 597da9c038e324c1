"""A backend that keeps episodes in a table of PostgreSQL and ranks them here."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hyrecall.base.forks import Birth
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import OptionError, error
from hyrecall.memory.backends.ranked_backend import RankedBackend
from hyrecall.memory.data.types import Episode

__all__ = ["PostgresMemory"]

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?")


@check_keywords
class PostgresMemory(RankedBackend):
    """Episodes in a PostgreSQL table; each recall reads the user's own and ranks them by words.

    Parameters
    ----------
    connection : object
        Of psycopg, or any DB-API connection with ``%s`` parameters. Threads must not share it.
    table : str, default "hyrecall_episodes"
        Made if it is not there; ``schema.table`` too.

    Raises
    ------
    OptionError
        A name of a table that SQL would have to quote.

    Notes
    -----
    Each call is one transaction: ``remember`` a DELETE and an INSERT, ``forget`` a DELETE, a recall
    or an export a SELECT of all that the user has, whatever the limit. An export gives the order in
    which episodes were kept.
    """

    def __init__(self, connection: Any, *, table: str = "hyrecall_episodes") -> None:
        """Make the table if it is not there."""
        if not isinstance(table, str) or not _NAME.fullmatch(table):
            raise error(OptionError, "table", "a plain lower-case name", repr(table))
        self._connection, self._table = connection, table
        self._birth = Birth()  # a child that spoke on the connection would disturb its parent
        # Held by the working thread, which goes on even if its caller is cancelled.
        self._lock = threading.Lock()
        self._do(
            f"CREATE TABLE IF NOT EXISTS {table} (owner text, id text NOT NULL, "
            "episode text NOT NULL, written bigserial)"
        )
        index = table.replace(".", "_") + "_identity"
        self._do(
            f"CREATE UNIQUE INDEX IF NOT EXISTS {index} ON {table} "
            "((owner IS NULL), coalesce(owner, ''), id)"
        )

    def _keep(self, episode: Episode) -> None:
        given, kept = (episode.user_id, episode.id), episode.model_dump_json()
        where = "owner IS NOT DISTINCT FROM %s AND id = %s"
        insert = f"INSERT INTO {self._table} (owner, id, episode) VALUES (%s, %s, %s)"
        with self._transaction() as cursor:
            cursor.execute(f"DELETE FROM {self._table} WHERE {where}", given)
            cursor.execute(insert, (*given, kept))

    def _read(self, user: str | None) -> list[Episode]:
        where = "WHERE owner IS NOT DISTINCT FROM %s ORDER BY written"
        rows = self._do(f"SELECT episode FROM {self._table} {where}", (user,))
        return [Episode.model_validate_json(kept) for (kept,) in rows]

    def _remove(self, user: str | None, key: str | None) -> int:
        statement = f"DELETE FROM {self._table} WHERE owner IS NOT DISTINCT FROM %s"
        given: tuple[str | None, ...] = (user,)
        if key is not None:
            statement, given = f"{statement} AND id = %s", (user, key)
        return len(self._do(f"{statement} RETURNING id", given))

    def _do(self, statement: str, given: tuple[str | None, ...] = ()) -> list[tuple[Any, ...]]:
        with self._transaction() as cursor:
            cursor.execute(statement, given)
            return [] if cursor.description is None else list(cursor.fetchall())

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        self._birth.check(self._table)
        with self._lock:
            try:
                with self._connection.cursor() as cursor:
                    yield cursor
                self._connection.commit()
            except BaseException:
                self._connection.rollback()
                raise
