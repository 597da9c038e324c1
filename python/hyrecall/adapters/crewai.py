"""CrewAI over a user's memories: tools that recall and keep them, and its external memory.

The storage of CrewAI's unified memory is :class:`hyrecall.adapters.crewai_storage.HyrecallStorage`.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field, PrivateAttr

from hyrecall.adapters.extras import needs_extra
from hyrecall.adapters.memories import as_lines, check_limit_and_kind, read_user, without_fills
from hyrecall.errors import DTypeError, error
from hyrecall.memory import MemorySync
from hyrecall.memory.data.matches import known_confidence

with needs_extra("crewai"):
    from crewai.tools import BaseTool

__all__ = ["HyrecallExternalStorage", "HyrecallRecallTool", "HyrecallRememberTool"]


class _Query(BaseModel):
    query: str = Field(description="What to look for, in plain words.")


class _Text(BaseModel):
    text: str = Field(description="One fact about the user, as a full sentence.")


class _MemoryTool(BaseTool):
    """What the two tools share: a store and the user whose memories they are."""

    _memory: MemorySync = PrivateAttr()
    _whose: dict[str, Any] = PrivateAttr()

    def __init__(
        self, *, memory: MemorySync, user_id: str, org: str | None = None,
        workspace: str | None = None, **options: Any,
    ) -> None:  # fmt: skip
        """Make the tool."""
        store, user = _read_store(memory), read_user(user_id)
        super().__init__(**options)
        self._memory = store
        self._whose = {"user_id": user, "org": org, "workspace": workspace}


class HyrecallRecallTool(_MemoryTool):
    """Searches the memories of one user; returns a line with the day for each, best first.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> from hyrecall.recipes import loom
    >>> memory = MemorySync.in_memory(recipe=loom, embedder=None)
    >>> day = datetime(2026, 3, 5, tzinfo=UTC)
    >>> kept = memory.remember("Ann drinks oolong tea", user_id="ann", occurred_at=day)
    >>> HyrecallRecallTool(memory=memory, user_id="ann").run(query="tea")
    '- 2026-03-05: Ann drinks oolong tea'
    """

    name: str = "recall_memory"
    description: str = "Search what is remembered of the user, best first."
    args_schema: type[BaseModel] = _Query
    limit: int = 5

    def __init__(self, **options: Any) -> None:
        """Make the tool; ``limit`` is at most so many memories a call, at least 1."""
        super().__init__(**options)
        check_limit_and_kind(self.limit, None)

    def _run(self, query: str) -> str:
        found = self._memory.search(query, **self._whose, limit=self.limit)
        return as_lines(without_fills(found), known_confidence(found))


class HyrecallRememberTool(_MemoryTool):
    """Keeps a memory of one user; it returns the id, and the memory is then on the disk."""

    name: str = "remember"
    description: str = "Remember something about the user for later conversations."
    args_schema: type[BaseModel] = _Text

    def _run(self, text: str) -> str:
        return self._memory.remember(text, **self._whose).id


class HyrecallExternalStorage:
    """Keeps and finds memories of one user, for ``ExternalMemory`` of CrewAI before 1.10.

    Parameters
    ----------
    memory : MemorySync
    user_id : str
        Whose memories. There is no default.
    org, workspace : str, optional
        The partition around the user.

    Raises
    ------
    ScopeError, DTypeError
        No user; no store.

    Examples
    --------
    >>> from hyrecall.recipes import loom
    >>> memory = MemorySync.in_memory(recipe=loom, embedder=None)
    >>> storage = HyrecallExternalStorage(memory=memory, user_id="ann")
    >>> storage.save("Ann drinks oolong tea", {"source": "chat"})
    >>> [(one["content"], one["metadata"]) for one in storage.search("tea", 3, 0.0)]
    [('Ann drinks oolong tea', {'source': 'chat'})]
    """

    def __init__(
        self, *, memory: MemorySync, user_id: str, org: str | None = None,
        workspace: str | None = None,
    ) -> None:  # fmt: skip
        """Check the store and the user."""
        self._memory = _read_store(memory)
        self._whose: dict[str, Any] = {
            "user_id": read_user(user_id), "org": org, "workspace": workspace,
        }  # fmt: skip

    def save(self, value: Any, metadata: dict[str, Any]) -> None:
        """Keep a text with metadata, which is JSON."""
        self._memory.remember(str(value), **self._whose, metadata=metadata)

    def search(self, query: str, limit: int, score_threshold: float) -> list[dict[str, Any]]:
        """Return the best memories; a score is over the best possible, and has a threshold."""
        found = self._memory.search(
            query, **self._whose, limit=limit, normalize=True, min_score=score_threshold
        )
        return [
            {
                "id": one.episode.id,
                "content": one.episode.full_text,
                "metadata": one.episode.metadata,
                "score": one.score,
            }
            for one in without_fills(found)
        ]

    def reset(self) -> None:
        """Take all memories of the user out of recall."""
        self._memory.forget(**self._whose, everything=True)


def _read_store(memory: object) -> MemorySync:
    if not isinstance(memory, MemorySync):
        wish = "a hyrecall.memory.MemorySync: CrewAI calls tools without an event loop"
        raise error(DTypeError, "memory", wish, type(memory).__name__)
    return memory
