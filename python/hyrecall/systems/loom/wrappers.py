"""Wraps a memory, to extract facts or to open it late, and passes its scores through unchanged."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar, cast

from hyrecall.memory import Episode, EpisodeMatch, Fact
from hyrecall.systems.loom.neutral_scores import scored_of

T_ = TypeVar("T_")

Extractor = Callable[[Episode], "Iterable[Fact] | Awaitable[Iterable[Fact]]"]


class AutoExtract:
    """Keeps, beside each episode, the facts that a function finds in it.

    Parameters
    ----------
    inner : object
        With the coroutines ``remember`` and ``remember_fact``, and those to recall with.
    extract : callable
        ``extract(episode) -> facts``, or a coroutine of them. The episode is kept first, so what
        goes wrong here loses a fact and no episode.

    Examples
    --------
    >>> from hyrecall.memory import Memory
    >>> from hyrecall.recipes import loom
    >>> def likes(episode):
    ...     return [Fact(subject="ann", predicate="likes", object=episode.text)]
    >>> async def main() -> list[str]:
    ...     async with Memory.in_memory(recipe=loom, embedder=None) as memory:
    ...         await AutoExtract(memory, likes).remember(Episode(text="tea", user_id="ann"))
    ...         return [one.object for one in await memory.recall_facts("likes", user_id="ann")]
    >>> asyncio.run(main())
    ['tea']
    """

    def __init__(self, inner: Any, extract: Extractor) -> None:
        """Hold the memory and the function."""
        self._inner, self._extract = inner, extract

    async def remember(self, episode: Episode, **options: Any) -> Any:
        """Keep an episode and its facts; facts are the episode's user's.

        Parameters
        ----------
        episode : Episode
        **options
            Of the inner one's ``remember``.

        Returns
        -------
        object
            What the inner one gives for the episode.

        Raises
        ------
        Exception
            What the inner one or ``extract`` raises. What was kept before stays.

        Notes
        -----
        A call of the inner one for the episode, and one for each fact.
        """
        kept = await self._inner.remember(episode, **options)
        for fact in await _awaited(self._extract(episode)):
            owner = {name: getattr(episode, name) for name in _OWNER}
            await self._inner.remember_fact(fact.model_copy(update=owner))
        return kept

    async def recall(self, query: str, **options: Any) -> list[Episode]:
        """Return what the inner memory recalls.

        Parameters
        ----------
        query : str
        **options
            Of the inner one.

        Returns
        -------
        list of Episode
        """
        return cast("list[Episode]", await self._inner.recall(query, **options))

    async def recall_scored(self, query: str, **options: Any) -> list[EpisodeMatch]:
        """Return the inner one's matches, scores and all; with score 1 where it has only recall.

        Parameters
        ----------
        query : str
        **options
            Of the inner one.

        Returns
        -------
        list of EpisodeMatch
        """
        return await scored_of(self._inner, query, options)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the wrapped memory."""
        if name.startswith("__") or name in ("_inner", "_extract"):
            raise AttributeError(name)
        return getattr(self._inner, name)


_OWNER = ("user_id", "org", "workspace", "visibility")


class Lazy:
    """Opens a memory when it is first used, once.

    Parameters
    ----------
    open_it : callable
        ``open_it() -> memory``, or what can be awaited for one: ``lambda: Memory.open(path)``.

    Notes
    -----
    Of one event loop. Where opening fails, the next call tries again.

    Examples
    --------
    >>> from hyrecall.memory import Memory
    >>> from hyrecall.recipes import loom
    >>> async def main() -> list[bool]:
    ...     memory = Lazy(lambda: Memory.in_memory(recipe=loom, embedder=None))
    ...     before = memory.is_open
    ...     await memory.remember("tea")
    ...     after = memory.is_open
    ...     await memory.close()
    ...     return [before, after]
    >>> asyncio.run(main())
    [False, True]
    """

    def __init__(self, open_it: Callable[[], Any]) -> None:
        """Open nothing yet."""
        self._open_it = open_it
        self._lock = asyncio.Lock()
        self._opened: Any = None

    @property
    def is_open(self) -> bool:
        """Whether it was used already."""
        return self._opened is not None

    async def inner(self) -> Any:
        """Return the memory, opened if it was not.

        Returns
        -------
        object

        Raises
        ------
        Exception
            What opening it raises.
        """
        async with self._lock:
            if self._opened is None:
                self._opened = await _awaited(self._open_it())
        return self._opened

    async def remember(self, episode: Episode | str, **options: Any) -> Any:
        """Keep an episode.

        Parameters
        ----------
        episode : Episode or str
        **options
            Of the inner one.

        Returns
        -------
        object
            What the inner one gives
        """
        return await (await self.inner()).remember(episode, **options)

    async def recall(self, query: str, **options: Any) -> list[Episode]:
        """Return what the inner memory recalls.

        Parameters
        ----------
        query : str
        **options
            Of the inner one.

        Returns
        -------
        list of Episode
        """
        return cast("list[Episode]", await (await self.inner()).recall(query, **options))

    async def recall_scored(self, query: str, **options: Any) -> list[EpisodeMatch]:
        """Return the inner one's matches, scores and all; with score 1 where it has only recall.

        Parameters
        ----------
        query : str
        **options
            Of the inner one.

        Returns
        -------
        list of EpisodeMatch
        """
        return await scored_of(await self.inner(), query, options)

    async def forget(self, *args: Any, **options: Any) -> Any:
        """Forget in the inner one.

        Parameters
        ----------
        *args
        **options
            Of the inner one.

        Returns
        -------
        object
            What the inner one gives: how many
        """
        return await (await self.inner()).forget(*args, **options)

    async def close(self) -> None:
        """Close the inner one, if it was opened."""
        if self._opened is not None:
            await _awaited(self._opened.close())


async def _awaited(given: Any) -> Any:
    return await given if inspect.isawaitable(given) else given
