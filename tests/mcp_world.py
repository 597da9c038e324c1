"""Calls an MCP server as hosts do: in process, by lines, over HTTP, in a process of its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, TextContent

import hyrecall
from seams import stdio

BASE = "http://127.0.0.1:8766"
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def text_of(reply: CallToolResult) -> str:
    """The text of a reply, which is its only content."""
    (content,) = reply.content
    assert isinstance(content, TextContent)
    return content.text


def data_of(reply: CallToolResult) -> Any:
    """The data of a reply, which is no error."""
    assert not reply.is_error, text_of(reply)
    return reply.structured_content


def refusal_of(reply: CallToolResult) -> str:
    """The message of a reply that is an error."""
    assert reply.is_error
    assert reply.structured_content is None
    return text_of(reply)


@asynccontextmanager
async def over_http(app: Any, token: str | None = None) -> AsyncIterator[Client]:
    """Run an app's lifespan, and give a client of it, without sockets."""
    async with (
        app.router.lifespan_context(app),
        raw_http(app, token) as http,
        Client(streamable_http_client(f"{BASE}/mcp", http_client=http)) as client,
    ):
        yield client


@asynccontextmanager
async def raw_http(app: Any, token: str | None = None) -> AsyncIterator[httpx2.AsyncClient]:
    """Give an HTTP client of an app."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url=BASE, headers=headers) as client:
        yield client


def message(method: str, params: Any = None, *, number: int = 1) -> dict[str, Any]:
    """A request as JSON-RPC has it."""
    more = {} if params is None else {"params": params}
    return {"jsonrpc": "2.0", "id": number, "method": method, **more}


def environment(folder: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of a server's process: a store and settings in a folder, no embedder."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(hyrecall.__file__).parents[1]),
        "HYRECALL_PATH": str(folder / "agent.mem"),
        "HYRECALL_CONFIG": str(folder / "config.json"),
        "HYRECALL_EMBED_DISABLE": "1",
        **(more or {}),
    }


def spawned(
    folder: Path, *options: str, env: Mapping[str, str] | None = None
) -> StdioServerParameters:
    """``hyrecall mcp`` as a host's configuration names it."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "hyrecall", "mcp", *options],
        env=environment(folder, env),
    )


async def talk_here(server: Server[Any], lines: Sequence[object]) -> list[dict[str, Any]]:
    """Do what `talk` does with a server of this process; its lines are read as those of stdin."""

    async def chunks() -> AsyncIterator[bytes]:
        text = written(lines).encode("utf-8", "surrogatepass")
        for at in range(0, len(text), 10_000):
            yield text[at : at + 10_000]

    out = io.StringIO()
    stdout = anyio.wrap_file(out)
    async with stdio_server(stdin=stdio._no_lines(), stdout=stdout) as (unused, write), unused:
        await stdio._serve(server, stdio._lines(chunks(), 1 << 20), write)
    return read_replies(out.getvalue())


def written(lines: Sequence[object]) -> str:
    """The handshake and lines, of which those that are no str become JSON."""
    hello = [message("initialize", HELLO, number=0)]
    hello.append({"jsonrpc": "2.0", "method": "notifications/initialized"})
    texts = [one if isinstance(one, str) else json.dumps(one) for one in (*hello, *lines)]
    return "".join(f"{line}\n" for line in texts)


def read_replies(text: str) -> list[dict[str, Any]]:
    """The replies that a server wrote, without the one to the handshake."""
    replies = [json.loads(line) for line in text.splitlines()]
    assert all(one["jsonrpc"] == "2.0" for one in replies)
    return [one for one in replies if one.get("id") != 0]


def talk(
    folder: Path, lines: Sequence[object], *options: str, env: Mapping[str, str] | None = None
) -> tuple[list[dict[str, Any]], str, int]:
    """Write lines to ``hyrecall mcp``, after the handshake; give what it wrote, and its exit code.

    A line that is no str is written as JSON. The reply to the handshake is left out.
    """
    done = subprocess.run(
        [sys.executable, "-m", "hyrecall", "mcp", *options],
        env=environment(folder, env),
        input=written(lines),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return read_replies(done.stdout), done.stderr, done.returncode
