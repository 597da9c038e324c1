"""Routes that refuse a request with unknown parts, and the converters of their paths.

A query parameter, a body, a field or a header that says who is meant is an error at a route that
does not read it: a request would act on another user than it names. The check follows from what a
route declares. An encoded slash of a path stays within its segment, so that an id may hold slashes:
``/v1/memories/a%2Fhistory`` is the memory ``a/history``, and ``/v1/memories/a/history`` the history
of ``a``. A server decodes a path before routes see it; here it is decoded anew from the raw path,
but for ``%2F``, ``%25`` and control characters (routes are regular expressions, which pass over a
last newline), which :data:`PathId` decodes once a route is found.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeAlias, get_args, get_origin
from urllib.parse import quote, unquote

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from hyrecall.base.arguments import nearest
from hyrecall.serve.errors import ServiceError
from hyrecall.serve.limits import read_json

_WHO = re.compile(
    r"x?(hyrecall|hebb(mind)?|honeycomb|hypermemory|hypergraph|l0|loom|mem0)?"
    r"(user|owner|tenant|customer|org|organi[sz]ation|account|team|project|workspace|namespace"
    r"|agent|graph)(id|uuid|key|name|email)?"
)
"""Headers that say whose memories are meant, without their hyphens and underscores.

A route reads those that it declares. What proxies add is none of them (``X-Forwarded-User``)."""

_ENCODED = re.compile(r"[%/\x00-\x1f\x7f\x85\u2028\u2029]")
"""Characters of an id that stay encoded until a route is found."""


# ---- what a route reads ----


class _Request(Request):
    """A request whose JSON names no field twice."""

    async def json(self) -> Any:
        """Return the body; of a name that stands twice, one value would not be read."""
        if not hasattr(self, "_json"):
            self._json = _read_body(await self.body())
        return self._json


def _read_body(body: bytes) -> Any:
    try:
        return read_json(body)
    except json.JSONDecodeError:
        raise  # FastAPI says so
    except UnicodeDecodeError:
        raise HTTPException(422, "body: expected JSON in UTF-8") from None
    except ValueError:
        wish = f"integers of at most {sys.get_int_max_str_digits()} digits"
        raise HTTPException(422, f"body: expected {wish}") from None


class Route(APIRoute):
    """A route that refuses unknown parameters, and answers HEAD like GET."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match HEAD where GET is taken."""
        return super().matches(self._read(scope))

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer HEAD as GET; the guard leaves out the body of the reply."""
        await super().handle(self._read(scope), receive, send)

    def _read(self, scope: Scope) -> Scope:
        is_read = scope.get("method") == "HEAD" and "GET" in (self.methods or ())
        return {**scope, "method": "GET"} if is_read else scope

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler behind a check of the whole request."""
        handler = super().get_route_handler()
        query, headers = (
            dict(_declared(self.dependant, kind)) for kind in ("query_params", "header_params")
        )
        takes_body = self.body_field is not None or "requestBody" in (self.openapi_extra or {})
        is_refusal = (self.status_code or 200) >= 400

        async def checked(request: Request) -> Response:
            if not is_refusal:
                check_request(request, query, headers)
                if not takes_body and await request.body():
                    wish = "none, because this route reads its path, query string and headers"
                    raise HTTPException(422, f"body: expected {wish}")
            return await handler(_Request(request.scope, request.receive))

        return checked


class Router(APIRouter):
    """A group of routes that refuse unknown parameters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(route_class=Route, **options)


def _declared(dependant: Any, kind: str) -> Iterator[tuple[str, bool]]:
    """Yield the parameters of a route and of its dependencies, and whether each may be repeated."""
    for one in dependant.dependencies:
        yield from _declared(one, kind)
    for field in getattr(dependant, kind):
        model = field.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            for name, inner in model.model_fields.items():
                yield inner.alias or name, _is_list(inner.annotation)
        else:
            yield field.alias, _is_list(model)


def _is_list(annotation: Any) -> bool:
    return any(get_origin(one) is list for one in (annotation, *get_args(annotation)))


def check_request(request: Request, query: Mapping[str, bool], headers: Mapping[str, bool]) -> None:
    """Refuse parameters, and headers that say who is meant, which a route does not read."""
    named = Counter(name for name, _ in request.query_params.multi_items())
    headers = {name.lower(): may_repeat for name, may_repeat in headers.items()}
    who = (name for name, _ in request.headers.items() if name in headers or _is_read(name))
    for given, reads, what in (
        (named, query, "field in the query string"),
        (Counter(who), headers, "header"),
    ):
        for name, n_times in given.items():
            if name not in reads:
                near = nearest(name[:80], reads) if reads is query else None
                hint = "" if near is None else f" (did you mean {near}?)"
                raise ServiceError(422, "Invalid", f"{name:.80}: expected no such {what}{hint}")
            if n_times > 1 and not reads[name]:
                raise ServiceError(422, "Invalid", f"{name:.80}: expected once")


def _is_read(header: str) -> bool:
    """Return whether a header says whose memories are meant, or under which condition."""
    return header in ("if-match", "idempotency-key") or bool(
        _WHO.fullmatch(re.sub("[-_]", "", header))
    )


def _matched(routes: Iterable[BaseRoute], scope: Scope) -> BaseRoute | None:
    """Return the route that answers, or else one that would with another method."""
    known = [(route, match) for route in routes if (match := route.matches(scope)[0]) != Match.NONE]
    answering = (route for route, match in known if match == Match.FULL)
    return next(answering, known[0][0] if known else None)


# ---- paths ----


class EncodedPaths:
    """The layer before the routes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Route a request by its path with encoded slashes; layers before see it as it came."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        before = scope["path"]
        scope["path"] = to_route(before, scope.get("raw_path"))
        self._without_slash(scope)
        try:
            await self._app(scope, receive, send)
        finally:
            scope["path"] = before

    def _without_slash(self, scope: Scope) -> None:
        """Leave out a last slash that leads nowhere; not where an empty id would forget a list."""
        # ``/v1/memories/a/history/`` could be a memory too, whose id is written ``a%2Fhistory%2F``.
        path, routes = scope["path"], scope["app"].routes
        if path.endswith("/") and scope["method"] != "DELETE":
            found = _matched(routes, scope)
            plain = path.rstrip("/") if found is None else path[:-1]
            other = _matched(routes, {**scope, "path": plain})
            if other is not None and other is not found:
                scope["path"] = plain


def to_route(path: str, raw: bytes | None) -> str:
    """Return a path in which ``%2F`` is a slash within a segment, and ``%25`` a percent sign."""
    # Control characters and ends of lines stay encoded too.
    given = (raw or b"").decode("latin-1")
    if unquote(given) == path:
        parts = [unquote(part) for part in given.split("/")]
    else:
        parts = path.split("/")
    return "/".join(_ENCODED.sub(lambda one: quote(one[0], safe=""), part) for part in parts)


class _IdConvertor(PathConvertor):
    """The rest of a path, slashes too, and not nothing."""

    regex = ".+"


register_url_convertor("id", _IdConvertor())


PathId: TypeAlias = Annotated[str, AfterValidator(unquote)]
"""An id in a path, which may hold slashes and ends of lines."""
