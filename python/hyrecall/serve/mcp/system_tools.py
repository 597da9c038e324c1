"""The tools that four published systems document: honeycomb, hebb, hypergraph and l0."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from hyrecall.errors import KeyConflictError
from hyrecall.memory import EVERYONE, Episode, Partition, ahm_recall
from hyrecall.memory.notes import KIND, snippet
from hyrecall.recipes import hebb, honeycomb, hypergraph, l0
from hyrecall.serve.documented import (
    LIMIT,
    MOST,
    MOST_CHARACTERS,
    MOST_OF_HEBB,
    MOST_TOKENS,
    NOTHING,
    PARTITION,
    MemoryType,
    as_changed,
    as_memory,
    as_recall,
    as_results,
    as_stored,
    shown,
)
from hyrecall.serve.mcp.session import DEFAULT_USER, CallerSession, missing
from hyrecall.serve.mcp.tool import Arguments, Id, Query, Structure, Text, Tool, ToolReply, fenced

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
    return ToolReply(as_recall(found))


async def _store(session: CallerSession, given: _Store) -> ToolReply:
    kept = await session.remember(given.content, kind=given.type, source="memory")
    return ToolReply(as_stored(kept.id))


async def _get(session: CallerSession, given: _HoneycombGet) -> ToolReply:
    found = await session.get(given.id)
    if found is None:
        raise missing()
    return ToolReply({"memory": as_memory(found)})


async def _list(session: CallerSession, given: _HoneycombList) -> ToolReply:
    found = await session.newest(limit=given.limit, offset=given.offset)
    return ToolReply({"memories": [as_memory(one) for one in found]})


async def _modify(session: CallerSession, given: _Modify) -> ToolReply:
    kept = await session.update(given.id, given.reason, {"text": given.content, "input": ""})
    return ToolReply(as_changed(kept.id, "modified"))


async def _forget(session: CallerSession, given: _HoneycombForget) -> ToolReply:
    if not await session.forget(given.id, given.reason):
        raise missing()
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


HONEYCOMB_TOOLS: Final = (
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


# ---- The tools that Hebb documents: ``write_memory`` and ``search_memory`` ----
# Its other two, ``consolidate`` and ``ingest_conversation``, call a language model and are not
# here.


class _Write(Arguments):
    content: Annotated[Text, Field(max_length=MOST_CHARACTERS)]
    tags: list[Annotated[str, Field(max_length=512)]] = Field(default_factory=list)
    importance: Annotated[float, Field(ge=0, le=10)] = 5


class _HebbSearch(Arguments):
    query: Annotated[Query, Field(min_length=1)]
    top_k: Annotated[
        int, Field(ge=1, le=MOST_OF_HEBB, description="The most memories to return.")
    ] = 5


class HebbMemory(Structure):
    """A memory."""

    id: str
    partition_id: str
    content: str
    importance_score: float | None
    tags: list[str]
    metadata: dict[str, Any]
    source: str | None
    created_at: datetime
    updated_at: datetime | None
    last_accessed_at: datetime | None = Field(description="Null: never.")
    access_count: int
    expires_at: datetime | None = Field(description="Null: never.")


class Result(Structure):
    """A memory that was found, with the parts of its score."""

    memory: HebbMemory
    score: float
    recency_score: float | None
    importance_score_normalized: float | None
    relevance_score: float | None


class Results(Structure):
    """Memories that were found, best first, and those that share their tags."""

    results: list[Result]
    related: list[HebbMemory]


async def _write(session: CallerSession, given: _Write) -> ToolReply:
    kept = await session.remember(
        given.content, kind=PARTITION, tags=tuple(given.tags), importance=float(given.importance)
    )
    found = await session.get(kept.id)
    if found is None:  # another call has forgotten it
        raise missing()
    (made,) = await shown(session, [found])
    return ToolReply(made)


async def _hebb_search(session: CallerSession, given: _HebbSearch) -> ToolReply:
    if not given.query.strip():
        return ToolReply(NOTHING)
    found = await session.search(given.query, recipe=hebb.name, limit=given.top_k)
    return ToolReply(await as_results(session, found))


HEBB_TOOLS: Final = (
    Tool("write_memory", "Write a memory", "Keep a memory with its importance, 0 to 10.",
         _Write, HebbMemory, "adds", _write, shows=True),
    Tool("search_memory", "Search memories",
         "Find memories by words, meaning and tags; recent and important ones rank higher.",
         _HebbSearch, Results, "reads", _hebb_search, recipe=hebb.name),
)  # fmt: skip


# ---- The tool that hypergraph documents: ``hm_recall`` ----


class _Recall(Arguments):
    query: Query
    session_id: Annotated[
        str,
        Field(
            min_length=1, max_length=512, description="The conversation: what it met ranks higher."
        ),
    ] = "default"
    max_results: Annotated[int, Field(ge=1, le=50, description="The most nodes to return.")] = 10
    force_regex: Annotated[
        bool, Field(description="The query is a pattern, and nothing else runs.")
    ] = False


class Near(Structure):
    """A neighbour of a node that was found."""

    key: str
    type: str
    description: str
    data: dict[str, Any]
    rel: str | None


class Node(Structure):
    """A node that was found."""

    key: str
    type: str
    description: str
    data: dict[str, Any]
    score: float = Field(ge=0, le=1)
    expansion_context: list[Near]


class Edge(Structure):
    """What connects two nodes of the answer."""

    id: str
    relationship: str
    description: str
    data: dict[str, Any]
    participants: list[str]


class Metadata(Structure):
    """How the recall was answered."""

    phase: str | None
    weights: dict[str, float] | None
    tiers: dict[str, int]
    degraded: list[str]
    took_ms: float


class Recalled(Structure):
    """The answer of ``hm_recall``."""

    results: list[Node]
    edges: list[Edge]
    count: int
    metadata: Metadata


async def _recall(session: CallerSession, given: _Recall) -> ToolReply:
    one = session.caller
    found = await ahm_recall(
        session.memory, given.query, given.session_id, given.max_results, given.force_regex,
        user_id=one.user_id if one.agent is None else None, org=one.org, workspace=one.workspace,
        agent=one.agent,
    )  # fmt: skip
    return ToolReply(Recalled.model_validate(found))


HYPERGRAPH_TOOLS: Final = (
    Tool(
        "hm_recall", "Recall nodes",
        "Recall nodes of the memory graph by words, meaning, edge labels and patterns, with the "
        "edges between them.",
        _Recall, Recalled, "reads", _recall, recipe=hypergraph.name,
    ),
)  # fmt: skip


# ---- The tools that l0 documents: ``memory_save`` and ``memory_search`` over notes in scopes ----
# A scope is a user of the store. A caller that may choose the user may name any scope; without a
# name it keeps notes in the scope "user" and looks through all scopes, as l0 does. Every other
# caller has its own scope alone; that of a caller without a user is "", and holds the notes without
# a user.

_Scope = Annotated[
    str, Field(max_length=512, description="The scope of the note, as user or project:website.")
]


class _L0Save(Arguments):
    key: Annotated[str, Field(min_length=1, max_length=512, description="A short, stable name.")]
    value: Annotated[Text, Field(description="What to keep; it replaces an earlier value.")]
    scope: _Scope = ""
    tags: Annotated[
        list[Annotated[str, Field(max_length=512)]] | str,
        Field(description="Words to find it by: a list, or one text with commas."),
    ] = Field(default_factory=list)
    origin: Annotated[str, Field(max_length=512, description="Where it comes from.")] = ""
    origin_agent: Annotated[str, Field(max_length=512, description="Who saved it.")] = ""


class SavedNote(Structure):
    """The note that was written."""

    key: str
    scope: str
    version: int
    embedded: bool


class _L0Search(Arguments):
    query: Query
    scope: Annotated[str, Field(max_length=512, description="Default: all of the caller.")] = ""
    limit: Annotated[int, Field(ge=1, le=150, description="The most notes to return.")] = 50
    expand: Annotated[bool, Field(description="Return whole values.")] = False


class NoteFound(Structure):
    """A note that was found: a snippet and a score, or with ``expand`` the value."""

    id: str
    scope: str
    key: str
    tags: str
    pinned: bool
    archived: bool
    origin: str | None = None
    score: float | None = None
    snippet: str | None = None
    value: str | None = None
    size_bytes: int
    created_at: int = Field(description="Milliseconds since 1970.")
    updated_at: int = Field(description="Milliseconds since 1970.")


class NotesFound(Structure):
    """Notes, best first."""

    results: list[NoteFound]
    degraded: list[str] = Field(default=[], description="Why notes may be missing or misplaced.")


async def _save(session: CallerSession, given: _L0Save) -> ToolReply:
    scope = given.scope or session.user_id or (DEFAULT_USER if session.is_free else "")
    of_scope = session.of_user(scope) if scope else session
    tags = given.tags if isinstance(given.tags, list) else given.tags.split(",")
    wanted = {"tags": tuple(tag.strip() for tag in tags if tag.strip())}
    origin = {"origin": given.origin, "origin_agent": given.origin_agent}
    metadata = {name: one for name, one in origin.items() if one}
    found = await of_scope.get(given.key)
    if found is None:
        try:
            kept = await of_scope.remember(
                given.value, id=given.key, kind=KIND, metadata=metadata, **wanted
            )
        except KeyConflictError:
            found = await of_scope.get(given.key)  # another call was faster
            if found is None:
                raise
    if found is not None:
        changes = {"text": given.value, **wanted, "metadata": found.metadata | metadata}
        kept = await of_scope.update(given.key, "memory_save", changes)
    saved = SavedNote(key=kept.id, scope=scope, version=kept.version, embedded=kept.embedded)
    return ToolReply(saved, f"Saved {scope}/{kept.id}." if scope else f"Saved {kept.id}.")


async def _l0_search(session: CallerSession, given: _L0Search) -> ToolReply:
    if not given.query.strip():
        return ToolReply(NotesFound(results=[]), "[]")
    options: dict[str, Any] = {"kind": KIND, "limit": given.limit}
    if given.scope or not session.is_free:
        one = session.of_user(given.scope) if given.scope else session
        found = await one.search(given.query, recipe=l0.name, **options)
    else:
        users = await _scopes(session)
        if not users:
            return ToolReply(NotesFound(results=[]), "[]")
        found = await session.memory.search(
            given.query, recipe=l0, partitions=[_partition(session, user) for user in users],
            **options,
        )  # fmt: skip
    times = await asyncio.gather(*(_updated(session, match.episode) for match in found))
    notes = [
        _note(match.episode, time).model_copy(
            update={"value": match.episode.text}
            if given.expand
            else {"score": match.score, "snippet": snippet(match.episode.text, given.query)}
        )
        for match, time in zip(found, times, strict=True)
    ]
    return ToolReply(
        NotesFound(results=notes, degraded=list(map(str, found.reasons))), _text_of_notes
    )


def _text_of_notes(data: dict[str, Any]) -> str:
    shown = [{k: one for k, one in note.items() if one is not None} for note in data["results"]]
    return json.dumps(shown, ensure_ascii=False)


async def _scopes(session: CallerSession) -> list[str]:
    """Return all scopes with notes, for a caller that may choose any of them."""
    one = session.caller
    every = await session.memory.list(
        user_id=EVERYONE, org=one.org, workspace=one.workspace, kind=KIND, limit=2**31 - 1
    )
    return list(dict.fromkeys(note.user_id for note in every if note.user_id is not None))


def _partition(session: CallerSession, user: str) -> Partition:
    return Partition(user, org=session.caller.org, workspace=session.caller.workspace)


async def _updated(session: CallerSession, note: Episode) -> datetime:
    """Return when a note was last written."""
    owner = session.of_user(note.user_id or "") if session.is_free else session
    versions = await owner.history(note.id)
    return versions[-1].recorded_at if versions else note.occurred_at


def _note(note: Episode, updated: datetime) -> NoteFound:
    origin = note.metadata.get("origin")
    return NoteFound(
        id=note.id, scope=note.user_id or "", key=note.id, tags=",".join(note.tags),
        pinned=note.pinned, archived=False, origin=origin if isinstance(origin, str) else None,
        size_bytes=len(note.text.encode()), created_at=_milliseconds(note.occurred_at),
        updated_at=_milliseconds(updated),
    )  # fmt: skip


def _milliseconds(time: datetime) -> int:
    return int(time.timestamp() * 1_000)


L0_TOOLS: Final = (
    Tool(
        "memory_save", "Save a note",
        "Keep a value under a key in a scope. A key that is there gets the new value.",
        _L0Save, SavedNote, "changes", _save,
    ),
    Tool(
        "memory_search", "Search notes",
        "Find notes by words, their beginnings and meaning: keys, tags and snippets, best first.",
        _L0Search, NotesFound, "reads", _l0_search, recipe=l0.name,
    ),
)  # fmt: skip
