"""Episodes in a collection of Chroma, which embeds and ranks them itself."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from typing import Any

from hyrecall.base.keywords import check_keywords, same_arguments
from hyrecall.memory.backends.ranked import check_recall
from hyrecall.memory.backends.shim import default_recall_scored
from hyrecall.memory.data.fields import ANONYMOUS, check_user
from hyrecall.memory.data.types import Episode, EpisodeMatch
from hyrecall.memory.recall.call import Ask, TimeRange
from hyrecall.memory.sql.codec import to_micros
from hyrecall.memory.sql.selection import check_which

__all__ = ["ChromaMemory"]


@check_keywords
class ChromaMemory:
    """Episodes in a Chroma collection; each recall asks it within the user's own.

    Parameters
    ----------
    collection : object
        A ``chromadb`` collection: ``upsert``, ``query``, ``get``, ``delete``.
    """

    def __init__(self, collection: Any) -> None:
        """Hold the collection."""
        self._collection = collection

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
            What the collection raises.

        Notes
        -----
        One ``upsert``, which embeds the episode there.
        """
        kept = {
            "user": _owner(episode.user_id),
            "kind": episode.kind,
            "at": to_micros(episode.occurred_at),
            "episode": episode.model_dump_json(),
        }
        await asyncio.to_thread(
            self._collection.upsert,
            ids=[_place(episode.user_id, episode.id)],
            documents=[episode.text or " "],
            metadatas=[kept],
        )
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
        """Return a user's episodes, nearest first.

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
            In [0, 1]; checked, and without effect: the collection ranks.

        Returns
        -------
        list of Episode
            At most ``limit``.

        Raises
        ------
        OptionError, DTypeError
            The argument is named.
        PermissionError
            The collection gave an episode of another user.
        Exception
            What the collection raises.

        Notes
        -----
        One ``query``. For a blank one a ``get``, which reads all that the filters leave.
        """
        user = check_user("user_id", user_id)
        ask = check_recall(query, kind=kind, limit=limit, time_range=time_range, alpha=alpha)
        if ask.limit == 0:
            return []
        where = _where(user, ask)
        if ask.is_blank:
            found = await asyncio.to_thread(
                self._collection.get, where=where, include=["metadatas"]
            )
            kept = sorted(found["metadatas"], key=lambda one: one["at"], reverse=True)
        else:
            found = await asyncio.to_thread(
                self._collection.query,
                query_texts=[ask.query],
                n_results=ask.limit,
                where=where,
                include=["metadatas"],
            )
            kept = found["metadatas"][0]
        return [_episode(one, user) for one in kept[: ask.limit]]

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
            What the collection raises.

        Notes
        -----
        A ``get`` of the ids that the user has, and a ``delete``.
        """
        user = check_user("user_id", user_id)
        check_which(user, id, everything=everything)
        where = {"user": _owner(user)}
        found = await asyncio.to_thread(self._collection.get, where=where, include=[])
        ids = [one for one in found["ids"] if id is None or one == _place(user, id)]
        if ids:
            await asyncio.to_thread(self._collection.delete, ids=ids)
        return len(ids)

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
        PermissionError
            The collection gave an episode of another user.
        Exception
            What the collection raises.

        Notes
        -----
        One ``get`` of all of them.
        """
        user = check_user("user_id", user_id)
        found = await asyncio.to_thread(
            self._collection.get, where={"user": _owner(user)}, include=["metadatas"]
        )
        return sorted((_episode(one, user) for one in found["metadatas"]), key=lambda one: one.id)


def _owner(user: str | None) -> str:
    """Return the name of a user where there is no null: nobody may have that of the anonymous."""
    return ANONYMOUS if user is None else user


def _place(user: str | None, key: str) -> str:
    return json.dumps([user, key], ensure_ascii=False)


def _where(user: str | None, ask: Ask) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"user": _owner(user)}]
    if ask.kind is not None:
        parts.append({"kind": ask.kind})
    times: tuple[datetime | None, datetime | None] = ask.time_range or (None, None)
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
