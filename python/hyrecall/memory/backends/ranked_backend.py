"""The base of backends that keep episodes elsewhere: arguments checked here, work on a thread.

A backend says how episodes of a user are kept, read and removed. The base awaits that off the event
loop, and ranks what is read by words, unless the backend ranks itself.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any

from hyrecall.base.keywords import check_keywords, same_arguments
from hyrecall.memory.backends.neutral_scores import default_recall_scored
from hyrecall.memory.backends.rank_episodes import check_recall, ranked
from hyrecall.memory.data.fields import check_user
from hyrecall.memory.data.types import Episode, EpisodeMatch
from hyrecall.memory.recall.call import Ask, TimeRange
from hyrecall.memory.sql.selection import check_which

__all__ = ["RankedBackend"]


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

    def _recall(self, user: str | None, ask: Ask) -> list[Episode]:
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

        Raises
        ------
        Exception
            What the backend itself raises.
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

        Raises
        ------
        OptionError, DTypeError
            The argument is named.
        Exception
            What the backend itself raises.
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
            What the backend itself raises.
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
        Exception
            What the backend itself raises.
        """
        return await asyncio.to_thread(self._read, check_user("user_id", user_id))
