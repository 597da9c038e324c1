"""Honeycomb's routes of memories: recall, keep, list, get, modify and forget.

The headers ``x-honeycomb-org``, ``-workspace`` and ``-agent`` say who asks; a token may say it
instead, and then they can only repeat it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import Depends, Header, Request
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from starlette.responses import Response

from hyrecall import Dedup, Recency, Rerank
from hyrecall.memory.ops import Text
from hyrecall.recipe import Recipe
from hyrecall.recipes import honeycomb
from hyrecall.serve.bodies import Whole
from hyrecall.serve.errors import ServiceError, check_query, error_response, options_of
from hyrecall.serve.options import Caller
from hyrecall.serve.routing import PathId, Router
from hyrecall.serve.scoped_store import (
    Reader,
    Writer,
    memory_of,
    narrow,
    recipe_for,
)
from hyrecall.serve.verbs import CallersStore
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
from hyrecall.systems.route_shapes import ERRORS

router = Router(prefix="/api/memories", tags=["honeycomb"], responses=ERRORS)

DEFAULT = "default"
"""The workspace and the agent of requests that name none."""

WITHOUT_PROJECTS = "a store has no projects: the directory had no effect"


class _HoneycombBody(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=False
    )


Days: TypeAlias = Annotated[float | None, Field(gt=0, le=1e6, allow_inf_nan=False)]


class HalfLives(BaseModel):
    """Half-lives in days, by table."""

    model_config = ConfigDict(extra="forbid", strict=True)

    memories: Days = None
    memory: Days = None
    sessions: Days = None

    def by_source(self) -> dict[object, timedelta]:
        """Return those that are given, by the source of a memory."""
        days = {"memory": self.memories, "summary": self.memory, "session": self.sessions}
        return {name: timedelta(days=one) for name, one in days.items() if one is not None}


class RecencyBody(_HoneycombBody):
    """How much age counts: half-lives, and an exponent of the factor."""

    half_life_days_by_class: HalfLives | None = None
    activation_exponent: float | None = Field(default=None, ge=0, le=100)

    def applied(self, recipe: Recipe) -> Recipe:
        """Return a recipe whose recency stage follows this."""
        shaping = tuple(
            self._stage(stage) if isinstance(stage, Recency) else stage for stage in recipe.shaping
        )
        return recipe.replace(shaping=shaping)

    def _stage(self, stage: Recency) -> Recency:
        given = self.half_life_days_by_class
        lives = {} if given is None else given.by_source()
        exponent = self.activation_exponent
        return replace(
            stage,
            exponent=stage.exponent if exponent is None else exponent,
            half_lives=lives or stage.half_lives,
            by="source" if lives else stage.by,
        )


class RecallBody(_HoneycombBody):
    """A recall.

    Parameters
    ----------
    query : str
    limit : number, default 20
        At most 200; less than 1 is 20.
    tokenBudget : int, optional
        In [1, 10,000,000]: take hits while their texts fit.
    recency : object, optional
        ``halfLifeDaysByClass`` by memories, memory and sessions; ``activationExponent``.
    fast : bool, default False
        Neither rerank nor remove near-duplicates.
    cwd : str, optional
        Narrows to a project in honeycomb; the reply says that it did not here.
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "why did the deploy fail", "limit": 5}]}
    )

    query: str = Field(min_length=1)
    limit: float | None = None
    token_budget: Whole | None = Field(default=None, ge=1, le=MOST_TOKENS)
    recency: RecencyBody | None = None
    fast: bool = False
    cwd: str | None = None

    def most(self) -> int:
        """Return the number of hits that is meant."""
        if self.limit is None or not math.isfinite(self.limit) or self.limit < 1:
            return LIMIT
        return min(int(self.limit), MOST)

    def recipe(self, served: Recipe) -> Recipe:
        """Return the served recipe with the options of this recall."""
        made = served if self.recency is None else self.recency.applied(served)
        if not self.fast:
            return made
        return made.replace(
            shaping=tuple(one for one in made.shaping if not isinstance(one, Dedup | Rerank))
        )


class NewMemory(_HoneycombBody):
    """A memory to keep; ``visibility`` "global" lets other agents of the workspace read it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"content": "CI runs on Debian 12"}]})

    content: Text
    type: MemoryType = "fact"
    normalized_content: str | None = None
    agent_id: str | None = Field(default=None, min_length=1, max_length=512)
    cwd: str | None = None
    visibility: Literal["private", "global"] = "private"


class Modified(_HoneycombBody):
    """Another text of a memory, and why."""

    content: Text
    reason: str = Field(min_length=1, max_length=512)
    agent_id: str | None = Field(default=None, min_length=1, max_length=512)


class Forgotten(_HoneycombBody):
    """Why a memory is forgotten."""

    reason: str = Field(min_length=1, max_length=512)
    agent_id: str | None = Field(default=None, min_length=1, max_length=512)


# ---- who asks ----


def caller_of(who: Caller, request: Request, agent_id: str | None = None) -> Caller:
    """Return on whose behalf a request with honeycomb's headers asks."""
    told = {name: request.headers.get(f"x-honeycomb-{name}") for name in ("org", "workspace")}
    if any(one is not None and not one.strip() for one in told.values()):
        raise ServiceError(400, "BadRequest", "x-honeycomb-org, -workspace: expected names")
    names = narrow(who, told)
    if not names["org"]:
        raise ServiceError(400, "BadRequest", "expected the header x-honeycomb-org")
    workspace = names["workspace"] or (DEFAULT if who.may_choose_partition else None)
    asked = request.headers.get("x-honeycomb-agent")
    if agent_id is not None and asked not in (None, agent_id):
        raise ServiceError(422, "Invalid", "agentId: expected that of x-honeycomb-agent")
    asked = agent_id if asked is None else asked
    if who.agent is None and who.may_choose_user and who.user_id is None:
        agent = DEFAULT if asked is None else asked  # a blank one is isolated by the store
        return replace(who, org=names["org"], workspace=workspace, agent=agent)
    if asked not in (None, who.user_id if who.agent is None else who.agent):
        raise ServiceError(403, "ScopeError", "agent: expected that of the token")
    return replace(who, org=names["org"], workspace=workspace)


_Name: TypeAlias = Annotated[str | None, Header()]


def _named(
    request: Request,
    x_honeycomb_org: _Name = None,
    x_honeycomb_workspace: _Name = None,
    x_honeycomb_agent: _Name = None,
    x_honeycomb_cwd: _Name = None,
) -> Request:
    """Return a request whose route declares honeycomb's headers."""
    return request


Named: TypeAlias = Annotated[Request, Depends(_named)]


async def _reading(who: Reader, request: Named) -> CallersStore:
    return CallersStore(memory_of(request), caller_of(who, request))


def _writing(who: Caller, request: Request, agent_id: str | None) -> CallersStore:
    """Return the store as the agent of a change."""
    asking = caller_of(who, request, agent_id)
    if asking.agent is not None and not asking.agent.strip():
        raise ServiceError(400, "BadRequest", "x-honeycomb-agent: expected a name")
    return CallersStore(memory_of(request), asking)


def _with_directory(made: dict[str, Any], request: Request, cwd: str | None) -> dict[str, Any]:
    """Add to a reply that the directory of a request had no effect."""
    if not (cwd or request.headers.get("x-honeycomb-cwd")):
        return made
    return made | {"projectScopeDegraded": True, "warning": WITHOUT_PROJECTS}


ReadAgent: TypeAlias = Annotated[CallersStore, Depends(_reading)]


# ---- routes ----


@router.post("/recall", summary="Recall memories")
async def recall(body: RecallBody, store: ReadAgent, request: Request) -> dict[str, Any]:
    """Recall what the agent may see, best first."""
    recipe = body.recipe(recipe_for(store, honeycomb))
    check_query(options_of(request), body.query)
    matches = await store.call(
        "search", body.query, limit=body.most(), recipe=recipe, token_budget=body.token_budget
    )
    return _with_directory(as_recall(matches), request, body.cwd)


@router.post("", status_code=201, summary="Keep a memory")
async def keep(body: NewMemory, who: Writer, request: Named) -> dict[str, Any]:
    """Keep a memory of the agent."""
    store = _writing(who, request, body.agent_id)
    more = {} if body.normalized_content is None else {"normalizedContent": body.normalized_content}
    kept = await store.call(
        "remember", body.content, kind=body.type, source="memory", visibility=body.visibility,
        metadata=more,
    )  # fmt: skip
    return _with_directory(as_stored(kept.id), request, body.cwd)


@router.get("", summary="List memories")
async def list_memories(store: ReadAgent, limit: float | None = None) -> dict[str, Any]:
    """List memories, newest first."""
    most = RecallBody.model_construct(query="", limit=limit).most()
    found = await store.call("list", limit=most)
    return {"memories": [as_memory(one) for one in found]}


@router.get("/{id}", summary="Get a memory")
async def get(id: PathId, store: ReadAgent) -> dict[str, Any]:  # noqa: A002
    """Return a memory."""
    return {"memory": as_memory(await store.existing(id))}


@router.post("/{id}/modify", summary="Change a memory")
async def modify(id: PathId, body: Modified, who: Writer, request: Named) -> dict[str, Any]:  # noqa: A002
    """Append a version with another text; the reason is kept with it."""
    store = _writing(who, request, body.agent_id)
    await store.call("update", id, reason=body.reason, text=body.content, input="")
    return as_changed(id, "modified")


@router.post("/{id}/forget", summary="Forget a memory")
async def forget(id: PathId, body: Forgotten, who: Writer, request: Named) -> dict[str, Any]:  # noqa: A002
    """Take a memory out of recall; the reason is kept with it."""
    store = _writing(who, request, body.agent_id)
    await store.forget(id, reason=body.reason)
    return as_changed(id, "forgotten")


# ---- Honeycomb's routes of files: ``/memory/cat``, ``grep``, ``ls``, ``find`` and ``classify``
# They read what recall reads, on behalf of the same agent, and a write is answered 405.

browse_router = Router(prefix="/memory", tags=["honeycomb"], responses=ERRORS)

MOUNT = "/memory/"
OWN = ("/memories/", "/shared/", "/sessions/", "/facts/", "/graph/", "/pinned/")
"""The folders of a store's files: a path that begins with one is no path of a mount."""
MOST_LISTED, MOST_LINES = 200, 50
READ_ONLY = (
    "/memory is read-only: keep memories by POST /api/memories, change them by "
    "POST /api/memories/{id}/modify and forget them by POST /api/memories/{id}/forget"
)


def mounted(path: str) -> str:
    """Return a path within the store's files: what follows the last ``/memory/`` of a mount."""
    if path.startswith(OWN):
        return path
    _, mount, rest = path.rpartition(MOUNT)
    return f"/{rest}" if mount else path


def _needed(name: str, value: str | None) -> str:
    if not value:
        raise ServiceError(400, "BadRequest", f"expected the parameter {name}")
    return value


def _entry(path: str) -> dict[str, str]:
    return {"path": path, "filename": path.rstrip("/").rpartition("/")[2]}


@browse_router.get("/cat", summary="Read a file")
async def cat(store: ReadAgent, path: str | None = None) -> dict[str, Any]:
    """Return a file's text; that of one that is not there is empty."""
    where = mounted(_needed("path", path))
    text = await store.browse("cat", where)
    return {"path": where, "found": bool(text), "content": text}


@browse_router.get("/grep", summary="Find lines")
async def grep(store: ReadAgent, q: str | None = None, prefix: str = "/") -> dict[str, Any]:
    """Return at most 50 lines that hold a text as it is, newest memory first."""
    wanted = _needed("q", q)
    lines = await store.browse("grep", wanted, mounted(prefix), limit=MOST_LINES)
    hits = [{"path": one.path, "line": one.number, "content": one.text} for one in lines]
    return {"query": wanted, "degraded": False, "hits": hits}


@browse_router.get("/ls", summary="List a folder")
async def ls(store: ReadAgent, prefix: str = "") -> dict[str, Any]:
    """List at most 200 entries of a folder, newest first."""
    where = mounted(prefix) or "/"
    found = await store.browse("ls", where, limit=MOST_LISTED)
    return {"prefix": where, "entries": [_entry(one) for one in found]}


@browse_router.get("/find", summary="Find files by name")
async def find(store: ReadAgent, pattern: str | None = None, prefix: str = "/") -> dict[str, Any]:
    """List at most 200 files by name: with ``*``, ``?`` or ``[ab]``, else by a part of it."""
    wanted = _needed("pattern", pattern)
    names = wanted if any(one in wanted for one in "*?[") else f"*{wanted}*"
    found = await store.browse("find", names, mounted(prefix), limit=MOST_LISTED)
    return {"pattern": wanted, "matches": [_entry(one) for one in found]}


@browse_router.get("/classify", summary="Say what a path names")
async def classify(store: ReadAgent, path: str | None = None) -> dict[str, str]:
    """Return the class of a path, whether or not there is such a file."""
    where = mounted(_needed("path", path))
    return {"path": where, "pathClass": store.view.browse().classify(where)}


@browse_router.api_route(
    "/{path:path}", methods=["POST", "PUT", "PATCH", "DELETE"], status_code=405,
    summary="Refuse a write", include_in_schema=False,
)  # fmt: skip
async def refuse(who: Reader, path: str) -> Response:
    """Refuse every write, and name the routes that write."""
    return error_response(405, "MethodNotAllowed", READ_ONLY, {"Allow": "GET"})


ROUTERS = (router, browse_router)
