"""Serves the files of the page: HTML, style sheets, JavaScript modules and an icon.

The page asks the routes under ``/v1`` and nothing else; it holds no data of a store, so it needs no
token. A fixed list of files is served, so a path never reaches the disk.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import NamedTuple

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

__all__ = ["FILES", "HEADERS", "router"]

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
FILES = {
    one.name: _TYPES[suffix]
    for one in sorted(files(__name__).iterdir(), key=lambda one: one.name)
    if (suffix := one.name[one.name.rfind(".") :]) in _TYPES
}
"""The files below ``/page/``, each with its type."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-cache",
}
"""Of every reply: scripts come from here only, and no text can become a script."""


class _PageFile(NamedTuple):
    body: bytes
    media_type: str
    etag: str


def _read(name: str, media_type: str) -> _PageFile:
    body = files(__name__).joinpath(name).read_bytes()
    return _PageFile(body, media_type, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def router() -> APIRouter:
    """Return the routes ``/`` and ``/page/{name}``, which serve the page."""
    made = APIRouter(include_in_schema=False)
    page = _read("index.html", "text/html; charset=utf-8")
    parts = {name: _read(name, media_type) for name, media_type in FILES.items()}

    @made.api_route("/", methods=["GET", "HEAD"])
    async def _page(request: Request) -> Response:
        return _reply(request, page)

    @made.api_route("/page/{name}", methods=["GET", "HEAD"])
    async def _part(request: Request, name: str) -> Response:
        if name not in parts:
            raise HTTPException(404)
        return _reply(request, parts[name])

    return made


def _reply(request: Request, file: _PageFile) -> Response:
    headers = {**HEADERS, "ETag": file.etag}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    return Response(file.body, media_type=file.media_type, headers=headers)
