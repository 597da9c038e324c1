"""Runs a server over stdin and stdout, a message a line; other prints go to stderr."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import re
import select
import signal
import socket
import sys
from collections.abc import AsyncIterator
from queue import SimpleQueue
from typing import Any, Final, cast

import anyio
import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from hyrecall.base import threads
from hyrecall.errors import OptionError, error
from hyrecall.serve.limits import check_message

_DRAIN_SECONDS: Final = 10.0
_CHUNK: Final = 1 << 16


async def run_stdio(server: Server[Any], *, max_line: int = 1 << 20) -> None:
    """Answer the messages of stdin until it ends, or until SIGTERM.

    Parameters
    ----------
    server : mcp.server.Server
        As :func:`hyrecall.serve.mcp.create_server` makes it.
    max_line : int, default 1 MiB
        Bytes of a message. A longer one is answered with the error -32600 and its id.

    Raises
    ------
    OptionError
        Stdout is closed.
    OSError
        Stdin cannot be read, or stdout cannot be written. If nobody reads stdout any more, the
        server ends as if stdin had.

    Notes
    -----
    Run it in the main thread. When stdin ends, requests under way have 10 seconds; at SIGTERM they
    are cancelled, and a write of theirs may still be committed. While it runs, prints of the
    process go to stderr. A closed stdin is one that has ended.
    """
    if sys.stdin is None:
        return
    if sys.stdout is None:
        raise error(OptionError, "stdout", "an open stdout", "a closed one")
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        task.cancel()

    before = signal.getsignal(signal.SIGTERM)
    loop.add_signal_handler(signal.SIGTERM, stop)
    try:
        async with stdio_server(stdin=cast(Any, _no_lines())) as (unused, write), unused:
            await _serve(server, _lines(_chunks(0), max_line), write)
    except asyncio.CancelledError:
        if not stopped:
            raise
        task.uncancel()
    except BaseExceptionGroup as group:
        fault = _os_error(group)
        if fault is None:
            raise
        if fault.errno != errno.EPIPE:
            raise fault from None
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGTERM, before)


async def _serve(server: Server[Any], lines: AsyncIterator[_Line], write: Any) -> None:
    """Run a server on lines; answer those that are no message."""
    # When the lines end, requests under way are answered first: the SDK would cancel them.
    send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    pending = _Pending(write)

    async def relay() -> None:
        async with send:
            async for line in lines:
                message = line.message()
                if message is None:
                    await write.send(SessionMessage(line.refusal()))
                    continue
                item = SessionMessage(message)
                pending.begin(item)
                await send.send(item)
            with anyio.move_on_after(_DRAIN_SECONDS):
                await pending.all_answered()

    async with receive, anyio.create_task_group() as group:
        group.start_soon(relay)
        await server.run(receive, pending, server.create_initialization_options())
        group.cancel_scope.cancel()


class _Pending:
    """A write stream that tracks requests without a reply."""

    def __init__(self, write: Any) -> None:
        self._write = write
        self._ids: set[str | int] = set()
        self._changed = anyio.Event()

    def begin(self, item: SessionMessage) -> None:
        """Keep the id of a request; a cancelled one gets no reply."""
        message = item.message
        if isinstance(message, types.JSONRPCRequest):
            self._ids.add(message.id)
        elif getattr(message, "method", "") == "notifications/cancelled":
            self._end((getattr(message, "params", None) or {}).get("requestId"))

    async def all_answered(self) -> None:
        """Wait until every request has its reply."""
        while self._ids:
            await self._changed.wait()

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message."""
        await self._write.send(item)
        if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
            self._end(item.message.id)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._write.aclose()

    async def __aenter__(self) -> _Pending:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def _end(self, request: object) -> None:
        if isinstance(request, str | int):
            self._ids.discard(request)
        self._changed.set()
        self._changed = anyio.Event()


class _Line:
    """A line of stdin: its bytes, unless it is too long, and an outline of it."""

    # The outline is the JSON object without what is nested in it, so that a message that cannot be
    # read still tells its id.

    def __init__(self, max_line: int) -> None:
        self._max_line = max_line
        self._bytes = bytearray()
        self._n_bytes = 0
        self._outline = _Outline()
        self._fault: str | None = None
        self._wrong: str | None = None

    @property
    def is_blank(self) -> bool:
        return not self._is_too_long and not self._bytes.strip()

    @property
    def _is_too_long(self) -> bool:
        return self._n_bytes > self._max_line

    def add(self, part: bytes) -> None:
        """Add bytes. Once the line is too long, only its outline is kept."""
        was_too_long = self._is_too_long
        self._n_bytes += len(part)
        if not self._is_too_long:
            self._bytes += part
            return
        if not was_too_long:
            self._outline.add(bytes(self._bytes))
            self._bytes.clear()
        self._outline.add(part)

    def message(self) -> types.JSONRPCMessage | None:
        """Return the message, or None: see `refusal`."""
        if self._is_too_long:
            return None
        line = bytes(self._bytes)
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            check_message(line)
        except HTTPException as fault:
            self._outline.add(line)
            self._wrong = fault.detail
            return None
        except ValidationError as fault:
            self._outline.add(line)
            of_json = (one for one in fault.errors() if one["type"] == "json_invalid")
            first = next(of_json, None)
            self._fault = None if first is None else first["ctx"]["error"]
            return None
        return message

    def refusal(self) -> types.JSONRPCError:
        """Return the error for a line that is too long, no JSON, or JSON that is no message."""
        outline = self._outline.read()
        code, told = types.INVALID_REQUEST, "Invalid request"
        if self._wrong is not None:
            told += f": {self._wrong}"
        if self._fault is not None or (self._is_too_long and outline is None):
            code, told = types.PARSE_ERROR, f"Parse error: {self._fault or 'not a JSON object'}"
        if self._is_too_long:
            told += f": expected a message of at most {self._max_line} bytes, got a longer one"
        of_request = outline is not None and "method" in outline
        number = outline.get("id") if outline is not None and of_request else None
        if isinstance(number, bool) or not isinstance(number, str | int):
            number = None
        data = types.ErrorData(code=code, message=told)
        return types.JSONRPCError(jsonrpc="2.0", id=number, error=data)


class _Outline:
    """Reads a JSON object in pieces, and keeps little of it: its own names and plain values."""

    _MOST: Final = 1 << 16
    _LONGEST: Final = 1 << 10  # bytes of a string; of a longer one nothing is kept

    def __init__(self) -> None:
        self._kept = bytearray()
        self._depth = 0
        self._begin = 0  # where the open string begins in what is kept
        self._in_string = self._is_escaped = False

    def add(self, part: bytes) -> None:
        at = 0
        while at < len(part):
            if self._is_escaped:
                end = stop = at + 1
                self._is_escaped = False
            else:
                found = (_STRING_ENDS if self._in_string else _OUTSIDE).search(part, at)
                end = stop = len(part)
                if found is not None:
                    end, stop = found.span()
            self._keep(part[at:end] if self._in_string else part[at:end].strip())
            if end < stop:
                self._step(part[end:stop])
            at = stop

    def read(self) -> dict[str, Any] | None:
        """Return the object, with None in place of what is nested, or None: it is none."""
        try:
            found = json.loads(self._kept.decode("utf-8", "replace"))
            json.dumps(found, ensure_ascii=False).encode()  # a lone surrogate cannot be sent back
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def _step(self, one: bytes) -> None:
        if self._in_string:
            self._keep(one)
            self._is_escaped = one == b"\\"
            if one == b'"':
                self._in_string = False
                if len(self._kept) - self._begin > self._LONGEST:
                    self._kept[self._begin :] = b'""'
        elif one == b'"':
            self._in_string, self._begin = True, len(self._kept)
            self._keep(one)
        elif one in b"{[":
            self._keep(one if self._depth == 0 else b"null")
            self._depth += 1
        else:
            self._depth -= 1
            if self._depth == 0:
                self._keep(one)

    def _keep(self, part: bytes) -> None:
        """Keep what is not nested, and of a long string only that it is one."""
        is_long = self._in_string and len(self._kept) - self._begin > self._LONGEST
        if self._depth <= 1 and not is_long and len(self._kept) < self._MOST:
            self._kept += part[: self._MOST]


# The terminal is gone; stdin is open for writing alone, as nohup leaves it.
_NO_MORE: Final = (errno.EIO, errno.EBADF)
_OUTSIDE: Final = re.compile(rb'["{}\[\]]')
_STRING_ENDS: Final = re.compile(rb'["\\]')


async def _lines(chunks: AsyncIterator[bytes], max_line: int) -> AsyncIterator[_Line]:
    """Give the lines that are not blank."""
    line = _Line(max_line)
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        line.add(first)
        for other in others:
            if not line.is_blank:
                yield line
            line = _Line(max_line)
            line.add(other)
    if not line.is_blank:
        yield line


async def _chunks(number: int) -> AsyncIterator[bytes]:
    """Read a file descriptor until its end."""
    # A thread reads it: the event loop cannot wait for files, /dev/null or a terminal that stdout
    # shares, and a thread of a pool could not be given up.
    loop = asyncio.get_running_loop()
    wanted: SimpleQueue[asyncio.Future[bytes] | None] = SimpleQueue()
    ours, theirs = socket.socketpair()

    def stop() -> None:
        wanted.put(None)
        with contextlib.suppress(OSError):
            ours.send(b".")

    def run() -> None:
        with ours, theirs:
            while (future := wanted.get()) is not None:
                chunk, fault = b"", None
                try:
                    chunk = _read(number, theirs)
                except OSError as one:
                    fault = None if one.errno in _NO_MORE else one
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(_settle, future, chunk, fault)

    threads.start(run, name="hyrecall-stdin", stop=stop)
    try:
        while True:
            future = loop.create_future()
            wanted.put(future)
            chunk = await future
            if not chunk:
                return
            yield chunk
    finally:
        stop()


def _read(number: int, stop: socket.socket) -> bytes:
    """Read some bytes; none at the end, or when the other socket is written to."""
    poll = select.poll()
    poll.register(number, select.POLLIN)
    poll.register(stop, select.POLLIN)
    while True:
        if any(one == stop.fileno() for one, _ in poll.poll()):
            return b""
        with contextlib.suppress(BlockingIOError):  # somebody else has read it
            return os.read(number, _CHUNK)


def _settle(future: asyncio.Future[bytes], chunk: bytes, fault: OSError | None) -> None:
    if future.done():
        return
    if fault is None:
        future.set_result(chunk)
    else:
        future.set_exception(fault)


async def _no_lines() -> AsyncIterator[str]:
    """Give nothing: the SDK reads no line, because it would not tell the id of a wrong one."""
    return
    yield ""


def _os_error(group: BaseExceptionGroup[BaseException]) -> OSError | None:
    """Return the first error of a group of errors of the system, or None if it has others."""
    system, others = group.split(OSError)
    first: BaseException | None = system
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first if others is None and isinstance(first, OSError) else None
