"""The tools that Hebb documents: ``write_memory`` and ``search_memory``.

Its other two, ``consolidate`` and ``ingest_conversation``, call a language model and are not here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import Field

from hyrecall.memory import Episode, EpisodeMatch, MatchParts
from hyrecall.recipes import hebb
from hyrecall.serve.mcp.session import Session
from hyrecall.serve.mcp.tool import Arguments, Query, Reply, Structure, Tool

__all__ = ["TOOLS"]

PARTITION: Final = "mem_hippocampus"


class _Write(Arguments):
    content: Annotated[str, Field(min_length=1, max_length=10_000)]
    tags: Annotated[list[Annotated[str, Field(max_length=512)]], Field(max_length=256)] = Field(
        default_factory=list
    )
    importance: Annotated[float, Field(ge=0, le=10)] = 5


class Written(Structure):
    """The memory that was written."""

    id: str
    version: int


class _Search(Arguments):
    query: Annotated[Query, Field(min_length=1)]
    top_k: Annotated[int, Field(ge=1, le=100, description="The most memories to return.")] = 5


class OneMemory(Structure):
    """A memory."""

    id: str
    partition_id: str
    content: str
    importance_score: float | None
    tags: list[str]
    metadata: dict[str, Any]
    source: str | None
    created_at: datetime
    updated_at: datetime


class Result(Structure):
    """A memory that was found, with the parts of its score."""

    memory: OneMemory
    score: float
    recency_score: float | None
    importance_score_normalized: float | None
    relevance_score: float | None


class Results(Structure):
    """Memories that were found, best first, and those that share their tags."""

    results: list[Result]
    related: list[OneMemory]


async def _write(session: Session, given: _Write) -> Reply:
    kept = await session.remember(
        given.content, kind=PARTITION, tags=tuple(given.tags), importance=float(given.importance)
    )
    return Reply(Written(id=kept.id, version=kept.version))


async def _search(session: Session, given: _Search) -> Reply:
    if not given.query.strip():
        return Reply(Results(results=[], related=[]))
    found = await session.search(given.query, recipe=hebb.name, limit=given.top_k)
    memories = await _memories(session, [match.episode for match in found])
    results = [_result(*one) for one in zip(found, memories, strict=True)]
    return Reply(Results(results=results, related=await _memories(session, found.related)))


def _result(match: EpisodeMatch, memory: OneMemory) -> Result:
    parts = match.parts or MatchParts()
    return Result(
        memory=memory,
        score=match.score,
        recency_score=parts.recency,
        importance_score_normalized=parts.importance,
        relevance_score=parts.relevance,
    )


async def _memories(session: Session, found: Sequence[Episode]) -> list[OneMemory]:
    """Return memories as data, each with the time of its last version."""
    histories = await asyncio.gather(*(session.history(one.id) for one in found))
    return [
        OneMemory(
            id=one.id, partition_id=one.kind, content=one.text, importance_score=one.importance,
            tags=list(one.tags), metadata=one.metadata, source=one.source,
            created_at=one.occurred_at,
            updated_at=versions[-1].recorded_at if versions else one.occurred_at,
        )
        for one, versions in zip(found, histories, strict=True)
    ]  # fmt: skip


TOOLS: Final = (
    Tool("write_memory", "Write a memory", "Keep a memory with its importance, 0 to 10.",
         _Write, Written, "adds", _write),
    Tool("search_memory", "Search memories",
         "Find memories by words, meaning and tags; recent and important ones rank higher.",
         _Search, Results, "reads", _search),
)  # fmt: skip
