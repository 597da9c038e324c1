"""Gives scores to a memory that only recalls: 1 for each match, because it has computed none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, cast, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import Index, Schema, Text
from hyrecall.memory import Episode, EpisodeMatch
from hyrecall.memory.derived.layout import Layout, layout_of
from hyrecall.memory.recall.audience import AskedBy
from hyrecall.memory.recall.call import (
    RecallArguments,
    TimeRange,
    read_ask,
    read_range,
    read_text,
)
from hyrecall.recipes import loom

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
    >>> matches = default_recall_scored([Episode(text="tea"), Episode(text="milk")], score=0.5)
    >>> [(match.episode.text, match.score, match.bm25_score) for match in matches]
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
    ...         return [Episode(text="tea")]
    >>> matches = asyncio.run(RecallOnly(Fixed()).recall_scored("anything"))
    >>> [(match.episode.text, match.score) for match in matches]
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


# ---- Ranks episodes of one partition as a store of ``recipes.loom`` does, without a kept index

_TIME = pa.timestamp("us", "UTC")
_TEXT = pa.large_string()

Rows = npt.NDArray[np.float32]


def check_recall(
    query: object,
    *,
    kind: str | None = "episodic",
    limit: int = 5,
    time_range: TimeRange | None = None,
    alpha: float = 0.5,
    vector: object = None,
) -> RecallArguments:
    """Check the arguments of ``recall``, as a store does."""
    since, until = read_range("time_range", time_range)
    return read_ask(
        read_text("query", query), AskedBy(), loom, kind=kind, limit=limit, since=since,
        until=until, alpha=alpha, vector=vector, deepen=True,
    )  # fmt: skip


def ranked(
    episodes: Sequence[Episode], ask: RecallArguments, vectors: Rows | None = None
) -> list[EpisodeMatch]:
    """Rank the episodes of one partition, which all may be seen."""
    if not episodes:
        return []
    layout: Layout = layout_of(loom)
    names = {"id": _TEXT, "input": _TEXT, "output": _TEXT, "kind": _TEXT, "occurred_at": _TIME}
    columns = {
        name: pa.array([getattr(one, name) for one in episodes], kind)
        for name, kind in names.items()
    }
    # Ids may repeat, so the key is the place in the list.
    columns["place"] = pa.array(range(len(episodes)), pa.int64())
    columns["tags"] = pa.array([list(one.tags) for one in episodes], pa.list_(_TEXT))
    schema = Schema(
        key="place",
        cell=None,
        text={"text": Text(*layout.texts)},
        vector="embedding" if vectors is not None else (),
        attributes=("id", "kind", "occurred_at", "tags"),
        stored=(),
    )
    index = Index.build(
        pa.table(columns),
        schema,
        vectors=None if vectors is None else {"embedding": vectors},
        analyzer=layout.analyzer,
        device="cpu",
        threads=1,
    )
    asks_vectors = vectors is not None and ask.vector is not None and ask.uses_vector
    asks_words = vectors is not None and ask.recipe.has_words_alone
    hits = index.recall(
        text=[ask.query],
        vectors=[ask.vector] if asks_vectors else None,
        filter=ask.filter,
        limit=ask.limit,
        offset=ask.offset,
        recipe=ask.recipe if asks_vectors or asks_words else ask.by_words,
    )
    return [
        EpisodeMatch(
            episode=episodes[row["key"]],
            score=row["score"],
            vector_score=row.get("embedding_score"),
            bm25_score=row["text_score"],
            is_fill=row.get("origin") == "fill",
            is_exact=hit.is_exact,
        )
        for row, hit in zip(hits.to_arrow().to_pylist(), hits[0], strict=True)
    ]
