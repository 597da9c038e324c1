"""Hebb's shapes: memories, and results with the parts of their scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

from hyrecall.memory import Episode, EpisodeMatch, Matches, MatchParts
from hyrecall.memory.sql.reading import Accesses

PARTITION: Final = "mem_hippocampus"
MOST: Final = 100
MOST_CHARACTERS: Final = 10_000
"""Of a memory's content."""

NOTHING: Final[dict[str, Any]] = {"results": [], "related": []}
"""The reply to a query without a word."""


class HasAccesses(Protocol):
    """Returns when memories were accessed: a store in a scope, or a session."""

    async def accesses(self, keys: Sequence[str], /) -> dict[str, Accesses]:
        """Return the accesses of memories, and when each was last written, by their ids."""


async def as_results(told: HasAccesses, matches: Matches) -> dict[str, Any]:
    """Return the results of a search, best first, and the memories that share their tags."""
    memories = await shown(told, (match.episode for match in matches))
    return {
        "results": [_as_result(*one) for one in zip(matches, memories, strict=True)],
        "related": await shown(told, matches.related),
    }


def _as_result(match: EpisodeMatch, memory: dict[str, Any]) -> dict[str, Any]:
    parts = match.parts or MatchParts()
    return {
        "memory": memory,
        "score": match.score,
        "recency_score": parts.recency,
        "importance_score_normalized": parts.importance,
        "relevance_score": parts.relevance,
    }


async def shown(told: HasAccesses, episodes: Iterable[Episode]) -> list[dict[str, Any]]:
    """Return memories, each with the time of its last version and its accesses."""
    found = list(episodes)
    if not found:
        return []
    met = await told.accesses([one.id for one in found])
    return [_as_memory(one, met.get(one.id)) for one in found]


def _as_memory(episode: Episode, met: Accesses | None) -> dict[str, Any]:
    """Return a memory in Hebb's shape; one that went meanwhile has no accesses."""
    last = None if met is None else met.last
    return {
        "id": episode.id,
        "partition_id": episode.kind,
        "content": episode.full_text,
        "importance_score": episode.importance,
        "tags": list(episode.tags),
        "metadata": episode.metadata,
        "source": episode.source,
        "created_at": episode.occurred_at.isoformat(),
        "updated_at": None if met is None else met.written.isoformat(),
        "last_accessed_at": None if last is None else last.isoformat(),
        "access_count": 0 if met is None else met.times,
        "expires_at": None,
    }
