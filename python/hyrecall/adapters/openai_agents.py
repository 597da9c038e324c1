"""OpenAI Agents SDK over a durable store: a session, and a recall tool for the model.

A session is a conversation of one user, and its items are memories in the user's cell. Those that
say something have the kind "message": :func:`recall_tool` finds what was said in other sessions.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from hyrecall import Filter
from hyrecall.adapters.extras import needs_extra
from hyrecall.adapters.memories import (
    ALL,
    TOLD_OF_RECALL,
    Store,
    UserMemories,
    check_limit_and_kind,
    memories_of,
)
from hyrecall.base.arguments import as_int, check_keywords
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.memory import Episode

with needs_extra("openai-agents"):
    from agents import FunctionTool, RunContextWrapper, TResponseInputItem, function_tool

if TYPE_CHECKING:  # older releases have none
    from agents.memory import SessionSettings

__all__ = ["HyrecallSession", "recall_tool"]

MESSAGE: Final = "message"
OTHER: Final = "session item"  # calls of tools, and their outputs
_OWN: Final = "item"  # the key of the metadata with the item; other writers' memories lack it

Whose: TypeAlias = "str | Callable[[RunContextWrapper[Any]], str]"


@check_keywords
class HyrecallSession:
    """A durable conversation of one user, for ``Runner.run(..., session=...)``.

    Parameters
    ----------
    memory : Memory or MemorySync
        An open store, which the caller closes.
    session_id : str
        The conversation. Two users may each have one of this id.
    user_id : str
        Whose it is.
    org, workspace : str, optional
        The partition around the user.
    session_settings : SessionSettings, optional
        Its ``limit`` is how many items a run gets, the newest ones; default all.

    Raises
    ------
    ScopeError
        No user.

    Notes
    -----
    ``clear_session`` forgets every memory of the user with this ``session_id``; the store keeps
    their history until they are erased. Processes that add to one session at the same time may
    interleave their items.

    Examples
    --------
    >>> import asyncio
    >>> from hyrecall import recipes
    >>> from hyrecall.memory import MemorySync
    >>> async def main() -> list[str]:
    ...     with MemorySync.in_memory(recipe=recipes.default, embedder=None) as memory:
    ...         session = HyrecallSession(memory, session_id="chat-1", user_id="ann")
    ...         await session.add_items([{"role": "user", "content": "Tea, please"}])
    ...         return await session.get_items()
    >>> asyncio.run(main())
    [{'role': 'user', 'content': 'Tea, please'}]
    """

    def __init__(
        self, memory: Store, *, session_id: str, user_id: str, org: str | None = None,
        workspace: str | None = None, session_settings: SessionSettings | None = None,
    ) -> None:  # fmt: skip
        """Check the arguments; nothing is read."""
        if not isinstance(session_id, str) or not session_id.strip():
            raise error(OptionError, "session_id", "a str that is not blank", repr(session_id))
        self._memories = UserMemories(memory, user_id, org, workspace)
        _check_limit(None if session_settings is None else session_settings.limit)
        self.session_id = session_id
        self.session_settings = session_settings

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items of the conversation, oldest first.

        ``limit`` is how many of the newest; default: that of the settings, else all.
        """
        settings = self.session_settings
        most = limit if limit is not None or settings is None else settings.limit
        _check_limit(most)
        return [_item(one) for one in reversed(await self._newest(ALL if most is None else most))]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items, which are dicts of JSON, to the end of the conversation: all or none."""
        # Of equal times the one written last is last. None is before the last one: clocks jump.
        times = [datetime.now(UTC), *(one.occurred_at for one in await self._newest(1))]
        kept = [self._episode(item, max(times)) for item in items]
        await self._memories.call_for_all("remember_batch", kept)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item of the conversation and return it; None if there is none."""
        while last := await self._newest(1):
            if await self._memories.call("forget", last[0].id):  # 0: another caller was faster
                return _item(last[0])
        return None

    async def clear_session(self) -> None:
        """Forget the conversation."""
        await self._memories.call("forget", session_id=self.session_id)

    async def _newest(self, limit: int) -> list[Episode]:
        asked = Filter(session_id=self.session_id, kind=[MESSAGE, OTHER])
        n = limit
        while True:
            read: list[Episode] = await self._memories.call("list", filter=asked, limit=n)
            found = [one for one in read if _OWN in one.metadata]
            if len(found) >= limit or len(read) < n:
                return found[:limit]
            n *= 2

    def _episode(self, item: TResponseInputItem, now: datetime) -> Episode:
        if not isinstance(item, dict):
            raise error(DTypeError, "items", "dicts of JSON", type(item).__name__)
        side, text = "input" if item.get("role") == "user" else "text", _text(item)
        return Episode.model_validate(
            {
                **self._memories.owner,
                "id": f"msg_{secrets.token_hex(16)}",
                side: text,
                "kind": MESSAGE if text.strip() else OTHER,
                "session_id": self.session_id,
                "occurred_at": now,
                "metadata": {_OWN: item},
            }
        )


@check_keywords
def recall_tool(
    memory: Store, *, user_id: Whose, limit: int = 5, name: str = "recall_memory",
    org: str | None = None, workspace: str | None = None, kind: str | None = None,
) -> FunctionTool:  # fmt: skip
    """Return a tool by which the model searches the memories of one user.

    Parameters
    ----------
    memory, org, workspace
        As of :class:`HyrecallSession`.
    user_id : str or callable
        Whose memories, or a function of the :class:`agents.RunContextWrapper` that returns it. The
        model never chooses it.
    limit : int, default 5
        At most so many memories a call.
    name : str, default "recall_memory"
        What the model calls the tool.
    kind : str, optional
        Only episodes of this kind, such as "message"; default any.

    Returns
    -------
    agents.FunctionTool
        For ``Agent(tools=[...])``. It returns a line for each memory, best first.

    Raises
    ------
    ScopeError, OptionError, DTypeError
        No user, also at a call whose function returns none; not a store; a limit or kind that no
        search takes.

    Examples
    --------
    >>> from hyrecall import recipes
    >>> from hyrecall.memory import MemorySync
    >>> with MemorySync.in_memory(recipe=recipes.default, embedder=None) as memory:
    ...     recall_tool(memory, user_id="ann").name
    'recall_memory'
    """
    memories = memories_of(memory, user_id, org, workspace)
    check_limit_and_kind(limit, kind)

    async def recall_memory(context: RunContextWrapper[Any], query: str) -> str:
        return await memories(context).recall(query, limit=limit, kind=kind)

    return function_tool(
        recall_memory,
        name_override=name,
        description_override=TOLD_OF_RECALL,
        failure_error_function=None,
    )


def _check_limit(limit: object) -> None:
    if limit is not None and ((n := as_int(limit)) is None or n < 0):
        raise error(OptionError, "limit", "an int >= 0, or None", repr(limit))


def _item(episode: Episode) -> TResponseInputItem:
    return cast("TResponseInputItem", episode.metadata[_OWN])


def _text(item: Any) -> str:
    """Return what a message says; tool calls and their outputs are kept, but not searched."""
    content = item.get("content") if item.get("type", "message") == "message" else None
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (one.get("text") for one in parts if isinstance(one, dict))
    return "\n".join(text for text in texts if isinstance(text, str))
