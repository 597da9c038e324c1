"""The routes of mem0's self-hosted server: memories, search and history, with its shapes.

``user_id`` is the user of a memory, ``run_id`` its session, and ``agent_id`` a key of its metadata.
Nothing is inferred from messages: each is kept as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias

from fastapi import Query, Request, Response
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from hyrecall import Filter
from hyrecall.base.progress import ROOM
from hyrecall.memory import Episode, Version
from hyrecall.memory.ops import Text
from hyrecall.serve.bodies import Whole
from hyrecall.serve.errors import (
    ServiceError,
    check_lists,
    check_page,
    check_query,
    check_size,
    options_of,
)
from hyrecall.serve.options import Caller
from hyrecall.serve.routing import PathId, Router
from hyrecall.serve.scoped_store import (
    Reader,
    ReadStore,
    Writer,
    WriteStore,
    store_of,
)
from hyrecall.serve.verbs import CallersStore
from hyrecall.systems.route_shapes import BY_REST, ERRORS, iso, tell_degraded

router = Router(tags=["mem0"], responses=ERRORS)

LIMIT = 100
OWN_KEYS = ("agent_id", "role", "actor_id")
"""Keys of the metadata that mem0 shows beside it."""

Id: TypeAlias = Annotated[str | None, Field(min_length=1, max_length=512)]
Asked: TypeAlias = Annotated[str | None, Query(min_length=1, max_length=512)]
Scalar: TypeAlias = str | int | float | bool


class _Mem0Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Message(_Mem0Body):
    """A message of a conversation; ``name`` is who said it."""

    role: str = Field(min_length=1, max_length=512)
    content: Text
    name: Id = None


class Identifiers(_Mem0Body):
    """Whose memories are meant: at least one of the three, unless the token says it."""

    user_id: Id = None
    agent_id: Id = None
    run_id: Id = None
    org: Id = None
    workspace: Id = None


class NewMemories(Identifiers):
    """Messages to keep, each as a memory."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"messages": [{"role": "user", "content": "I like tea"}], "user_id": "alice"}
            ]
        }
    )

    messages: list[Message] = Field(min_length=1)
    metadata: dict[str, Any] | None = None
    infer: bool = False


class SearchBody(Identifiers):
    """A search."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "what do I drink", "user_id": "alice"}]}
    )

    query: str = Field(min_length=1)
    filters: dict[str, Scalar | list[Scalar]] | None = None
    limit: Whole = Field(default=LIMIT, ge=1, validation_alias=AliasChoices("limit", "top_k"))
    threshold: float | None = Field(default=None, allow_inf_nan=False)

    def asked(self) -> Asks:
        """Return whose memories are meant, and the rest of the filters."""
        rest = dict(self.filters or {})
        names: dict[str, Any] = {}
        for name in ("user_id", "agent_id", "run_id"):
            own, inner = getattr(self, name), rest.pop(name, None)
            if inner is not None and (not isinstance(inner, str) or own not in (None, inner)):
                raise ServiceError(422, "Invalid", f"filters.{name}: expected one identifier")
            names[name] = own if inner is None else inner
        return Asks(**names, org=self.org, workspace=self.workspace, metadata=rest)


class ChangedMemory(_Mem0Body):
    """Another text of a memory, and other metadata."""

    text: Text = Field(validation_alias=AliasChoices("text", "memory", "data"))
    metadata: dict[str, Any] | None = None


# ---- whose memories are meant ----


class Asks(BaseModel):
    """The identifiers of a request, and what is asked of the metadata."""

    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    org: str | None = None
    workspace: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)

    def store(self, request: Request, who: Caller) -> CallersStore:
        """Return the store of those on whose behalf the request asks."""
        named = (self.user_id, self.agent_id, self.run_id, who.user_id, who.agent)
        if not any(one is not None for one in named):
            raise ServiceError(400, "BadRequest", "expected one of user_id, agent_id and run_id")
        names = {"user_id": self.user_id, "org": self.org, "workspace": self.workspace}
        return store_of(request, who, names)

    @property
    def narrowing(self) -> dict[str, Any]:
        """Return the options of a store's methods that narrow to these memories."""
        keys = self.metadata | ({} if self.agent_id is None else {"agent_id": self.agent_id})
        run = None if self.run_id is None else Filter(session_id=self.run_id)
        return {"metadata": keys or None, "filter": run}


# ---- shapes ----


def as_memory(episode: Episode, updated_at: str | None = None) -> dict[str, Any]:
    """Return an episode in mem0's shape."""
    text = episode.full_text
    rest = {name: one for name, one in episode.metadata.items() if name not in OWN_KEYS}
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    made = {
        "id": episode.id,
        "memory": text,
        "hash": digest,
        "metadata": rest or None,
        "created_at": iso(episode.occurred_at),
        "updated_at": updated_at,
        "user_id": episode.user_id,
        "run_id": episode.session_id,
    }
    shown = {name: episode.metadata[name] for name in OWN_KEYS if name in episode.metadata}
    return {name: one for name, one in made.items() if one is not None or name != "run_id"} | shown


def as_history(key: str, versions: Sequence[Version]) -> list[dict[str, Any]]:
    """Return the versions of a memory in mem0's shape, oldest first."""
    made, before = [], None
    created = iso(versions[0].recorded_at) if versions else None
    for one in versions:
        text = None if one.episode is None else one.episode.full_text
        is_gone = one.status != "live"
        made.append(
            {
                "id": f"{key}:{one.version}",
                "memory_id": key,
                "old_memory": before,
                "new_memory": None if is_gone else text,
                "event": "DELETE" if is_gone else "ADD" if before is None else "UPDATE",
                "created_at": created,
                "updated_at": iso(one.recorded_at),
                "is_deleted": is_gone,
            }
        )
        before = None if is_gone else text
    return made


def _kept(message: Message, body: NewMemories) -> dict[str, Any]:
    """Return the fields of the episode that keeps a message."""
    own: Mapping[str, str | None] = {
        "agent_id": body.agent_id, "role": message.role, "actor_id": message.name,
    }  # fmt: skip
    more = {name: one for name, one in own.items() if one is not None}
    return {"session_id": body.run_id, "metadata": (body.metadata or {}) | more}


# ---- routes ----


@router.post("/memories", summary="Keep memories")
async def add(body: NewMemories, who: Writer, request: Request) -> dict[str, Any]:
    """Keep each message as a memory; ``infer`` is refused, because nothing is inferred here."""
    if body.infer:
        raise ServiceError(422, "Invalid", "infer: expected false, because nothing is inferred")
    check_size("memories", len(body.messages), options_of(request).max_batch, "in a request")
    names = body.model_dump(include=set(Identifiers.model_fields))
    store = Asks(**names).store(request, who)
    results = []
    for message in body.messages:
        kept = await store.call("remember", message.content, **_kept(message, body))
        told = {"id": kept.id, "memory": message.content, "event": "ADD", "role": message.role}
        results.append(told if message.name is None else told | {"actor_id": message.name})
    return {"results": results}


@router.get("/memories", summary="List memories")
async def get_all(
    who: Reader,
    request: Request,
    user_id: Asked = None,
    agent_id: Asked = None,
    run_id: Asked = None,
    org: Asked = None,
    workspace: Asked = None,
    limit: Annotated[int, Query(ge=1)] = LIMIT,
) -> dict[str, Any]:
    """List memories, newest first."""
    asks = Asks(
        user_id=user_id, agent_id=agent_id, run_id=run_id, org=org, workspace=workspace
    )  # fmt: skip
    store = asks.store(request, who)
    check_page(options_of(request), limit)
    found = await store.call("list", limit=limit, **asks.narrowing)
    return {"results": [as_memory(one) for one in found]}


@router.delete("/memories", summary="Forget memories")
async def delete_all(
    who: Writer,
    request: Request,
    user_id: Asked = None,
    agent_id: Asked = None,
    run_id: Asked = None,
    org: Asked = None,
    workspace: Asked = None,
) -> dict[str, str]:
    """Take all memories of the identifiers out of recall; their history stays."""
    asks = Asks(
        user_id=user_id, agent_id=agent_id, run_id=run_id, org=org, workspace=workspace
    )  # fmt: skip
    store = asks.store(request, who)
    agent = store.caller.agent
    if agent is None and agent_id is None:
        whole: dict[str, Any] = {"session_id": run_id} if run_id else {"everything": True}
        await store.call("forget", **whole, reason=BY_REST)
    else:
        ROOM.set(None)  # what is listed here is not shown
        for one in await store.call("list", limit=2**31 - 1, **asks.narrowing):
            if agent in (None, one.user_id):
                await store.forget(one.id, reason=BY_REST)
    return {"message": "All relevant memories deleted"}


@router.post("/search", summary="Search memories")
async def search(
    body: SearchBody, who: Reader, request: Request, response: Response
) -> dict[str, Any]:
    """Search by the recipe of the served store, best first."""
    options = options_of(request)
    check_lists(options, filters=body.filters)
    asks = body.asked()
    store = asks.store(request, who)
    check_query(options, body.query)
    check_page(options, body.limit)
    matches = await store.call(
        "search", body.query, limit=body.limit, min_score=body.threshold, **asks.narrowing
    )
    tell_degraded(response, matches)
    return {"results": [as_memory(one.episode) | {"score": one.score} for one in matches]}


@router.get("/memories/{id}", summary="Get a memory")
async def get(id: PathId, store: ReadStore) -> dict[str, Any]:  # noqa: A002
    """Return a memory."""
    found, met = await store.existing(id), await store.accesses([id])
    return as_memory(found, iso(met[id].written) if id in met else None)


@router.put("/memories/{id}", summary="Change a memory")
async def update(
    id: PathId,  # noqa: A002
    body: ChangedMemory,
    store: WriteStore,
) -> dict[str, str]:
    """Append a version with another text."""
    more: dict[str, Any] = {}
    if body.metadata is not None:
        old = (await store.existing(id)).metadata
        own = {name: old[name] for name in OWN_KEYS if name in old}
        more = {"metadata": body.metadata | own}
    await store.call("update", id, reason=BY_REST, text=body.text, input="", **more)
    return {"message": "Memory updated successfully!"}


@router.delete("/memories/{id}", summary="Forget a memory")
async def delete(id: PathId, store: WriteStore) -> dict[str, str]:  # noqa: A002
    """Take a memory out of recall; its history stays."""
    await store.forget(id, reason=BY_REST)
    return {"message": "Memory deleted successfully"}


@router.get("/memories/{id}/history", summary="The versions of a memory")
async def history(id: PathId, store: ReadStore) -> list[dict[str, Any]]:  # noqa: A002
    """Return every version of a memory, oldest first; none of one that is not there."""
    return as_history(id, await store.call("history", id))


ROUTERS = (router,)
