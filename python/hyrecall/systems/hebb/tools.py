"""The tools that Hebb documents: ``write_memory`` and ``search_memory``.

Its other two, ``consolidate`` and ``ingest_conversation``, call a language model and are not here.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import Field

from hyrecall.memory.ops import Text
from hyrecall.recipes import hebb
from hyrecall.serve.mcp.search_tool import excerpts_of
from hyrecall.serve.mcp.session import CallerSession
from hyrecall.serve.mcp.tool import Arguments, Query, Structure, Tool, ToolReply
from hyrecall.systems.hebb.replies import (
    MOST,
    MOST_CHARACTERS,
    NOTHING,
    PARTITION,
    as_results,
    shown,
)


class _Write(Arguments):
    content: Annotated[Text, Field(max_length=MOST_CHARACTERS)]
    tags: list[Annotated[str, Field(max_length=512)]] = Field(default_factory=list)
    importance: Annotated[float, Field(ge=0, le=10)] = 5


class _HebbSearch(Arguments):
    query: Annotated[Query, Field(min_length=1)]
    top_k: Annotated[int, Field(ge=1, le=MOST, description="The most memories to return.")] = 5


class HebbMemory(Structure):
    """A memory."""

    id: str
    partition_id: str
    content: str
    importance_score: float | None
    tags: list[str]
    metadata: dict[str, Any]
    source: str | None
    created_at: datetime
    updated_at: datetime | None
    last_accessed_at: datetime | None = Field(description="Null: never.")
    access_count: int
    expires_at: datetime | None = Field(description="Null: never.")


class Result(Structure):
    """A memory that was found, with the parts of its score."""

    memory: HebbMemory
    score: float
    recency_score: float | None
    importance_score_normalized: float | None
    relevance_score: float | None


class Results(Structure):
    """Memories that were found, best first, and those that share their tags."""

    results: list[Result]
    related: list[HebbMemory]


async def _write(session: CallerSession, given: _Write) -> ToolReply:
    kept = await session.remember(
        given.content, kind=PARTITION, tags=tuple(given.tags), importance=float(given.importance)
    )
    (made,) = await shown(session, [await session.existing(kept.id)])
    return ToolReply(made)


async def _hebb_search(session: CallerSession, given: _HebbSearch) -> ToolReply:
    if not given.query.strip():
        return ToolReply(NOTHING)
    found = await session.search(given.query, recipe=hebb.name, limit=given.top_k)
    return ToolReply(await as_results(session, found), excerpts=excerpts_of(found))


TOOLS: Final = (
    Tool("write_memory", "Write a memory", "Keep a memory with its importance, 0 to 10.",
         _Write, HebbMemory, "adds", _write, shows=True),
    Tool("search_memory", "Search memories",
         "Find memories by words, meaning and tags; recent and important ones rank higher.",
         _HebbSearch, Results, "reads", _hebb_search, recipe=hebb.name),
)  # fmt: skip
