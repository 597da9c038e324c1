"""What verbs of a store reply as JSON, the same at every door: a schema, and the data of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, create_model

from hyrecall.memory.census import AgentEntry, SessionEntry, UserEntry
from hyrecall.memory.changing import Remembered
from hyrecall.memory.data.matches import Degradation, Facts
from hyrecall.memory.data.types import Edge, Episode, Fact, Participant, QueryFeedback
from hyrecall.memory.ops import read_filter
from hyrecall.memory.sql.reading import ReadPolicy
from hyrecall.memory.view import View


class VerbReply(BaseModel):
    """Base of replies."""

    model_config = ConfigDict(frozen=True)


class Reason(VerbReply):
    """Why a reply holds less than it could."""

    reason: str
    detail: str


class Changed(VerbReply):
    """What was written: it is on the disk."""

    id: str
    version: int
    embedded: bool = Field(description="Whether it has a vector; without one, words find it.")
    reasons: list[Reason] = Field(description="Why it has none.")


class MemoryReply(Episode):
    """A memory as it was stored, and when it ends."""

    valid_to: datetime | None = Field(description="When the fact that it is ends; null: never.")


class MemoriesReply(VerbReply):
    """Memories, newest first."""

    items: list[MemoryReply]
    total: int = Field(description="How many there are in all, on this page and others.")


class UsersReply(VerbReply):
    """Users, by name; null is the anonymous one."""

    items: list[UserEntry]


class AgentsReply(VerbReply):
    """Agents that have a read policy, by name."""

    items: list[AgentEntry]


class SessionsReply(VerbReply):
    """Conversations of a user, the one with the newest memory first."""

    items: list[SessionEntry]


class VersionReply(VerbReply):
    """One state of a memory."""

    version: int
    status: str
    reason: str | None
    successor: str | None
    recorded_at: datetime
    episode: Episode | None = Field(description="Null: the memory was deleted.")


class HistoryReply(VerbReply):
    """The versions of a memory, oldest first."""

    items: list[VersionReply]


_ends: Any = {"participants": (list[Participant], ...)}
_edge: Any = {name: (one.annotation, one) for name, one in Edge.model_fields.items()}
EdgeReply: Any = create_model("EdgeReply", __base__=VerbReply, **_edge | _ends)
"""An edge; a reply that is too long for a model may leave participants out."""


class LinksReply(VerbReply):
    """The edges of a memory, in the order in which they were added."""

    items: list[EdgeReply]


_fields: Any = {name: (one.annotation, one) for name, one in Fact.model_fields.items()}
FactReply: Any = create_model("FactReply", __base__=VerbReply, text=(str, ...), **_fields)
"""A fact, and what it says as a sentence."""


class FactsReply(VerbReply):
    """Facts, and why there may be more."""

    items: list[FactReply]
    degraded: bool
    reasons: list[Reason]


class ForgottenReply(VerbReply):
    """How many memories were forgotten."""

    forgotten: int


class UpdatedReply(VerbReply):
    """How many memories were changed."""

    updated: int


class PinnedReply(VerbReply):
    """Whether a memory is pinned."""

    id: str
    pinned: bool


class UnlinkedReply(VerbReply):
    """Whether the edge was there."""

    unlinked: bool


class NotedReply(VerbReply):
    """How many of the memories were not known to help with the query."""

    new: int


class FeedbackReply(VerbReply):
    """Queries, and the memories that helped with each and are there."""

    items: list[QueryFeedback]


class PolicyReply(VerbReply):
    """What an agent may read beside its own memories."""

    agent: str
    org: str | None
    workspace: str | None
    policy: str
    policy_group: str | None


Data: TypeAlias = Callable[[Any, Mapping[str, Any], View], dict[str, Any]]


def reasons_data(reasons: Iterable[Degradation]) -> list[dict[str, str]]:
    """Return why a reply is degraded, as data."""
    return [{"reason": str(one.reason), "detail": one.detail} for one in reasons]


def changed_data(done: Remembered, *_: object) -> dict[str, Any]:
    """Return what was written as data."""
    return {"id": done.id, "version": done.version, "embedded": done.embedded,
            "reasons": reasons_data(done.reasons)}  # fmt: skip


def memory_data(one: Episode, end: datetime | None) -> dict[str, Any]:
    """Return a memory as data, with when it ends if it is a fact."""
    return {**one.model_dump(mode="json"), "valid_to": end}


def _memory(found: Episode, _: object, view: View) -> dict[str, Any]:
    return memory_data(found, *view.ends([found]))


def _memories(found: list[Episode], given: Mapping[str, Any], view: View) -> dict[str, Any]:
    narrow, first = dict(given), given.get("offset") or 0
    most = narrow.pop("limit", None)
    narrow.pop("offset", None)
    if found and most is not None and len(found) < most:  # the last page
        total = first + len(found)
    else:
        total = view.count(**{**narrow, "filter": read_filter(given.get("filter"))})
    return {"items": map(memory_data, found, view.ends(found)), "total": total}


def _facts(found: Facts, *_: object) -> dict[str, Any]:
    return {
        "items": [{"text": one.text, **one.model_dump(mode="json")} for one in found],
        "degraded": found.degraded,
        "reasons": reasons_data(found.reasons),
    }


def _entries(found: Iterable[Any], *_: object) -> dict[str, Any]:
    return {"items": list(map(vars, found))}


def _policy(found: ReadPolicy | None, given: Mapping[str, Any], view: View) -> dict[str, Any]:
    of = given if found is None else found._asdict()
    place = {"agent": given["agent"], "org": view.by.org, "workspace": view.by.workspace}
    return {**place, "policy": of["policy"], "policy_group": of.get("policy_group")}


_OF_WRITES = ("remember", "update", "supersede", "remember_fact", "end_fact")
REPLIES: Final[dict[str, tuple[type[BaseModel], Data]]] = {
    **dict.fromkeys(_OF_WRITES, (Changed, changed_data)),
    **dict.fromkeys(("recall_facts", "list_facts"), (FactsReply, _facts)),
    **dict.fromkeys(("get_policy", "set_policy"), (PolicyReply, _policy)),
    "get": (MemoryReply, _memory),
    "list": (MemoriesReply, _memories),
    "history": (HistoryReply, lambda found, *_: {"items": map(vars, found)}),
    "links": (LinksReply, lambda found, *_: {"items": found}),
    "link": (EdgeReply, lambda found, *_: found.model_dump(mode="json")),
    "unlink": (UnlinkedReply, lambda found, *_: {"unlinked": found}),
    "pin": (
        PinnedReply,
        lambda _, given, __: {"id": given["id"], "pinned": given.get("pinned", True)},
    ),
    **dict.fromkeys(
        ("forget", "forget_many"), (ForgottenReply, lambda found, *_: {"forgotten": found})
    ),
    "update_many": (UpdatedReply, lambda found, *_: {"updated": found}),
    "list_users": (UsersReply, _entries),
    "list_agents": (AgentsReply, _entries),
    "list_sessions": (SessionsReply, _entries),
    "feedback": (NotedReply, lambda found, *_: {"new": found}),
    "list_feedback": (FeedbackReply, lambda found, *_: {"items": list(map(vars, found))}),
}
"""The schema of each verb's reply, and its data: of what the method returns, and what it took."""
