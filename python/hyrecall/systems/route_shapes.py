"""Request and reply helpers that several doors use."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fastapi import Response

from hyrecall.memory import Matches
from hyrecall.serve.errors import ErrorBody

BY_REST = "changed by a REST call"
"""The reason that is kept with a change whose request has no field for one."""

DEGRADED = "X-Hyrecall-Degraded"
"""The header that names the reasons where a document's reply has no field for them."""

_MEANINGS = {
    401: "no token, or an unknown one",
    403: "the token does not admit what the request names",
    409: "the store is served with a recipe that cannot answer this route",
    413: "the body is too long",
    422: "a field is missing, unknown or too long, or has a value that is not allowed",
    429: "too many requests wait; the header Retry-After says when to come again",
    500: "the store is damaged, or a fault of the service",
    503: "the service cannot take the request now; the header Retry-After says when to come again",
}

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": meaning} for status, meaning in _MEANINGS.items()
}
"""The errors of every door, for OpenAPI."""


def iso(time: datetime | None) -> str | None:
    """Return a time as ISO 8601; None of none."""
    return None if time is None else time.isoformat()


def tell_degraded(response: Response, matches: Matches) -> None:
    """Name in a header why a reply is degraded."""
    if matches.degraded:
        response.headers[DEGRADED] = ", ".join(str(one.reason) for one in matches.reasons)
