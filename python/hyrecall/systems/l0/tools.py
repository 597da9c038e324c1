"""The tools that l0 documents: ``memory_save`` and ``memory_search`` over notes in scopes.

A scope is a user of the store. A caller that may choose the user may name any scope; without a name
it keeps notes in the scope "user" and looks through all scopes, as l0 does. Every other caller has
its own scope alone; that of a caller without a user is "", and holds the notes without a user.
"""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import Field

from hyrecall.errors import KeyConflictError
from hyrecall.memory import EVERYONE, Episode, Partition
from hyrecall.memory.ops import Text
from hyrecall.recipes import l0
from hyrecall.serve.mcp.search_tool import excerpts_of
from hyrecall.serve.mcp.session import DEFAULT_USER, CallerSession
from hyrecall.serve.mcp.tool import Arguments, Query, Structure, Tool, ToolReply
from hyrecall.systems.l0.notes import KIND, snippet

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
    scope = given.scope or session.user_id or (DEFAULT_USER if session.caller.may_name_any else "")
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
    if given.scope or not session.caller.may_name_any:
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
        NotesFound(results=notes, degraded=list(map(str, found.reasons))),
        _text_of_notes,
        excerpts_of(found),
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
    owner = session.of_user(note.user_id or "") if session.caller.may_name_any else session
    versions = await owner.call("history", note.id)
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


TOOLS: Final = (
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
