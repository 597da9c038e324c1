"""Episodes in Redis, a hash for each user's partition."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from hyrecall.base.keywords import check_keywords, same_arguments
from hyrecall.memory.backends.ranked import check_recall, ranked
from hyrecall.memory.backends.shim import default_recall_scored
from hyrecall.memory.data.fields import check_user
from hyrecall.memory.data.types import Episode, EpisodeMatch
from hyrecall.memory.recall.call import TimeRange
from hyrecall.memory.sql.selection import check_which

if TYPE_CHECKING:
    import redis

__all__ = ["RedisMemory"]


@check_keywords
class RedisMemory:
    """Episodes in a Redis server; each recall reads the user's own and ranks them by words.

    Parameters
    ----------
    client : redis.Redis
        The sync client; calls run off the event loop.
    prefix : str, default "hyrecall:memory"
        Of the keys.
    """

    def __init__(self, client: redis.Redis, *, prefix: str = "hyrecall:memory") -> None:
        """Hold the client."""
        self._client: Any = client
        self._prefix = prefix

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
            What the client raises.

        Notes
        -----
        One HSET.
        """
        key, name = self._key(episode.user_id), episode.id
        await asyncio.to_thread(self._client.hset, key, name, episode.model_dump_json())
        return name

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
            What the client raises.

        Notes
        -----
        One HVALS: it reads and indexes all that the user has, whatever the limit.
        """
        user = check_user("user_id", user_id)
        ask = check_recall(query, kind=kind, limit=limit, time_range=time_range, alpha=alpha)
        kept = await asyncio.to_thread(self._client.hvals, self._key(user))
        episodes = sorted(map(Episode.model_validate_json, kept), key=lambda one: one.id)
        return [match.episode for match in ranked(episodes, ask)]

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
            What the client raises.

        Notes
        -----
        One HDEL; for all an HLEN, and a DELETE after it.
        """
        user = check_user("user_id", user_id)
        check_which(user, id, everything=everything)
        key = self._key(user)
        if id is not None:
            return int(await asyncio.to_thread(self._client.hdel, key, id))
        n = int(await asyncio.to_thread(self._client.hlen, key))
        await asyncio.to_thread(self._client.delete, key)
        return n

    async def export(self, *, user_id: str | None = None) -> list[Episode]:
        """Return all episodes of a user, by id.

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
            What the client raises.

        Notes
        -----
        One HVALS.
        """
        kept = await asyncio.to_thread(
            self._client.hvals, self._key(check_user("user_id", user_id))
        )
        return sorted(map(Episode.model_validate_json, kept), key=lambda one: one.id)

    def _key(self, user: str | None) -> str:
        # JSON tells None from "None", and no user's name can end another's.
        return f"{self._prefix}:{json.dumps(user, ensure_ascii=False)}"

    def __repr__(self) -> str:
        """Show the prefix; the client may hold a password."""
        return f"RedisMemory(prefix={self._prefix!r})"
