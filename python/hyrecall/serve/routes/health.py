"""Says whether the process lives, whether it is ready, and its numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.datastructures import State
from starlette.responses import JSONResponse, Response

from hyrecall.base.threads import Workers
from hyrecall.memory.keeping import Owner
from hyrecall.serve import errors
from hyrecall.serve.errors import ServiceError
from hyrecall.serve.metrics import Metrics
from hyrecall.serve.options import ServiceOptions
from hyrecall.serve.replies import ERRORS
from hyrecall.serve.routing import Router
from hyrecall.serve.scoped_store import Keeper, identify
from hyrecall.serve.tokens import TokenFile

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from hyrecall.memory import MemorySync


LONGEST = 2.0
"""Seconds that a probe waits. Who asks for it gives up about then, and learns nothing."""

APPLYING = 0.5
"""Seconds to wait for changes that are being applied: each is over in a moment."""
THREAD_SECONDS = 1.0
"""Seconds within which a thread of the requests must become free."""


class Probe:
    """Runs checks that may block on a thread of its own."""

    # Whoever asks meanwhile shares the answer.

    def __init__(self, name: str) -> None:
        self._thread = Workers(1, f"hyrecall-{name}")
        self._asked: asyncio.Future[Any] | None = None

    async def ask(self, work: Callable[[], Any]) -> Any:
        """Return what the work returns, or raise what it raises."""
        loop = asyncio.get_running_loop()
        asked = self._asked
        if asked is None or asked.done() or asked.get_loop() is not loop:
            asked = self._asked = loop.run_in_executor(self._thread.executor, work)
            asked.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.wait_for(asyncio.shield(asked), LONGEST)


def install(app: FastAPI, options: ServiceOptions) -> State:
    """Give an app what guards, these routes and handlers of errors need; return its state."""
    state = app.state
    state.options = options
    state.tokens = None if options.tokens is None else TokenFile(options.tokens)
    state.metrics = Metrics()
    state.readiness, state.scrape = Probe("readiness"), Probe("metrics")
    errors.install(app)
    return state


router = Router(tags=["health"])


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
    """Answer 200 once recalls have what they need; no token is needed.

    The status is "degraded" while replies lack something: memories without a usable vector, then
    ``embeddings`` says how many, and how far embedding them came, without the numbers for a caller
    that lacks the right "upkeep"; or the embedder that an index names, then ``embeddings`` says for
    which arm. Requests that hang do not delay the answer; if they keep all threads for a second, or
    if the store does not say in time whether it answers, it is not ready.
    """
    state = request.app.state
    is_ready, told = state.index is not None, {"status": "ready"}
    try:
        if state.memory is not None:
            is_ready, lacks = await state.readiness.ask(partial(_of_store, state.memory._sync))
            is_ready = is_ready and await _has_thread(state.memory._pool)
            if lacks:
                lacks = lacks if _may_count(request) else "memories have no usable vector"
                told = {"status": "degraded", "embeddings": lacks}
        elif is_ready:
            is_ready = await _has_thread(state.served_index._pool)
            if lacks := state.served_index.unembedded():
                lacks = lacks if _may_count(request) else "texts are not embedded"
                told = {"status": "degraded", "embeddings": lacks}
    except TimeoutError:
        is_ready = False
    if is_ready:
        return JSONResponse(told)
    return _not_ready()


@router.get("/metrics", summary="Numbers in Prometheus' format", responses=ERRORS)
async def metrics(request: Request, who: Keeper) -> Response:
    """Return the numbers of this process; the right "upkeep" is needed, since they count all."""
    state = request.app.state
    try:
        made = await state.scrape.ask(state.metrics.text)  # it asks the database
    except TimeoutError:
        return _not_ready()
    return Response(made, media_type=CONTENT_TYPE_LATEST)


def _of_store(memory: MemorySync) -> tuple[bool, str]:
    """Return whether recalls have index and embedder, and what is known of missing vectors."""
    is_ready = memory.wait_until_ready(timeout=APPLYING)
    found = memory._store.keeper.run(Owner.check_embeddings) if is_ready else None
    return is_ready, "" if found is None or found.ok else found.detail


def _may_count(request: Request) -> bool:
    """Return whether the caller may know how much all users have."""
    tokens = request.app.state.tokens
    try:
        return tokens is None or "upkeep" in identify(tokens, request.headers).rights
    except ServiceError:
        return False


async def _has_thread(pool: ThreadPoolExecutor) -> bool:
    """Return whether a thread of the requests becomes free within a second."""
    asked = asyncio.get_running_loop().run_in_executor(pool, lambda: True)
    try:
        return await asyncio.wait_for(asked, THREAD_SECONDS)
    except TimeoutError:  # the wait has taken it out of the queue
        return False


def _not_ready() -> JSONResponse:
    return JSONResponse({"status": "not ready"}, 503, headers={"Retry-After": "1"})
