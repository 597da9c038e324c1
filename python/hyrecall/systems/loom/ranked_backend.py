"""The base of backends that keep episodes elsewhere: arguments checked here, work on a thread.

A backend says how episodes of a user are kept, read and removed. The base awaits that off the event
loop, and ranks what is read by words, unless the backend ranks itself.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hyrecall.base.arguments import check_keywords, same_arguments
from hyrecall.base.forks import Birth
from hyrecall.errors import OptionError, error
from hyrecall.memory import ANONYMOUS, Episode, EpisodeMatch
from hyrecall.memory.data.types import check_user
from hyrecall.memory.recall.call import RecallArguments, TimeRange
from hyrecall.memory.sql.codec import to_micros
from hyrecall.memory.sql.writing import check_which
from hyrecall.systems.loom.neutral_scores import check_recall, default_recall_scored, ranked

if TYPE_CHECKING:
    import redis


@check_keywords
class RankedBackend(ABC):
    """Keeps episodes of users elsewhere and recalls them; its hooks run on threads."""

    @abstractmethod
    def _keep(self, episode: Episode) -> None:
        """Keep an episode in the place of one with the same id and user."""

    @abstractmethod
    def _read(self, user: str | None) -> list[Episode]:
        """Return all episodes of a user, always in the same order."""

    @abstractmethod
    def _remove(self, user: str | None, key: str | None) -> int:
        """Remove one episode of a user, or all, and return how many there were."""

    def _recall(self, user: str | None, ask: RecallArguments) -> list[Episode]:
        """Return the episodes of a user that a call asks for, best first."""
        return [match.episode for match in ranked(self._read(user), ask)]

    async def remember(self, episode: Episode) -> str:
        """Keep an episode; one of the same id and user is replaced.

        Parameters
        ----------
        episode : Episode

        Returns
        -------
        str
            Its id.
        """
        await asyncio.to_thread(self._keep, episode)
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
            A blank one returns the newest.
        kind : str or None, default "episodic"
            None is any.
        limit : int, default 5
            In [0, 2^31).
        time_range : (datetime or None, datetime or None), optional
            First and last time, both included; naive is UTC.
        user_id : str, optional
            None is the anonymous bucket, never everybody.
        alpha : float, default 0.5
            In [0, 1]; checked, and without effect.

        Returns
        -------
        list of Episode
            At most ``limit``.
        """
        user = check_user("user_id", user_id)
        ask = check_recall(query, kind=kind, limit=limit, time_range=time_range, alpha=alpha)
        return await asyncio.to_thread(self._recall, user, ask)

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
        """
        user = check_user("user_id", user_id)
        check_which(user, id, everything=everything)
        return await asyncio.to_thread(self._remove, user, id)

    async def export(self, *, user_id: str | None = None) -> list[Episode]:
        """Return all episodes of a user.

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
        """
        return await asyncio.to_thread(self._read, check_user("user_id", user_id))


# ---- A backend that keeps episodes in a collection of Chroma, which embeds and ranks them ----


@check_keywords
class ChromaMemory(RankedBackend):
    """Episodes in a Chroma collection; each recall asks it within the user's own.

    Parameters
    ----------
    collection : object
        A ``chromadb`` collection: ``upsert``, ``query``, ``get``, ``delete``.

    Notes
    -----
    ``remember`` is one ``upsert``, which embeds the episode there. A recall is one ``query``, whose
    order is the reply's; for a blank query a ``get``, which reads all that the filters leave.
    ``forget`` is a ``get`` of the ids that the user has, and a ``delete``. A recall or an export
    raises PermissionError where the collection returns an episode of another user.
    """

    def __init__(self, collection: Any) -> None:
        """Hold the collection."""
        self._collection = collection

    def _keep(self, episode: Episode) -> None:
        kept = {
            "user": _owner(episode.user_id),
            "kind": episode.kind,
            "at": to_micros(episode.occurred_at),
            "episode": episode.model_dump_json(),
        }
        self._collection.upsert(
            ids=[_place(episode.user_id, episode.id)],
            documents=[episode.full_text or " "],
            metadatas=[kept],
        )

    def _recall(self, user: str | None, ask: RecallArguments) -> list[Episode]:
        if ask.limit == 0:
            return []
        where = _where(user, ask)
        if ask.is_blank:
            found = self._collection.get(where=where, include=["metadatas"])
            kept = sorted(found["metadatas"], key=lambda one: one["at"], reverse=True)
        else:
            found = self._collection.query(
                query_texts=[ask.query],
                n_results=ask.limit,
                where=where,
                include=["metadatas"],
            )
            kept = found["metadatas"][0]
        return [_episode(one, user) for one in kept[: ask.limit]]

    def _read(self, user: str | None) -> list[Episode]:
        found = self._collection.get(where={"user": _owner(user)}, include=["metadatas"])
        return sorted((_episode(one, user) for one in found["metadatas"]), key=lambda one: one.id)

    def _remove(self, user: str | None, key: str | None) -> int:
        found = self._collection.get(where={"user": _owner(user)}, include=[])
        ids = [one for one in found["ids"] if key is None or one == _place(user, key)]
        if ids:
            self._collection.delete(ids=ids)
        return len(ids)


def _owner(user: str | None) -> str:
    """Return the name of a user where there is no null: nobody may have that of the anonymous."""
    return ANONYMOUS if user is None else user


def _place(user: str | None, key: str) -> str:
    return json.dumps([user, key], ensure_ascii=False)


def _where(user: str | None, ask: RecallArguments) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"user": _owner(user)}]
    if ask.kind is not None:
        parts.append({"kind": ask.kind})
    times = ask.since, ask.until
    for sign, time in zip(("$gte", "$lte"), times, strict=True):
        if time is not None:
            parts.append({"at": {sign: to_micros(time)}})
    return parts[0] if len(parts) == 1 else {"$and": parts}


def _episode(kept: dict[str, Any], user: str | None) -> Episode:
    """Read an episode; one that is another user's, whatever the server says, is refused."""
    episode = Episode.model_validate_json(kept["episode"])
    if episode.user_id != user:
        raise PermissionError("the collection gave an episode of another user")
    return episode


# ---- A backend that keeps episodes in a table of PostgreSQL and ranks them here ----

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


# ---- A backend that keeps episodes in Redis, a hash for each user, and ranks them here ----


@check_keywords
class RedisMemory(RankedBackend):
    """Episodes in a Redis server; each recall reads the user's own and ranks them by words.

    Parameters
    ----------
    client : redis.Redis
        The sync client; calls run off the event loop.
    prefix : str, default "hyrecall:memory"
        Of the keys.

    Notes
    -----
    ``remember`` is one HSET. A recall or an export is one HVALS, which reads all that the user has,
    whatever the limit. ``forget`` is one HDEL; for all an HLEN, and a DELETE after it.
    """

    def __init__(self, client: redis.Redis, *, prefix: str = "hyrecall:memory") -> None:
        """Hold the client."""
        self._client: Any = client
        self._prefix = prefix

    def _keep(self, episode: Episode) -> None:
        self._client.hset(self._key(episode.user_id), episode.id, episode.model_dump_json())

    def _read(self, user: str | None) -> list[Episode]:
        kept = self._client.hvals(self._key(user))
        return sorted(map(Episode.model_validate_json, kept), key=lambda one: one.id)

    def _remove(self, user: str | None, key: str | None) -> int:
        at = self._key(user)
        if key is not None:
            return int(self._client.hdel(at, key))
        n = int(self._client.hlen(at))
        self._client.delete(at)
        return n

    def _key(self, user: str | None) -> str:
        # JSON tells None from "None", and no user's name can end another's.
        return f"{self._prefix}:{json.dumps(user, ensure_ascii=False)}"

    def __repr__(self) -> str:
        """Show the prefix; the client may hold a password."""
        return f"RedisMemory(prefix={self._prefix!r})"
