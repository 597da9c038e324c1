"""Honeycomb's shapes: hits of a recall, memories, and what was done to one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final, Literal, TypeAlias

from hyrecall.memory import Episode, EpisodeMatch, Matches, MatchParts

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
