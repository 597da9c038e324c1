"""Says whether the process lives, whether it is ready, and its numbers."""

from __future__ import annotations

from fastapi import APIRouter, Request
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, Response

from hyrecall.serve.callers import Keeper
from hyrecall.serve.replies import ERRORS

__all__ = ["router"]

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="The process answers")
async def healthz() -> dict[str, str]:
    """Answer, without a token and without a look at the store."""
    return {"status": "ok"}


@router.get(
    "/readyz",
    summary="Recalls have the index and the embedder",
    responses={503: {"description": "Not yet, or no longer."}},
)
async def readyz(request: Request) -> Response:
    """Answer 200 once replies are whole; no token is needed."""
    state = request.app.state
    is_ready = state.index is not None
    if state.memory is not None:
        is_ready = await state.memory.wait_until_ready(timeout=0)
    if is_ready:
        return JSONResponse({"status": "ready"})
    return JSONResponse({"status": "not ready"}, 503, headers={"Retry-After": "1"})


@router.get("/metrics", summary="Numbers in Prometheus' format", responses=ERRORS)
async def metrics(request: Request, who: Keeper) -> Response:
    """Return the numbers of this process; the right "upkeep" is needed, since they count all."""
    state = request.app.state
    text = state.metrics.text
    if state.memory is not None:
        made = await state.memory._run(text)  # it asks the database
    else:
        made = text()
    return Response(made, media_type=CONTENT_TYPE_LATEST)
