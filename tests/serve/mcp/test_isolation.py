"""Every tool keeps users apart and leaves a reader's store as it is; planted bugs are caught."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra [mcp] is not installed")
pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from mcp.client import Client
from mcp.shared.exceptions import MCPError

from hyrecall import recipes
from hyrecall.memory import Fact, Memory
from hyrecall.serve import Caller
from hyrecall.serve.mcp import create_server
from hyrecall.systems.hypergraph import ahm_recall
from mcp_world import data_of, text_of
from seams import CallerSession, CallersStore, ToolReply, honeycomb_tools, hypergraph_tools
from seams import mcp_server_module as server

CANARY = "qzxcanaryqzx"
ANN = Caller(user_id="ann", rights=frozenset(("read", "write")))
BOB = Caller(user_id="bob", rights=frozenset(("read", "write")))
READER = replace(BOB, rights=frozenset(("read",)))
SYSTEMS = ("default", "hypergraph", "l0", "honeycomb", "hebb")

TEXT, FIND, GET, READ = {"text": "tea"}, {"query": "tea"}, {"id": "c"}, {"path": "/index.md"}
CALLS: dict[str, dict[str, Any]] = {
    "search": TEXT, "get": GET, "list": {}, "history": GET, "get_policy": {"agent": "bob"},
    "list_sessions": {}, "links": GET, "recall_facts": TEXT, "list_facts": {}, "list_feedback": {},
    "browse_ls": {"path": "/memories"}, "browse_cat": READ,
    "browse_grep": {"pattern": "tea"}, "browse_find": {},
    "hm_recall": FIND, "memory_search": FIND, "memory_get": GET, "memory_list": {},
    "honeycomb_search": FIND, "hivemind_search": FIND, "honeycomb_read": READ,
    "hivemind_read": READ, "honeycomb_index": {}, "search_memory": FIND,
    # What follows writes.
    "remember": {"text": "new tea"}, "memory_save": {"key": "new", "value": "new tea"},
    "memory_store": {"content": "new tea"}, "write_memory": {"content": "new tea"},
    "link": {"participants": ["c", "s"], "relationship": "new"}, "unlink": {"id": "?"},
    "feedback": {"query": "tea", "used": ["c"]},
    "update": {"id": "c", "text": "changed"}, "end_fact": {"id": "f"}, "pin": GET,
    "remember_fact": {"subject": "bob", "predicate": "drinks", "object": "tea"},
    "supersede": {"id": "s", "text": "other tea"},
    "update_many": {"changes": {"importance": 3}, "kind": "note"},
    "set_policy": {"agent": "bob", "policy": "shared"},
    "memory_modify": {"id": "c", "content": "changed", "reason": "r"},
    "forget": {"id": "c"}, "memory_forget": {"id": "c", "reason": "r"},
    "forget_many": {"everything": "bob", "erase": True},
    # What follows is for who may name any user.
    "list_users": {}, "list_agents": {},
}  # fmt: skip
"""Arguments of every tool, in an order in which each one finds what it needs."""


async def seeded(memory: Memory) -> dict[str, str]:
    """Keep the same ids for both users, of whom ann has a secret; give the edge of each."""
    edges = {}
    for user, word in (("ann", CANARY), ("bob", "plain")):
        for key in ("c", "s"):
            await memory.remember(f"{word} tea", id=key, user_id=user, kind="note", tags=(word,))
        edges[user] = (await memory.link(["c", "s"], word, user_id=user)).id
        fact = Fact(id="f", subject=word, predicate="is", object="tea", user_id=user)
        await memory.remember_fact(fact)
    return edges


async def kept_by(memory: Memory, user: str) -> list[Any]:
    """All that a user has."""
    rows = await memory.list(user_id=user, limit=100)
    versions = [await memory.history(one.id, user_id=user) for one in rows]
    edges = [await memory.links(one.id, user_id=user) for one in rows]
    said = await memory.list_feedback(user_id=user)
    return [(one.id, one.text) for one in rows] + versions + edges + [said]


async def check_users_apart(name: str) -> None:
    """Bob calls every tool: he sees nothing of ann's, and changes nothing."""
    async with Memory.in_memory(embedder=None, recipe=getattr(recipes, name)) as memory:
        edges = await seeded(memory)
        before = await kept_by(memory, "ann")
        async with Client(create_server(memory, caller=BOB)) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            assert tools <= set(CALLS)
            for tool in [one for one in CALLS if one in tools]:
                given = {"id": edges["ann"]} if tool == "unlink" else CALLS[tool]
                reply = await client.call_tool(tool, given)
                shown = f"{text_of(reply)} {reply.structured_content}"
                assert CANARY not in shown, tool
                # They find nothing of bob's, who is no keeper of policies.
                if tool not in {"unlink", "memory_forget", "set_policy"}:
                    assert not reply.is_error, (tool, shown)
            assert CANARY not in str(await client.list_resources())
            for path in ("/memories/note/c.md", "/shared/ann/note/c.md"):
                file = await client.call_tool("browse_cat", {"path": path})
                assert CANARY not in text_of(file), path
            for uri in ("memory:///ann/c", "memory:///bob/c"):  # bob has forgotten his
                with pytest.raises(MCPError, match="expected a memory of the caller, got none"):
                    await client.read_resource(uri)
        assert await kept_by(memory, "ann") == before


async def check_readers_change_nothing(name: str) -> None:
    """Bob, who may only read, calls every tool: those that write are not listed, and refused."""
    async with Memory.in_memory(embedder=None, recipe=getattr(recipes, name)) as memory:
        edges = await seeded(memory)
        before = await kept_by(memory, "bob")
        async with Client(create_server(memory, caller=READER)) as client:
            listed = {tool.name for tool in (await client.list_tools()).tools}
            every = [tool.name for tool in server._tools(memory, None)]
            assert len(listed) < len(every)
            for tool in every:
                given = {"id": edges["bob"]} if tool == "unlink" else CALLS[tool]
                reply = await client.call_tool(tool, given)
                refusals = ("the right to write", "a caller that may name any user")
                lacks = reply.is_error and any(one in text_of(reply) for one in refusals)
                assert lacks is (tool not in listed), tool
        assert await kept_by(memory, "bob") == before


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_user_sees_and_changes_nothing_of_another_by_any_tool(name: str) -> None:
    asyncio.run(check_users_apart(name))


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_caller_that_only_reads_changes_nothing_by_any_tool(name: str) -> None:
    asyncio.run(check_readers_change_nothing(name))


FAULTS = (AssertionError, pytest.fail.Exception)  # the second is of `pytest.raises`


def is_caught(check: Coroutine[Any, Any, None]) -> bool:
    """Whether a check fails by an assertion; a client's tasks may wrap it in a group."""
    try:
        asyncio.run(check)
    except FAULTS:
        return True
    except BaseExceptionGroup as group:
        return group.subgroup(FAULTS) is not None
    return False


def as_ann(method: str) -> Callable[..., Any]:
    """A method of Session that forgets its caller, and asks on ann's behalf."""
    original = getattr(CallerSession, method)

    async def broken(self: CallerSession, *args: Any, **options: Any) -> Any:
        return await original(CallerSession(self.memory, ANN), *args, **options)

    return broken


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize(
    "method",
    [
        *("search", "get", "browse"),
    ],
)
def test_a_session_without_its_scope_would_be_caught(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(CallerSession, method, as_ann(method))
    assert is_caught(check_users_apart("default"))


def test_a_verb_on_another_users_behalf_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = CallersStore.answer

    def broken(self: CallersStore, *args: Any) -> Any:
        return original(CallersStore(self.memory, ANN), *args)

    monkeypatch.setattr(CallersStore, "answer", broken)
    assert is_caught(check_users_apart("default"))


def test_an_alias_that_leaves_the_session_out_would_be_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken(*args: Any, **options: Any) -> Any:
        return await ahm_recall(*args, **{**options, "user_id": "ann"})

    monkeypatch.setattr(hypergraph_tools, "ahm_recall", broken)
    assert is_caught(check_users_apart("hypergraph"))


async def _stores_anyway(session: CallerSession, given: Any) -> ToolReply:
    kept = await session.memory.remember(given.content, **session.where)
    return ToolReply({"id": kept.id, "action": "stored"})


@pytest.mark.parametrize("answer", [None, _stores_anyway], ids=["says_reads", "writes_beside"])
def test_an_alias_that_ignores_readonly_would_be_caught(
    monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    """One that says that it reads; and one that also writes beside its session."""
    tools = tuple(
        replace(tool, effect="reads", answer=answer or tool.answer)
        if tool.name == "memory_store"
        else tool
        for tool in honeycomb_tools.TOOLS
    )
    monkeypatch.setattr(honeycomb_tools, "TOOLS", tools)
    assert is_caught(check_readers_change_nothing("honeycomb"))


async def test_readonly_holds_whatever_rights_a_caller_has() -> None:
    async with Memory.in_memory(embedder=None, recipe=recipes.honeycomb) as memory:
        await seeded(memory)
        both = create_server(memory, caller=BOB, readonly=True)
        async with Client(both) as client:
            listed = {tool.name for tool in (await client.list_tools()).tools}
            assert listed & {"remember", "memory_store", "memory_forget", "link"} == set()
            reply = await client.call_tool("memory_store", CALLS["memory_store"])
            assert "the right to write" in text_of(reply)
            assert data_of(await client.call_tool("memory_get", GET))["memory"]["id"] == "c"
