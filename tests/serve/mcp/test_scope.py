"""Whose memories a server shows: users, callers that choose, agents; pinned ones as resources."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra [mcp] is not installed")
pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from mcp.client import Client
from mcp.shared.exceptions import MCPError

from hyrecall import recipes
from hyrecall.memory import Memory
from hyrecall.serve import Caller
from hyrecall.serve.mcp import create_server
from mcp_world import data_of, refusal_of, text_of
from seams import resources

WRITES = {"save", "update", "end_fact", "forget", "link", "unlink", "feedback", "set_policy"}
READS = {
    "search",
    "get",
    "list",
    "history",
    "get_policy",
    "browse_ls",
    "browse_cat",
    "browse_grep",
    "browse_find",
}
ANN = Caller(user_id="ann", rights=frozenset(("read", "write")))
BOB = Caller(user_id="bob", rights=frozenset(("read", "write")))
ANY = Caller(may_choose_user=True, rights=frozenset(("read", "write")))


@asynccontextmanager
async def asked(
    *callers: Caller, recipe: Any = recipes.default, **options: Any
) -> AsyncIterator[list[Client]]:
    """One store, and a client for each caller."""
    async with Memory.in_memory(embedder=None, recipe=recipe) as memory, AsyncExitStack() as stack:
        servers = [create_server(memory, caller=one, **options) for one in callers]
        yield [await stack.enter_async_context(Client(server)) for server in servers]


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def call() -> None:
        await main()

    asyncio.run(call())


@pytest.mark.filterwarnings("ignore::hyrecall.memory.IsolationWarning")
def test_a_caller_that_may_choose_names_the_user_in_each_call() -> None:
    async def main() -> None:
        async with asked(ANY, ANN) as (free, ann):
            tools = (await free.list_tools()).tools
            assert all("user_id" in tool.input_schema["properties"] for tool in tools)
            await free.call_tool("save", {"text": "for ann", "id": "a", "user_id": "ann"})
            await free.call_tool("save", {"text": "for nobody", "id": "n"})
            got = data_of(await ann.call_tool("list", {}))["memories"]
            assert [one["id"] for one in got] == ["a"]
            got = data_of(await free.call_tool("list", {}))["memories"]
            assert [one["id"] for one in got] == ["n"]
            refused = refusal_of(await free.call_tool("list", {"user_id": 5}))
            assert refused == "DTypeError: user_id: expected a string, got int"

    run(main)


def test_an_agent_reads_by_its_policy_and_writes_its_own() -> None:
    place: dict[str, Any] = {"org": "acme", "workspace": "lab", "rights": ANN.rights}
    planner, ops = Caller(agent="planner", **place), Caller(agent="ops", **place)

    async def main() -> None:
        async with Memory.in_memory(embedder=None) as memory:
            await memory.set_policy("planner", org="acme", workspace="lab", policy="shared")
            async with (
                Client(create_server(memory, caller=planner)) as one,
                Client(create_server(memory, caller=ops)) as other,
            ):
                shared = {"text": "Friday is free", "id": "f", "visibility": "global"}
                await other.call_tool("save", shared)
                await one.call_tool("save", {"text": "Friday is mine", "id": "m"})
                found = data_of(await one.call_tool("search", {"query": "friday"}))
                assert {(m["id"], m["memory"]["user_id"]) for m in found["matches"]} == {
                    ("f", "ops"), ("m", "planner"),
                }  # fmt: skip
                found = data_of(await other.call_tool("search", {"query": "friday"}))
                assert [match["id"] for match in found["matches"]] == ["f"]
                change = {"id": "m", "text": "Friday is taken"}
                refused = refusal_of(await one.call_tool("update", change))
                assert refused.startswith("OptionError: reason: expected a reason")
                assert data_of(await one.call_tool("update", {**change, "reason": "r"}))
                taken = {"id": "f", "reason": "r", "text": "not yours"}
                assert refusal_of(await one.call_tool("update", taken)).startswith("NotFoundError")
                nodes = {"nodes": ["f", "m"], "relationship": "r"}
                refused = refusal_of(await one.call_tool("link", nodes))
                assert refused.startswith("ScopeError: link: expected a user")

    run(main)


def test_pinned_memories_are_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "PAGE", 20)

    async def main() -> None:
        async with asked(ANN) as (client,):
            templates = (await client.list_resource_templates()).resource_templates
            assert [one.uri_template for one in templates] == ["memory:///{scope}/{key}"]
            for n in range(23):
                fields = {"text": f"text {n}\nmore", "id": f"k/{n}", "pinned": n != 1}
                await client.call_tool("save", fields)
            first = await client.list_resources()
            assert len(first.resources) == 20
            assert first.resources[0].uri == "memory:///ann/k%2F22"
            assert first.resources[0].description == "text 22"
            second = await client.list_resources(cursor=first.next_cursor)
            assert [one.name for one in second.resources] == ["k/2", "k/0"]
            assert second.next_cursor is None
            (text,) = (await client.read_resource("memory:///ann/k%2F0")).contents
            assert (text.uri, text.text) == ("memory:///ann/k%2F0", "text 0\nmore")  # type: ignore[union-attr]
            (text,) = (await client.read_resource("memory:///ann/k%2F1")).contents
            for uri in ("memory:///ann/none", "memory://[", "http://ann/k%2F0", "memory:///ann"):
                with pytest.raises(MCPError, match="expected a memory of the caller") as refused:
                    await client.read_resource(uri)
                assert refused.value.error.code == -32602
            for cursor in ("0", "-1", "x", "99999999", "１"):
                with pytest.raises(MCPError, match="cursor: expected"):
                    await client.list_resources(cursor=cursor)

    run(main)
