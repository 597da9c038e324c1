"""hyrecall's own tools: what they list, take, return and refuse; pinned memories as resources."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra [mcp] is not installed")
pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from jsonschema import Draft202012Validator
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from hyrecall import recipes
from hyrecall.memory import Memory
from hyrecall.serve import Caller, ServiceOptions
from hyrecall.serve.mcp import create_server
from mcp_world import data_of, refusal_of, text_of
from seams import NOTICE, BusyError, CallLimiter, resources

OF_ALL = {"list_users", "list_agents"}
WRITES = {
    *("remember", "update", "supersede", "pin", "forget", "link", "unlink", "remember_fact"),
    *("end_fact", "feedback", "set_policy", "update_many", "forget_many"),
}
READS = {
    "search",
    "get",
    "list",
    "history",
    "get_policy",
    "links",
    "recall_facts",
    "list_facts",
    "list_feedback",
    "list_sessions",
    "browse_ls",
    "browse_cat",
    "browse_grep",
    "browse_find",
}
ANN = Caller(user_id="ann", rights=frozenset(("read", "write")))
ANY = Caller(may_choose_user=True, rights=frozenset(("read", "write")))


@asynccontextmanager
async def asked(
    *callers: Caller, recipe: Any = recipes.default, **options: Any
) -> AsyncIterator[list[Client]]:
    """One store, and a client for each caller."""
    async with Memory.in_memory(embedder=None, recipe=recipe) as memory, AsyncExitStack() as stack:
        servers = [create_server(memory, caller=one, **options) for one in callers]
        yield [await stack.enter_async_context(Client(server)) for server in servers]


async def test_tools_say_what_they_do_and_their_schemas_are_strict() -> None:
    async with asked(ANN) as (client,):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == WRITES | READS
        for name, tool in tools.items():
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is (name in READS), name
            removes = name in WRITES - {"remember", "remember_fact", "link", "feedback"}
            assert tool.annotations.destructive_hint is removes, name
            once = name in {"remember", "remember_fact", "supersede", "link"}
            once |= name in {"update", "update_many"}
            assert tool.annotations.idempotent_hint is not once, name
            assert tool.input_schema["additionalProperties"] is False
            assert tool.input_schema["type"] == "object"
            assert tool.output_schema is not None
            for schema in (tool.input_schema, tool.output_schema):
                Draft202012Validator.check_schema(schema)
            assert tool.description
            assert "user_id" not in tool.input_schema["properties"]


async def test_replies_say_in_words_what_their_data_says() -> None:
    async with asked(ANN) as (client,):
        for at, text in enumerate(("where is the key", "under the stone", "thanks a lot")):
            given = {"text": text, "id": f"e{at}", "session_id": "s", "source": "memory"}
            saved = await client.call_tool(
                "remember", {**given, "occurred_at": f"2026-05-01T00:0{at}:00"}
            )
        assert data_of(saved) == {"id": "e2", "version": 1, "embedded": False, "reasons": []}
        got = data_of(await client.call_tool("get", {"id": "e0"}))
        assert datetime.fromisoformat(got.pop("stored_at")).tzinfo is not None
        assert got.pop("notice") == NOTICE
        assert got == {
            "id": "e0", "text": "where is the key", "input": "", "kind": "episodic",
            "org": None, "workspace": None, "created_at": "2026-05-01T00:00:00Z",
            "tags": [], "occurred_at": "2026-05-01T00:00:00Z", "pinned": False,
            "importance": None, "session_id": "s", "source": "memory", "visibility": "private",
            "user_id": "ann", "metadata": {}, "valid_to": None, "version": 1,
            "author": "agent", "expires_at": None,
        }  # fmt: skip
        found = text_of(await client.call_tool("search", {"text": "stone", "around": 1}))
        assert ' id="e1" user_id="ann" source="memory" kind="episodic"' in found
        assert 'around="e1">\nwhere is the key\n</stored-' in found
        cat = await client.call_tool("browse_cat", {"path": "/memories/episodic/e1.md"})
        assert f">\n{data_of(cat)['text']}\n</stored-" in text_of(cat)
        said = await client.call_tool("feedback", {"query": "where?", "used": ["e1", "e0"]})
        assert text_of(said) == "Noted, 2 new."
        refused = refusal_of(await client.call_tool("get", {"id": "none"}))
        assert refused == "NotFoundError: id: expected a memory of the caller, got none"


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("search", {}, "OptionError: text: expected a value, got none"),
    ("feedback", {"query": "x", "used": ["?"]}, "NotFoundError: used[0]: expected a memory"),
    ("feedback", {"query": "x", "used": []}, "OptionError: used: expected"),
    ("search", {"querry": "x"}, "UnknownOptionError: search: expected one of its options"),
    ("search", {"text": 5}, "DTypeError: text: expected"),
    ("search", {"text": None}, "DTypeError: text: expected"),
    ("search", {"text": "x", "limit": "5"}, "DTypeError: limit: expected"),
    ("search", {"text": "x", "limit": True}, "DTypeError: limit: expected"),
    ("search", {"text": "x", "limit": 5.5}, "DTypeError: limit: expected"),
    ("search", {"text": "x", "limit": 0}, "OptionError: limit: expected"),
    ("search", {"text": "x", "limit": 101}, "OptionError: limit: expected"),
    (
        "search",
        {"text": "x", "limit": 100, "offset": 1},
        "OptionError: offset: expected limit + offset <= 100, got 101",
    ),
    ("search", {"text": "x", "tags": "t"}, "DTypeError: tags: expected"),
    ("search", {"text": "x", "user_id": "bob"}, "UnknownOptionError: search: expected"),
    ("search", {"text": "x", "recipe": "l0"}, "OptionError: recipe: expected one of"),
    ("search", {"text": "x", "since": "monday"}, "OptionError: since: expected an ISO"),
    (
        "search",
        {"text": "x", "filter": {"no": 1}},
        "OptionError: no: expected an attribute",
    ),
    ("search", {"text": "x" * 32_769}, "OptionError: text: expected"),
    ("search", {"text": "é" * 16_385}, "OptionError: text: expected at most 32768 bytes"),
    ("get", {"id": "no"}, "NotFoundError: id: expected a memory of the caller"),
    ("update", {"id": "no", "text": "x"}, "NotFoundError: id: expected"),
    ("update", {"id": "m"}, "OptionError: changes: expected a field to change"),
    ("end_fact", {"id": "no"}, "NotFoundError: id: expected"),
    ("end_fact", {"id": "m"}, "OptionError: id: expected a fact"),
    ("get_policy", {"agent": "bob"}, "ScopeError: agent: expected the caller's own"),
    ("set_policy", {"agent": "x", "policy": "shared"}, "ScopeError: caller: expected one that may"),
    ("remember", {"text": ""}, "OptionError: text: expected"),
    ("remember", {"text": "x", "id": "m"}, "KeyConflictError: id: expected"),
    ("remember", {"text": "x", "importance": 11}, "OptionError: importance: expected"),
    ("remember", {"text": "x", "visibility": "all"}, "OptionError: visibility: expected"),
    ("link", {"participants": ["a"], "relationship": "r"}, "OptionError: participants: expected"),
    ("browse_cat", {"path": "/memories"}, "OptionError: path: expected a file"),
    ("browse_grep", {"pattern": "(", "regex": True}, "OptionError: pattern: expected"),
    ("no_such", {}, "OptionError: name: expected one of remember"),
    ("memory_save", {"key": "k", "value": "v"}, "OptionError: name: expected one of remember"),
]


async def test_what_is_wrong_is_named_and_nothing_is_written() -> None:
    async with asked(ANN) as (client,):
        await client.call_tool("remember", {"text": "first", "id": "m"})
        for tool, given, told in WRONG:
            refused = refusal_of(await client.call_tool(tool, given))
            assert refused.startswith(told), (tool, given)
            assert "Memory.open" not in refused  # the remedy is Python code
            versions = data_of(await client.call_tool("history", {"id": "m"}))["items"]
            assert len(versions) == 1, (tool, given)
            listed = data_of(await client.call_tool("list", {}))["items"]
            assert [one["text"] for one in listed] == ["first"], (tool, given)


def nested(levels: int) -> Any:
    """An object of so many levels."""
    return {"a": nested(levels - 1)} if levels > 1 else {"a": 1}


async def test_limits_are_those_of_the_options_to_the_number() -> None:
    options = ServiceOptions(max_query=6, max_limit=20, max_ids=3, max_levels=6)
    taken: list[tuple[str, dict[str, Any]]] = [
        ("search", {"text": "xxxxxx"}),
        ("search", {"text": "é" * 3}),
        ("search", {"text": "x", "limit": 20}),
        ("search", {"text": "x", "limit": 1, "offset": 19}),
        ("search", {"text": "x", "tags": ["a"] * 3}),
        ("remember", {"text": "t", "metadata": nested(3)}),
        ("list", {}),  # by default 50, where so many may be asked for
    ]
    refused: list[tuple[str, dict[str, Any], str]] = [
        ("search", {"text": "xxxxxxx"}, "text: expected at most 6 bytes, got 7"),
        ("search", {"text": "xé" * 3}, "text: expected at most 6 bytes, got 9"),
        ("search", {"text": "x", "limit": 21}, "limit: expected <= 20, got 21"),
        ("search", {"text": "x", "limit": 1, "offset": 20},
         "offset: expected limit + offset <= 20, got 21"),
        ("search", {"text": "x", "tags": ["a"] * 4},
         "tags: expected at most 3 entries in a list, got 4"),
        ("search", {"text": "x", "filter": {"kind": ["a"] * 4}},
         "filter: expected at most 3 entries in a list, got 4"),
        ("remember", {"text": "t", "metadata": nested(4)},
         "metadata: expected a message of at most 6 levels of JSON, got more"),
        ("list", {"limit": 50}, "limit: expected <= 20, got 50"),
        ("memory_search", {"query": "x", "limit": 21}, "limit: expected <= 20, got 21"),
    ]  # fmt: skip

    recipe = recipes.honeycomb
    async with asked(ANN, recipe=recipe, options=options) as (client,):
        for tool, given in taken:
            assert data_of(await client.call_tool(tool, given)) is not None
        for tool, given, told in refused:
            assert refusal_of(await client.call_tool(tool, given)) == f"OptionError: {told}"
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        for name, default in (("search", 10), ("list", 20), ("memory_search", 20)):
            limit = tools[name].input_schema["properties"]["limit"]
            assert (limit["anyOf"][0]["maximum"], limit["default"]) == (20, default)
        assert tools["search"].input_schema["properties"]["text"]["maxLength"] == 6


async def test_an_unexpected_error_is_told_and_logged_without_a_word_of_the_call(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(self: Memory, *args: Any, **options: Any) -> Any:
        raise RuntimeError(f"{args} {options}")

    async with asked(ANN) as (client,):
        monkeypatch.setattr(Memory, "search", broken)
        refused = refusal_of(await client.call_tool("search", {"text": "canary"}))
        assert refused == "InternalError: an internal error; the log of the server says more"
        monkeypatch.setattr(Memory, "list", broken)
        with pytest.raises(MCPError, match="internal error"):
            await client.list_resources()
    assert "search failed: RuntimeError at" in caplog.text
    assert "canary" not in caplog.text


async def test_a_closed_store_is_a_refusal() -> None:
    async with Memory.in_memory(embedder=None) as memory:
        server = create_server(memory, caller=ANN)
        await memory.close()
    async with Client(server) as client:
        told = refusal_of(await client.call_tool("search", {"text": "x"}))
        assert told == "OptionError: memory: expected an open store, got a closed one"


async def test_calls_wait_their_turn_and_not_for_ever() -> None:
    gate = CallLimiter(ServiceOptions(max_running=1, max_waiting=1, deadline=0.05))
    begun, end = asyncio.Event(), asyncio.Event()

    async def hang() -> str:
        begun.set()
        await end.wait()
        return "done"

    first = asyncio.create_task(gate.run(hang))
    await begun.wait()
    second = asyncio.create_task(gate.run(hang))
    await asyncio.sleep(0)
    with pytest.raises(BusyError, match="too many calls"):
        await gate.run(hang)
    for one in (first, second):
        with pytest.raises(BusyError, match=r"took more than 0\.05 seconds"):
            await one
    end.set()
    assert await gate.run(hang) == "done"


async def test_who_said_it_is_not_what_a_model_says() -> None:
    async with Memory.in_memory(embedder=None) as memory:
        await memory.remember("of the user", id="u", user_id="ann", author="user")
        async with Client(create_server(memory, caller=ANN)) as client:
            given = {"changes": {"author": "user"}, "id": ["u"]}
            told = refusal_of(await client.call_tool("update_many", given))
            assert told.startswith("OptionError: changes['author']: expected another field")
            await client.call_tool("update", {"id": "u", "input": "what a model says"})
        found = await memory.get("u", user_id="ann")
        assert found is not None
        assert found.author == "agent"


# ---- whose ----


@pytest.mark.filterwarnings("ignore::hyrecall.memory.IsolationWarning")
async def test_a_caller_that_may_choose_names_the_user_in_each_call() -> None:
    async with asked(ANY, ANN) as (free, ann):
        tools = (await free.list_tools()).tools
        for tool in tools:  # a policy is of an agent, whom the call names
            is_of_a_user = tool.name not in {"get_policy", "set_policy", *OF_ALL}
            assert ("user_id" in tool.input_schema["properties"]) is is_of_a_user
        await free.call_tool("remember", {"text": "for ann", "id": "a", "user_id": "ann"})
        await free.call_tool("remember", {"text": "for nobody", "id": "n"})
        got = data_of(await ann.call_tool("list", {}))
        assert ([one["id"] for one in got["items"]], got["total"]) == (["a"], 1)
        assert {tool.name for tool in tools} >= OF_ALL
        users = data_of(await free.call_tool("list_users", {}))["items"]
        assert [(one["user_id"], one["memories"]) for one in users] == [(None, 1), ("ann", 1)]
        told = refusal_of(await ann.call_tool("list_users", {}))
        assert (
            told == "ScopeError: list_users: expected a caller that may name any user, got another"
        )
        got = data_of(await free.call_tool("list", {}))["items"]
        assert [one["id"] for one in got] == ["n"]
        refused = refusal_of(await free.call_tool("list", {"user_id": 5}))
        assert refused == "DTypeError: user_id: expected a string, got int"


async def test_an_agent_reads_by_its_policy_and_writes_its_own() -> None:
    place: dict[str, Any] = {"org": "acme", "workspace": "lab", "rights": ANN.rights}
    planner, ops = Caller(agent="planner", **place), Caller(agent="ops", **place)

    async with Memory.in_memory(embedder=None) as memory:
        await memory.set_policy("planner", org="acme", workspace="lab", policy="shared")
        async with (
            Client(create_server(memory, caller=planner)) as one,
            Client(create_server(memory, caller=ops)) as other,
        ):
            shared = {"text": "Friday is free", "id": "f", "visibility": "global"}
            await other.call_tool("remember", shared)
            await one.call_tool("remember", {"text": "Friday is mine", "id": "m"})
            found = data_of(await one.call_tool("search", {"text": "friday"}))
            assert {(m["episode"]["id"], m["episode"]["user_id"]) for m in found["items"]} == {
                ("f", "ops"), ("m", "planner"),
            }  # fmt: skip
            found = data_of(await other.call_tool("search", {"text": "friday"}))
            assert [match["episode"]["id"] for match in found["items"]] == ["f"]
            change = {"id": "m", "text": "Friday is taken"}
            refused = refusal_of(await one.call_tool("update", change))
            assert refused.startswith("OptionError: reason: expected a reason")
            assert data_of(await one.call_tool("update", {**change, "reason": "r"}))
            taken = {"id": "f", "reason": "r", "text": "not yours"}
            assert refusal_of(await one.call_tool("update", taken)).startswith("NotFoundError")
            nodes = {"participants": ["f", "m"], "relationship": "r"}
            refused = refusal_of(await one.call_tool("link", nodes))
            assert refused.startswith("ScopeError: link: expected a user")


async def test_pinned_memories_are_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "PAGE", 20)

    async with asked(ANN) as (client,):
        templates = (await client.list_resource_templates()).resource_templates
        assert [one.uri_template for one in templates] == ["memory:///{scope}/{key}"]
        for n in range(23):
            fields = {"text": f"text {n}\nmore", "id": f"k/{n}", "pinned": n != 1}
            await client.call_tool("remember", fields)
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


async def test_a_search_says_where_probably_nothing_answers() -> None:
    async with asked(ANN) as (client,):
        for text in ("the replica lags by 40 s", "tea at four"):
            await client.call_tool("remember", {"text": text})
        sure = await client.call_tool("search", {"text": "tea at four"})
        unsure = await client.call_tool("search", {"text": "the tea of Bob"})
        nothing = await client.call_tool("search", {"text": "zebra"})
        floored = await client.call_tool(
            "search", {"text": "the tea of Bob", "min_confidence": 0.2}
        )
    told = "Probably nothing here answers (confidence 0."
    assert [data_of(one)["answerable"] for one in (sure, unsure, nothing)] == [True, False, False]
    assert data_of(sure)["confidence"] > 0.5 > data_of(unsure)["confidence"] > 0
    assert [told in text_of(one) for one in (sure, unsure, nothing)] == [False, True, False]
    assert data_of(unsure)["items"], "they are best guesses"
    assert data_of(floored) | {"items": []} == data_of(floored)
    assert data_of(floored)["confidence"] == data_of(unsure)["confidence"]
