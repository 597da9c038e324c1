"""Makes the app: a store or an index behind guards and routes, with one shape of errors.

A request goes guards -> caller -> route -> store or index, and its reply the same way back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib import import_module

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from hyrecall.base.arguments import check_objects
from hyrecall.base.version import __version__
from hyrecall.distributed import ShardedIndex
from hyrecall.errors import DTypeError, error
from hyrecall.index import Index
from hyrecall.memory import Memory
from hyrecall.memory.memory import Opening
from hyrecall.memory.recall.recalling import CALLERS_ARE_NAMED
from hyrecall.serve import metrics, page
from hyrecall.serve.guards import ServiceGuard
from hyrecall.serve.limits import FairSemaphore
from hyrecall.serve.options import ServiceOptions
from hyrecall.serve.replies import AnyIndex, ServedIndex
from hyrecall.serve.routes import arrow_recall, export, health, index_recall, recall, verbs
from hyrecall.serve.routing import EncodedPaths, Router

_OF_A_STORE = (
    *(recall.router, arrow_recall.store_router, verbs.router, export.browse_router, export.router),
)
_OF_AN_INDEX = (index_recall.router, arrow_recall.index_router)
_SYSTEMS = ("hypergraph", "honeycomb", "hebb", "mem0")


def _of_systems() -> Iterator[Router]:
    """Return the routes that published systems document, for an app over a store."""
    for name in _SYSTEMS:
        yield from import_module(f"hyrecall.systems.{name}.routes").ROUTERS


@check_objects
def create_app(
    served: Memory | Opening | AnyIndex, options: ServiceOptions | None = None
) -> FastAPI:
    """Make an app that serves a store, an index or shards of an index.

    Parameters
    ----------
    served : Memory, Index or ShardedIndex, or what ``Memory.open(path)`` returns
        The last is opened when the app starts and closed when it ends; the others are the
        caller's to close. An index is served read-only.
    options : ServiceOptions, optional

    Returns
    -------
    FastAPI
        ``app.state.memory`` or ``app.state.index`` is what is served, the other one is None;
        ``app.state.options`` the options.

    Raises
    ------
    OptionError, DTypeError
        The options are invalid, or the file of tokens is, or nothing is served that can be.
    FileNotFoundError
        There is no file of tokens.

    Notes
    -----
    Run it by ``hyrecall serve`` or :func:`hyrecall.serve.run`, which add the deadlines of
    connections: another server may wait for ever for the headers of a request.

    Examples
    --------
    >>> from hyrecall.memory import Memory
    >>> from hyrecall.recipes import loom
    >>> app = create_app(Memory.in_memory(recipe=loom, embedder=None))
    >>> app.title
    'hyrecall'
    """
    if not isinstance(served, Memory | Opening | Index | ShardedIndex):
        wish = "a Memory, what Memory.open(path) returns, an Index or a ShardedIndex"
        raise error(DTypeError, "served", wish, type(served).__name__)
    options = ServiceOptions() if options is None else options
    app = FastAPI(
        title="hyrecall",
        summary="Exact scoped hybrid recall over HTTP",
        version=__version__,
        lifespan=_lifespan,
        docs_url=None,  # its scripts would come from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    state = health.install(app, options)
    state.of_batches = FairSemaphore(recall.MOST_OF_BATCHES, recall.MOST_OF_BATCHES)
    state.exports = asyncio.Semaphore(export.MOST_AT_A_TIME)
    state.served = served
    state.fault = None
    state.memory = served if isinstance(served, Memory) else None
    state.index = served if isinstance(served, Index | ShardedIndex) else None
    of_it = (*_OF_A_STORE, *_of_systems()) if state.index is None else _OF_AN_INDEX
    for router in (health.router, recall.info_router, *of_it, page.router()):
        # include_router() would build the models of every route again, in an app's first request.
        app.router.routes.extend(router.routes)
    app.add_middleware(EncodedPaths)
    app.add_middleware(ServiceGuard, options=options, state=state)
    app.add_middleware(_NamedCallers)
    return app


class _NamedCallers:
    """Lets requests call the store without a user, without a warning."""

    # Such a request means the anonymous user of its token, and asks for no other. Calls of the same
    # program beside the service warn as ever.

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        before = CALLERS_ARE_NAMED.set(True)
        try:
            await self._app(scope, receive, send)
        finally:
            CALLERS_ARE_NAMED.reset(before)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open what is to be opened, and close that again."""
    state = app.state
    if state.index is not None:
        options = state.options
        state.served_index = ServedIndex(
            state.served, join=options.join, max_joined=options.max_joined,
            max_reply=options.max_reply,
        )  # fmt: skip
        state.metrics.read("index", state.served_index.numbers)
        state.metrics.read("joined", state.served_index.counts)
        try:
            yield
        finally:
            state.served_index.close()
        return
    if isinstance(state.served, Opening):
        try:
            memory = await state.served
        except Exception as fault:
            state.fault = fault
            raise
        async with memory:
            state.memory = memory
            metrics.count_store(state.metrics, memory, state.options)
            yield
        return
    metrics.count_store(state.metrics, state.memory, state.options)
    yield
