"""The tools that honeycomb documents: memories, and their files."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import Field

from hyrecall.base.fences import fenced
from hyrecall.memory.ops import Text
from hyrecall.recipes import honeycomb
from hyrecall.serve.mcp.search_tool import excerpts_of
from hyrecall.serve.mcp.session import CallerSession
from hyrecall.serve.mcp.tool import Arguments, Id, Query, Structure, Tool, ToolReply
from hyrecall.systems.honeycomb.replies import (
    LIMIT,
    MOST,
    MOST_TOKENS,
    MemoryType,
    as_changed,
    as_memory,
    as_recall,
    as_stored,
)

_MostHits = Annotated[int, Field(ge=1, le=MOST, description="The most hits to return.")]
_Reason = Annotated[str, Field(min_length=1, max_length=512, description="Why.")]


class _HoneycombSearch(Arguments):
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


class HitList(Structure):
    """Hits, best first."""

    hits: list[Hit]
    sources: list[str]
    degraded: bool
    degraded_reason: str = Field("", alias="degradedReason", description="Only if degraded.")


class _Store(Arguments):
    content: Text
    type: MemoryType = "fact"


class _HoneycombGet(Arguments):
    id: Id


class _HoneycombList(Arguments):
    limit: _MostHits = LIMIT
    offset: Annotated[int, Field(ge=0)] = 0


class _Modify(Arguments):
    id: Id
    content: Text
    reason: _Reason


class _HoneycombForget(Arguments):
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


class ModifiedMemory(Structure):
    """The memory whose text was replaced; the reason is in its history."""

    id: str
    action: Literal["modified"]
    audited: Literal[True]


class ForgottenMemory(Structure):
    """The memory that was taken out of recall; the reason is in its history."""

    id: str
    action: Literal["forgotten"]
    audited: Literal[True]


class MemoryFile(Structure):
    """The text of a file; "" if it is not there."""

    path: str
    text: str


async def _search(session: CallerSession, given: _HoneycombSearch) -> ToolReply:
    found = await session.search(
        given.query, recipe=honeycomb.name, limit=given.limit, token_budget=given.token_budget
    )
    return ToolReply(as_recall(found), excerpts=excerpts_of(found))


async def _store(session: CallerSession, given: _Store) -> ToolReply:
    kept = await session.remember(given.content, kind=given.type, source="memory")
    return ToolReply(as_stored(kept.id))


async def _get(session: CallerSession, given: _HoneycombGet) -> ToolReply:
    return ToolReply({"memory": as_memory(await session.existing(given.id))})


async def _list(session: CallerSession, given: _HoneycombList) -> ToolReply:
    found = await session.call("list", limit=given.limit, offset=given.offset)
    return ToolReply({"memories": [as_memory(one) for one in found]})


async def _modify(session: CallerSession, given: _Modify) -> ToolReply:
    kept = await session.update(given.id, given.reason, {"text": given.content, "input": ""})
    return ToolReply(as_changed(kept.id, "modified"))


async def _forget(session: CallerSession, given: _HoneycombForget) -> ToolReply:
    await session.forget(given.id, reason=given.reason)
    return ToolReply(as_changed(given.id, "forgotten"))


async def _read(session: CallerSession, given: _Read) -> ToolReply:
    text = await session.browse("cat", given.path)
    told = fenced([({"path": given.path}, text)]) if text else "There is no such file."
    return ToolReply(MemoryFile(path=given.path, text=text), told)


async def _index(session: CallerSession, _: _Index) -> ToolReply:
    return await _read(session, _Read(path="/index.md"))


def _searches(name: str) -> Tool:
    told = "Recall memories, summaries and dialogue, best first; facts weigh more than dialogue."
    return Tool(
        name,
        "Recall memories",
        told,
        _HoneycombSearch,
        HitList,
        "reads",
        _search,
        recipe=honeycomb.name,
    )


def _reads(name: str) -> Tool:
    return Tool(name, "Read a file", "Return the text of a file of memories.",
                _Read, MemoryFile, "reads", _read)  # fmt: skip


TOOLS: Final = (
    _searches("memory_search"),
    Tool("memory_store", "Store a memory", "Keep a memory.", _Store, Stored, "adds", _store),
    Tool("memory_get", "Get a memory", "Return a memory by its id.",
         _HoneycombGet, Got, "reads", _get),
    Tool("memory_list", "List memories", "Return memories, newest first.",
         _HoneycombList, Memories, "reads", _list),
    Tool("memory_modify", "Modify a memory", "Replace the text of a memory, and say why.",
         _Modify, ModifiedMemory, "changes", _modify),
    Tool("memory_forget", "Forget a memory", "Take a memory out of recall, and say why.",
         _HoneycombForget, ForgottenMemory, "removes", _forget),
    _searches("honeycomb_search"),
    _reads("honeycomb_read"),
    Tool("honeycomb_index", "Read the index", "Return the list of the newest memories.",
         _Index, MemoryFile, "reads", _index),
    _searches("hivemind_search"),
    _reads("hivemind_read"),
)  # fmt: skip
