"""The server as an ASGI app over streamable HTTP, behind the guard and tokens of the service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from hyrecall.base.progress import ROOM
from hyrecall.base.version import __version__
from hyrecall.errors import OptionError, error
from hyrecall.memory import Memory
from hyrecall.serve import errors, metrics
from hyrecall.serve.guards import ServiceGuard
from hyrecall.serve.limits import check_message
from hyrecall.serve.mcp.server import CALLER, create_server
from hyrecall.serve.options import Caller, ServiceOptions
from hyrecall.serve.routes import health
from hyrecall.serve.routing import check_request
from hyrecall.serve.scoped_store import identify
from hyrecall.serve.tokens import TokenFile

PATH = "/mcp"


def http_app(
    memory: Memory,
    *,
    caller: Caller | None = None,
    systems: Iterable[str] | None = None,
    readonly: bool = False,
    options: ServiceOptions | None = None,
) -> FastAPI:
    """Make the app that serves a store at ``/mcp``.

    Parameters
    ----------
    memory : Memory
        Open; it stays the caller's to close.
    caller : Caller, optional
        Who calls where there are no tokens, as in :func:`hyrecall.serve.mcp.create_server`.
    systems, readonly
        As in :func:`hyrecall.serve.mcp.create_server`.
    options : ServiceOptions, optional
        All of them hold, as for :func:`hyrecall.serve.create_app`. With ``tokens``, each request
        needs the header ``Authorization: Bearer TOKEN``, which says who calls.

    Returns
    -------
    FastAPI
        It keeps no sessions: each request stands alone, with its own token. ``/healthz``,
        ``/readyz`` and ``/metrics`` are those of the service. Run it by
        :func:`hyrecall.serve.run`, which adds the deadlines of connections.

    Raises
    ------
    OptionError
        As in :func:`hyrecall.serve.mcp.create_server`; or a caller beside tokens.

    Examples
    --------
    >>> from hyrecall.memory import Memory
    >>> from hyrecall.recipes import loom
    >>> from hyrecall.serve import Caller, run
    >>> async def main() -> str:
    ...     async with Memory.in_memory(recipe=loom, embedder=None) as memory:
    ...         return http_app(memory, caller=Caller(user_id="ann")).title
    >>> import asyncio
    >>> asyncio.run(main())
    'hyrecall'
    """
    options = ServiceOptions() if options is None else options
    if caller is not None and options.tokens is not None:
        raise error(OptionError, "caller", "None with tokens, which say who calls", "a caller")
    manager = StreamableHTTPSessionManager(
        create_server(memory, caller=caller, systems=systems, readonly=readonly, options=options),
        json_response=True,
        stateless=True,
        max_request_body_size=options.max_body,
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with manager.run():
            yield

    app = FastAPI(
        title="hyrecall", version=__version__, lifespan=lifespan,
        openapi_url=None, docs_url=None, redoc_url=None,
    )  # fmt: skip
    state = health.install(app, options)
    state.memory, state.index = memory, None
    metrics.count_store(state.metrics, memory, options)
    app.router.routes.extend([*health.router.routes, Route(PATH, _Endpoint(manager, state.tokens))])
    app.add_middleware(ServiceGuard, options=options, state=state)
    return app


class _Endpoint:
    """Hands a request to the SDK, with the caller of its token."""

    # Without sessions there is no stream to open with GET, so that only POST is answered.

    path = PATH
    """Its name in the log and the metrics."""

    def __init__(self, manager: StreamableHTTPSessionManager, tokens: TokenFile | None) -> None:
        self._manager, self._tokens = manager, tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        ROOM.set(None)  # tools show previews, and list more than they show
        if self._tokens is not None:
            scope[CALLER] = identify(self._tokens, Headers(scope=scope))
        if scope["method"] != "POST":
            await _not_allowed()(scope, receive, send)
            return
        request = Request(scope, receive)
        check_request(request, {}, {})
        body: bytes | None = await request.body()
        check_message(body or b"")

        async def again() -> Message:
            nonlocal body
            given, body = body, None
            if given is None:
                return await receive()
            return {"type": "http.request", "body": given, "more_body": False}

        await self._manager.handle_request(scope, again, send)


def _not_allowed() -> Response:
    told = "expected POST"
    return errors.error_response(405, "MethodNotAllowed", told, {"Allow": "POST"})
