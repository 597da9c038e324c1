"""Says whether the process lives, whether it is ready, and its numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, Response

from hyrecall.errors import ShardLostError
from hyrecall.serve.callers import Keeper
from hyrecall.serve.replies import ERRORS

__all__ = ["Probe", "add_probes", "router"]

LONGEST = 2.0
"""Seconds that a probe waits. Who asks for it gives up about then, and learns nothing."""

THREAD_SECONDS = 1.0
"""Seconds within which a thread of the requests must become free."""


class Probe:
    """Asks what may block, on a thread that no request takes.

    Whoever asks meanwhile shares the answer.
    """

    def __init__(self, name: str) -> None:
        """Ask nothing yet."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"hyrecall-{name}")
        self._asked: asyncio.Future[Any] | None = None

    async def ask(self, work: Callable[[], Any]) -> Any:
        """Return what the work returns, or raise what it raises.

        Raises
        ------
        TimeoutError
            It takes longer than ``LONGEST``. It goes on, and the next one waits for it.
        """
        loop = asyncio.get_running_loop()
        asked = self._asked
        if asked is None or asked.done() or asked.get_loop() is not loop:
            asked = self._asked = loop.run_in_executor(self._thread, work)
            asked.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.wait_for(asyncio.shield(asked), LONGEST)


def add_probes(state: Any) -> None:
    """Give an application the threads of ``/readyz`` and ``/metrics``."""
    state.readiness, state.scrape = Probe("readiness"), Probe("metrics")


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
    their replies do, which lack the documents of these. Requests that hang do not delay it; if they
    keep all threads for a second, or if the store or the shards themselves do not say in time
    whether they answer, it is not ready.
    """
    state = request.app.state
    is_ready, told = state.index is not None, {"status": "ready"}
    try:
        if state.memory is not None:
            ready = partial(state.memory._sync.wait_until_ready, timeout=0)
            is_ready = await state.readiness.ask(ready) and await _has_thread(state.memory._pool)
        elif is_ready:
            lost = await state.readiness.ask(state.served_index.lost_shards)
            is_ready = await _has_thread(state.served_index._pool)
            told = {"status": "degraded", "lost_shards": lost} if lost else told
    except (ShardLostError, TimeoutError):
        is_ready = False
    if is_ready:
        return JSONResponse(told)
    return _not_ready()


@router.get("/metrics", summary="Numbers in Prometheus' format", responses=ERRORS)
async def metrics(request: Request, who: Keeper) -> Response:
    """Return the numbers of this process; the right "upkeep" is needed, since they count all."""
    state = request.app.state
    try:
        made = await state.scrape.ask(state.metrics.text)  # it asks the database, or shards
    except TimeoutError:
        return _not_ready()
    return Response(made, media_type=CONTENT_TYPE_LATEST)


async def _has_thread(pool: ThreadPoolExecutor) -> bool:
    """Return whether a thread of the requests becomes free within a second."""
    asked = asyncio.get_running_loop().run_in_executor(pool, lambda: True)
    try:
        return await asyncio.wait_for(asked, THREAD_SECONDS)
    except TimeoutError:  # the wait has taken it out of the queue
        return False


def _not_ready() -> JSONResponse:
    return JSONResponse({"status": "not ready"}, 503, headers={"Retry-After": "1"})
