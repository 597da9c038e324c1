"""Replies in the documented formats of other systems, for their routes and tools.

Needs no web framework: :mod:`hyrecall.serve.doors` sends them over HTTP, and
:mod:`hyrecall.serve.mcp` as replies of tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, Literal, Protocol, TypeAlias

from hyrecall.memory import Episode, EpisodeMatch, Matches, MatchParts
from hyrecall.memory.sql.reading import Accesses

# ---- Hebb's shapes: memories, and results with the parts of their scores ----

PARTITION: Final = "mem_hippocampus"
MOST_OF_HEBB: Final = 100
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


# ---- Honeycomb's shapes: hits of a recall, memories, and what was done to one ----

LIMIT: Final = 20
MOST: Final = 200
MOST_TOKENS: Final = 10_000_000

MemoryType: TypeAlias = Literal[
    "fact", "convention", "preference", "decision", "gotcha", "reference"
]

TABLES: Final[Mapping[str | None, str]] = {
    "memory": "memories", "summary": "memory", "session": "sessions", None: "memories",
}  # fmt: skip
"""Honeycomb's name of the table that a source is; without one a memory counts as a fact."""


def as_recall(matches: Matches) -> dict[str, Any]:
    """Return the hits of a recall, best first, why it is degraded, and an agent's scope."""
    hits = [_as_hit(match) for match in matches]
    made: dict[str, Any] = {
        "hits": hits,
        "sources": list(dict.fromkeys(hit["source"] for hit in hits)),
        "degraded": matches.degraded,
    }
    if matches.degraded:
        made["degradedReason"] = str(matches.reasons[0].reason)
    if matches.scope is not None:
        scope = matches.scope
        made["scope"] = {
            "org": scope.org, "workspace": scope.workspace, "agent": scope.user,
            "policy": scope.policy,
        }  # fmt: skip
    if matches.faults:
        made["scopeFaults"] = [asdict(one) for one in matches.faults]
    return made


def _as_hit(match: EpisodeMatch) -> dict[str, Any]:
    episode, parts = match.episode, match.parts or MatchParts()
    is_raw = episode.source == "session"
    made = {
        "source": TABLES.get(episode.source, episode.source),
        "id": episode.id,
        "text": episode.full_text,
        "score": match.score,
        "org": episode.org,
        "workspace": episode.workspace,
        "agent": episode.user_id,
        "visibility": episode.visibility,
        "kind": "session" if is_raw else "memory",
        "secondary": is_raw,
        "createdAt": episode.occurred_at.isoformat(),
        "freshnessScore": parts.recency,
    }
    return made if is_raw else {**made, "memoryId": episode.id, "memoryType": episode.kind}


def as_memory(episode: Episode) -> dict[str, Any]:
    """Return a memory."""
    return {
        "id": episode.id,
        "content": episode.full_text,
        "type": episode.kind,
        "source": TABLES.get(episode.source, episode.source),
        "agentId": episode.user_id,
        "visibility": episode.visibility,
        "createdAt": episode.occurred_at.isoformat(),
    }


def as_stored(key: str) -> dict[str, Any]:
    """Return that a memory was kept."""
    return {"id": key, "action": "stored"}


def as_changed(key: str, action: Literal["modified", "forgotten"]) -> dict[str, Any]:
    """Return that a memory was changed, with a reason in its history."""
    return {"id": key, "action": action, "audited": True}
