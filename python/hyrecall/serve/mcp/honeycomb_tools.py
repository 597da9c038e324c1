"""The tools that honeycomb documents: memories by id, recall by class, and files to read."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import Field

from hyrecall.errors import NotFoundError, error
from hyrecall.memory import Episode, EpisodeMatch
from hyrecall.recipes import honeycomb
from hyrecall.serve.mcp.session import Session
from hyrecall.serve.mcp.tool import Arguments, Id, Query, Reply, Structure, Text, Tool

__all__ = ["TOOLS"]

_TABLES: Final = {"memory": "memories", "summary": "memory", "session": "sessions"}
_Type = Literal["fact", "convention", "preference", "decision", "gotcha", "reference"]
_MostHits = Annotated[int, Field(ge=1, le=200, description="The most hits to return.")]
_Reason = Annotated[str, Field(min_length=1, max_length=512, description="Why.")]


class _Search(Arguments):
    query: Annotated[Query, Field(min_length=1)]
    limit: _MostHits = 20
    token_budget: Annotated[
        int | None,
        Field(alias="tokenBudget", ge=1, le=10_000_000, description="Only as many as fit."),
    ] = None


class Hit(Structure):
    """A memory that was found."""

    source: str
    id: str
    text: str
    score: float
    kind: Literal["memory", "session"]
    secondary: bool = Field(description="Raw dialogue, which weighs less than a memory.")
    created_at: datetime = Field(alias="createdAt")
    freshness: float | None = Field(alias="freshnessScore")
    memory_id: str | None = Field(alias="memoryId", description="Null: raw dialogue.")
    memory_type: str | None = Field(alias="memoryType", description="Null: raw dialogue.")


class Hits(Structure):
    """Hits, best first."""

    hits: list[Hit]
    sources: list[str]
    degraded: bool
    degraded_reason: str | None = Field(None, alias="degradedReason")


class _Store(Arguments):
    content: Text
    type: _Type = "fact"


class _Get(Arguments):
    id: Id


class _List(Arguments):
    limit: _MostHits = 20
    offset: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0


class _Modify(Arguments):
    id: Id
    content: Text
    reason: _Reason


class _Forget(Arguments):
    id: Id
    reason: _Reason


class _Read(Arguments):
    path: Annotated[str, Field(min_length=1, max_length=8_192, description="As /index.md.")]


class _Index(Arguments):
    pass


class OneMemory(Structure):
    """A memory."""

    id: str
    content: str
    type: str
    source: str
    agent_id: str | None = Field(alias="agentId")
    visibility: str
    created_at: datetime = Field(alias="createdAt")


class Memories(Structure):
    """Memories, newest first."""

    memories: list[OneMemory]


class Written(Structure):
    """What was done to a memory."""

    id: str
    action: Literal["stored", "modified"]


class Gone(Structure):
    """Whether a memory was forgotten."""

    id: str
    forgotten: bool


class File(Structure):
    """The text of a file; "" if it is not there."""

    path: str
    text: str


async def _search(session: Session, given: _Search) -> Reply:
    found = await session.search(
        given.query, recipe=honeycomb.name, limit=given.limit, token_budget=given.token_budget
    )
    hits = [_hit(match) for match in found]
    reason = str(found.reasons[0].reason) if found.reasons else None
    sources = list(dict.fromkeys(hit.source for hit in hits))
    return Reply(Hits(hits=hits, sources=sources, degraded=found.degraded, degradedReason=reason))


def _hit(match: EpisodeMatch) -> Hit:
    one = match.episode
    is_raw = one.source == "session"
    return Hit(
        source=_table(one), id=one.id, text=one.text, score=match.score,
        kind="session" if is_raw else "memory", secondary=is_raw, createdAt=one.occurred_at,
        freshnessScore=None if match.parts is None else match.parts.recency,
        memoryId=None if is_raw else one.id, memoryType=None if is_raw else one.kind,
    )  # fmt: skip


async def _store(session: Session, given: _Store) -> Reply:
    kept = await session.remember(given.content, kind=given.type, source="memory")
    return Reply(Written(id=kept.id, action="stored"))


async def _get(session: Session, given: _Get) -> Reply:
    found = await session.get(given.id)
    if found is None:
        raise error(NotFoundError, "id", "a memory of the caller", "none")
    return Reply(_memory(found))


async def _list(session: Session, given: _List) -> Reply:
    found = await session.newest(limit=given.limit, offset=given.offset)
    return Reply(Memories(memories=list(map(_memory, found))))


async def _modify(session: Session, given: _Modify) -> Reply:
    kept = await session.update(given.id, given.reason, {"output": given.content, "input": ""})
    return Reply(Written(id=kept.id, action="modified"))


async def _forget(session: Session, given: _Forget) -> Reply:
    n = await session.forget(given.id, given.reason)
    return Reply(Gone(id=given.id, forgotten=bool(n)))


async def _read(session: Session, given: _Read) -> Reply:
    text = await session.browse("cat", given.path)
    return Reply(File(path=given.path, text=text), text or "There is no such file.")


async def _index(session: Session, _: _Index) -> Reply:
    return await _read(session, _Read(path="/index.md"))


def _memory(one: Episode) -> OneMemory:
    return OneMemory(
        id=one.id, content=one.text, type=one.kind, source=_table(one), agentId=one.user_id,
        visibility=one.visibility, createdAt=one.occurred_at,
    )  # fmt: skip


def _table(one: Episode) -> str:
    """Return honeycomb's name of the table that a memory lies in."""
    return _TABLES.get(one.source or "memory", one.source or "")


def _searches(name: str) -> Tool:
    told = "Recall memories, summaries and dialogue, best first; facts weigh more than dialogue."
    return Tool(name, "Recall memories", told, _Search, Hits, "reads", _search)


def _reads(name: str) -> Tool:
    return Tool(name, "Read a file", "Return the text of a file of memories.",
                _Read, File, "reads", _read)  # fmt: skip


TOOLS: Final = (
    _searches("memory_search"),
    Tool("memory_store", "Store a memory", "Keep a memory.", _Store, Written, "adds", _store),
    Tool("memory_get", "Get a memory", "Return a memory by its id.",
         _Get, OneMemory, "reads", _get),
    Tool("memory_list", "List memories", "Return memories, newest first.",
         _List, Memories, "reads", _list),
    Tool("memory_modify", "Modify a memory", "Replace the text of a memory, and say why.",
         _Modify, Written, "changes", _modify),
    Tool("memory_forget", "Forget a memory", "Take a memory out of recall, and say why.",
         _Forget, Gone, "removes", _forget, is_repeatable=True),
    _searches("honeycomb_search"),
    _reads("honeycomb_read"),
    Tool("honeycomb_index", "Read the index", "Return the list of the newest memories.",
         _Index, File, "reads", _index),
    _searches("hivemind_search"),
    _reads("hivemind_read"),
)  # fmt: skip
