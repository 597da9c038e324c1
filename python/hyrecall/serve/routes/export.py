"""Streams a caller's memories, facts and edges as JSON lines."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated

from fastapi import Depends, Query, Request
from starlette.responses import Response, StreamingResponse

from hyrecall.serve.errors import ServiceError, check_page, check_size, options_of
from hyrecall.serve.guards import RETRY_AFTER
from hyrecall.serve.replies import ERRORS, JsonResponse, encode
from hyrecall.serve.routing import Router
from hyrecall.serve.scoped_store import Reader, ScopeParams, store_of
from hyrecall.serve.verbs import CallersStore

router = Router(prefix="/v1", tags=["memories"], responses=ERRORS)

CHUNK = 64 << 10  # characters
AHEAD = 4
"""Chunks that are written before the client has taken them."""

MOST_AT_A_TIME = 2
"""Exports at a time: each has a thread of the store and its state as long as the client reads."""

MOST_SECONDS = 600.0
"""So long an export may take; a client that reads it more slowly has a reply that breaks off."""


class _Export(ScopeParams):
    history: bool = False


class _LeftError(Exception):
    """The client closed the connection."""


class _SlowError(Exception):
    """The client takes too long."""


class _Pipe(io.TextIOBase):
    """A text file that a thread writes, and an event loop sends, chunk by chunk."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(AHEAD)
        self._buffer: list[str] = []
        self._size = 0
        self._until = time.monotonic() + MOST_SECONDS
        self.has_left = False

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._buffer.append(text)
        self._size += len(text)
        if self._size >= CHUNK:
            self._send()
        return len(text)

    def _send(self) -> None:
        chunk = "".join(self._buffer).encode()
        self._buffer, self._size = [], 0
        if self.has_left:
            raise _LeftError
        if time.monotonic() > self._until:
            raise _SlowError
        asyncio.run_coroutine_threadsafe(self._queue.put(chunk), self._loop).result()

    def finish(self) -> None:
        """Send what is left, and say that nothing follows."""
        self._send()
        asyncio.run_coroutine_threadsafe(self._queue.put(None), self._loop).result()

    async def chunks(self) -> AsyncIterator[bytes]:
        while (chunk := await self._queue.get()) is not None:
            yield chunk

    def leave(self) -> None:
        """Let the thread end: it may wait for room in the queue."""
        self.has_left = True
        while not self._queue.empty():
            self._queue.get_nowait()


async def _pipe() -> AsyncIterator[_Pipe]:
    """Give a pipe that lets its writer go however the request ends, also before it has a reply."""
    pipe = _Pipe(asyncio.get_running_loop())
    try:
        yield pipe
    finally:
        pipe.leave()


def _write(store: CallersStore, pipe: _Pipe, *, history: bool) -> None:
    store.sync("export", pipe, history=history)
    pipe.finish()


@router.get("/export", summary="Export memories as JSON lines", response_class=StreamingResponse)
async def export(
    request: Request,
    asked: Annotated[_Export, Query()],
    who: Reader,
    pipe: Annotated[_Pipe, Depends(_pipe)],
) -> Response:
    """Stream one state of the caller's memories, facts and edges; the first line is its format."""
    if who.agent is not None:
        raise ServiceError(403, "Forbidden", "agents have no export")
    store = store_of(request, who, asked)
    places: asyncio.Semaphore = request.app.state.exports
    if places.locked():
        message = f"{MOST_AT_A_TIME} exports are under way"
        raise ServiceError(503, "Busy", message, retry_after=RETRY_AFTER)
    await places.acquire()
    job = asyncio.create_task(store.run(lambda: _write(store, pipe, history=asked.history)))
    job.add_done_callback(lambda _: places.release())  # once the thread has ended
    job.add_done_callback(lambda job: job.cancelled() or job.exception())  # if nobody reads it
    chunks = pipe.chunks()
    # The first chunk, so that what is refused has its status.
    first = asyncio.create_task(anext(chunks, None))
    await asyncio.wait((job, first), return_when=asyncio.FIRST_COMPLETED)
    if job.done() and (fault := job.exception()) is not None:
        first.cancel()
        raise fault

    async def lines() -> AsyncIterator[bytes]:
        chunk = await first
        while chunk is not None:
            yield chunk
            chunk = await _next(chunks, job)
        await job

    return StreamingResponse(lines(), media_type="application/x-ndjson")


async def _next(chunks: AsyncIterator[bytes], job: asyncio.Task[None]) -> bytes | None:
    """Return the next chunk; raise what the writing thread failed of, so that the reply breaks."""
    following = asyncio.ensure_future(anext(chunks, None))
    await asyncio.wait((following, job), return_when=asyncio.FIRST_COMPLETED)
    if not following.done() and job.exception() is not None:
        following.cancel()
        await job
    return await following


# ---- A caller's memories as files: list, read, find, grep. No path reaches the file system ----

browse_router = Router(
    prefix="/v1/browse", tags=["browse"], responses=ERRORS, default_response_class=JsonResponse
)

_PATTERN_BYTES = 1024


class _PathParams(ScopeParams):
    path: str = "/"
    limit: Annotated[int, Query(ge=0)] = 200


class _FileParams(ScopeParams):
    path: str


class _FindParams(_PathParams):
    pattern: str = "*"


class _GrepParams(_PathParams):
    pattern: str
    regex: bool = False
    limit: Annotated[int, Query(ge=0)] = 50


@browse_router.get("/ls", summary="List a folder")
async def ls(request: Request, asked: Annotated[_PathParams, Query()], who: Reader) -> Response:
    """List a folder, newest first; folders end in a slash."""
    check_page(options_of(request), asked.limit)
    found = await store_of(request, who, asked).browse("ls", asked.path, limit=asked.limit)
    return JsonResponse(encode({"paths": found}))


@browse_router.get("/cat", summary="Read a file")
async def cat(request: Request, asked: Annotated[_FileParams, Query()], who: Reader) -> Response:
    """Return a file's text; 404 for one that is not there."""
    text = await store_of(request, who, asked).browse("cat", asked.path)
    if not text:
        raise ServiceError(404, "NotFound", "path: expected a file of the caller")
    return JsonResponse(encode({"path": asked.path, "text": text}))


@browse_router.get("/find", summary="Find files by name")
async def find(request: Request, asked: Annotated[_FindParams, Query()], who: Reader) -> Response:
    """Return paths of memories whose file name matches a pattern, newest first."""
    check_page(options_of(request), asked.limit)
    store = store_of(request, who, asked)
    found = await store.browse("find", asked.pattern, asked.path, limit=asked.limit)
    return JsonResponse(encode({"paths": found}))


@browse_router.get("/grep", summary="Find lines")
async def grep(request: Request, asked: Annotated[_GrepParams, Query()], who: Reader) -> Response:
    """Return lines that hold a text or match a regular expression (RE2), newest memory first."""
    check_page(options_of(request), asked.limit)
    check_size("pattern", len(asked.pattern.encode("utf-8", "replace")), _PATTERN_BYTES, "bytes")
    options = {"regex": asked.regex, "limit": asked.limit}
    store = store_of(request, who, asked)
    found = await store.browse("grep", asked.pattern, asked.path, **options)
    return JsonResponse(encode({"lines": [asdict(one) for one in found]}))
