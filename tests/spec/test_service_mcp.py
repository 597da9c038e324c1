"""The acceptance rows of the Model Context Protocol: C26, D32, D33."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra [mcp] is not installed")
pytest.importorskip("apsw", reason="the extra [memory] is not installed")
pytest.importorskip("typer", reason="the extra [cli] is not installed")

from mcp.client import Client

from embed.stub_server import StubServer, serving
from hyrecall import recipes
from hyrecall.memory import Memory
from hyrecall.serve import Caller
from hyrecall.serve.mcp import create_server
from hyrecall.systems.hypergraph import hm_recall
from laws.effort import Effort
from mcp_world import data_of, message, refusal_of, spawned, talk_here

ANN = Caller(user_id="ann", rights=frozenset(("read", "write")))
ANY = Caller(may_choose_user=True, rights=frozenset(("read", "write")))


@pytest.fixture
def endpoint() -> Iterator[StubServer]:
    with serving() as one:
        yield one


def call(tool: str, number: int = 1, **arguments: Any) -> dict[str, Any]:
    return message("tools/call", {"name": tool, "arguments": arguments}, number=number)


def test_C26_hm_recall_has_the_documented_parameters_and_answers_as_the_function() -> None:
    async def main() -> None:
        async with (
            Memory.in_memory(embedder=None, recipe=recipes.hypergraph) as memory,
            Client(create_server(memory, caller=ANN)) as client,
        ):
            for key in ("jwt", "auth"):
                await memory.remember(f"{key} decisions", id=key, user_id="ann", kind="topic")
            await memory.remember("bob's decisions", id="bob", user_id="bob")
            await memory.link(["jwt", "auth"], "decided by", user_id="ann")
            (tool,) = [one for one in (await client.list_tools()).tools if one.name == "hm_recall"]
            takes = tool.input_schema
            assert takes["required"] == ["query"]
            shown = {
                name: (
                    [kind["type"] for kind in one.get("anyOf", [one])], one.get("default"),
                    *(one.get("anyOf", [one])[0].get(bound) for bound in ("minimum", "maximum")),
                )
                for name, one in takes["properties"].items()
            }  # fmt: skip
            assert shown == {
                "query": (["string"], None, None, None),
                "session_id": (["string", "null"], "default", None, None),
                "max_results": (["integer", "null"], 10, 1, 50),
                "force_regex": (["boolean", "null"], False, None, None),
            }
            assert takes["additionalProperties"] is False
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is True
            found = data_of(await client.call_tool("hm_recall", {"query": "decisions"}))
            wanted: Any = hm_recall(memory._sync, "decisions", user_id="ann")
            assert [one["key"] for one in found["results"]] == [
                one["key"] for one in wanted["results"]
            ]
            assert {one["key"] for one in found["results"]} == {"jwt", "auth"}
            assert set(found) == set(wanted)
            assert set(found["metadata"]) == set(wanted["metadata"])
            assert found["edges"] == json.loads(json.dumps(wanted["edges"]))
            for wrong in ({}, {"query": " "}, {"query": "x", "max_results": 51}):
                refusal_of(await client.call_tool("hm_recall", wrong))
            no_filter = {"text": "decisions", "filter": {"kind": {"b": [{"c": 1}]}}}
            told = refusal_of(await client.call_tool("search", no_filter))
            assert "an object with from/to" in str(told)

    asyncio.run(main())


def test_D32_notes_are_saved_and_searched_over_stdio_json_rpc() -> None:
    asyncio.run(_notes_by_lines())


async def _notes_by_lines() -> None:
    async with Memory.in_memory(embedder=None, recipe=recipes.l0) as memory:
        await _notes_of(create_server(memory, caller=ANY))


async def _notes_of(server: Any) -> None:
    lines = [
        call("memory_save", 1, key="deploy", value="Deploys run on Friday", tags=["ci"]),
        call("memory_save", 2, key="deploy", value="Websites on Monday", scope="project:web"),
    ]
    replies = await talk_here(server, lines)
    saved = {one["id"]: one["result"]["structuredContent"]["scope"] for one in replies}
    assert saved == {1: "user", 2: "project:web"}
    lines = [
        call("memory_search", 1, query="fri"),
        call("memory_search", 2, query="on", scope="project:web", limit=1, expand=True),
        call("memory_search", 3, query="on"),
        call("memory_search", 4),
        call("memory_search", 5, query="on", limit="1"),
        call("memory_search", 6, query="on", no=1),
        message("no/such", number=7),
        "{bad",
    ]
    replies = await talk_here(server, lines)
    by_id = {one["id"]: one for one in replies}
    (hit,) = by_id[1]["result"]["structuredContent"]["results"]
    assert (hit["key"], hit["scope"], hit["snippet"]) == (
        "deploy", "user", "Deploys run on <<Friday>>",
    )  # fmt: skip
    (hit,) = by_id[2]["result"]["structuredContent"]["results"]
    assert (hit["scope"], hit["value"]) == ("project:web", "Websites on Monday")
    hits = by_id[3]["result"]["structuredContent"]["results"]
    assert {hit["scope"] for hit in hits} == {"user", "project:web"}
    for number, told in ((4, "query"), (5, "limit"), (6, "memory_search")):
        assert by_id[number]["result"]["isError"] is True
        assert f"{told}: expected" in by_id[number]["result"]["content"][0]["text"]
    assert by_id[7]["error"]["code"] == -32601
    assert by_id[None]["error"]["code"] == -32700


@pytest.mark.slow
@pytest.mark.parametrize("prefix", ["LTM", pytest.param("HYRECALL", marks=pytest.mark.slow)])
def test_D33_variables_of_the_hosts_configuration_take_effect(
    tmp_path: Path, endpoint: StubServer, prefix: str, effort: Effort
) -> None:
    """The store's folder, the endpoint, its model, and whose memories they are."""
    env = {
        "HYRECALL_PATH": str(tmp_path / "elsewhere.mem"),
        "HYRECALL_EMBED_DISABLE": "0",
        f"{prefix}_EMBEDDING_URL": endpoint.url("ok"),
        f"{prefix}_EMBEDDING_MODEL": "model-of-the-host",
        f"{prefix}_EMBED_TIMEOUT": "20s",
        ("LTM_SCOPE" if prefix == "LTM" else "HYRECALL_USER"): "project",
    }

    async def main() -> None:
        async with Client(spawned(tmp_path, "--recipe", "l0", env=env)) as client:
            note = {"key": "deploy", "value": "Deploys run on Friday"}
            saved = data_of(await client.call_tool("memory_save", note))
            assert saved == {"key": "deploy", "scope": "project", "version": 1, "embedded": True}
            found = data_of(await client.call_tool("memory_search", {"query": "a banana"}))
            assert [hit["key"] for hit in found["results"]] == ["deploy"]  # by its vector alone
        if not effort.full:  # another process is slow to start
            return
        off = {**env, "HYRECALL_EMBED_DISABLE": "", f"{prefix}_EMBED_DISABLE": "1"}
        n_requests = len(endpoint.requests)
        async with Client(spawned(tmp_path, "--recipe", "l0", env=off)) as client:
            found = data_of(await client.call_tool("memory_search", {"query": "a banana"}))
            assert found["results"] == []
            assert len(endpoint.requests) == n_requests

    asyncio.run(main())
    assert (tmp_path / "elsewhere.mem" / "memory.db").exists()
    assert [request.texts for request in endpoint.requests] == [
        ["Deploys run on Friday"], ["a banana"],
    ]  # fmt: skip
    assert {request.json["model"] for request in endpoint.requests} == {"model-of-the-host"}
