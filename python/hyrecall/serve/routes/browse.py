"""A caller's memories as files: list, read, find, grep. No path reaches the file system."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from hyrecall.serve.callers import Reader
from hyrecall.serve.errors import ServiceError
from hyrecall.serve.limits import check_page, check_size, options_of
from hyrecall.serve.replies import ERRORS, JsonResponse, encode
from hyrecall.serve.routes.parameters import ScopeParams
from hyrecall.serve.routing import Router
from hyrecall.serve.scoped_store import scoped_store

__all__ = ["router"]

router = Router(
    prefix="/v1/browse", tags=["browse"], responses=ERRORS, default_response_class=JsonResponse
)

_PATTERN_BYTES = 1024


class _Path(ScopeParams):
    path: str = "/"
    limit: Annotated[int, Query(ge=0)] = 200


class _File(ScopeParams):
    path: str


class _Find(_Path):
    pattern: str = "*"


class _Grep(_Path):
    pattern: str
    regex: bool = False
    limit: Annotated[int, Query(ge=0)] = 50


@router.get("/ls", summary="List a folder")
async def ls(request: Request, asked: Annotated[_Path, Query()], who: Reader) -> Response:
    """List a folder, newest first; folders end in a slash."""
    check_page(options_of(request), asked.limit)
    store = scoped_store(request, who, asked)
    found = await store.run(lambda store: store.browse().ls(asked.path, limit=asked.limit))
    return JsonResponse(encode({"paths": found}))


@router.get("/cat", summary="Read a file")
async def cat(request: Request, asked: Annotated[_File, Query()], who: Reader) -> Response:
    """Return a file's text; 404 for one that is not there."""
    text = await scoped_store(request, who, asked).run(lambda store: store.browse().cat(asked.path))
    if not text:
        raise ServiceError(404, "NotFound", "path: expected a file of the caller")
    return JsonResponse(encode({"path": asked.path, "text": text}))


@router.get("/find", summary="Find files by name")
async def find(request: Request, asked: Annotated[_Find, Query()], who: Reader) -> Response:
    """Return paths of memories whose file name matches a pattern, newest first."""
    check_page(options_of(request), asked.limit)
    store = scoped_store(request, who, asked)
    found = await store.run(
        lambda store: store.browse().find(asked.pattern, asked.path, limit=asked.limit)
    )
    return JsonResponse(encode({"paths": found}))


@router.get("/grep", summary="Find lines")
async def grep(request: Request, asked: Annotated[_Grep, Query()], who: Reader) -> Response:
    """Return lines that hold a text or match a regular expression (RE2), newest memory first."""
    check_page(options_of(request), asked.limit)
    check_size("pattern", len(asked.pattern.encode("utf-8", "replace")), _PATTERN_BYTES, "bytes")
    store = scoped_store(request, who, asked)
    found = await store.run(
        lambda store: store.browse().grep(
            asked.pattern, asked.path, regex=asked.regex, limit=asked.limit
        )
    )
    return JsonResponse(encode({"lines": [asdict(one) for one in found]}))
