"""Tools that keep, find, read and change memories: remember, search, get, list, update, forget."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from hyrecall.ask.filter_json import filter_from_json
from hyrecall.ask.filters import Filter
from hyrecall.base.times import read_moment, read_time
from hyrecall.errors import OptionError, error
from hyrecall.memory import Degradation, Edge, Episode, Matches, Remembered, Version
from hyrecall.memory.derived.layout import FILTERED
from hyrecall.memory.recall.call import holding
from hyrecall.serve.mcp.session import CallerSession, missing
from hyrecall.serve.mcp.tool import (
    Arguments,
    Id,
    Limit,
    Previews,
    Query,
    StoredTexts,
    Structure,
    Text,
    Tool,
    ToolReply,
    fenced,
)

# ---- What hyrecall's own tools return, as data with a schema and as a short text ----


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

    episode: OneMemory
    score: float | None = Field(
        description="What the list is ordered by; its scale is the recipe's. Null: newest first."
    )
    vector_score: float | None = Field(description="Cosine in [-1, 1]; null: not computed.")
    bm25_score: float | None = Field(description="BM25; null: not computed.")
    rerank_score: float | None = Field(description="A reranker's; null: none ran on it.")
    is_fill: bool = Field(description="Not found, but added as one of the newest.")
    is_exact: bool = Field(description="First because it holds what was asked for as a whole.")
    valid_to: datetime | None = Field(description="When the fact that it is ends; null: never.")
    around: list[OneMemory] = Field(description="What stands around it in its session, by time.")


class Reason(Structure):
    """Why a reply holds less than it could."""

    reason: str
    detail: str


class Saved(Structure):
    """What a tool wrote."""

    id: str
    version: int
    embedded: bool = Field(description="Whether it has a vector; without one, words find it.")
    reasons: list[Reason] = Field(description="Why it has none.")


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
    input: str | None = Field(None, description="The message that the text answers.")


def memory_shape(one: Episode) -> OneMemory:
    """Return a memory as data."""
    return OneMemory(
        id=one.id, text=one.text, input=one.input or None, kind=one.kind, tags=list(one.tags),
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
        episode=memory_shape(one), score=None, vector_score=None, bm25_score=None,
        rerank_score=None, is_fill=False, is_exact=False, valid_to=end, around=[],
    )  # fmt: skip


def match_shapes(matches: Matches) -> list[Match]:
    """Return matches as data."""
    return [
        Match(
            episode=memory_shape(one.episode), score=one.score, vector_score=one.vector_score,
            bm25_score=one.bm25_score, rerank_score=one.rerank_score, is_fill=one.is_fill,
            is_exact=one.is_exact, valid_to=one.valid_to, around=list(map(memory_shape, near)),
        )
        for one, near in zip(matches, matches.around or [()] * len(matches), strict=True)
    ]  # fmt: skip


def saved_shape(kept: Remembered) -> Saved:
    """Return what was written as data."""
    return Saved(
        id=kept.id, version=kept.version, embedded=kept.embedded,
        reasons=reason_shapes(kept.reasons),
    )  # fmt: skip


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
    text, said = (None, None) if one.episode is None else (one.episode.text, one.episode.input)
    return OneVersion(
        version=one.version, status=one.status, reason=one.reason, successor=one.successor,
        recorded_at=one.recorded_at, text=text, input=said or None,
    )  # fmt: skip


def reason_shapes(reasons: Iterable[Degradation]) -> list[Reason]:
    """Return why a reply is degraded as data."""
    return [Reason(reason=str(one.reason), detail=one.detail) for one in reasons]


def text_of_matches(found: dict[str, Any]) -> str:
    """Return matches as text, best first, each fenced, and what stands around it too."""
    texts = [
        (origin, text)
        for one in found["items"]
        for origin, text in (
            (
                _origin(one["episode"]) | {"newest": one["is_fill"], "valid_to": one["valid_to"]},
                _said(one["episode"]),
            ),
            *(
                (_origin(near) | {"around": one["episode"]["id"]}, _said(near))
                for near in one["around"]
            ),
        )
    ]
    told = [
        f"degraded: {one['reason']}" + (f" ({one['detail']})" if one["detail"] else "")
        for one in found["reasons"]
    ]
    return "\n\n".join([fenced(texts) if texts else "Nothing was found.", *told])


def text_of_memories(memories: Iterable[dict[str, Any]]) -> str:
    """Return listed memories as text, each fenced."""
    texts = [(_origin(one) | {"valid_to": one["valid_to"]}, _said(one)) for one in memories]
    return fenced(texts) if texts else "There are no memories."


def _origin(memory: dict[str, Any]) -> dict[str, Any]:
    """Return what tells whose a memory is and where it came from."""
    names = ("id", "user_id", "source", "kind", "occurred_at")
    return {name: memory[name] for name in names}


def _said(memory: dict[str, Any]) -> str:
    """Return the message that a memory answers and its text, a line each where both are there."""
    parts = (memory["input"] or "", memory["text"] or "")
    return "\n".join(part for part in parts if part.strip())


# ---- Tools that keep, find, read and change memories ----

_TYPES: Final = {name: column.type for name, column in FILTERED.items()}

_Tags = Annotated[
    list[Annotated[str, Field(max_length=512)]],
    Field(description="Words to file it under."),
]
_Wanted = Annotated[
    list[Annotated[str, Field(max_length=512)]] | None,
    Field(description="Only memories with one of these tags."),
]
_Filter = Annotated[
    dict[str, Any] | None,
    Field(
        description="Only memories with these attributes (kind, source, session_id, occurred_at, "
        "importance, pinned, tags, ...) and keys of the metadata: "
        '{"kind": "note", "occurred_at": {"from": "2024-05-01"}, "metadata.project": "x"}. A list '
        "means any of its values."
    ),
]
_Reason = Annotated[
    str | None, Field(max_length=512, description="Why; it is kept in the history.")
]
_Kind = Annotated[str | None, Field(max_length=512, description="Only memories of this kind.")]
_Time = Annotated[str | None, Field(max_length=64)]
_Since = Annotated[_Time, Field(description="Not before this time, ISO 8601.")]
_Until = Annotated[
    _Time, Field(description="Not after this time, ISO 8601; a date alone includes the whole day.")
]


class _Remember(Arguments):
    text: Annotated[Text, Field(description="What to remember.")]
    id: Annotated[
        str | None, Field(min_length=1, max_length=512, description="Default: a random id.")
    ] = None
    kind: Annotated[str, Field(min_length=1, max_length=512)] = "episodic"
    tags: _Tags = Field(default_factory=list)
    metadata: Annotated[dict[str, Any], Field(description="More data to keep.")] = Field(
        default_factory=dict
    )
    importance: Annotated[float | None, Field(ge=0, le=10)] = None
    pinned: Annotated[bool, Field(description="Show it among the resources.")] = False
    session_id: Annotated[str | None, Field(max_length=512)] = None
    source: Annotated[str | None, Field(max_length=512)] = None
    occurred_at: Annotated[_Time, Field(description="ISO 8601; default: now.")] = None
    input: Annotated[str, Field(description="The message that the text answers.")] = ""
    visibility: Annotated[
        Literal["private", "global"],
        Field(description="global: agents of the workspace may read it, by their policy."),
    ] = "private"


class _Search(Arguments):
    text: Annotated[
        Query,
        Field(
            description="What to look for, in plain words. * with since or until: everything of "
            "that time, newest first."
        ),
    ]
    limit: Limit = 10
    offset: Annotated[int, Field(ge=0)] = 0
    kind: _Kind = None
    tags: _Wanted = None
    filter: _Filter = None
    since: _Since = None
    until: _Until = None
    session_id: Annotated[
        str | None, Field(max_length=512, description="The conversation, for recipes that weigh it")
    ] = None
    recipe: Annotated[
        str | None, Field(max_length=64, description="How to rank; default: the store's recipe.")
    ] = None
    alpha: Annotated[
        float | None, Field(ge=0, le=1, description="0: words alone, 1: vectors alone.")
    ] = None
    min_score: Annotated[
        float | dict[str, float] | None,
        Field(description='The least score; or absolute floors, {"bm25": 2.0, "cosine": 0.35}.'),
    ] = None
    normalize: Annotated[bool, Field(description="Scores in [0, 1].")] = False
    token_budget: Annotated[
        int | None, Field(ge=1, le=10_000_000, description="Only as many as fit.")
    ] = None
    around: Annotated[
        int, Field(ge=0, le=100, description="Memories on either side of each in its session.")
    ] = 0
    include_ended: Annotated[
        bool,
        Field(description="Also facts that have ended, behind what followed them, or not begun."),
    ] = False


class Found(Previews):
    """What a search found."""

    items: list[Match]
    degraded: bool
    reasons: list[Reason]


class _Get(Arguments):
    id: Id


class OneFound(StoredTexts):
    """A memory and its edges."""

    episode: ListedMemory
    links: list[Link]


class _List(Arguments):
    limit: Limit = 200
    offset: Annotated[int, Field(ge=0)] = 0
    kind: _Kind = None
    tags: _Wanted = None
    pinned: Annotated[bool | None, Field(description="Only pinned ones, or only others.")] = None
    filter: _Filter = None
    since: _Since = None
    until: _Until = None


class MemoryList(Previews):
    """Memories, newest first."""

    items: list[ListedMemory]


class _Update(Arguments):
    id: Id
    text: Text | None = None
    input: str | None = None
    kind: Annotated[str | None, Field(min_length=1, max_length=512)] = None
    tags: Annotated[_Tags | None, Field(description="In place of those that it has.")] = None
    metadata: Annotated[dict[str, Any] | None, Field(description="In place of what it has.")] = None
    importance: Annotated[float | None, Field(ge=0, le=10)] = None
    pinned: bool | None = None
    session_id: Annotated[str | None, Field(max_length=512)] = None
    source: Annotated[str | None, Field(max_length=512)] = None
    occurred_at: _Time = None
    visibility: Literal["private", "global"] | None = None
    reason: _Reason = None


class _Forget(Arguments):
    id: Id
    reason: _Reason = None


class _EndFact(Arguments):
    id: Id
    at: Annotated[_Time, Field(description="ISO 8601; default: now.")] = None
    reason: _Reason = None


_Agent = Annotated[str, Field(min_length=1, max_length=512, description="The agent's name.")]


class _GetPolicy(Arguments):
    agent: Annotated[_Agent | None, Field(description="Default: the caller.")] = None


class _SetPolicy(Arguments):
    agent: _Agent
    policy: Annotated[
        Literal["isolated", "shared", "group"],
        Field(description="Its own; global memories of the workspace; of these, its group's."),
    ]
    policy_group: Annotated[str | None, Field(max_length=512)] = None


class Policy(Structure):
    """What an agent may read beside its own memories."""

    policy: str
    policy_group: str | None


class ForgottenCount(Structure):
    """How many memories were forgotten: 1, or 0 if there was none."""

    forgotten: int


class History(Previews):
    """The versions of a memory, oldest first."""

    items: list[OneVersion]


async def _remember(session: CallerSession, given: _Remember) -> ToolReply:
    fields = {
        "id": given.id, "kind": given.kind, "tags": tuple(given.tags), "metadata": given.metadata,
        "importance": given.importance, "pinned": given.pinned, "session_id": given.session_id,
        "source": given.source, "visibility": given.visibility, "input": given.input,
        "occurred_at": read_time("occurred_at", given.occurred_at),
    }  # fmt: skip
    kept = await session.remember(
        given.text, **{name: one for name, one in fields.items() if one is not None}
    )
    return ToolReply(saved_shape(kept), f"Saved as {kept.id}.")


async def _search(session: CallerSession, given: _Search) -> ToolReply:
    since, until = _times(given)
    if (since, until) != (None, None) and given.text.strip() in ("", "*"):
        return await _of_a_time(session, given)
    matches = await session.search(
        given.text, recipe=given.recipe, limit=given.limit, offset=given.offset, kind=given.kind,
        tags=given.tags, filter=_read_filter(given.filter), session_id=given.session_id,
        since=since, until=until, alpha=given.alpha,
        min_score=given.min_score, normalize=given.normalize, token_budget=given.token_budget,
        around=given.around, include_ended=given.include_ended,
    )  # fmt: skip
    found = Found(
        items=match_shapes(matches), degraded=matches.degraded,
        reasons=reason_shapes(matches.reasons),
    )  # fmt: skip
    return ToolReply(found, text_of_matches)


async def _of_a_time(session: CallerSession, given: _Search) -> ToolReply:
    """List what happened in a time, because there is nothing to rank by."""
    for name in (
        "session_id",
        "recipe",
        "alpha",
        "min_score",
        "normalize",
        "token_budget",
        "around",
    ):
        if getattr(given, name):
            wish = "no such option where the text names no words"
            raise error(OptionError, name, wish, repr(getattr(given, name)))
    passes = _read_filter(given.filter)
    if not given.include_ended:
        holds = holding(session.memory._sync._store.now())
        passes = holds if passes is None else passes & holds
    since, until = _times(given)
    found = await session.newest(
        limit=given.limit, offset=given.offset, kind=given.kind, tags=given.tags, filter=passes,
        since=since, until=until,
    )  # fmt: skip
    items = list(map(match_shape, found, await session.ends(found)))
    return ToolReply(Found(items=items, degraded=False, reasons=[]), text_of_matches)


async def _get(session: CallerSession, given: _Get) -> ToolReply:
    found = await session.get(given.id)
    if found is None:
        raise missing()
    links = [edge_shape(edge) for edge in await session.links(given.id)]
    (memory,) = listed_shapes([found], await session.ends([found]))
    one = OneFound(episode=memory, links=links)
    return ToolReply(one, lambda data: text_of_memories([data["episode"]]))


async def _list(session: CallerSession, given: _List) -> ToolReply:
    since, until = _times(given)
    found = await session.newest(
        limit=given.limit, offset=given.offset, kind=given.kind, tags=given.tags,
        pinned=given.pinned, filter=_read_filter(given.filter), since=since, until=until,
    )  # fmt: skip
    listed = MemoryList(items=listed_shapes(found, await session.ends(found)))
    return ToolReply(listed, lambda data: text_of_memories(data["items"]))


async def _update(session: CallerSession, given: _Update) -> ToolReply:
    fields = given.model_dump(exclude={"id", "reason", "occurred_at"}, exclude_none=True)
    if (time := read_time("occurred_at", given.occurred_at)) is not None:
        fields["occurred_at"] = time
    if not fields:
        raise error(OptionError, "text", "a field to change", "none")
    kept = await session.update(given.id, given.reason, fields)
    return ToolReply(saved_shape(kept), f"Version {kept.version} of {kept.id} was written.")


async def _forget(session: CallerSession, given: _Forget) -> ToolReply:
    n = await session.forget(given.id, given.reason)
    return ToolReply(
        ForgottenCount(forgotten=n), "Forgotten." if n else "There was no such memory."
    )


async def _end_fact(session: CallerSession, given: _EndFact) -> ToolReply:
    kept = await session.end_fact(given.id, read_time("at", given.at), given.reason)
    return ToolReply(saved_shape(kept), f"Version {kept.version} of {kept.id} was written.")


async def _get_policy(session: CallerSession, given: _GetPolicy) -> ToolReply:
    return ToolReply(Policy(**(await session.policy(given.agent))._asdict()))


async def _set_policy(session: CallerSession, given: _SetPolicy) -> ToolReply:
    await session.set_policy(given.agent, given.policy, given.policy_group)
    return ToolReply(Policy(policy=given.policy, policy_group=given.policy_group))


async def _history(session: CallerSession, given: _Get) -> ToolReply:
    versions = [version_shape(one) for one in await session.history(given.id)]
    if not versions:
        return ToolReply(History(items=[]), "There is no such memory.")
    return ToolReply(History(items=versions), _text_of_history)


def _text_of_history(data: dict[str, Any]) -> str:
    names = ("version", "status", "recorded_at", "reason")
    return fenced(({name: one[name] for name in names}, _said(one)) for one in data["items"])


def _times(given: _Search | _List) -> tuple[date | None, date | None]:
    return read_moment("since", given.since), read_moment("until", given.until)


def _read_filter(given: dict[str, Any] | None) -> Filter | None:
    return None if given is None else filter_from_json(given, _TYPES, "filter")


TOOLS: Final = (
    Tool(
        "remember", "Remember a text",
        "Keep a text for later conversations. It is on the disk when this returns.",
        _Remember, Saved, "adds", _remember,
    ),
    Tool(
        "search", "Search memories",
        "Recall memories by words and meaning, best first. Use it before answering from memory.",
        _Search, Found, "reads", _search, recipe="",
    ),
    Tool("get", "Get a memory", "Return a memory by its id, with its links to others.",
         _Get, OneFound, "reads", _get),
    Tool("list", "List memories", "Return memories, newest first.",
         _List, MemoryList, "reads", _list),
    Tool(
        "update", "Update a memory",
        "Change fields of a memory; the earlier version stays in its history. Fields that are not "
        "named stay as they are.",
        _Update, Saved, "changes", _update,
    ),
    Tool(
        "forget", "Forget a memory",
        "Take a memory out of recall. Its history is kept.",
        _Forget, ForgottenCount, "removes", _forget, is_repeatable=True,
    ),
    Tool(
        "end_fact", "End a fact",
        "Say that a fact no longer holds. It stays in the history, and searches leave it out.",
        _EndFact, Saved, "changes", _end_fact, is_repeatable=True, shows=True,
    ),
    Tool("get_policy", "Read policy of an agent",
         "Return what an agent may read beside its own memories.",
         _GetPolicy, Policy, "reads", _get_policy),
    Tool(
        "set_policy", "Set the read policy of an agent",
        "Set what an agent may read beside its own memories.",
        _SetPolicy, Policy, "changes", _set_policy, is_repeatable=True,
    ),
    Tool("history", "History of a memory", "Return every version of a memory, oldest first.",
         _Get, History, "reads", _history),
)  # fmt: skip
