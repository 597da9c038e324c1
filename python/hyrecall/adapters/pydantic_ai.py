"""Tools for agents of Pydantic AI: recall and keep a user's memories, search an index in a scope.

The user or the scope is fixed when a tool is made, or read from the run's dependencies; the model
never chooses it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from hyrecall.adapters.extras import needs_extra
from hyrecall.adapters.memories import (
    Store,
    UserMemories,
    check_limit_and_kind,
    read_store,
    read_user,
)
from hyrecall.base.keywords import check_keywords
from hyrecall.memory import Remembered
from hyrecall.memory.data.fields import check_id

with needs_extra("pydantic-ai"):
    from pydantic_ai import RunContext, Tool

from hyrecall.adapters.pydantic_ai_search import Deps, FoundDocument, chosen, search_tool

__all__ = ["FoundDocument", "RecalledMemory", "recall_tool", "remember_tool", "search_tool"]

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
    memory: Store,
    *,
    user_id: Whose[Deps],
    limit: int = 5,
    name: str = "recall_memory",
    org: str | None = None,
    workspace: str | None = None,
    kind: str | None = None,
) -> Tool[Deps]:
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
    store, whose = read_store(memory), chosen(user_id, read_user)
    check_limit_and_kind(limit, kind)

    async def recall(ctx: RunContext[Deps], query: str) -> list[RecalledMemory]:
        """Search what is remembered of the user, best first.

        Parameters
        ----------
        query
            What to look for, in plain words.
        """
        memories = UserMemories(store, whose(ctx), org, workspace)
        found = await memories.search(query, kind=kind, limit=limit)
        return [
            RecalledMemory(one.episode.id, one.episode.text, one.score, one.episode.occurred_at)
            for one in found
        ]

    return Tool(recall, takes_ctx=True, name=name)


@check_keywords
def remember_tool(
    memory: Store,
    *,
    user_id: Whose[Deps],
    name: str = "remember",
    org: str | None = None,
    workspace: str | None = None,
    kind: str = "episodic",
) -> Tool[Deps]:
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
    store, whose = read_store(memory), chosen(user_id, read_user)
    check_id("kind", kind)

    async def keep(ctx: RunContext[Deps], text: str) -> str:
        """Remember something about the user for later conversations.

        Parameters
        ----------
        text
            One fact, as a full sentence.
        """
        memories = UserMemories(store, whose(ctx), org, workspace)
        kept: Remembered = await memories.call("remember", text, kind=kind)
        return kept.id

    return Tool(keep, takes_ctx=True, name=name)
