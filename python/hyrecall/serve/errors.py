"""Turns every error into one shape of JSON: ``{"error": {"type", "message"}}``.

Messages name arguments and limits. They hold no remedies in Python, no traceback, no text of a
request and no names of cells: what a library quotes from a request is left out.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any, get_args, get_origin

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Match
from starlette.types import Scope

from hyrecall.base.arguments import nearest
from hyrecall.errors import (
    DTypeError,
    HyrecallError,
    OptionError,
    ScopeError,
    ShapeError,
    outcome_of,
    type_and_place,
    without_remedy,
)
from hyrecall.serve.limits import is_json
from hyrecall.serve.options import ServiceOptions

_log = logging.getLogger("hyrecall.serve")
_log.addHandler(logging.NullHandler())


class ErrorDetail(BaseModel):
    """What went wrong.

    Parameters
    ----------
    type : str
        A word that programs can compare, as ``"OptionError"`` or ``"Unauthorized"``.
    message : str
        A sentence for people.
    """

    type: str
    message: str


class ErrorBody(BaseModel):
    """The body of every reply whose status is 400 or higher.

    Parameters
    ----------
    error : ErrorDetail
    """

    error: ErrorDetail


class ServiceError(Exception):
    """A refusal of the service itself: a status, a word, a sentence, and how long to wait."""

    def __init__(
        self, status: int, kind: str, message: str, *, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.message = status, kind, message
        self.retry_after = retry_after

    def reply(self, headers: Mapping[str, str] | None = None) -> Response:
        """Return the refusal as a reply."""
        told = dict(headers or {})
        if self.retry_after is not None:
            told["Retry-After"] = str(self.retry_after)
        if self.status == 401:
            told["WWW-Authenticate"] = "Bearer"
        return error_response(self.status, self.kind, self.message, told)


_KINDS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound",
    405: "MethodNotAllowed", 406: "NotAcceptable", 408: "Timeout", 411: "LengthRequired",
    412: "PreconditionFailed", 413: "TooLarge", 415: "UnsupportedMediaType", 422: "Invalid",
    429: "TooManyRequests", 503: "Unavailable",
}  # fmt: skip
INTERNAL = "an internal error; the log of the service says more"
_CLOSED = "expected an open store, got a closed one"
_OF_THE_SERVER = {
    500: "the store or index is damaged, or hyrecall has a fault; its log says which",
    501: "the service lacks an optional package for this request",
    503: "the store or index cannot take the request now",
}
"""What is said where the cause is the server's, not the caller's, in place of the message."""


def error_response(
    status: int, kind: str, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a reply with an error as JSON."""
    body = {"error": {"type": kind, "message": message}}
    return JSONResponse(body, status, headers=None if headers is None else dict(headers))


def plain_message(fault: BaseException) -> str:
    """Return an error's message without the remedy, which is Python code, and without values."""
    # What follows ``, got `` may quote the request, so it is left out of replies and of logs.
    return without_remedy(fault).partition(", got ")[0]


@contextmanager
def naming_query(at: int) -> Iterator[None]:
    """Let an error about a query of a batch begin with ``queries[at].``; others pass as they are.

    A query that is answered alone is number 0 to the index, so that number is left out.
    """
    try:
        yield
    except (OptionError, DTypeError, ShapeError, ScopeError) as fault:
        fault.args = (f"queries[{at}]." + re.sub(r"^(\w+)\[0\]", r"\1", str(fault)),)
        raise
    except ServiceError as fault:
        if fault.kind in ("Invalid", "ScopeError"):  # whose messages begin with a field
            fault.message = f"queries[{at}].{fault.message}"
        raise


async def _of_service(_: Request, fault: Exception) -> Response:
    assert isinstance(fault, ServiceError)
    return fault.reply()


async def _of_hyrecall(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, HyrecallError)
    status, kind = outcome_of(fault).status, type(fault).__name__
    status = 503 if _CLOSED in str(fault) else status
    message = _OF_THE_SERVER.get(status)
    if message is not None:
        _log.error("%s %s failed: %s", request.method, _route(request.scope), kind)
    seconds = math.ceil(getattr(fault, "retry_after", 1)) if status in (429, 503) else None
    return ServiceError(
        status, kind, plain_message(fault) if message is None else message, retry_after=seconds
    ).reply()


async def _of_http(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, HTTPException)
    kind, headers = _KINDS.get(fault.status_code, "Error"), fault.headers
    if fault.status_code == 405:  # raised by the first of the routes with this path
        headers = {**(headers or {}), "Allow": _allowed(request)}
    return error_response(fault.status_code, kind, str(fault.detail), headers)


def _allowed(request: Request) -> str:
    """Return the methods that the routes of a request's path take."""
    methods = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
    asked = ((one, {**request.scope, "method": one}) for one in methods)
    return ", ".join(
        method
        for method, scope in asked
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)
    )


async def _of_validation(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, RequestValidationError | ValidationError)
    media_type, route = request.headers.get("content-type", ""), request.scope.get("route")
    body = getattr(route, "body_field", None)
    told = _first_fault(fault.errors(), media_type, _wished(body), lambda loc: _meant(body, loc))
    return error_response(422, "Invalid", told)


async def _of_anything(request: Request, fault: Exception) -> Response:
    internal_error(request.scope, fault)
    return error_response(500, "InternalError", INTERNAL)


def internal_error(scope: Scope, fault: BaseException) -> None:
    """Log a fault by its type and its place."""
    _log.error("%s %s failed: %s", scope["method"], _route(scope), type_and_place(fault))


def _route(scope: Scope) -> str:
    """Return the template of the request's path, because a path may hold an id."""
    return getattr(scope.get("route"), "path", "an unknown path")


_WISHES = {"json_invalid": "expected JSON", "extra_forbidden": "expected no such field"}
"""Our words for faults that pydantic names less plainly."""


_JSON_TYPES = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}


def _wished(body: Any) -> str:
    """Return what a route's body has to be, with the fields that it must have."""
    model = getattr(getattr(body, "field_info", None), "annotation", None)
    if get_origin(model) is list:
        return "a JSON list"
    fields = getattr(model, "model_fields", {})
    needed = ", ".join(name for name, field in fields.items() if field.is_required())
    return "a JSON object" + (f" with {needed}" if needed else "")


def _meant(body: Any, loc: Sequence[Any]) -> str:
    """Say which field of a body an unknown one may mean."""
    model = getattr(getattr(body, "field_info", None), "annotation", None)
    for name in loc[1:-1]:
        if not isinstance(name, int):
            field = getattr(model, "model_fields", {}).get(name)
            model = None if field is None else next(iter(get_args(field.annotation)), None)
    near = nearest(str(loc[-1])[:80], getattr(model, "model_fields", {}))
    return "" if near is None else f" (did you mean {near}?)"


def _first_fault(
    faults: Any, media_type: str, wish: str, meant: Callable[[Sequence[Any]], str]
) -> str:
    """Return where and why the first field is wrong, without the value."""
    first = next(iter(faults), {"loc": (), "msg": "the request is invalid"})
    kind = str(first.get("type"))
    if first["loc"] == ("body",) and kind == "model_attributes_type" and not is_json(media_type):
        # The body was not read as JSON: curl, for one, sends another type unless it is told.
        return "Content-Type: expected application/json"
    if kind == "json_invalid":
        return f"body: {_WISHES[kind]}"
    if first["loc"] == ("body",) and kind in ("missing", "model_attributes_type", "list_type"):
        value = first.get("input")
        got = "nothing" if value is None else _JSON_TYPES.get(type(value), "a number")
        return f"body: expected {wish}, got {got}"
    parts = first["loc"][first["loc"][:1] in (("body",), ("query",), ("path",)) :]
    place = ".".join(map(str, parts))
    # A message of our own validators may quote the value behind ", got".
    reason = _WISHES.get(kind) or str(first["msg"])
    reason = reason.partition(", got ")[0].removeprefix("Value error, ")
    reason = reason.replace("Input should be", "expected", 1)
    reason += meant(first["loc"]) if kind == "extra_forbidden" else ""
    return f"{place}: {reason}" if place else reason


def install(app: FastAPI) -> None:
    """Let an app answer every error in this shape."""
    app.add_exception_handler(ServiceError, _of_service)
    app.add_exception_handler(HyrecallError, _of_hyrecall)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_exception_handler(ValidationError, _of_validation)
    app.add_exception_handler(Exception, _of_anything)


# ---- Checks sizes of what a body says against the options, before any of it is used ----


def options_of(request: Request) -> ServiceOptions:
    """Return the options of the app that a request came to."""
    options: ServiceOptions = request.app.state.options
    return options


def check_query(options: ServiceOptions, query: str, name: str = "query") -> None:
    """Refuse a query of too many bytes."""
    n_bytes = len(query) if query.isascii() else len(query.encode("utf-8", "surrogatepass"))
    check_size(name, n_bytes, options.max_query, "bytes")


def check_page(options: ServiceOptions, limit: int, offset: int = 0) -> None:
    """Refuse a page that is too large, or too far down."""
    check_size("limit", limit, options.max_limit, "")
    if limit + offset > options.max_limit:
        check_size("limit + offset", limit + offset, options.max_limit, "")


def check_hits(most: int, limits: Iterable[int], around: Iterable[int] = ()) -> None:
    """Refuse queries that ask for too many hits in all, each with the rows around it."""
    shown = zip_longest(limits, around, fillvalue=0)
    n_hits = sum(limit * (1 + 2 * beside) for limit, beside in shown)
    check_size("queries x limit", n_hits, most, "hits, those around each included")


def check_lists(options: ServiceOptions, **fields: Any) -> None:
    """Refuse a list or object with too many entries, however deep in a field it lies."""
    for name, value in fields.items():
        rest = [value]
        while rest:
            one = rest.pop()
            if isinstance(one, list | tuple | dict):
                check_size(name, len(one), options.max_ids, "entries")
                rest.extend(one.values() if isinstance(one, dict) else one)


def check_size(name: str, size: int, most: int, unit: str) -> None:
    """Refuse a number above the most; the message does not repeat what a request says."""
    if size > most:
        wish = f"<= {most}{f' {unit}' if unit else ''}"
        raise ServiceError(422, "Invalid", f"{name}: expected {wish}")
