"""``hyrecall mcp`` over stdin and stdout: lines that are read in process, and as a host starts it.

A process of its own takes seconds to import the SDK, so that most of those tests are slow ones.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra [mcp] is not installed")
pytest.importorskip("apsw", reason="the extra [memory] is not installed")
pytest.importorskip("typer", reason="the extra [cli] is not installed")

from mcp.client import Client
from typer.testing import CliRunner

import hyrecall
from hyrecall.memory import EVERYONE, Memory
from hyrecall.serve import Caller
from hyrecall.serve.mcp import create_server, http_app
from mcp_world import (
    HELLO,
    data_of,
    environment,
    message,
    refusal_of,
    spawned,
    talk,
    talk_here,
)
from seams import app_app, stdio
from serve_client import calling

SECRET = "canary-of-somebody"
ANN = Caller(user_id="ann", rights=frozenset(("read", "write")))


def call(tool: str, number: int, **arguments: Any) -> dict[str, Any]:
    return message("tools/call", {"name": tool, "arguments": arguments}, number=number)


WRONG = (
    call("search", 1),
    message("no/such", number=2),
    "{bad",
    "[]",
    {"jsonrpc": "2.0", "id": 3},
    message("tools/call", {"arguments": {}}, number=4),
    "x" * (1 << 21),
    "",
    message("ping", number=5),
    call("remember", 6, text="x" * (1 << 20)),
    call("remember", 7, text="half of a pair: \ud800"),
    {"jsonrpc": "2.0", "params": [], "method": "tools/call", "id": 8},
)
WITH_SECRETS = (
    call("remember", 11, text=SECRET, id="m", tags=[SECRET]),
    call("search", 12, text=SECRET),
    call("search", 13, text="x", recipe=SECRET),
    call("search", 14, text="x", filter={SECRET: 1}),
    call(SECRET, 15),
    message(SECRET, {SECRET: 1}, number=16),
    message("resources/read", {"uri": f"memory:///{SECRET}/x"}, number=17),
    f'{{"{SECRET}',
)


def check_raw_replies(replies: list[dict[str, Any]]) -> None:
    """Those to WRONG and WITH_SECRETS, as JSON-RPC says."""
    by_id = {one["id"]: one for one in replies if one["id"] is not None}
    assert set(by_id) == {1, 2, 4, 5, 6, 7, 8, *range(11, 18)}
    assert by_id[6]["error"] == {
        "code": -32600,
        "message": "Invalid request: expected a message of at most 1048576 bytes, got a longer one",
    }
    assert by_id[8]["error"]["code"] == -32600
    assert by_id[1]["result"]["isError"] is True
    assert "text: expected a value" in by_id[1]["result"]["content"][0]["text"]
    assert by_id[2]["error"]["code"] == -32601
    assert by_id[4]["error"]["code"] == -32602
    assert by_id[5]["result"] == {}
    assert by_id[11]["result"]["isError"] is False
    assert by_id[7]["error"]["code"] == -32700
    nameless = sorted(one["error"]["code"] for one in replies if one["id"] is None)
    assert nameless == [-32700, -32700, -32700, -32600, -32600]
    assert "Traceback" not in json.dumps(replies)


@pytest.mark.slow
def test_raw_lines_are_answered_as_json_rpc_says_and_stderr_has_no_word_of_them(
    tmp_path: Path,
) -> None:
    replies, told, code = talk(tmp_path, (*WRONG, *WITH_SECRETS), "--user", "ann")
    check_raw_replies(replies)
    assert SECRET not in told
    assert "Traceback" not in told
    assert code == 0


async def test_lines_are_read_in_process_as_those_of_stdin(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with Memory.in_memory(embedder=None) as memory:
        server = create_server(memory, caller=ANN)
        check_raw_replies(await talk_here(server, (*WRONG, *WITH_SECRETS)))
    assert SECRET not in "".join(capfd.readouterr())


LONG = "z" * (3 << 20)


@pytest.mark.parametrize(
    ("line", "number", "code"),
    [
        (f'{{"id": "a", "method": "x", "params": {{"a": "{LONG}"}}}}', "a", -32600),
        (f'{{"params": [{{"id": 1, "}}": "{LONG}]\\""}}, []], "method": "x", "id": 7}}', 7, -32600),
        (f'{{"pad": "{LONG}", "method": "x", "id": 7}}', 7, -32600),
        (f'{{"id": 7, "method": "x"{" " * (3 << 20)}}}', 7, -32600),
        (f'{{"id": "{LONG}", "method": "x"}}', "", -32600),  # its place is told, not its 3 MB
        (f'{{"id": 7, "result": {{"a": "{LONG}"}}}}', None, -32600),  # a reply gets no reply
        (f'{{"method": "x", "params": {{"a": "{LONG}"}}}}', None, -32600),
        (f'[{{"id": 7, "method": "x", "a": "{LONG}"}}]', None, -32700),
        ('{"id": 7, "method": "x", "params": {"a": "\\ud800"}}', 7, -32700),
        ('{"id": 7, "method": "x", "params": {"a": "\\udc00\\ud800"}}', 7, -32700),
        ('{"id": 7, "method": "x", "params": {"a": "\ud800"}}', 7, -32700),  # not UTF-8
        ('{"id": "\\ud800", "method": "x"}', None, -32700),
        (f'{{"id": 7, "method": "x", "params": {{"a": {"[" * 999}{"]" * 999}}}}}', 7, -32700),
        ('{"id": 7, "method": "x", "params": {"a": 1}', None, -32700),
        ('{"id": 7, "method": 5}', 7, -32600),
        ('{"id": true, "method": 5}', None, -32600),
        ("}" * 99, None, -32700),
    ],
)
async def test_a_line_that_cannot_be_read_is_answered_with_its_id(
    line: str, number: object, code: int
) -> None:
    async with Memory.in_memory(embedder=None) as memory:
        lines = (line.replace("{", '{"jsonrpc": "2.0", ', 1), message("ping", number=99))
        first, last = await talk_here(create_server(memory, caller=ANN), lines)
        assert (first["id"], first["error"]["code"]) == (number, code)
        assert (last["id"], last["result"]) == (99, {})


@pytest.mark.parametrize(
    ("params", "twice"),
    [
        ('{"name": "remember", "arguments": {"text": "tea", "user_id": "ann", "user_id": "bob"}}',
         "user_id"),
        ('{"name": "remember", "arguments": {"text": "tea", "\\u0074ext": "milk"}}', "text"),
        ('{"name": "remember", "arguments": {"text": "t", "metadata": {"a": [{"b": 1, "b": 2}]}}}',
         "b"),
        ('{"name": "remember", "arguments": {"text": "tea"}, "arguments": {"text": "milk"}}',
         "arguments"),
    ],
)  # fmt: skip
async def test_a_name_that_stands_twice_is_refused_as_over_http(params: str, twice: str) -> None:
    line = f'{{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {params}}}'

    async with Memory.in_memory(embedder=None) as memory:
        server = create_server(memory)
        first, last = await talk_here(server, (line, message("ping", number=8)))
        told = f"Invalid request: {twice}: expected once"
        assert (first["id"], first["error"]) == (7, {"code": -32600, "message": told})
        assert (last["id"], last["result"]) == (8, {})
        assert await memory.list(user_id=EVERYONE) == []


@pytest.mark.parametrize("number", ["4.5", "null", "[]", "{}", "true"])
async def test_a_request_with_an_id_that_is_none_is_refused_instead_of_left_without_a_reply(
    number: str,
) -> None:
    line = f'{{"jsonrpc": "2.0", "id": {number}, "method": "ping"}}'
    told = "id: expected a string or an integer"
    accept = {"accept": "application/json, text/event-stream", "content-type": "application/json"}

    async with Memory.in_memory(embedder=None) as memory, calling(http_app(memory)) as client:
        (reply,) = await talk_here(create_server(memory), (line,))
        assert reply["error"]["code"] == -32600
        assert reply["error"]["message"] == f"Invalid request: {told}"
        got = await client.post("/mcp", content=line, headers=accept)
        assert (got.status_code, got.json()["error"]["message"]) == (422, told)


async def test_every_kind_of_file_is_read_to_its_end(tmp_path: Path) -> None:
    """Also those that no event loop can wait for."""
    (tmp_path / "lines").write_bytes(b"some\nlines")
    ended, writer = os.pipe()
    os.write(writer, b"some\nlines")
    os.close(writer)
    os.set_blocking(ended, False)
    late, late_writer = os.pipe()
    os.set_blocking(late, False)

    async def everything(number: int) -> bytes:
        return b"".join([chunk async for chunk in stdio._chunks(number)])

    waiting = asyncio.create_task(everything(late))
    for number, expected in (
        (os.open("/dev/null", os.O_RDONLY), b""),
        (os.open("/dev/null", os.O_WRONLY), b""),
        (os.open(tmp_path / "lines", os.O_RDONLY), b"some\nlines"),
        (ended, b"some\nlines"),
    ):
        assert await asyncio.wait_for(everything(number), 60) == expected
        os.close(number)
    os.write(late_writer, b"and a last one")
    os.close(late_writer)
    assert await asyncio.wait_for(waiting, 60) == b"and a last one"
    with pytest.raises(OSError, match="Is a directory"):
        await everything(os.open(tmp_path, os.O_RDONLY))


@pytest.mark.parametrize(
    ("ends", "code", "told"),
    [
        ("</dev/null", 0, ""),
        ("<&-", 0, ""),
        ("0>/dev/null", 0, ""),  # as nohup does
        ("<&- >&-", 0, ""),
        ("</dev/null >&-", 1, "error: stdout: expected an open stdout, got a closed one\n"),
        ("<lines >/dev/full", 1, "error: output: No space left on device\n"),
        ("<lines | true", 0, ""),
    ],
)
@pytest.mark.slow
def test_the_command_ends_with_its_ends(tmp_path: Path, ends: str, code: int, told: str) -> None:
    (tmp_path / "lines").write_text(json.dumps(message("ping")) + "\n")
    done = subprocess.run(
        ["bash", "-c", f'"$@" {ends}; exit ${{PIPESTATUS[0]}}', "sh",
         sys.executable, "-m", "hyrecall", "mcp"],
        capture_output=True, text=True, timeout=120, check=False,
        env=environment(tmp_path), cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (code, "", told)


def test_sigterm_ends_the_first_process_of_a_container_while_it_starts(tmp_path: Path) -> None:
    """There the kernel drops a signal that has no handler."""
    apart = ["unshare", "--pid", "--fork", "--kill-child"]
    if not shutil.which("unshare") or subprocess.run([*apart, "true"], check=False).returncode:
        pytest.skip("this machine lets nobody unshare process ids")
    with subprocess.Popen(
        [*apart, sys.executable, "-m", "hyrecall", "mcp"], stdin=subprocess.PIPE,
        env=environment(tmp_path),
    ) as command:  # fmt: skip
        children = Path(f"/proc/{command.pid}/task/{command.pid}/children")
        while not (found := children.read_text().split()):
            time.sleep(0.01)
        maps = Path(f"/proc/{found[0]}/maps")
        while "multiarray" not in maps.read_text():  # numpy is imported
            time.sleep(0.01)
        os.kill(int(found[0]), signal.SIGTERM)
        assert command.wait(60) == 128 + signal.SIGTERM


async def test_requests_under_way_are_answered_when_stdin_ends() -> None:
    lines = [call("remember", n, text=f"note {n}", id=f"n{n}") for n in range(1, 21)]

    async with Memory.in_memory(embedder=None) as memory:
        replies = await talk_here(create_server(memory, caller=ANN), lines)
        assert sorted(one["id"] for one in replies) == list(range(1, 21))
        assert {one["result"]["isError"] for one in replies} == {False}
        assert len(await memory.list(user_id="ann", limit=100)) == 20


@pytest.mark.slow
async def test_the_sdks_client_speaks_with_a_spawned_server(tmp_path: Path) -> None:
    async with Client(spawned(tmp_path, "--user", "ann")) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names[:3] == ["remember", "search", "get"]
        await client.call_tool("remember", {"text": "Tea at four", "id": "tea"})
        found = data_of(await client.call_tool("search", {"text": "tea"}))
        assert [one["episode"]["id"] for one in found["items"]] == ["tea"]
        assert found["items"][0]["episode"]["user_id"] == "ann"
    async with Client(spawned(tmp_path, "--user", "bob")) as client:
        found = data_of(await client.call_tool("search", {"text": "tea"}))
        assert found["items"] == []
        refused = refusal_of(await client.call_tool("get", {"id": "tea"}))
        assert refused.startswith("NotFoundError: id: expected")
        assert "ann" not in refused
    async with Client(spawned(tmp_path, "--user", "ann", "--readonly")) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert {"remember", "update", "forget", "link", "unlink", "feedback"} & set(names) == set()
        refused = refusal_of(await client.call_tool("remember", {"text": "x"}))
        assert refused.startswith("ScopeError: caller: expected the right to write")
        found = data_of(await client.call_tool("search", {"text": "tea"}))
        assert [one["episode"]["id"] for one in found["items"]] == ["tea"]


@pytest.mark.parametrize(
    ("options", "env", "user"),
    [
        ((), {}, None),
        ((), {"HYRECALL_USER": "ann"}, "ann"),
        ((), {"LTM_SCOPE": "project"}, "project"),
        ((), {"LTM_SCOPE": "project", "HYRECALL_USER": "ann"}, "ann"),
        (("--user", "bob"), {"HYRECALL_USER": "ann"}, "bob"),
        (("--recipe", "l0"), {}, "user"),
        (("--any-user",), {"HYRECALL_USER": "ann"}, None),
    ],
)
def test_options_and_the_environment_say_whose_memories_they_are(
    options: tuple[str, ...],
    env: dict[str, str],
    user: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from hyrecall import recipes
    from hyrecall.memory import MemorySync
    from seams import caller_of

    for name in ("HYRECALL_USER", "LTM_SCOPE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    recipe = recipes.l0 if "l0" in options else recipes.default
    given = options[1] if "--user" in options else None
    with MemorySync.in_memory(embedder=None, recipe=recipe) as memory:
        found = caller_of(
            memory, None, any_user="--any-user" in options, readonly=False,
            user_id=given, org=None, workspace=None,
        )  # fmt: skip
    assert (found.user_id, found.may_choose_user) == (user, "--any-user" in options)


@pytest.mark.slow
def test_sigterm_ends_the_server_and_what_it_acknowledged_is_kept(tmp_path: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "hyrecall", "mcp"], env=environment(tmp_path), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert server.stdin is not None
    assert server.stdout is not None
    with server:
        for line in (
            message("initialize", HELLO, number=0),
            call("remember", 1, text="kept", id="k"),
        ):
            server.stdin.write(json.dumps(line) + "\n")
            server.stdin.flush()
            reply = json.loads(server.stdout.readline())
            assert "error" not in reply
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    (got,), _, _ = talk(tmp_path, [call("get", 1, id="k")])
    assert got["result"]["structuredContent"]["text"] == "kept"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--user", "ann", "--any-user"), "--user: expected one of --user, --agent and --any-user"),
        (("--system", "hebb"), "systems: expected systems whose recipe shares an index"),
        (("--system", "none"), "systems: expected one of hypergraph, l0, honeycomb, hebb"),
        (("--http", "--host", "0.0.0.0"), "tokens: expected tokens with a host"),
        (("--tokens", "t.json"), "--tokens: expected --http with it, got none"),
        (("--port", "0"), "--port: expected --http with it, got none"),
        (("--http", "--tokens", "t.json", "--user", "ann"), "--user: expected no such option with"),
        (("--http", "--tokens", "/no/such"), "No such file"),
        (("--http", "--allowed-origin", "*"), "allowed_origins: expected origins by name"),
        (("--recipe", "none"), "--recipe: expected one of"),
        (("--agent", "planner"), "--agent: expected --org and --workspace"),
        (("--readonly",), "expected a folder with memory.db"),
    ],
)
def test_a_wrong_option_is_refused_before_a_message_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], told: str
) -> None:
    from typer.testing import CliRunner

    from seams import app_app as app

    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    done = CliRunner().invoke(app, ["mcp", *options])
    assert (done.stdout, done.exit_code) == ("", 1)
    assert told in done.stderr


# ---- server.json, the entry for the registry of MCP servers ----


def test_the_entry_of_the_registry_starts_this_version_of_this_command() -> None:
    root = Path(__file__).parents[3]
    entry = json.loads((root / "server.json").read_text())
    (package,) = entry["packages"]
    assert {entry["version"], package["version"]} == {hyrecall.__version__}
    assert len(entry["description"]) <= 100  # what the registry takes
    words = [one["value"] for one in package["packageArguments"]]
    told = CliRunner().invoke(app_app, [*words, "--help"])
    assert (told.exit_code, "Model Context Protocol" in told.stdout) == (0, True)
    (with_extras,) = package["runtimeArguments"]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    (extras,) = re.findall(r"^hyrecall\[([a-z,]+)\]$", with_extras["value"])
    assert {"cli", "mcp"} < set(extras.split(",")) <= set(project["optional-dependencies"])
    page = (root / "docs" / "mcp.md").read_text()
    for variable in package["environmentVariables"]:
        name = variable["name"]
        assert f"`{name}`" in page or f"`{name.removeprefix('HYRECALL_EMBEDDING')}`" in page
