"""Facts of a store: keep one, and recall those that hold at a time."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from hyrecall.memory import Fact
from hyrecall.memory.data.given_fields import checked
from hyrecall.serve.bodies import EndBody, FactBody, FactsBody
from hyrecall.serve.callers import Editor, Reader
from hyrecall.serve.errors import ServiceError
from hyrecall.serve.limits import check_lists, check_page, check_query, options_of
from hyrecall.serve.replies import (
    ERRORS,
    Changed,
    FactsReply,
    JsonResponse,
    encode,
    remembered_data,
)
from hyrecall.serve.routing import PathId, Router
from hyrecall.serve.scoped_store import scoped_store

__all__ = ["router"]

router = Router(
    prefix="/v1/facts", tags=["facts"], responses=ERRORS, default_response_class=JsonResponse
)


@router.post("", status_code=201, summary="Keep a fact", responses={201: {"model": Changed}})
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


@router.post(
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


@router.post("/recall", summary="Recall facts", responses={200: {"model": FactsReply}})
async def recall_facts(request: Request, body: FactsBody, who: Reader) -> Response:
    """Rank the facts that hold at a time, now by default."""
    options = options_of(request)
    check_query(options, body.query)
    check_page(options, body.limit)
    store = scoped_store(request, who, body)
    found = await store.call("recall_facts", body.query, limit=body.limit, valid_at=body.valid_at)
    data = {
        "facts": [{"text": fact.text, **fact.model_dump(mode="json")} for fact in found],
        "degraded": found.degraded,
        "reasons": [{"reason": str(one.reason), "detail": one.detail} for one in found.reasons],
    }
    return JsonResponse(encode(data))
