"""ASGI layer before the app: refuses requests that are too large, foreign, too many or too slow.

A request passes, in this order: the client's address, Host and Origin, preflight, token, size and
time of the body, levels of JSON, the queue, the deadline. What fails inside is logged by its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import time
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from starlette.datastructures import Headers, State
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hyrecall.base.progress import ROOM, Room
from hyrecall.base.threads import CALLER
from hyrecall.memory.memory import THREADS
from hyrecall.serve.errors import INTERNAL, ServiceError, internal_error
from hyrecall.serve.limits import FairSemaphore, is_deeper, is_json
from hyrecall.serve.options import LOOPBACK, ServiceOptions
from hyrecall.serve.scoped_store import identify

# ---- Refuses requests that are too large, foreign, too many or too slow, before any work

ARROW = "application/vnd.apache.arrow.stream"
"""The media type of Arrow IPC streams."""

ALWAYS_ANSWERED = frozenset(("/healthz", "/readyz", "/metrics"))
"""Paths that do not wait in the queue, so that a busy service can be watched."""

OPEN = frozenset(("/", "/healthz", "/readyz", "/health", "/openapi.json"))
"""Paths that need no token; so do the page's files, which lie under ``/page/``."""

MAX_BUFFERED = 256 << 20
"""Bytes of all bodies that are held at a time."""

RETRY_AFTER = 1
"""Seconds that a client that was refused for load is asked to wait."""

_access = logging.getLogger("hyrecall.serve.access")


class _GoneError(Exception):
    """The client closed its connection."""


class ReplySender:
    """Sends one reply, and tracks its status, its size and its end."""

    def __init__(self, send: Send, *, is_head: bool, most: int) -> None:
        """Send nothing yet; of a reply to HEAD, headers alone."""
        self._send, self._is_head, self._most = send, is_head, most
        self._is_replaced = False
        self.origin: str | None = None  # of a page that may read the reply
        self.status, self.n_bytes = 0, 0
        self.is_complete = False
        self.limit: asyncio.Timeout | None = None

    async def __call__(self, message: Message) -> None:
        """Send a part; the first one ends the deadline. In place of too long a reply, say so."""
        if self._is_replaced:
            return
        if message["type"] == "http.response.start":
            n_bytes = int(Headers(raw=message.get("headers", [])).get("content-length", 0))
            if n_bytes > self._most and message["status"] < 400:
                await _too_long(self._most).reply()({"type": "http"}, _nothing, self)
                self._is_replaced = True
                return
            self.status = message["status"]
            if self.limit is not None:
                self.limit.reschedule(None)
            headers = Headers(raw=message.get("headers", []))
            extra = [("x-content-type-options", "nosniff"), ("cache-control", "no-store")]
            if self.origin is not None:
                extra += [("access-control-allow-origin", self.origin), ("vary", "Origin")]
            added = [(k.encode(), v.encode()) for k, v in extra if k not in headers]
            message = {**message, "headers": [*message.get("headers", []), *added]}
        else:
            if self._is_head:
                message = {**message, "body": b""}
            self.n_bytes += len(message.get("body", b""))
            self.is_complete = not message.get("more_body", False)
        await self._send(message)


class ServiceGuard:
    """The outermost ASGI layer: limits, origins, deadlines and errors."""

    def __init__(self, app: ASGIApp, *, options: ServiceOptions, state: State) -> None:
        self._app, self._options, self._state = app, options, state
        # A store's requests are as many as its threads at a time, whatever runs on the loop.
        busy = options.max_running if state.index is not None else min(THREADS, options.max_running)
        self._turns = FairSemaphore(options.max_running, share=3 * busy // 4)
        self._n_buffered = 0
        self._hosts = {*LOOPBACK, options.host.lower(), *options.allowed_hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # the service has no websockets; before it is accepted: 403
            await send({"type": "websocket.close", "code": 1008})
            return
        began, reply = time.perf_counter(), self._reply(scope, send)
        try:
            await self._guarded(scope, receive, reply)
        except ServiceError as fault:
            await _refuse(scope, reply, fault)
        except _GoneError:
            reply.status = reply.status or 499
        except Exception as fault:
            internal_error(scope, fault)
            if reply.status:
                # Only a broken connection says that the reply is not whole. The cause stays here,
                # because the server logs what it is raised with.
                raise ConnectionAbortedError("the reply broke off") from None
            await _refuse(scope, reply, ServiceError(500, "InternalError", INTERNAL))
        finally:
            self._tell(scope, reply, time.perf_counter() - began)

    def _reply(self, scope: Scope, send: Send) -> ReplySender:
        return ReplySender(send, is_head=scope["method"] == "HEAD", most=self._options.max_reply)

    def _tell(self, scope: Scope, reply: ReplySender, seconds: float) -> None:
        """Count the request, and write a line about it, with the path's template, not the path."""
        route = getattr(scope.get("route"), "path", "other")
        self._state.metrics.answered(route, scope["method"], reply.status, seconds)
        _access.info(
            "%s %s %d %.1f ms %d bytes token=%s", scope["method"], route, reply.status,
            seconds * 1e3, reply.n_bytes, scope.get("hyrecall.caller") or "-",
        )  # fmt: skip

    async def _guarded(self, scope: Scope, receive: Receive, reply: ReplySender) -> None:
        headers = Headers(scope=scope)
        if self._state.tokens is None:
            check_client(scope)
        check_host(self._hosts, self._options, headers)
        check_origin(self._options, scope, headers)
        if headers.get("origin", "").lower() in self._options.allowed_origins:
            reply.origin = headers["origin"]
            if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
                await _preflight(headers)(scope, receive, reply)
                return
        if self._state.tokens is not None and (_has_body(headers) or not _is_open(scope)):
            scope["hyrecall.caller"] = identify(self._state.tokens, headers).name
        body = await self._body(headers, receive)
        try:
            self._check_json(headers.get("content-type", ""), body)
            await self._run(scope, body, receive, reply)
        finally:
            self._n_buffered -= len(body)

    def _check_json(self, media_type: str, body: bytes) -> None:
        """Refuse JSON that is too deep, or whose depth cannot be told before it is parsed."""
        if is_json(media_type) and b"\0" in body:  # so that it is not UTF-16 or UTF-32
            raise ServiceError(422, "Invalid", "body: expected JSON in UTF-8, got a NUL byte")
        most = self._options.max_levels
        if is_deeper(body, media_type, most):
            raise ServiceError(422, "Invalid", f"expected at most {most} levels of JSON")

    # ---- the body ----

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        """Return the whole body, which never grows beyond its limit."""
        if "transfer-encoding" in headers and "content-length" in headers:
            # Where one layer believes one and another the other, a body smuggles a request.
            raise ServiceError(400, "BadRequest", "Content-Length: expected none beside chunks")
        if headers.get("content-encoding", "identity") != "identity":
            raise ServiceError(415, "UnsupportedMediaType", "expected a body without encoding")
        is_arrow = headers.get("content-type", "").partition(";")[0].strip() == ARROW
        limit = self._options.max_arrow_body if is_arrow else self._options.max_body
        told = headers.get("content-length", "0")
        if not told.isdecimal():
            raise ServiceError(400, "BadRequest", "Content-Length: expected a number")
        if int(told) > limit:
            raise _too_large(limit)
        parts: list[bytes] = []
        n_bytes, more = 0, True
        try:
            async with asyncio.timeout(self._options.slow):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _GoneError
                    part = message.get("body", b"")
                    more = message.get("more_body", False)
                    n_bytes += len(part)
                    self._n_buffered += len(part)
                    parts.append(part)
                    if n_bytes > limit:
                        raise _too_large(limit)
                    if self._n_buffered > MAX_BUFFERED:
                        raise _busy("too many large requests at a time")
        except BaseException as fault:
            self._n_buffered -= n_bytes
            if isinstance(fault, TimeoutError):
                message_ = f"expected the whole body within {self._options.slow:g} seconds"
                raise ServiceError(408, "Timeout", message_) from None
            raise
        return b"".join(parts)

    # ---- queue, deadline, and the client that leaves ----

    async def _run(self, scope: Scope, body: bytes, receive: Receive, reply: ReplySender) -> None:
        task = asyncio.current_task()
        assert task is not None
        is_gone = False

        async def watch() -> None:
            nonlocal is_gone
            while (await receive())["type"] != "http.disconnect":
                pass
            if not reply.is_complete:
                is_gone = True
                task.cancel()

        watching = asyncio.create_task(watch())
        limit = reply.limit = asyncio.timeout(self._options.deadline)
        try:
            async with limit, self._slot(scope):
                CALLER.set(scope.get("hyrecall.caller") or "")
                ROOM.set(Room(self._options.max_reply, lambda: _too_long(self._options.max_reply)))
                await self._app(scope, _replayed(body, watching), reply)
        except TimeoutError:
            if not limit.expired():
                raise
            message = f"no reply within {self._options.deadline:g} seconds"
            raise ServiceError(503, "Timeout", message, retry_after=RETRY_AFTER) from None
        except asyncio.CancelledError:
            if not is_gone or task.uncancel():
                raise
            raise _GoneError from None
        finally:
            reply.limit = None  # a refusal may follow
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

    @contextlib.asynccontextmanager
    async def _slot(self, scope: Scope) -> AsyncIterator[None]:
        """Wait for the turn of the request's token; refuse it if too many wait."""
        if scope["path"] in ALWAYS_ANSWERED:
            yield
            return
        name = scope.get("hyrecall.caller") or ""
        if name and self._turns.n_of(name) >= self._options.max_per_token:
            message = f"the token has {self._options.max_per_token} requests under way"
            raise ServiceError(429, "TooManyRequests", message, retry_after=RETRY_AFTER)
        if self._turns.is_full(name, self._options.max_waiting):
            raise _busy(f"{self._options.max_waiting} requests wait already")
        async with self._turns.turn(name):
            yield


# ---- checks ----


def check_client(scope: Scope) -> None:
    """Refuse a client of another machine where no token says who it is."""
    # :func:`hyrecall.serve.run` listens at loopback then, but another server may be told to listen
    # elsewhere, and the header Host is the client's word.
    with contextlib.suppress(ValueError):  # a path of a socket, or a name of a test's client
        client = scope.get("client")
        if client is not None and not ipaddress.ip_address(client[0]).is_loopback:
            message = "a client of another machine: expected a service with tokens"
            raise ServiceError(403, "Forbidden", message)


def check_host(hosts: set[str], options: ServiceOptions, headers: Headers) -> None:
    """Refuse another Host than the service's own: a page whose name was made to point here."""
    # An address in place of a name cannot have been made so; where only loopback listens, it must
    # be a loopback address.
    given = headers.getlist("host")
    if len(given) != 1:
        raise ServiceError(400, "BadRequest", "Host: expected one")
    host = _host_name(given[0])
    if host in hosts:
        return
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback or not options.is_local:
            return
    raise ServiceError(421, "WrongHost", "Host: expected the service's name (allowed_hosts)")


def check_origin(options: ServiceOptions, scope: Scope, headers: Headers) -> None:
    """Refuse a page of another origin than the service's own and those of the options."""
    for origin in headers.getlist("origin"):
        own = f"{scope.get('scheme', 'http')}://{headers['host']}".lower()
        if origin.lower() not in (own, *options.allowed_origins):
            raise ServiceError(403, "Forbidden", "Origin: expected one of allowed_origins")


def _host_name(given: str) -> str:
    try:
        return (urlsplit(f"//{given}").hostname or "").lower()
    except ValueError:
        return ""


def _preflight(headers: Headers) -> Response:
    """Tell a page of an allowed origin that it may send what it asks to send."""
    told = {
        "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
        "Access-Control-Allow-Headers": headers.get("access-control-request-headers", ""),
        "Access-Control-Max-Age": "600",
    }
    return Response(status_code=204, headers=told)


def _is_open(scope: Scope) -> bool:
    """Say whether a request needs no token: a preflight has none."""
    path = scope["path"]
    return scope["method"] == "OPTIONS" or path in OPEN or path.startswith("/page/")


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def _too_large(limit: int) -> ServiceError:
    return ServiceError(413, "TooLarge", f"expected a body of at most {limit} bytes")


def _too_long(most: int) -> ServiceError:
    told = f"reply: expected <= {most} bytes; ask for fewer at a time"
    return ServiceError(422, "Invalid", told)


def _busy(message: str) -> ServiceError:
    return ServiceError(503, "Busy", message, retry_after=RETRY_AFTER)


def _replayed(body: bytes, watching: asyncio.Task[None]) -> Receive:
    """Return a `receive` that gives a body that was read, then waits for the client to leave."""
    is_given = False

    async def receive() -> Message:
        nonlocal is_given
        if not is_given:
            is_given = True
            return {"type": "http.request", "body": body, "more_body": False}
        await asyncio.wait([watching])
        return {"type": "http.disconnect"}

    return receive


async def _refuse(scope: Scope, reply: ReplySender, fault: ServiceError) -> None:
    """Send a refusal; after one that left the body unread, the connection is closed."""
    if reply.status:
        return
    is_unread = fault.status in (400, 401, 403, 408, 413, 415, 421)
    await fault.reply({"Connection": "close"} if is_unread else None)(scope, _nothing, reply)


async def _nothing() -> Message:
    return {"type": "http.disconnect"}
