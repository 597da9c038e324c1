"""The tools that honeycomb documents: memories by id, recall by class, and files to read."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import Field

from hyrecall.recipes import honeycomb
from hyrecall.serve.documented.honeycomb import (
    LIMIT,
    MOST,
    MOST_TOKENS,
    MemoryType,
    as_changed,
    as_memory,
    as_recall,
    as_stored,
)
from hyrecall.serve.mcp.previews import fenced
from hyrecall.serve.mcp.session import Session, missing
from hyrecall.serve.mcp.tool import Arguments, Id, Query, Reply, Structure, Text, Tool

__all__ = ["TOOLS"]

_MostHits = Annotated[int, Field(ge=1, le=MOST, description="The most hits to return.")]
_Reason = Annotated[str, Field(min_length=1, max_length=512, description="Why.")]


class _Search(Arguments):
    query: Annotated[Query, Field(min_length=1)]
    limit: _MostHits = LIMIT
    token_budget: Annotated[
        int | None,
        Field(alias="tokenBudget", ge=1, le=MOST_TOKENS, description="Only as many as fit."),
    ] = None


class Hit(Structure):
    """A memory that was found."""

    source: str
    id: str
    text: str
    score: float
    org: str | None
    workspace: str | None
    agent: str | None
    visibility: str
    kind: Literal["memory", "session"]
    secondary: bool = Field(description="Raw dialogue, which weighs less than a memory.")
    created_at: datetime = Field(alias="createdAt")
    freshness: float | None = Field(alias="freshnessScore")
    memory_id: str = Field("", alias="memoryId", description="Not there: raw dialogue.")
    memory_type: str = Field("", alias="memoryType", description="Not there: raw dialogue.")


class Hits(Structure):
    """Hits, best first."""

    hits: list[Hit]
    sources: list[str]
    degraded: bool
    degraded_reason: str = Field("", alias="degradedReason", description="Only if degraded.")


class _Store(Arguments):
    content: Text
    type: MemoryType = "fact"


class _Get(Arguments):
    id: Id


class _List(Arguments):
    limit: _MostHits = LIMIT
    offset: Annotated[int, Field(ge=0)] = 0


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


class Got(Structure):
    """The memory that was asked for."""

    memory: OneMemory


class Memories(Structure):
    """Memories, newest first."""

    memories: list[OneMemory]


class Stored(Structure):
    """The memory that was kept."""

    id: str
    action: Literal["stored"]


class Modified(Structure):
    """The memory whose text was replaced; the reason is in its history."""

    id: str
    action: Literal["modified"]
    audited: Literal[True]


class Forgotten(Structure):
    """The memory that was taken out of recall; the reason is in its history."""

    id: str
    action: Literal["forgotten"]
    audited: Literal[True]


class File(Structure):
    """The text of a file; "" if it is not there."""

    path: str
    text: str


async def _search(session: Session, given: _Search) -> Reply:
    found = await session.search(
        given.query, recipe=honeycomb.name, limit=given.limit, token_budget=given.token_budget
    )
    return Reply(as_recall(found))


async def _store(session: Session, given: _Store) -> Reply:
    kept = await session.remember(given.content, kind=given.type, source="memory")
    return Reply(as_stored(kept.id))


async def _get(session: Session, given: _Get) -> Reply:
    found = await session.get(given.id)
    if found is None:
        raise missing()
    return Reply({"memory": as_memory(found)})


async def _list(session: Session, given: _List) -> Reply:
    found = await session.newest(limit=given.limit, offset=given.offset)
    return Reply({"memories": [as_memory(one) for one in found]})


async def _modify(session: Session, given: _Modify) -> Reply:
    kept = await session.update(given.id, given.reason, {"output": given.content, "input": ""})
    return Reply(as_changed(kept.id, "modified"))


async def _forget(session: Session, given: _Forget) -> Reply:
    if not await session.forget(given.id, given.reason):
        raise missing()
    return Reply(as_changed(given.id, "forgotten"))


async def _read(session: Session, given: _Read) -> Reply:
    text = await session.browse("cat", given.path)
    told = fenced([({"path": given.path}, text)]) if text else "There is no such file."
    return Reply(File(path=given.path, text=text), told)


async def _index(session: Session, _: _Index) -> Reply:
    return await _read(session, _Read(path="/index.md"))


def _searches(name: str) -> Tool:
    told = "Recall memories, summaries and dialogue, best first; facts weigh more than dialogue."
    return Tool(
        name, "Recall memories", told, _Search, Hits, "reads", _search, recipe=honeycomb.name
    )


def _reads(name: str) -> Tool:
    return Tool(name, "Read a file", "Return the text of a file of memories.",
                _Read, File, "reads", _read)  # fmt: skip


TOOLS: Final = (
    _searches("memory_search"),
    Tool("memory_store", "Store a memory", "Keep a memory.", _Store, Stored, "adds", _store),
    Tool("memory_get", "Get a memory", "Return a memory by its id.",
         _Get, Got, "reads", _get),
    Tool("memory_list", "List memories", "Return memories, newest first.",
         _List, Memories, "reads", _list),
    Tool("memory_modify", "Modify a memory", "Replace the text of a memory, and say why.",
         _Modify, Modified, "changes", _modify),
    Tool("memory_forget", "Forget a memory", "Take a memory out of recall, and say why.",
         _Forget, Forgotten, "removes", _forget),
    _searches("honeycomb_search"),
    _reads("honeycomb_read"),
    Tool("honeycomb_index", "Read the index", "Return the list of the newest memories.",
         _Index, File, "reads", _index),
    _searches("hivemind_search"),
    _reads("hivemind_read"),
)  # fmt: skip
