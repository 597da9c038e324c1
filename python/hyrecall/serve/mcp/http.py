"""The server as an ASGI app over streamable HTTP, with tokens and checks of Host and Origin."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from hyrecall.memory import Memory
from hyrecall.serve.identity import Caller
from hyrecall.serve.mcp.server import CALLER, create_server
from hyrecall.serve.options import LOOPBACK, ServiceOptions

__all__ = ["Tokens", "http_app", "listen"]

PATH = "/mcp"


class Tokens(Protocol):
    """Finds the caller of a token."""

    def find(self, token: str) -> Caller | None:
        """Return the caller of a token, or None if there is none."""


def http_app(
    memory: Memory,
    *,
    caller: Caller | None = None,
    tokens: Tokens | None = None,
    systems: Iterable[str] | None = None,
    options: ServiceOptions | None = None,
) -> Starlette:
    """Make the app that serves a store at ``/mcp``.

    Parameters
    ----------
    memory : Memory
        Open; it stays the caller's to close.
    caller : Caller, optional
        Who calls where there are no tokens, as in :func:`hyrecall.serve.mcp.create_server`.
    tokens : Tokens, optional
        With them, each request needs the header ``Authorization: Bearer TOKEN``.
    systems : iterable of str, optional
        As in :func:`hyrecall.serve.mcp.create_server`.
    options : ServiceOptions, optional
        ``host``, ``allowed_hosts`` and ``allowed_origins`` say which values of the headers Host and
        Origin are taken, ``max_body`` how long a request may be.

    Returns
    -------
    Starlette
        It keeps no sessions: each request stands alone, with its own token. Run its lifespan.

    Raises
    ------
    OptionError
        As in :func:`hyrecall.serve.mcp.create_server`.
    """
    options = ServiceOptions() if options is None else options
    server = create_server(memory, caller=caller, systems=systems, options=options)
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=options.max_body,
        transport_security=_security(options),
    )
    app.add_middleware(_OnlyPost)
    if tokens is not None:
        app.add_middleware(_WithTokens, tokens=tokens)
    return app


async def listen(app: ASGIApp, options: ServiceOptions, tell: Callable[[str], None]) -> None:
    """Serve an app until SIGINT or SIGTERM; requests under way end first.

    Parameters
    ----------
    app : ASGI app
    options : ServiceOptions
        ``host``, ``port`` and ``drain``.
    tell : callable
        Called with the address when it listens.
    """
    config = uvicorn.Config(
        app, host=options.host, port=options.port, log_config=None, access_log=False,
        server_header=False, timeout_graceful_shutdown=int(options.drain),
    )  # fmt: skip
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    with config.bind_socket() as listening:
        name, port = listening.getsockname()[:2]
        tell(f"http://{f'[{name}]' if ':' in name else name}:{port}{PATH}")
        await uvicorn.Server(config).serve([listening])


def _security(options: ServiceOptions) -> TransportSecuritySettings:
    hosts = {*options.allowed_hosts, options.host, *(LOOPBACK if options.is_local else ())}
    names = sorted(f"[{host}]" if ":" in host else host for host in hosts)
    pages = [f"{scheme}://{name}" for name in names for scheme in ("http", "https")]
    return TransportSecuritySettings(
        allowed_hosts=_any_port(names),
        allowed_origins=[*_any_port(pages), *options.allowed_origins],
    )


def _any_port(names: Iterable[str]) -> list[str]:
    return [form for name in names for form in (name, f"{name}:*")]


class _OnlyPost:
    """Refuses other methods: without sessions there is no stream to open with GET."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] != "POST":
            refused = Response("Method Not Allowed", 405, {"Allow": "POST"})
            await refused(scope, receive, send)
            return
        await self._app(scope, receive, send)


class _WithTokens:
    """Refuses a request without a known token; puts the caller of the token into its scope."""

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        self._app, self._tokens = app, tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        caller = self._caller(scope)
        if caller is None:
            body: dict[str, Any] = {
                "type": "Unauthorized",
                "message": "expected the header Authorization: Bearer TOKEN",
            }
            refused = JSONResponse({"error": body}, 401, {"WWW-Authenticate": "Bearer"})
            await refused(scope, receive, send)
            return
        await self._app({**scope, CALLER: caller}, receive, send)

    def _caller(self, scope: Scope) -> Caller | None:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1:
            return None
        scheme, _, token = given[0].decode("latin-1").partition(" ")
        return self._tokens.find(token.strip()) if scheme.lower() == "bearer" else None
