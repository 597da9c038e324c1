"""Hebb's shapes: memories, and results with the parts of their scores."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

from hyrecall.memory import Episode, EpisodeMatch, Matches, MatchParts, Version
from hyrecall.memory.sql.reading import Accesses

__all__ = ["MOST", "MOST_CHARACTERS", "NOTHING", "PARTITION", "as_results", "shown"]

PARTITION: Final = "mem_hippocampus"
MOST: Final = 100
MOST_CHARACTERS: Final = 10_000
"""Of a memory's content."""

NOTHING: Final[dict[str, Any]] = {"results": [], "related": []}
"""The reply to a query without a word."""


class Told(Protocol):
    """What tells of memories beside their content: a store in a scope, or a session."""

    async def history(self, key: str, /) -> Sequence[Version]:
        """Return the versions of a memory by its id."""

    async def accesses(self, keys: Sequence[str], /) -> dict[str, Accesses]:
        """Return how often, and when last, memories were accessed, by their ids."""


async def as_results(told: Told, matches: Matches) -> dict[str, Any]:
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


async def shown(told: Told, episodes: Iterable[Episode]) -> list[dict[str, Any]]:
    """Return memories, each with the time of its last version and its accesses."""
    found = list(episodes)
    if not found:
        return []
    histories = await asyncio.gather(*(told.history(one.id) for one in found))
    met = await told.accesses([one.id for one in found])
    times = [versions[-1].recorded_at.isoformat() if versions else None for versions in histories]
    return [
        _as_memory(one, time, met.get(one.id, Accesses(0, None)))
        for one, time in zip(found, times, strict=True)
    ]


def _as_memory(episode: Episode, updated_at: str | None, met: Accesses) -> dict[str, Any]:
    return {
        "id": episode.id,
        "partition_id": episode.kind,
        "content": episode.text,
        "importance_score": episode.importance,
        "tags": list(episode.tags),
        "metadata": episode.metadata,
        "source": episode.source,
        "created_at": episode.occurred_at.isoformat(),
        "updated_at": updated_at,
        "last_accessed_at": None if met.last is None else met.last.isoformat(),
        "access_count": met.times,
        "expires_at": None,
    }
