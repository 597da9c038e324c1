"""AutoGen over a durable store: a memory of one user, and a recall tool for the model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from hyrecall.adapters.extras import needs_extra
from hyrecall.adapters.memories import (
    ALL,
    TOLD_OF_RECALL,
    Store,
    UserMemories,
    check_limit_and_kind,
)
from hyrecall.base.arguments import check_keywords
from hyrecall.errors import DTypeError, ScopeError, error
from hyrecall.memory import Episode, EpisodeMatch

with needs_extra("autogen"):
    from autogen_core import CancellationToken
    from autogen_core.memory import (
        Memory,
        MemoryContent,
        MemoryMimeType,
        MemoryQueryResult,
        UpdateContextResult,
    )
    from autogen_core.model_context import ChatCompletionContext
    from autogen_core.models import SystemMessage
    from autogen_core.tools import FunctionTool

__all__ = ["HyrecallMemory", "recall_tool"]

T_ = TypeVar("T_")

KIND: Final = "content"
_OWN: Final = "autogen"  # the key of the metadata with what only AutoGen reads


@check_keywords
class HyrecallMemory(Memory):
    """The memories of one user as an AutoGen memory, for ``AssistantAgent(memory=[...])``.

    Parameters
    ----------
    memory : Memory or MemorySync of hyrecall
        An open store, which the caller closes.
    user_id : str
        Whose memories.
    org, workspace : str, optional
        The partition around the user.
    limit : int, default 5
        At most so many memories a query.
    kind : str, default "content"
        Kind of the episodes that are added and found.

    Raises
    ------
    ScopeError, OptionError, DTypeError
        No user; not a store; a limit or kind that no search takes.

    Notes
    -----
    Texts, Markdown and JSON can be kept; bytes and images are refused. ``update_context`` asks with
    the last message of the context, and adds what it finds as a system message. ``close`` does
    nothing, because the store is the caller's.

    Examples
    --------
    >>> import asyncio
    >>> from hyrecall import recipes
    >>> from hyrecall.memory import MemorySync
    >>> async def main() -> list[str]:
    ...     with MemorySync.in_memory(recipe=recipes.default, embedder=None) as store:
    ...         memory = HyrecallMemory(store, user_id="ann")
    ...         await memory.add(MemoryContent(content="Ann drinks tea", mime_type="text/plain"))
    ...         found = await memory.query("what does ann drink")
    ...         return [one.content for one in found.results]
    >>> asyncio.run(main())
    ['Ann drinks tea']
    """

    def __init__(
        self, memory: Store, *, user_id: str, org: str | None = None,
        workspace: str | None = None, limit: int = 5, kind: str = KIND,
    ) -> None:  # fmt: skip
        """Check the arguments; nothing is read."""
        self._memories = UserMemories(memory, user_id, org, workspace)
        check_limit_and_kind(limit, kind)
        self._limit, self._kind = limit, kind

    async def add(
        self, content: MemoryContent, cancellation_token: CancellationToken | None = None
    ) -> None:
        """Keep a content: a str or a dict of JSON, no bytes and no image.

        ``cancellation_token`` drops the wait; the content may be kept all the same.
        """
        mime_type = content.mime_type
        kept = {
            "content": content.content,
            "mime_type": mime_type.value if isinstance(mime_type, MemoryMimeType) else mime_type,
            "metadata": content.metadata,
        }
        keep = self._memories.call(
            "remember", _text(content), kind=self._kind, metadata={_OWN: kept}
        )
        await _until(cancellation_token, keep)

    async def query(
        self,
        query: str | MemoryContent,
        cancellation_token: CancellationToken | None = None,
        **kwargs: Any,
    ) -> MemoryQueryResult:
        """Return the memories of the user that match, best first.

        ``kwargs`` are options of :meth:`hyrecall.memory.MemorySync.search`, such as ``limit``, but
        none that says whose memories. The metadata of each memory has its ``id``, ``score`` and
        ``occurred_at`` too.
        """
        for name in ("user_id", "org", "workspace", "partitions"):
            if name in kwargs:
                wish = f"none: this memory is that of {self._memories.user_id!r}"
                raise error(ScopeError, name, wish, repr(kwargs[name]))
        text = query if isinstance(query, str) else _text(query)
        options = {"limit": self._limit, "kind": self._kind} | kwargs
        matches = await _until(cancellation_token, self._memories.search(text, **options))
        return MemoryQueryResult(results=[_content(one) for one in matches])

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Add what is remembered of the last message of a context to it; return what was added."""
        messages = await model_context.get_messages()
        said = messages[-1].content if messages else None
        parts = said if isinstance(said, list) else [said]
        text = "\n".join(part for part in parts if isinstance(part, str))
        if not text.strip():
            return UpdateContextResult(memories=MemoryQueryResult(results=[]))
        found = await self.query(text)
        lines = [f"{at}. {_text(one)}" for at, one in enumerate(found.results, 1)]
        if lines:
            told = "\nRelevant memories, best first:\n" + "\n".join(lines) + "\n"
            await model_context.add_message(SystemMessage(content=told))
        return UpdateContextResult(memories=found)

    async def clear(self) -> None:
        """Forget what was added: the memories of the user that have this kind."""
        found: list[Episode] = await self._memories.call("list", kind=self._kind, limit=ALL)
        for one in found:
            await self._memories.call("forget", one.id)

    async def close(self) -> None:
        """Do nothing: the store is its owner's."""


@check_keywords
def recall_tool(
    memory: Store, *, user_id: str, limit: int = 5, name: str = "recall_memory",
    org: str | None = None, workspace: str | None = None, kind: str | None = None,
) -> FunctionTool:  # fmt: skip
    """Return a tool by which the model searches the memories of one user.

    Parameters
    ----------
    memory, user_id, limit, org, workspace
        As of :class:`HyrecallMemory`, errors too. The model never chooses the user.
    name : str, default "recall_memory"
        What the model calls the tool.
    kind : str, optional
        Only episodes of this kind; default any.

    Returns
    -------
    autogen_core.tools.FunctionTool
        For ``AssistantAgent(tools=[...])``. It returns a line for each memory, best first.

    Examples
    --------
    >>> from hyrecall import recipes
    >>> from hyrecall.memory import MemorySync
    >>> with MemorySync.in_memory(recipe=recipes.default, embedder=None) as memory:
    ...     recall_tool(memory, user_id="ann").name
    'recall_memory'
    """
    memories = UserMemories(memory, user_id, org, workspace)
    check_limit_and_kind(limit, kind)

    async def recall_memory(query: str) -> str:
        return await memories.recall(query, limit=limit, kind=kind)

    return FunctionTool(recall_memory, description=TOLD_OF_RECALL, name=name)


async def _until(token: CancellationToken | None, call: Coroutine[Any, Any, T_]) -> T_:
    """Await a call, whose wait a token may cancel."""
    task = asyncio.ensure_future(call)
    if token is not None:
        token.link_future(task)
    return await task


def _text(content: MemoryContent) -> str:
    if isinstance(content.content, str):
        return content.content
    if isinstance(content.content, dict):
        return json.dumps(content.content, ensure_ascii=False)
    raise error(DTypeError, "content", "a str or a dict of JSON", type(content.content).__name__)


def _content(match: EpisodeMatch) -> MemoryContent:
    """Return a match as a content; a memory that was kept otherwise is a text."""
    one = match.episode
    kept: Any = one.metadata.get(_OWN) or {"content": one.full_text}
    told = {"id": one.id, "score": match.score, "occurred_at": one.occurred_at.isoformat()}
    return MemoryContent(
        content=kept["content"],
        mime_type=kept.get("mime_type", MemoryMimeType.TEXT.value),
        metadata=(kept.get("metadata") or {}) | told,
    )
