"""Says whether the process lives, whether it is ready, and its numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from fastapi import APIRouter, Request
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, Response

from hyrecall.errors import ShardLostError
from hyrecall.serve.callers import Keeper
from hyrecall.serve.replies import ERRORS

__all__ = ["router"]

T_ = TypeVar("T_")

_THREADS = ThreadPoolExecutor(2, thread_name_prefix="hyrecall-health")

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
    """Answer 200 once replies are whole; no token is needed.

    Of shards, some of which are lost, the status is "degraded", and ``lost_shards`` names them: as
    their replies do, which lack the documents of these.
    """
    state = request.app.state
    is_ready, told = state.index is not None, {"status": "ready"}
    if state.memory is not None:
        is_ready = await _apart(partial(state.memory._sync.wait_until_ready, timeout=0))
    elif is_ready:
        try:
            lost = await _apart(state.served_index.lost_shards)
        except ShardLostError:
            is_ready = False
        else:
            told = {"status": "degraded", "lost_shards": lost} if lost else told
    if is_ready:
        return JSONResponse(told)
    return JSONResponse({"status": "not ready"}, 503, headers={"Retry-After": "1"})


@router.get("/metrics", summary="Numbers in Prometheus' format", responses=ERRORS)
async def metrics(request: Request, who: Keeper) -> Response:
    """Return the numbers of this process; the right "upkeep" is needed, since they count all."""
    state = request.app.state
    text = state.metrics.text
    made = await _apart(text)  # it asks the database, or shards
    return Response(made, media_type=CONTENT_TYPE_LATEST)


async def _apart(work: Callable[[], T_]) -> T_:
    """Call what may block, on a thread that no other request takes."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work)
