"""The server over streamable HTTP, in process: tokens, Host and Origin, sizes."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("mcp", reason="the extra [mcp] is not installed")
pytest.importorskip("apsw", reason="the extra [memory] is not installed")
pytest.importorskip("fastapi", reason="the extra [serve] is not installed")

from hyrecall.errors import OptionError
from hyrecall.memory import Memory, MemorySync
from hyrecall.serve import Caller, ServiceOptions
from hyrecall.serve.mcp import http_app
from mcp_world import HELLO, data_of, environment, message, over_http, raw_http, refusal_of
from seams import make_token, revoke_token, tokens

READ_AND_WRITE = frozenset(("read", "write"))
ANN = Caller(user_id="ann", rights=READ_AND_WRITE)
BOB = Caller(user_id="bob", rights=READ_AND_WRITE)
EYE = Caller(user_id="ann", rights=frozenset(("read",)))
KEEPER = Caller(user_id="ann", rights=frozenset(("upkeep",)))
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@asynccontextmanager
async def app_of(**options: Any) -> AsyncIterator[Any]:
    async with Memory.in_memory(embedder=None) as memory:
        yield http_app(memory, **options)


def with_tokens(path: Path, *callers: Caller, **options: Any) -> tuple[ServiceOptions, list[str]]:
    """The options of a server with a file of tokens, and a token for each caller."""
    file = path / "tokens.json"
    return ServiceOptions(tokens=file, **options), [make_token(file, one) for one in callers]


@asynccontextmanager
async def asked(**options: Any) -> AsyncIterator[Any]:
    """A running app, and an HTTP client of it."""
    async with app_of(**options) as app, app.router.lifespan_context(app), raw_http(app) as http:
        yield http


async def test_a_request_without_a_known_token_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "LOOK_AGAIN", 0.0)
    options, (token, other) = with_tokens(tmp_path, ANN, BOB)
    cut = f"Bearer {token[:-1]}"
    wrong = ("Bearer ", "Bearer hyr_9_no", f"Basic {token}", token, "Bearer \xff", cut)
    async with asked(options=options) as http:

        async def ping(header: str | None, method: str = "POST", path: str = "/mcp") -> Any:
            more = {} if header is None else {"authorization": header.encode("latin-1")}
            body = message("ping") if method == "POST" else None
            return await http.request(method, path, json=body, headers={**ACCEPT, **more})  # type: ignore[arg-type]

        for header in (None, *wrong):
            for how in ((), ("GET",), ("POST", "/no")):
                got = await ping(header, *how)
                assert got.status_code == 401
                assert got.headers["www-authenticate"] == "Bearer"
                assert got.json()["error"]["type"] == "Unauthorized"
        assert (await ping(f"Bearer {token}")).json()["result"] == {}
        assert revoke_token(tmp_path / "tokens.json", token.split("_")[1])
        assert (await ping(f"Bearer {token}")).status_code == 401
        assert (await ping(f"Bearer {other}")).status_code == 200


async def test_each_token_has_its_own_scope_and_rights(tmp_path: Path) -> None:
    options, tokens = with_tokens(tmp_path, BOB, EYE, KEEPER)
    bobs, eyes, keepers = tokens

    # The lifespan of an app runs once, so every client has an app of its own on one store.
    async with Memory.in_memory(embedder=None) as memory:
        await memory.remember("ann's canary", id="c", user_id="ann")
        async with over_http(http_app(memory, options=options), bobs) as bob:
            found = data_of(await bob.call_tool("search", {"text": "canary"}))
            assert found["items"] == []
            assert "canary" not in refusal_of(await bob.call_tool("get", {"id": "c"}))
            told = refusal_of(await bob.call_tool("get", {"id": "c", "user_id": "ann"}))
            assert told.startswith("UnknownOptionError: get: expected")
        async with over_http(http_app(memory, options=options), eyes) as eye:
            names = {tool.name for tool in (await eye.list_tools()).tools}
            assert "remember" not in names
            assert data_of(await eye.call_tool("get", {"id": "c"}))
            told = refusal_of(await eye.call_tool("forget", {"id": "c"}))
            assert told.startswith("ScopeError: caller: expected the right to write")
        async with over_http(http_app(memory, options=options), keepers) as keeper:
            told = refusal_of(await keeper.call_tool("get", {"id": "c"}))
            assert told.startswith("ScopeError: caller: expected the right to read")
        readonly = http_app(memory, options=options, readonly=True)
        async with over_http(readonly, bobs) as bob:
            told = refusal_of(await bob.call_tool("remember", {"text": "x"}))
            assert told.startswith("ScopeError: caller: expected the right to write")


async def test_a_token_may_choose_what_it_leaves_open(tmp_path: Path) -> None:
    """The user, the partition, or both; what the token says itself is no argument."""
    callers = (
        Caller(may_choose_user=True, may_choose_partition=True, rights=READ_AND_WRITE),
        Caller(org="acme", may_choose_user=True, may_choose_partition=True, rights=READ_AND_WRITE),
        Caller(user_id="ann", may_choose_partition=True, rights=READ_AND_WRITE),
        Caller(org="acme", workspace="lab", may_choose_user=True, rights=READ_AND_WRITE),
        Caller(org="acme", workspace="lab", agent="bot", may_choose_partition=True),
    )
    open_names = [
        {"user_id", "org", "workspace"}, {"user_id", "workspace"}, {"org", "workspace"},
        {"user_id"}, set(),
    ]  # fmt: skip
    options, keys = with_tokens(tmp_path, *callers)
    ann = {"user_id": "ann", "org": "acme", "workspace": "lab"}

    async with Memory.in_memory(embedder=None) as memory:
        await memory.remember("tea", id="t", **ann)  # type: ignore[arg-type]
        await memory.remember("no tea", id="other", user_id="ann", org="other")
        for key, names in zip(keys, open_names, strict=True):
            async with over_http(http_app(memory, options=options), key) as client:
                for tool in (await client.list_tools()).tools:
                    shown = set(tool.input_schema["properties"])
                    of_an_agent = tool.name in {"get_policy", "set_policy"}
                    of_an_agent |= tool.name in {"list_users", "list_agents"}
                    wanted = names - {"user_id"} if of_an_agent else names
                    assert shown & set(ann) == wanted, tool.name
                for name in sorted(set(ann) - names):
                    told = refusal_of(await client.call_tool("list", {name: "other"}))
                    assert told.startswith("UnknownOptionError: list: expected")
                given: dict[str, Any] = {name: ann[name] for name in names}
                found = data_of(await client.call_tool("list", given))["items"]
                wanted = ["t"] if names else []  # the agent has none of its own
                assert [one["id"] for one in found] == wanted
                if "org" in names:
                    told = refusal_of(await client.call_tool("list", {**given, "org": 5}))
                    assert told == "DTypeError: org: expected a string, got int"


async def test_the_guard_of_the_service_stands_before_the_server() -> None:
    """Sizes and levels of a body, to the number; and paths that watch the server."""

    async with asked(options=ServiceOptions(max_body=1_000, max_levels=6)) as http:
        empty = json.dumps(message("ping", {"pad": ""}))
        for n_bytes, status in ((1_000, 200), (1_001, 413)):
            body = json.dumps(message("ping", {"pad": "x" * (n_bytes - len(empty))}))
            assert len(body) == n_bytes
            got = await http.post("/mcp", content=body, headers=ACCEPT)
            assert got.status_code == status
        for levels, status in ((3, 200), (4, 422)):
            given = {"text": "t", "metadata": nested(levels)}
            body = json.dumps(message("tools/call", {"name": "remember", "arguments": given}))
            got = await http.post("/mcp", content=body, headers=ACCEPT)
            assert got.status_code == status
            assert got.headers["x-content-type-options"] == "nosniff"
            if status == 200:
                assert got.json()["result"]["isError"] is False
        for more, status in (
            ({"host": "evil.example"}, 421),
            ({"origin": "http://evil.example"}, 403),
            ({"content-type": "text/plain"}, 400),
        ):
            got = await http.post("/mcp", json=message("ping"), headers={**ACCEPT, **more})
            assert got.status_code == status
        assert (await http.get("/healthz")).json() == {"status": "ok"}
        assert (await http.get("/readyz")).status_code in {200, 503}
        assert 'route="/mcp"' in (await http.get("/metrics")).text


def nested(levels: int) -> Any:
    """An object of so many levels."""
    return {"a": nested(levels - 1)} if levels > 1 else {"a": 1}


async def test_calls_beyond_the_queue_and_the_deadline_are_sent_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def hang(self: Memory, *args: Any, **options: Any) -> Any:
        begun.release()
        await asyncio.Event().wait()

    begun = asyncio.Semaphore(0)
    call = message("tools/call", {"name": "search", "arguments": {"text": "x"}})

    options = ServiceOptions(max_running=1, max_waiting=1, deadline=0.5)
    async with asked(options=options) as http:
        monkeypatch.setattr(Memory, "search", hang)
        first = asyncio.create_task(http.post("/mcp", json=call, headers=ACCEPT))
        await begun.acquire()
        second = asyncio.create_task(http.post("/mcp", json=call, headers=ACCEPT))
        await asyncio.sleep(0)
        while (got := await http.post("/mcp", json=call, headers=ACCEPT)).status_code != 503:
            pass
        assert got.headers["retry-after"] == "1"
        assert (await http.get("/healthz")).status_code == 200
        for one in (await first, await second):
            assert one.status_code == 503
            assert one.json()["error"]["type"] == "Timeout"


async def test_a_caller_beside_tokens_is_refused(tmp_path: Path) -> None:
    options, _ = with_tokens(tmp_path, ANN)

    async with Memory.in_memory(embedder=None) as memory:
        with pytest.raises(OptionError, match="caller: expected None with tokens"):
            http_app(memory, caller=ANN, options=options)


async def test_requests_stand_alone_and_errors_hold_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    canary = "canary-of-ann"

    async with app_of() as app, app.router.lifespan_context(app), raw_http(app) as http:
        first = await http.post("/mcp", json=message("initialize", HELLO), headers=ACCEPT)
        assert "mcp-session-id" not in first.headers
        bodies: list[str | bytes] = [
            f'{{"{canary}', "[]", "1", '{"jsonrpc": "2.0"}', b"\xff\xfe", "[" * 100_000,
            json.dumps(message(canary, {canary: canary})),
            json.dumps(message("tools/call", {"name": canary, "arguments": {canary: 1}})),
            json.dumps(message("tools/call", {"name": "search", "arguments": canary})),
            json.dumps(
                message("tools/call", {"name": "search", "arguments": {"text": canary}})
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
    assert canary not in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.slow
def test_the_command_serves_http_with_tokens_and_ends_at_sigterm(tmp_path: Path) -> None:
    """A process of its own: the address that it tells, a token of its file, and the drain."""
    pytest.importorskip("typer", reason="the extra [cli] is not installed")
    _, (token,) = with_tokens(tmp_path, ANN)
    command = ["-m", "hyrecall", "mcp", "--http", "--port", "0", "--tokens", "tokens.json"]
    server = subprocess.Popen(
        [sys.executable, *command, "--allowed-host", "memory.example"],
        env=environment(tmp_path), cwd=tmp_path, text=True, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert server.stderr is not None
    save = {"name": "remember", "arguments": {"text": "kept", "id": "k"}}
    with server:
        told = server.stderr.readline()
        assert told.startswith("note: serving http://127.0.0.1:")
        where = urlsplit(told.split()[-1])
        replies = []
        for more in (
            {},
            {"Host": "other.example"},
            {"Authorization": f"Bearer {token}", "Host": "memory.example"},
        ):
            connection = http.client.HTTPConnection(where.netloc, timeout=60)
            body = json.dumps(message("tools/call", save))
            connection.request("POST", where.path, body, {**ACCEPT, **more})
            reply = connection.getresponse()
            replies.append((reply.status, json.loads(reply.read())))
            connection.close()
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
        assert "Traceback" not in server.stderr.read()
    assert [status for status, _ in replies] == [401, 421, 200]
    assert replies[2][1]["result"]["structuredContent"]["id"] == "k"
    with MemorySync.open(tmp_path / "agent.mem", embedder=None, read_only=True) as memory:
        assert memory.get("k", user_id="ann") is not None
