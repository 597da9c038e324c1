"""Memories of a store: keep, list, read, change, forget; their history, edges and feedback."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from hyrecall.ask.filter_json import filter_from_json
from hyrecall.ask.filters import Filter
from hyrecall.errors import NotFoundError, error
from hyrecall.memory import Episode, Fact, Participant, ReadPolicy
from hyrecall.memory.data.types import checked
from hyrecall.memory.derived.layout import FILTERED
from hyrecall.serve.bodies import (
    EndBody,
    FactBody,
    FactsBody,
    FeedbackBody,
    LinkBody,
    MemoriesBody,
    MemoryBody,
    Moment,
    PatchBody,
    PinBody,
    PolicyBody,
    SupersedeBody,
)
from hyrecall.serve.errors import (
    ServiceError,
    check_lists,
    check_page,
    check_query,
    check_size,
    options_of,
)
from hyrecall.serve.replies import (
    ERRORS,
    Changed,
    FactsReply,
    JsonResponse,
    encode,
    encode_within,
    episode_data,
    reasons_data,
    remembered_data,
    version_data,
)
from hyrecall.serve.routing import PathId, Router
from hyrecall.serve.scoped_store import (
    Caller,
    Editor,
    Reader,
    ScopedStore,
    Writer,
    memory_of,
    narrow,
    require,
    scoped_store,
)

# ---- What query strings of several routes have: a narrower scope, and pages of a list ----

_TYPES = {name: column.type for name, column in FILTERED.items()}


class ScopeParams(BaseModel):
    """Narrows the token's scope."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    user_id: str | None = None
    org: str | None = None
    workspace: str | None = None


class PageParams(ScopeParams):
    """A page of a list."""

    kind: str | None = None
    tags: list[str] | None = None
    pinned: bool | None = None
    since: Moment | None = None
    until: Moment | None = None
    limit: Annotated[int, Query(ge=0)] = 200
    offset: Annotated[int, Query(ge=0)] = 0


Scoped: TypeAlias = Annotated[ScopeParams, Query()]


def store_filter(asked: dict[str, Any] | None) -> Filter | None:
    """Read a filter over the columns of memories and keys of their metadata."""
    return None if asked is None else filter_from_json(asked, _TYPES, "filter")


# ---- Memories of a store: keep, list, read, change, forget; their history, edges and feedback ----

router = Router(
    prefix="/v1", tags=["memories"], responses=ERRORS, default_response_class=JsonResponse
)

MISSING: dict[int | str, dict[str, Any]] = {404: {"description": "The caller has no such memory."}}
TAKEN: dict[int | str, dict[str, Any]] = {409: {"description": "The id is taken."}}
ID = "/memories/{id:id}"

_SCOPE = {"user_id", "org", "workspace"}


class _Forgotten(ScopeParams):
    erase: bool = False
    reason: str | None = None


def _json(data: Any, status: int = 200) -> Response:
    return JsonResponse(encode(data), status)


def _episode(store: ScopedStore, body: MemoryBody | SupersedeBody) -> Episode:
    """Return the memory that a body describes, in the caller's scope."""
    given = {name: getattr(body, name) for name in body.model_fields_set - _SCOPE}
    fields = {name: value for name, value in given.items() if name not in ("vector", "reason")}
    if fields.get("id") is None:
        fields.pop("id", None)
    if fields.get("occurred_at") is None:
        fields.pop("occurred_at", None)
    return checked(Episode, {**fields, **store.scope.names})


@router.post(
    "/memories",
    status_code=201,
    summary="Keep a memory",
    responses={201: {"model": Changed}, **TAKEN},
)
async def remember(request: Request, body: MemoryBody, who: Writer) -> Response:
    """Keep a memory; when this answers, it is on the disk."""
    check_lists(options_of(request), tags=body.tags, metadata=body.metadata, vector=body.vector)
    store = scoped_store(request, who, body)
    if store.scope.agent is not None:
        return _json(remembered_data(await _remember_as_agent(store, body)), 201)
    done = await store.call_with_records("remember", _episode(store, body), vector=body.vector)
    return _json(remembered_data(done), 201)


async def _remember_as_agent(store: ScopedStore, body: MemoryBody) -> Any:
    own = body.model_fields_set - _SCOPE - {"text"}
    fields = {name: getattr(body, name) for name in own if getattr(body, name) is not None}
    return await store.call("remember", body.text, **fields)


@router.post(
    "/memories/batch",
    status_code=201,
    summary="Keep several memories, all or none",
    responses={201: {"model": list[Changed]}, **TAKEN},
)
async def remember_batch(request: Request, body: MemoriesBody, who: Writer) -> Response:
    """Keep several memories in one transaction."""
    options = options_of(request)
    check_size("episodes", len(body.episodes), options.max_batch, "memories")
    if who.agent is not None:
        raise ServiceError(403, "Forbidden", "agents keep one memory at a time")
    episodes = []
    for one in body.episodes:
        check_lists(options, tags=one.tags, metadata=one.metadata, vector=one.vector)
        if one.vector is not None:
            raise ServiceError(422, "Invalid", "vector: expected none in a batch")
        episodes.append(_episode(scoped_store(request, who, one), one))
    store = scoped_store(request, who, {})
    done = await store.call_with_records("remember_batch", episodes)
    return _json([remembered_data(one) for one in done], 201)


@router.get("/memories", summary="List memories, newest first")
async def list_memories(
    request: Request, page: Annotated[PageParams, Query()], who: Reader
) -> Response:
    """List the caller's memories."""
    options = options_of(request)
    check_page(options, page.limit)
    check_lists(options, tags=page.tags)

    def work(store: ScopedStore) -> bytes:
        found = store.sync(
            "list", kind=page.kind, tags=page.tags, pinned=page.pinned, since=page.since,
            until=page.until, limit=page.limit, offset=page.offset,
        )  # fmt: skip
        ends = store.view().ends(found)
        return encode_within({"items": map(episode_data, found, ends)}, options.max_reply)

    return JsonResponse(await scoped_store(request, who, page).run(work))


@router.get(ID + "/history", summary="Every version of a memory, oldest first")
async def history(request: Request, id: PathId, scope: Scoped, who: Reader) -> Response:  # noqa: A002
    """Return what a memory was; empty where the caller has none of that id."""
    most = options_of(request).max_reply

    def work(store: ScopedStore) -> bytes:
        return encode_within({"items": map(version_data, store.sync("history", id))}, most)

    return JsonResponse(await scoped_store(request, who, scope).run(work))


@router.get(ID + "/links", summary="The edges of a memory")
async def links(request: Request, id: PathId, scope: Scoped, who: Reader) -> Response:  # noqa: A002
    """Return the edges in which a memory takes part."""
    return _json({"items": await scoped_store(request, who, scope).call("links", id)})


@router.get(ID, summary="Read a memory", responses=MISSING)
async def get(request: Request, id: PathId, scope: Scoped, who: Reader) -> Response:  # noqa: A002
    """Return a memory by its id."""
    store = scoped_store(request, who, scope)
    found = await store.existing(id)
    (end,) = await store.ends([found])
    return _json(episode_data(found, end))


@router.patch(
    ID, summary="Change a memory", responses={200: {"model": Changed}, **MISSING, **TAKEN}
)
async def update(request: Request, id: PathId, body: PatchBody, who: Writer) -> Response:  # noqa: A002
    """Append a version with the fields that the body names.

    ``valid_to`` before the begin of a fact is refused with the begin: needs the right to read.
    """
    if "valid_to" in body.model_fields_set:
        require(who, "read")
    check_lists(options_of(request), tags=body.tags, metadata=body.metadata)
    changes = {name: getattr(body, name) for name in body.model_fields_set - _SCOPE - {"reason"}}
    store = scoped_store(request, who, body)
    return _json(remembered_data(await store.call("update", id, reason=body.reason, **changes)))


@router.delete(ID, summary="Forget a memory", responses=MISSING)
async def forget(
    request: Request,
    id: PathId,  # noqa: A002
    asked: Annotated[_Forgotten, Query()],
    who: Writer,
) -> Response:
    """Take a memory out of recall; with ``erase``, remove every byte of it."""
    store = scoped_store(request, who, asked)
    how = {"erase": True} if asked.erase else {}
    return _json({"forgotten": await store.forget(id, reason=asked.reason, **how)})


@router.post(
    ID + "/supersede",
    status_code=201,
    summary="Replace a memory by a new one",
    responses={201: {"model": Changed}, **MISSING, **TAKEN},
)
async def supersede(
    request: Request,
    id: PathId,  # noqa: A002
    body: SupersedeBody,
    who: Writer,
) -> Response:
    """Keep a new memory, which the old one's history then names."""
    check_lists(options_of(request), tags=body.tags, metadata=body.metadata)
    store = scoped_store(request, who, body)
    done = await store.call("supersede", id, _episode(store, body), reason=body.reason)
    return _json(remembered_data(done), 201)


@router.put(ID + "/pin", summary="Pin or unpin a memory", responses=MISSING)
async def pin(request: Request, id: PathId, body: PinBody, who: Writer) -> Response:  # noqa: A002
    """Pin or unpin, without a new version."""
    await scoped_store(request, who, body).call("pin", id, pinned=body.pinned)
    return _json({"id": id, "pinned": body.pinned})


@router.post("/links", status_code=201, summary="Connect memories", responses=TAKEN)
async def link(request: Request, body: LinkBody, who: Writer) -> Response:
    """Connect memories by their ids."""
    check_lists(options_of(request), participants=body.participants, metadata=body.metadata)
    participants = [
        one if isinstance(one, str) else checked(Participant, one.model_dump())
        for one in body.participants
    ]
    edge = await scoped_store(request, who, body).call(
        "link", participants, body.relationship, visibility=body.visibility, id=body.id,
        description=body.description, metadata=body.metadata,
    )  # fmt: skip
    return _json(edge, 201)


@router.delete("/links/{id:id}", summary="Remove an edge")
async def unlink(request: Request, id: PathId, scope: Scoped, who: Writer) -> Response:  # noqa: A002
    """Remove an edge; 404 if the caller has none of that id."""
    if not await scoped_store(request, who, scope).call("unlink", id):
        raise error(NotFoundError, "id", "an edge of the caller", "none")
    return _json({"unlinked": True})


@router.post("/feedback", status_code=201, summary="Say which memories helped", responses=MISSING)
async def feedback(request: Request, body: FeedbackBody, who: Editor) -> Response:
    """Keep which memories helped with a query; 404 if the caller has no memory of one of the ids.

    ``new`` says how many of them were not known to have helped with it: needs the right to read.
    """
    options = options_of(request)
    check_query(options, body.query)
    check_lists(options, used=body.used)
    store = scoped_store(request, who, body)
    return _json({"new": await store.call("feedback", used=body.used, query=body.query)}, 201)


@router.get("/feedback", summary="What the caller said that helped, oldest query first")
async def list_feedback(request: Request, scope: Scoped, who: Reader) -> Response:
    """Return the caller's queries with the memories that helped and are there."""
    found = await scoped_store(request, who, scope).call("list_feedback")
    return _json({"items": [vars(one) for one in found]})


# ---- Read policies of agents: what each may read beside its own memories ----

agents_router = Router(prefix="/v1", tags=["agents"], responses=ERRORS)

POLICY = "/agents/{agent:path}/policy"


class _PolicyParams(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    org: str | None = None
    workspace: str | None = None


@agents_router.put(POLICY, summary="Set an agent's read policy")
async def set_policy(
    request: Request, agent: PathId, body: PolicyBody, who: Writer
) -> dict[str, Any]:
    """Set what an agent may read, from its next request on; for callers that may name any user."""
    place = _place(who, body)
    if not who.may_choose_user or who.user_id is not None or who.agent is not None:
        raise ServiceError(403, "Forbidden", "expected a token that may name any user")
    found = ReadPolicy(body.policy, body.policy_group)
    await memory_of(request).set_policy(
        agent, policy=found.policy, policy_group=found.policy_group, **place
    )
    return _as_reply(agent, place, found)


@agents_router.get(POLICY, summary="An agent's read policy")
async def get_policy(
    request: Request,
    agent: PathId,
    asked: Annotated[_PolicyParams, Query()],
    who: Reader,
) -> dict[str, Any]:
    """Return what an agent may read; an agent may ask for its own."""
    place = _place(who, asked)
    may_name_any = who.may_choose_user and who.user_id is None and who.agent is None
    if not may_name_any and agent not in (who.agent, who.user_id):
        raise ServiceError(403, "Forbidden", "expected the caller's own name")
    return _as_reply(agent, place, await memory_of(request).get_policy(agent, **place))


def _place(who: Caller, asked: object) -> dict[str, str | None]:
    names = narrow(who, asked)
    return {name: names[name] for name in ("org", "workspace")}


def _as_reply(agent: str, place: dict[str, str | None], found: ReadPolicy) -> dict[str, Any]:
    return {"agent": agent, **place, **found._asdict()}


# ---- Facts of a store: keep one, and recall those that hold at a time ----

facts_router = Router(
    prefix="/v1/facts", tags=["facts"], responses=ERRORS, default_response_class=JsonResponse
)


@facts_router.post("", status_code=201, summary="Keep a fact", responses={201: {"model": Changed}})
async def remember_fact(request: Request, body: FactBody, who: Editor) -> Response:
    """Keep a fact; the one that held for its subject and predicate ends where it begins.

    The reply names the fact that is held already: needs the right to read.
    """
    if who.agent is not None:
        raise ServiceError(403, "Forbidden", "agents keep no facts")
    check_lists(options_of(request), metadata=body.metadata)
    store = scoped_store(request, who, body)
    given = {name: getattr(body, name) for name in body.model_fields_set}
    fields = {name: value for name, value in given.items() if value is not None}
    done = await store.call_with_records(
        "remember_fact", checked(Fact, {**fields, **store.scope.names})
    )
    return JsonResponse(encode(remembered_data(done)), 201)


@facts_router.post(
    "/{id:path}/end",
    summary="End a fact",
    responses={200: {"model": Changed}, 404: {"description": "The caller has no such memory."}},
)
async def end_fact(request: Request, id: PathId, body: EndBody, who: Editor) -> Response:  # noqa: A002
    """End a fact of the caller; what it said until then stays.

    An end before its begin is refused with the begin: needs the right to read.
    """
    store = scoped_store(request, who, body)
    done = await store.call("end_fact", id, at=body.at, reason=body.reason)
    return JsonResponse(encode(remembered_data(done)))


@facts_router.post("/recall", summary="Recall facts", responses={200: {"model": FactsReply}})
async def recall_facts(request: Request, body: FactsBody, who: Reader) -> Response:
    """Rank the facts that hold at a time, now by default."""
    options = options_of(request)
    check_query(options, body.text, "text")
    check_page(options, body.limit)
    store = scoped_store(request, who, body)
    found = await store.call("recall_facts", body.text, limit=body.limit, valid_at=body.valid_at)
    data = {
        "items": [{"text": fact.text, **fact.model_dump(mode="json")} for fact in found],
        "degraded": found.degraded,
        "reasons": reasons_data(found.reasons),
    }
    return JsonResponse(encode(data))
