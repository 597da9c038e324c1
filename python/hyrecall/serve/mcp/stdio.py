"""Runs a server over stdin and stdout, a message a line; other prints go to stderr."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

__all__ = ["run_stdio"]

_DRAIN_SECONDS: Final = 10.0
_TOO_LONG: Final = "a line that is too long"  # not JSON, so that it is answered as a parse error


async def run_stdio(server: Server[Any], *, max_line: int = 1 << 20) -> None:
    """Answer the messages of stdin until it ends, or until SIGTERM.

    Parameters
    ----------
    server : mcp.server.Server
        As :func:`hyrecall.serve.mcp.create_server` makes it.
    max_line : int, default 1 MiB
        Bytes of a message. A longer one is answered with the error -32700, as one that is no JSON.

    Notes
    -----
    Run it in the main thread. When stdin ends, requests under way have 10 seconds; at SIGTERM they
    are cancelled, and a write of theirs may still be committed. While it runs, prints of the
    process go to stderr.
    """
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, stop)
    try:
        async with contextlib.AsyncExitStack() as stack:
            lines: Any = await stack.enter_async_context(_stdin(max_line))
            read, write = await stack.enter_async_context(stdio_server(stdin=lines))
            await _serve(server, read, write)
    except asyncio.CancelledError:
        if not stopped:
            raise
        task.uncancel()
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


async def _serve(server: Server[Any], read: Any, write: Any) -> None:
    """Run a server on streams; answer what is no message, which the SDK passes over.

    When the messages end, requests under way are answered first: the SDK would cancel them.
    """
    send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    pending = _Pending(write)

    async def relay() -> None:
        async with send, read:
            async for item in read:
                if isinstance(item, Exception):
                    await write.send(SessionMessage(_answer_to(item)))
                    continue
                pending.begin(item)
                await send.send(item)
            with anyio.move_on_after(_DRAIN_SECONDS):
                await pending.all_answered()

    async with receive, anyio.create_task_group() as group:
        group.start_soon(relay)
        await server.run(receive, pending, server.create_initialization_options())
        group.cancel_scope.cancel()


class _Pending:
    """A write stream that knows which requests have no reply yet."""

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
        """Return the stream."""
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Close it."""
        await self.aclose()

    def _end(self, request: object) -> None:
        if isinstance(request, str | int):
            self._ids.discard(request)
        self._changed.set()
        self._changed = anyio.Event()


def _answer_to(fault: Exception) -> types.JSONRPCError:
    """Return the error for a line that is not JSON, or JSON that is no message."""
    kinds = {one["type"] for one in fault.errors()} if isinstance(fault, ValidationError) else set()
    if "json_invalid" in kinds:
        told = types.ErrorData(code=types.PARSE_ERROR, message="Parse error")
    else:
        told = types.ErrorData(code=types.INVALID_REQUEST, message="Invalid request")
    return types.JSONRPCError(jsonrpc="2.0", id=None, error=told)


@contextlib.asynccontextmanager
async def _stdin(max_line: int) -> AsyncIterator[AsyncIterator[str] | None]:
    """Read lines of stdin on the event loop, so that waiting for one can be cancelled.

    None where the loop cannot wait for it: a file, or the terminal that is stdout too, which
    writes must find blocking.
    """
    if _is_stdout(0):
        yield None
        return
    reader = asyncio.StreamReader(limit=max_line)
    loop = asyncio.get_running_loop()
    pipe = os.fdopen(os.dup(0), "rb", buffering=0)
    try:
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
    except ValueError:  # a file
        pipe.close()
        yield None
        return
    try:
        yield _lines(reader)
    finally:
        transport.close()
        with contextlib.suppress(OSError):
            os.set_blocking(0, True)


def _is_stdout(number: int) -> bool:
    try:
        return os.path.sameopenfile(number, sys.stdout.fileno())
    except (OSError, ValueError):
        return True


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    """Give the lines; of one that is too long, a text that is no JSON."""
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as end:
            if end.partial:
                yield end.partial.decode("utf-8", "replace")
            return
        except asyncio.LimitOverrunError as over:
            await _skip_line(reader, over.consumed)
            yield _TOO_LONG
        else:
            if line.strip():
                yield line.decode("utf-8", "replace")


async def _skip_line(reader: asyncio.StreamReader, n_bytes: int) -> None:
    while True:
        await reader.readexactly(n_bytes)
        try:
            await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as over:
            n_bytes = over.consumed
        except asyncio.IncompleteReadError:
            return
        else:
            return
