"""Honeycomb's routes of files: ``/memory/cat``, ``grep``, ``ls``, ``find`` and ``classify``.

They read what recall reads, on behalf of the same agent, and a write is answered 405.
"""

from __future__ import annotations

from typing import Any

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from hyrecall.memory import Browse
from hyrecall.serve.callers import Reader
from hyrecall.serve.doors.honeycomb import ReadAgent
from hyrecall.serve.doors.shapes import ERRORS
from hyrecall.serve.errors import ServiceError, error_response
from hyrecall.serve.routing import Router
from hyrecall.serve.scoped_store import ScopedStore, memory_of

__all__ = ["mounted", "router"]

router = Router(prefix="/memory", tags=["honeycomb"], responses=ERRORS)

MOUNT = "/memory/"
OWN = ("/memories/", "/shared/", "/sessions/", "/facts/", "/graph/", "/pinned/")
"""The folders of a store's files: a path that begins with one is no path of a mount."""
MOST_LISTED, MOST_LINES = 200, 50
READ_ONLY = (
    "/memory is read-only: keep memories by POST /api/memories, change them by "
    "POST /api/memories/{id}/modify and forget them by POST /api/memories/{id}/forget"
)


def mounted(path: str) -> str:
    """Return a path within the store's files: what follows the last ``/memory/`` of a mount."""
    if path.startswith(OWN):
        return path
    _, mount, rest = path.rpartition(MOUNT)
    return f"/{rest}" if mount else path


def _needed(name: str, value: str | None) -> str:
    if not value:
        raise ServiceError(400, "BadRequest", f"expected the parameter {name}")
    return value


def _files(request: Request, scope: ReadAgent) -> Browse:
    return ScopedStore(memory_of(request), scope).browse()


def _entry(path: str) -> dict[str, str]:
    return {"path": path, "filename": path.rstrip("/").rpartition("/")[2]}


@router.get("/cat", summary="Read a file")
async def cat(scope: ReadAgent, request: Request, path: str | None = None) -> dict[str, Any]:
    """Return a file's text; that of one that is not there is empty."""
    files, where = _files(request, scope), mounted(_needed("path", path))
    text = await run_in_threadpool(files.cat, where)
    return {"path": where, "found": bool(text), "content": text}


@router.get("/grep", summary="Find lines")
async def grep(
    scope: ReadAgent, request: Request, q: str | None = None, prefix: str = "/"
) -> dict[str, Any]:
    """Return at most 50 lines that hold a text as it is, newest memory first."""
    files, wanted = _files(request, scope), _needed("q", q)
    lines = await run_in_threadpool(files.grep, wanted, mounted(prefix), limit=MOST_LINES)
    hits = [{"path": one.path, "line": one.number, "content": one.text} for one in lines]
    return {"query": wanted, "degraded": False, "hits": hits}


@router.get("/ls", summary="List a folder")
async def ls(scope: ReadAgent, request: Request, prefix: str = "") -> dict[str, Any]:
    """List at most 200 entries of a folder, newest first."""
    files, where = _files(request, scope), mounted(prefix) or "/"
    found = await run_in_threadpool(files.ls, where, limit=MOST_LISTED)
    return {"prefix": where, "entries": [_entry(one) for one in found]}


@router.get("/find", summary="Find files by name")
async def find(
    scope: ReadAgent, request: Request, pattern: str | None = None, prefix: str = "/"
) -> dict[str, Any]:
    """List at most 200 files by name: with ``*``, ``?`` or ``[ab]``, else by a part of it."""
    files, wanted = _files(request, scope), _needed("pattern", pattern)
    names = wanted if any(one in wanted for one in "*?[") else f"*{wanted}*"
    found = await run_in_threadpool(files.find, names, mounted(prefix), limit=MOST_LISTED)
    return {"pattern": wanted, "matches": [_entry(one) for one in found]}


@router.get("/classify", summary="Say what a path names")
async def classify(scope: ReadAgent, request: Request, path: str | None = None) -> dict[str, str]:
    """Return the class of a path, whether or not there is such a file."""
    where = mounted(_needed("path", path))
    return {"path": where, "pathClass": _files(request, scope).classify(where)}


@router.api_route(
    "/{path:path}", methods=["POST", "PUT", "PATCH", "DELETE"], status_code=405,
    summary="Refuse a write", include_in_schema=False,
)  # fmt: skip
async def refuse(who: Reader, path: str) -> Response:
    """Refuse every write, and name the routes that write."""
    return error_response(405, "MethodNotAllowed", READ_ONLY, {"Allow": "GET"})
