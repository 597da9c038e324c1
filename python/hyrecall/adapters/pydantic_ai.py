"""Tools for agents of Pydantic AI: recall and keep a user's memories, search an index in a scope.

The user or the scope is fixed when a tool is made, or read from the run's dependencies; the model
never chooses it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from hyrecall.adapters.degraded import warn_if_degraded
from hyrecall.adapters.extras import (
    check_arms,
    check_index,
    check_limit,
    column_types,
    needs_extra,
    nowhere,
    text_of,
)
from hyrecall.adapters.memories import (
    Store,
    check_limit_and_kind,
    memories_of,
)
from hyrecall.ask.filter_json import FilterLike
from hyrecall.ask.scope import Scope, ScopePattern
from hyrecall.base.arguments import check_keywords
from hyrecall.errors import OptionError
from hyrecall.index import Index
from hyrecall.memory import Remembered
from hyrecall.memory.data.types import check_id

with needs_extra("pydantic-ai"):
    from pydantic_ai import RunContext, Tool


__all__ = ["FoundDocument", "RecalledMemory", "recall_tool", "remember_tool", "search_tool"]


# ---- The tool of Pydantic AI that searches an index, and how a tool is told a user or a scope ----

Deps = TypeVar("Deps")
"""The type of a run's dependencies, which the user or the scope may be read from."""

Where: TypeAlias = (
    "str | int | tuple[object, ...] | Scope | ScopePattern"
    " | Callable[[RunContext[Deps]], object] | None"
)


@dataclass(frozen=True)
class FoundDocument:
    """Holds what the model sees of a document of an index.

    Attributes
    ----------
    id : str or int
        Its key.
    text : str
        Empty if it has none.
    score : float
        By which the reply is ordered, best first; it has no scale of its own.
    fields : dict
        The columns that the tool was made with.
    """

    id: str | int
    text: str
    score: float
    fields: dict[str, Any]


@check_keywords
def search_tool(
    index: Index, *, scope: Where[Deps], embed: Callable[[str], object] | None = None,
    limit: int = 5, filter: FilterLike | None = None, columns: tuple[str, ...] = (),  # noqa: A002
    name: str = "search_documents",
) -> Tool[Deps]:  # fmt: skip
    """Return a tool by which the model searches the documents of a scope.

    Parameters
    ----------
    index : Index
    scope : str or tuple or Scope or callable
        What :meth:`hyrecall.Index.recall` takes, or a function of the
        :class:`pydantic_ai.RunContext` that returns it. None only for an index with one audience
        (``cell=None``). There is no default.
    embed : callable, optional
        Returns the vector of a query; it may be async. Default: an index with an embedder embeds
        it, another one is searched by words alone.
    limit : int, default 5
        At most so many documents a call, at least 1. In an index with several arms at most 100.
    filter : Filter, optional
        Narrows every call.
    columns : tuple of str, default ()
        More columns for the model to see.
    name : str, default "search_documents"
        What the model calls the tool.

    Returns
    -------
    pydantic_ai.Tool
        It returns a list of :class:`FoundDocument`.

    Raises
    ------
    ScopeError
        No scope; also at a call whose function returns none.
    OptionError, DTypeError
        ``index`` is no index; an option that no call could follow.
    """
    check_limit(limit, 100, check_index(index))
    if embed is not None:
        check_arms(index, "embed", embed)
    elif not index.schema.text_arms:
        try:  # an index with an embedder takes words; it is not asked for a blank query
            index.recall_one(text="", scope=nowhere(index))
        except OptionError:
            check_arms(index, "embed", None)
            raise
    column_types(index, columns)
    index.count(scope=nowhere(index), filter=filter)
    if not callable(scope):
        index.count(scope=scope)

    async def find(ctx: RunContext[Deps], query: str) -> list[FoundDocument]:
        """Search the documents, best first.

        Parameters
        ----------
        query
            What to look for, in plain words.
        """
        vector = None if embed is None else await asyncio.to_thread(embed, query)
        if inspect.isawaitable(vector):
            vector = await vector
        words = query if embed is None or index.schema.text_arms else None
        hits = await index.arecall_one(
            text=words,
            vector=vector,
            scope=scope(ctx) if callable(scope) else scope,
            filter=filter,
            limit=limit,
            columns=columns,
        )
        warn_if_degraded(hits.trace.degraded)
        return [
            FoundDocument(
                hit.key, text_of(hit, index), hit.score, {name: hit[name] for name in columns}
            )
            for hit in hits
        ]

    return Tool(find, takes_ctx=True, name=name)


# ---- Tools for agents of Pydantic AI: recall and keep a user's memories, search an
# index in a scope


Whose: TypeAlias = "str | Callable[[RunContext[Deps]], str]"


@dataclass(frozen=True)
class RecalledMemory:
    """Holds what the model sees of a memory.

    Attributes
    ----------
    id, text : str
    score : float
        By which the reply is ordered, best first; it has no scale of its own.
    occurred_at : datetime
        In UTC.
    """

    id: str
    text: str
    score: float
    occurred_at: datetime


@check_keywords
def recall_tool(
    memory: Store, *, user_id: Whose[Deps], limit: int = 5, name: str = "recall_memory",
    org: str | None = None, workspace: str | None = None, kind: str | None = None,
) -> Tool[Deps]:  # fmt: skip
    """Return a tool by which the model searches the memories of one user.

    Parameters
    ----------
    memory : Memory or MemorySync
    user_id : str or callable
        Whose memories, or a function of the :class:`pydantic_ai.RunContext` that returns it.
    limit : int, default 5
        At most so many memories a call.
    name : str, default "recall_memory"
        What the model calls the tool.
    org, workspace : str, optional
        The partition around the user.
    kind : str, optional
        Only episodes of this kind; default any.

    Returns
    -------
    pydantic_ai.Tool
        For ``Agent(tools=[...])``. It returns a list of :class:`RecalledMemory`.

    Raises
    ------
    ScopeError
        No user; also at a call whose function returns none.
    OptionError, DTypeError
        ``memory`` is no store; a limit or kind that no search takes.

    Examples
    --------
    >>> from hyrecall.memory import MemorySync
    >>> from hyrecall.recipes import loom
    >>> memory = MemorySync.in_memory(recipe=loom, embedder=None)
    >>> recall_tool(memory, user_id="ann").name
    'recall_memory'
    """
    memories = memories_of(memory, user_id, org, workspace)
    check_limit_and_kind(limit, kind)

    async def recall(ctx: RunContext[Deps], query: str) -> list[RecalledMemory]:
        """Search what is remembered of the user, best first.

        Parameters
        ----------
        query
            What to look for, in plain words.
        """
        found = await memories(ctx).search(query, kind=kind, limit=limit)
        pairs = ((one.episode, one.score) for one in found)
        return [
            RecalledMemory(one.id, one.full_text, score, one.occurred_at) for one, score in pairs
        ]

    return Tool(recall, takes_ctx=True, name=name)


@check_keywords
def remember_tool(
    memory: Store, *, user_id: Whose[Deps], name: str = "remember", org: str | None = None,
    workspace: str | None = None, kind: str = "episodic",
) -> Tool[Deps]:  # fmt: skip
    """Return a tool by which the model keeps a memory of one user.

    Parameters
    ----------
    memory, user_id, org, workspace
        As in :func:`recall_tool`.
    name : str, default "remember"
        What the model calls the tool.
    kind : str, default "episodic"
        Of the episodes that it keeps.

    Returns
    -------
    pydantic_ai.Tool
        It returns the id of the memory, which is then on the disk.

    Raises
    ------
    ScopeError, OptionError, DTypeError
        As :func:`recall_tool`.
    """
    memories = memories_of(memory, user_id, org, workspace)
    check_id("kind", kind)

    async def keep(ctx: RunContext[Deps], text: str) -> str:
        """Remember something about the user for later conversations.

        Parameters
        ----------
        text
            One fact, as a full sentence.
        """
        kept: Remembered = await memories(ctx).call("remember", text, kind=kind)
        return kept.id

    return Tool(keep, takes_ctx=True, name=name)
