"""Gives scores to a memory that only recalls: 1 for each match, because it has computed none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, cast, overload

from hyrecall.memory.data.types import Episode, EpisodeMatch

__all__ = ["CanRecall", "RecallOnly", "default_recall_scored"]

NEUTRAL = 1.0


class CanRecall(Protocol):
    """An object with the coroutine ``recall(query, **options) -> list[Episode]``."""

    @property
    def recall(self) -> Callable[..., Awaitable[list[Episode]]]:
        """Return episodes, best first."""


@overload
def default_recall_scored(
    memory: Sequence[Episode], *, score: float = ...
) -> list[EpisodeMatch]: ...
@overload
def default_recall_scored(
    memory: CanRecall, query: str, **options: Any
) -> Coroutine[Any, Any, list[EpisodeMatch]]: ...
def default_recall_scored(
    memory: Any, query: str = "", *, score: float = NEUTRAL, **options: Any
) -> list[EpisodeMatch] | Coroutine[Any, Any, list[EpisodeMatch]]:
    """Return what a memory recalls, each with the same score and no components.

    Parameters
    ----------
    memory : sequence of Episode, or a memory
        What was recalled, or what shall recall it: then the call is awaited.
    query : str, default ""
        For a memory.
    score : float, default 1
        Of each.
    **options
        Of the memory's ``recall``.

    Returns
    -------
    list of EpisodeMatch
        In the order of what was recalled, with the same episodes; for a memory, to be awaited.

    Examples
    --------
    >>> matches = default_recall_scored([Episode(output="tea"), Episode(output="milk")], score=0.5)
    >>> [(match.episode.output, match.score, match.bm25_score) for match in matches]
    [('tea', 0.5, None), ('milk', 0.5, None)]
    """
    if isinstance(memory, Sequence):
        return _scored(memory, score)
    return _recalled(memory, query, score, options)


def _scored(episodes: Sequence[Episode], score: float) -> list[EpisodeMatch]:
    # Not validated, which would copy: the episode stays the same object.
    return [EpisodeMatch.model_construct(episode=one, score=score) for one in episodes]


async def _recalled(
    memory: CanRecall, query: str, score: float, options: dict[str, Any]
) -> list[EpisodeMatch]:
    return _scored(await memory.recall(query, **options), score)


class RecallOnly:
    """Adds ``recall_scored`` to a memory that has only ``recall``.

    Parameters
    ----------
    backend : object
        With the coroutine ``recall``; every other attribute is its own.

    Examples
    --------
    >>> import asyncio
    >>> class Fixed:
    ...     async def recall(self, query, **options):
    ...         return [Episode(output="tea")]
    >>> matches = asyncio.run(RecallOnly(Fixed()).recall_scored("anything"))
    >>> [(match.episode.output, match.score) for match in matches]
    [('tea', 1.0)]
    """

    def __init__(self, backend: CanRecall) -> None:
        """Hold it."""
        self._backend = backend

    async def recall(self, query: str, **options: Any) -> list[Episode]:
        """Return what it recalls.

        Parameters
        ----------
        query : str
        **options
            Of the backend.

        Returns
        -------
        list of Episode

        Raises
        ------
        Exception
            What the backend raises.
        """
        return await self._backend.recall(query, **options)

    async def recall_scored(self, query: str, **options: Any) -> list[EpisodeMatch]:
        """Return what it recalls with score 1.

        Parameters
        ----------
        query : str
        **options
            Of the backend.

        Returns
        -------
        list of EpisodeMatch
            The same episodes in the same order, without components.

        Raises
        ------
        Exception
            What the backend raises.
        """
        return await default_recall_scored(self._backend, query, **options)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the wrapped memory."""
        if name.startswith("__") or name == "_backend":
            raise AttributeError(name)
        return getattr(self._backend, name)


async def scored_of(inner: object, query: str, options: dict[str, Any]) -> list[EpisodeMatch]:
    """Return the matches of a memory as it scores them, neutral ones if it does not."""
    scored = getattr(inner, "recall_scored", None)
    if scored is None:
        return await default_recall_scored(cast("CanRecall", inner), query, **options)
    return cast("list[EpisodeMatch]", await scored(query, **options))
