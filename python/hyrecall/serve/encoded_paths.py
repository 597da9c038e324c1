"""Keeps an encoded slash of a path within its segment, so that an id may hold slashes.

``/v1/memories/a%2Fhistory`` is the memory ``a/history``, and ``/v1/memories/a/history`` the history
of ``a``. A server decodes a path before routes see it; here it is decoded anew from the raw path,
but for ``%2F`` and ``%25``, which :data:`PathId` decodes once a route is found.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias
from urllib.parse import unquote

from pydantic import AfterValidator
from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["EncodedPaths", "PathId"]


class EncodedPaths:
    """The layer before the routes.

    Parameters
    ----------
    app : ASGI app
        Its routes take ids as :data:`PathId`.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Hold the app."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Route a request by its path with encoded slashes; layers before see it as it came."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        before = scope["path"]
        scope["path"] = to_route(before, scope.get("raw_path"))
        try:
            await self._app(scope, receive, send)
        finally:
            scope["path"] = before


def to_route(path: str, raw: bytes | None) -> str:
    """Return a path in which ``%2F`` is a slash within a segment, and ``%25`` a percent sign.

    Parameters
    ----------
    path : str
        Decoded.
    raw : bytes or None
        As the client sent it. Where it is not the same path, because a layer before has changed
        that, every slash separates.

    Examples
    --------
    >>> to_route("/memories/a/history", b"/memories/a%2Fhistory")
    '/memories/a%2Fhistory'
    >>> to_route("/memories/50% \\u00e9", b"/memories/50%25%20%C3%A9")
    '/memories/50%25 \\xe9'
    """
    given = (raw or b"").decode("latin-1")
    if unquote(given) == path:
        parts = [unquote(part) for part in given.split("/")]
    else:
        parts = path.split("/")
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)


def _decoded(segment: str) -> str:
    return segment.replace("%2F", "/").replace("%25", "%")


PathId: TypeAlias = Annotated[str, AfterValidator(_decoded)]
"""An id in a path, which may hold slashes."""
