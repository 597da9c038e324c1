"""How a store of LangGraph embeds: its ``IndexConfig`` as an embedder, queries in bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from langgraph.store import base

from hyrecall.embed import AUTO, Guard, NoVectors, from_async
from hyrecall.errors import OptionError, error

__all__ = ["EmbedQuery", "QueryVectors", "read_embedder"]

QUERY_TIMEOUT = 1.5
"""Seconds that a search waits for ``embed_query``, as a store waits for its embedder."""

EmbedQuery = Callable[[str], Sequence[float]]


class _Embedder:
    """Embeds texts with a function of another library."""

    def __init__(
        self, embed: Callable[[list[str]], Any], model: str, dim: int | None = None
    ) -> None:
        self.model, self.dim, self._embed = model, dim, embed

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.asarray(self._embed(list(texts)), np.float32)


class QueryVectors:
    """Returns the vector of a query, or None if its function fails or takes too long."""

    def __init__(self, embed_query: EmbedQuery) -> None:
        """Hold the function; nothing is called yet."""
        each = _Embedder(lambda texts: [embed_query(text) for text in texts], "embed_query")
        self._guard = Guard(each)

    def __call__(self, query: str) -> Sequence[float] | None:
        """Return the vector of a query."""
        found = self._guard.embed([query], budget=QUERY_TIMEOUT, waits=True)
        return None if isinstance(found, NoVectors) else list(found[0])

    def close(self) -> None:
        """Refuse further calls."""
        self._guard.close()


def read_embedder(config: Mapping[str, Any], embedder: Any) -> tuple[Any, EmbedQuery | None]:
    """Return what embeds items, and what embeds queries if that is another function.

    Parameters
    ----------
    config : mapping
        The ``embed`` and ``dims`` of an ``IndexConfig``.
    embedder : object
        What was given beside it, for a configuration without ``embed``.

    Raises
    ------
    OptionError
        ``dims`` without ``embed``, or both ``embed`` and an embedder.
    """
    if "embed" not in config:
        if "dims" in config:
            raise error(OptionError, "index", "embed beside dims", "dims alone")
        return embedder, None
    if embedder is not AUTO:
        raise error(OptionError, "embedder", "none beside index['embed']", repr(embedder))
    embed, dim = config["embed"], config.get("dims")
    if asyncio.iscoroutinefunction(embed):
        return from_async(embed, model=embed.__qualname__, dim=dim), None
    theirs = base.ensure_embeddings(embed)
    name = getattr(theirs, "model", None)
    model = ":".join([type(theirs).__qualname__, *([name] if name else [])])
    return _Embedder(theirs.embed_documents, model, dim), theirs.embed_query
