"""Memories of a store: keep, list, read, change, forget; their history, edges and feedback."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from hyrecall.errors import NotFoundError, error
from hyrecall.memory import Episode, Participant
from hyrecall.memory.data.given_fields import checked
from hyrecall.serve.bodies import (
    FeedbackBody,
    LinkBody,
    MemoriesBody,
    MemoryBody,
    PatchBody,
    PinBody,
    SupersedeBody,
)
from hyrecall.serve.callers import Editor, Reader, Writer, require
from hyrecall.serve.errors import ServiceError
from hyrecall.serve.limits import check_lists, check_page, check_query, check_size, options_of
from hyrecall.serve.replies import (
    ERRORS,
    Changed,
    JsonResponse,
    encode,
    encode_within,
    episode_data,
    remembered_data,
    version_data,
)
from hyrecall.serve.routes.parameters import PageParams, Scoped, ScopeParams
from hyrecall.serve.routing import PathId, Router
from hyrecall.serve.scoped_store import ScopedStore, scoped_store

__all__ = ["router"]

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
    fields["output"] = fields.pop("text")
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
    check_size("memories", len(body.memories), options.max_batch, "memories")
    if who.agent is not None:
        raise ServiceError(403, "Forbidden", "agents keep one memory at a time")
    episodes = []
    for one in body.memories:
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
    check_lists(options, tag=page.tag)

    def work(store: ScopedStore) -> bytes:
        found = store.sync(
            "list", kind=page.kind, tags=page.tag, pinned=page.pinned,
            limit=page.limit, offset=page.offset,
        )  # fmt: skip
        ends = store.view().ends(found)
        return encode_within({"memories": map(episode_data, found, ends)}, options.max_reply)

    return JsonResponse(await scoped_store(request, who, page).run(work))


@router.get(ID + "/history", summary="Every version of a memory, oldest first")
async def history(request: Request, id: PathId, scope: Scoped, who: Reader) -> Response:  # noqa: A002
    """Return what a memory was; empty where the caller has none of that id."""
    most = options_of(request).max_reply

    def work(store: ScopedStore) -> bytes:
        return encode_within({"versions": map(version_data, store.sync("history", id))}, most)

    return JsonResponse(await scoped_store(request, who, scope).run(work))


@router.get(ID + "/links", summary="The edges of a memory")
async def links(request: Request, id: PathId, scope: Scoped, who: Reader) -> Response:  # noqa: A002
    """Return the edges in which a memory takes part."""
    return _json({"links": await scoped_store(request, who, scope).call("links", id)})


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
    if "text" in changes:
        changes["output"] = changes.pop("text")
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
    check_lists(options_of(request), nodes=body.nodes, data=body.data)
    nodes = [
        one if isinstance(one, str) else checked(Participant, one.model_dump())
        for one in body.nodes
    ]
    edge = await scoped_store(request, who, body).call(
        "link", nodes, body.relationship, visibility=body.visibility, id=body.id,
        description=body.description, data=body.data,
    )  # fmt: skip
    return _json(edge, 201)


@router.delete("/links/{id:id}", summary="Remove an edge")
async def unlink(request: Request, id: PathId, scope: Scoped, who: Writer) -> Response:  # noqa: A002
    """Remove an edge; 404 if the caller has none of that id."""
    if not await scoped_store(request, who, scope).call("unlink", id):
        raise error(NotFoundError, "id", "an edge of the caller", "none")
    return _json({"unlinked": 1})


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
    return _json({"feedback": [vars(one) for one in found]})
