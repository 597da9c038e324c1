"""Episodes in a table of PostgreSQL, ranked here: with the ids of a store."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hyrecall.base.keywords import check_keywords, same_arguments
from hyrecall.errors import OptionError, error
from hyrecall.memory.backends.ranked import check_recall, ranked
from hyrecall.memory.backends.shim import default_recall_scored
from hyrecall.memory.data.fields import check_user
from hyrecall.memory.data.types import Episode, EpisodeMatch
from hyrecall.memory.recall.call import TimeRange
from hyrecall.memory.sql.selection import check_which

__all__ = ["PostgresMemory"]

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?")


@check_keywords
class PostgresMemory:
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
    """

    def __init__(self, connection: Any, *, table: str = "hyrecall_episodes") -> None:
        """Make the table if it is not there."""
        if not isinstance(table, str) or not _NAME.fullmatch(table):
            raise error(OptionError, "table", "a plain lower-case name", repr(table))
        self._connection, self._table = connection, table
        # Held by the thread that is at work: one whose caller was cancelled works on.
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

    async def remember(self, episode: Episode) -> str:
        """Keep an episode; one of the same id and user is replaced.

        Parameters
        ----------
        episode : Episode

        Returns
        -------
        str
            Its id.

        Raises
        ------
        Exception
            What the connection raises.

        Notes
        -----
        A DELETE and an INSERT, in one transaction.
        """
        given = (episode.user_id, episode.id)
        await asyncio.to_thread(self._replace, given, episode.model_dump_json())
        return episode.id

    async def recall(
        self,
        query: str,
        *,
        kind: str | None = "episodic",
        limit: int = 5,
        time_range: TimeRange | None = None,
        user_id: str | None = None,
        alpha: float = 0.5,
    ) -> list[Episode]:
        """Return a user's episodes, best first.

        Parameters
        ----------
        query : str
            Blank gives the newest.
        kind : str or None, default "episodic"
            None is any.
        limit : int, default 5
            In [0, 2^31).
        time_range : (datetime or None, datetime or None), optional
            First and last time, both included; naive is UTC.
        user_id : str, optional
            None is the anonymous bucket, never everybody.
        alpha : float, default 0.5
            In [0, 1]; checked, and without effect: words rank.

        Returns
        -------
        list of Episode
            At most ``limit``.

        Raises
        ------
        OptionError, DTypeError
            The argument is named.
        Exception
            What the connection raises.

        Notes
        -----
        It reads and indexes all that the user has, whatever the limit.
        """
        ask = check_recall(query, kind=kind, limit=limit, time_range=time_range, alpha=alpha)
        return [match.episode for match in ranked(await self.export(user_id=user_id), ask)]

    @same_arguments(recall)
    async def recall_scored(self, query: str, **options: Any) -> list[EpisodeMatch]:
        """Return what :meth:`recall` gives, with score 1 each.

        Parameters
        ----------
        query, kind, limit, time_range, user_id, alpha
            As of :meth:`recall`, and so are the errors.

        Returns
        -------
        list of EpisodeMatch
            No component was computed: each is None.

        Raises
        ------
        OptionError, DTypeError
            The argument is named.
        """
        return await default_recall_scored(self, query, **options)

    async def forget(
        self,
        id: str | None = None,  # noqa: A002
        *,
        user_id: str | None = None,
        everything: bool = False,
    ) -> int:
        """Remove one episode of a user, or all.

        Parameters
        ----------
        id : str, optional
        user_id : str, optional
            None is the anonymous bucket.
        everything : bool, default False
            All that a named user has; not beside an id.

        Returns
        -------
        int
            How many there were.

        Raises
        ------
        OptionError, DTypeError
            A user that cannot be one, or nothing says which episodes are meant.
        Exception
            What the connection raises.

        Notes
        -----
        One DELETE, in one transaction.
        """
        user = check_user("user_id", user_id)
        check_which(user, id, everything=everything)
        statement = f"DELETE FROM {self._table} WHERE owner IS NOT DISTINCT FROM %s"
        given: tuple[str | None, ...] = (user,)
        if id is not None:
            statement, given = f"{statement} AND id = %s", (user, id)
        return len(await asyncio.to_thread(self._do, f"{statement} RETURNING id", given))

    async def export(self, *, user_id: str | None = None) -> list[Episode]:
        """Return all episodes of a user, in the order they were kept.

        Parameters
        ----------
        user_id : str, optional
            None is the anonymous bucket.

        Returns
        -------
        list of Episode

        Raises
        ------
        OptionError, DTypeError
            A user that cannot be one.
        Exception
            What the connection raises.

        Notes
        -----
        One SELECT of all of them.
        """
        user = check_user("user_id", user_id)
        select = (
            f"SELECT episode FROM {self._table} "
            "WHERE owner IS NOT DISTINCT FROM %s ORDER BY written"
        )
        rows = await asyncio.to_thread(self._do, select, (user,))
        return [Episode.model_validate_json(kept) for (kept,) in rows]

    def _replace(self, given: tuple[str | None, str], kept: str) -> None:
        where = "owner IS NOT DISTINCT FROM %s AND id = %s"
        insert = f"INSERT INTO {self._table} (owner, id, episode) VALUES (%s, %s, %s)"
        with self._transaction() as cursor:
            cursor.execute(f"DELETE FROM {self._table} WHERE {where}", given)
            cursor.execute(insert, (*given, kept))

    def _do(self, statement: str, given: tuple[str | None, ...] = ()) -> list[tuple[Any, ...]]:
        with self._transaction() as cursor:
            cursor.execute(statement, given)
            return [] if cursor.description is None else list(cursor.fetchall())

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        with self._lock:
            try:
                with self._connection.cursor() as cursor:
                    yield cursor
                self._connection.commit()
            except BaseException:
                self._connection.rollback()
                raise
