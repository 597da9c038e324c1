"""What hyrecall's own tools return, as data with a schema and as a short text."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pydantic import Field

from hyrecall.memory import Edge, Episode, Matches, Remembered, Version
from hyrecall.serve.mcp.previews import fenced
from hyrecall.serve.mcp.tool import Structure

__all__ = [
    "End",
    "Link",
    "ListedMemory",
    "Match",
    "OneMemory",
    "OneVersion",
    "Saved",
    "edge_shape",
    "listed_shapes",
    "match_shape",
    "match_shapes",
    "memory_shape",
    "reasons_of",
    "saved_shape",
    "text_of_matches",
    "text_of_memories",
    "version_shape",
]


class OneMemory(Structure):
    """A memory as it was stored."""

    id: str
    text: str
    input: str | None = Field(None, description="The message that the text answers.")
    kind: str
    tags: list[str]
    occurred_at: datetime
    stored_at: datetime | None
    pinned: bool
    importance: float | None
    session_id: str | None
    source: str | None
    visibility: str
    user_id: str | None
    metadata: dict[str, Any]


class ListedMemory(OneMemory):
    """A memory as it was stored, and when it ends."""

    valid_to: datetime | None = Field(description="When the fact that it is ends; null: never.")


class Match(Structure):
    """A memory that was found, with its score."""

    id: str
    text: str
    score: float | None = Field(
        description="What the list is ordered by; its scale is the recipe's. Null: newest first."
    )
    vector_score: float | None = Field(description="Cosine in [-1, 1]; null: not computed.")
    bm25_score: float | None = Field(description="BM25; null: not computed.")
    is_fill: bool = Field(description="Not found, but added as one of the newest.")
    is_exact: bool = Field(description="First because it holds what was asked for as a whole.")
    valid_to: datetime | None = Field(description="When the fact that it is ends; null: never.")
    memory: OneMemory
    around: list[OneMemory] = Field(description="What stands around it in its session, by time.")


class Saved(Structure):
    """What a tool wrote."""

    id: str
    version: int
    embedded: bool = Field(description="Whether it has a vector; without one, words find it.")
    reasons: list[str] = Field(description="Why it has none.")


class End(Structure):
    """An end of an edge."""

    id: str
    role: str | None


class Link(Structure):
    """An edge between memories."""

    id: str
    relationship: str
    participants: list[End]
    description: str
    metadata: dict[str, Any]


class OneVersion(Structure):
    """One state of a memory."""

    version: int
    status: str
    reason: str | None
    successor: str | None
    recorded_at: datetime
    text: str | None = Field(description="Null: the memory was deleted.")


def memory_shape(one: Episode) -> OneMemory:
    """Return a memory as data."""
    return OneMemory(
        id=one.id, text=one.output, input=one.input or None, kind=one.kind, tags=list(one.tags),
        occurred_at=one.occurred_at, stored_at=one.stored_at, pinned=one.pinned,
        importance=one.importance, session_id=one.session_id, source=one.source,
        visibility=one.visibility, user_id=one.user_id, metadata=one.metadata,
    )  # fmt: skip


def listed_shapes(
    memories: Iterable[Episode], ends: Iterable[datetime | None]
) -> list[ListedMemory]:
    """Return memories as data, each with its end."""
    return [
        ListedMemory(**vars(memory_shape(one)), valid_to=end)
        for one, end in zip(memories, ends, strict=True)
    ]


def match_shape(one: Episode, end: datetime | None) -> Match:
    """Return a memory that was listed, not ranked, as a match; the fact that it is may end."""
    return Match(
        id=one.id, text=one.text, score=None, vector_score=None, bm25_score=None, is_fill=False,
        is_exact=False, valid_to=end, memory=memory_shape(one), around=[],
    )  # fmt: skip


def match_shapes(matches: Matches) -> list[Match]:
    """Return matches as data."""
    return [
        Match(
            id=one.episode.id, text=one.episode.text, score=one.score,
            vector_score=one.vector_score, bm25_score=one.bm25_score, is_fill=one.is_fill,
            is_exact=one.is_exact, valid_to=one.valid_to, memory=memory_shape(one.episode),
            around=list(map(memory_shape, near)),
        )
        for one, near in zip(matches, matches.around or [()] * len(matches), strict=True)
    ]  # fmt: skip


def saved_shape(kept: Remembered) -> Saved:
    """Return what was written as data."""
    reasons = [str(reason) for reason in kept.reasons]
    return Saved(id=kept.id, version=kept.version, embedded=kept.embedded, reasons=reasons)


def edge_shape(edge: Edge) -> Link:
    """Return an edge as data."""
    return Link(
        id=edge.id,
        relationship=edge.relationship,
        participants=[End(id=end.id, role=end.role) for end in edge.participants],
        description=edge.description,
        metadata=edge.metadata,
    )


def version_shape(one: Version) -> OneVersion:
    """Return a version as data."""
    return OneVersion(
        version=one.version, status=one.status, reason=one.reason, successor=one.successor,
        recorded_at=one.recorded_at, text=None if one.episode is None else one.episode.text,
    )  # fmt: skip


def reasons_of(matches: Matches) -> list[str]:
    """Return why a recall is degraded."""
    return [str(reason) for reason in matches.reasons]


def text_of_matches(found: dict[str, Any]) -> str:
    """Return matches as text, best first, each fenced, and what stands around it too."""
    texts = [
        (origin, text)
        for one in found["matches"]
        for origin, text in (
            (
                _origin(one["memory"]) | {"newest": one["is_fill"], "valid_to": one["valid_to"]},
                one["text"],
            ),
            *((_origin(near) | {"around": one["id"]}, near["text"]) for near in one["around"]),
        )
    ]
    told = [f"degraded: {reason}" for reason in found["reasons"]]
    return "\n\n".join([fenced(texts) if texts else "Nothing was found.", *told])


def text_of_memories(memories: Iterable[dict[str, Any]]) -> str:
    """Return listed memories as text, each fenced."""
    texts = [(_origin(one) | {"valid_to": one["valid_to"]}, one["text"]) for one in memories]
    return fenced(texts) if texts else "There are no memories."


def _origin(memory: dict[str, Any]) -> dict[str, Any]:
    """Return what tells whose a memory is and where it came from."""
    names = ("id", "user_id", "source", "kind", "occurred_at")
    return {name: memory[name] for name in names}
