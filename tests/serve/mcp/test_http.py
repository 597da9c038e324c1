"""The server over streamable HTTP, in process: tokens, Host and Origin, sizes."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra [mcp] is not installed")
pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from hyrecall.memory import Memory
from hyrecall.serve import Caller, ServiceOptions
from hyrecall.serve.mcp import http_app
from mcp_world import HELLO, data_of, message, over_http, raw_http, refusal_of

READ_AND_WRITE = frozenset(("read", "write"))
SECRETS = {
    "hyr_1_ann": Caller(user_id="ann", rights=READ_AND_WRITE),
    "hyr_2_bob": Caller(user_id="bob", rights=READ_AND_WRITE),
    "hyr_3_eye": Caller(user_id="ann", rights=frozenset(("read",))),
    "hyr_4_up": Caller(user_id="ann", rights=frozenset(("upkeep",))),
}
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


class Tokens:
    """Tokens that a test knows."""

    def find(self, token: str) -> Caller | None:
        return SECRETS.get(token)


@asynccontextmanager
async def app_of(**options: Any) -> AsyncIterator[Any]:
    async with Memory.in_memory(embedder=None) as memory:
        yield http_app(memory, **options)


@asynccontextmanager
async def asked(**options: Any) -> AsyncIterator[Any]:
    """A running app, and an HTTP client of it."""
    async with app_of(**options) as app, app.router.lifespan_context(app), raw_http(app) as http:
        yield http


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def call() -> None:
        await main()

    asyncio.run(call())


def test_the_sdks_client_calls_tools_and_reads_resources() -> None:
    async def main() -> None:
        async with (
            app_of(caller=Caller(user_id="ann", rights=READ_AND_WRITE)) as app,
            over_http(app) as client,
        ):
            assert len((await client.list_tools()).tools) == 13
            text = {"text": "Tea at four", "id": "tea", "pinned": True}
            assert data_of(await client.call_tool("save", text))["id"] == "tea"
            found = data_of(await client.call_tool("search", {"query": "tea"}))
            assert found["matches"][0]["memory"]["user_id"] == "ann"
            (one,) = (await client.list_resources()).resources
            (read,) = (await client.read_resource(one.uri)).contents
            assert read.text == "Tea at four"  # type: ignore[union-attr]

    run(main)


@pytest.mark.parametrize(
    "header",
    [None, "Bearer", "Bearer ", "Bearer hyr_9_no", "Basic hyr_1_ann", "hyr_1_ann", "Bearer \xff"],
)
def test_a_request_without_a_known_token_is_refused(header: str | None) -> None:
    async def main() -> None:
        async with asked(tokens=Tokens()) as http:
            more = {} if header is None else {"authorization": header.encode("latin-1")}
            for method, path in (("POST", "/mcp"), ("GET", "/mcp"), ("POST", "/no")):
                sent = {**ACCEPT, **more}
                got = await http.request(method, path, json=message("ping"), headers=sent)  # type: ignore[arg-type]
                assert got.status_code == 401
                assert got.headers["www-authenticate"] == "Bearer"
                assert got.json()["error"]["type"] == "Unauthorized"

    run(main)


def test_each_token_has_its_own_scope_and_rights() -> None:
    async def main() -> None:
        # The lifespan of an app runs once, so every client has an app of its own on one store.
        async with Memory.in_memory(embedder=None) as memory:
            await memory.remember("ann's canary", id="c", user_id="ann")
            async with over_http(http_app(memory, tokens=Tokens()), "hyr_2_bob") as bob:
                found = data_of(await bob.call_tool("search", {"query": "canary"}))
                assert found["matches"] == []
                assert "canary" not in refusal_of(await bob.call_tool("get", {"id": "c"}))
            async with over_http(http_app(memory, tokens=Tokens()), "hyr_3_eye") as eye:
                names = {tool.name for tool in (await eye.list_tools()).tools}
                assert "save" not in names
                assert data_of(await eye.call_tool("get", {"id": "c"}))
                told = refusal_of(await eye.call_tool("forget", {"id": "c"}))
                assert told.startswith("ScopeError: caller: expected the right to write")
            async with over_http(http_app(memory, tokens=Tokens()), "hyr_4_up") as keeper:
                told = refusal_of(await keeper.call_tool("get", {"id": "c"}))
                assert told.startswith("ScopeError: caller: expected the right to read")

    run(main)


@pytest.mark.parametrize(
    ("headers", "options", "status"),
    [
        ({}, {}, 200),
        ({"host": "localhost:1"}, {}, 200),
        ({"host": "[::1]:8766"}, {}, 200),
        ({"host": "evil.example"}, {}, 421),
        ({"host": "127.0.0.1.evil.example"}, {}, 421),
        ({"host": "evil.example:8766"}, {"allowed_hosts": ("good.example",)}, 421),
        ({"host": "good.example:8766"}, {"allowed_hosts": ("good.example",)}, 200),
        ({"origin": "http://127.0.0.1:8766"}, {}, 200),
        ({"origin": "http://evil.example"}, {}, 403),
        ({"origin": "null"}, {}, 403),
        ({"origin": "http://localhost.evil.example"}, {}, 403),
        ({"origin": "https://app.example"}, {"allowed_origins": ("https://app.example",)}, 200),
        ({"content-type": "text/plain"}, {}, 400),
    ],
)
def test_host_origin_and_content_type_are_checked(
    headers: dict[str, str], options: dict[str, Any], status: int
) -> None:
    async def main() -> None:
        async with asked(options=ServiceOptions(**options)) as http:
            sent = message("initialize", HELLO)
            got = await http.post("/mcp", json=sent, headers={**ACCEPT, **headers})
            assert got.status_code == status
            assert "access-control-allow-origin" not in got.headers

    run(main)


def test_a_body_over_the_limit_is_refused_before_it_is_read() -> None:
    async def main() -> None:
        async with asked(options=ServiceOptions(max_body=1_000)) as http:
            empty = json.dumps(message("ping", {"pad": ""}))
            for n_bytes, status in ((1_000, 200), (1_001, 413)):
                body = json.dumps(message("ping", {"pad": "x" * (n_bytes - len(empty))}))
                assert len(body) == n_bytes
                got = await http.post("/mcp", content=body, headers=ACCEPT)
                assert (got.status_code == 413) is (status == 413)

    run(main)


def test_requests_stand_alone_and_errors_hold_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    canary = "canary-of-ann"

    async def main() -> None:
        async with app_of() as app, app.router.lifespan_context(app), raw_http(app) as http:
            first = await http.post("/mcp", json=message("initialize", HELLO), headers=ACCEPT)
            assert "mcp-session-id" not in first.headers
            bodies: list[str | bytes] = [
                f'{{"{canary}', "[]", "1", '{"jsonrpc": "2.0"}', b"\xff\xfe", "[" * 100_000,
                json.dumps(message(canary, {canary: canary})),
                json.dumps(message("tools/call", {"name": canary, "arguments": {canary: 1}})),
                json.dumps(message("tools/call", {"name": "search", "arguments": canary})),
                json.dumps(
                    message("tools/call", {"name": "search", "arguments": {"query": canary}})
                ),
                json.dumps(message("resources/read", {"uri": f"memory:///{canary}/x"})),
            ]  # fmt: skip
            for body in bodies:
                got = await http.post("/mcp", content=body, headers=ACCEPT)
                assert got.status_code < 500, body[:80]
                assert "Traceback" not in got.text
                assert 'File "' not in got.text
            for method in ("GET", "DELETE", "PUT"):
                got = await http.request(method, "/mcp", headers=ACCEPT)
                assert got.status_code == 405

    run(main)
    assert canary not in caplog.text
    assert "Traceback" not in caplog.text
