"""The tools that four systems document, each over a store that serves its recipe."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra [mcp] is not installed")
pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from mcp.client import Client

from hyrecall import recipes
from hyrecall.errors import OptionError
from hyrecall.memory import Memory, MemorySync
from hyrecall.serve import Caller
from hyrecall.serve.mcp import create_server
from hyrecall.systems.hypergraph import hm_recall
from mcp_world import data_of, refusal_of, text_of
from seams import KIND, NOTICE, OPS

READ_AND_WRITE = frozenset(("read", "write"))
ANN = Caller(user_id="ann", rights=READ_AND_WRITE)
ANY = Caller(may_choose_user=True, rights=READ_AND_WRITE)

BY_RECIPE = {
    "conversation": set(),
    "default": set(),
    "loom": set(),
    "hypergraph": {"hm_recall"},
    "hypergraph_regex": {"hm_recall"},
    "l0": {"memory_save", "memory_search"},
    "honeycomb": {
        "memory_search", "memory_store", "memory_get", "memory_list", "memory_modify",
        "memory_forget", "honeycomb_search", "honeycomb_read", "honeycomb_index",
        "hivemind_search", "hivemind_read",
    },
    "hebb": {"write_memory", "search_memory"},
}  # fmt: skip


N_OWN = 1 + len([op for op in OPS.values() if op.is_at("mcp") and not op.is_of_all]) + 4
"""Search, the verbs of the table, and the tools that read memories as files."""


@asynccontextmanager
async def serving(
    recipe: Any, caller: Caller | None = ANN, **options: Any
) -> AsyncIterator[Client]:
    async with (
        Memory.in_memory(embedder=None, recipe=recipe) as memory,
        Client(create_server(memory, caller=caller, **options)) as client,
    ):
        yield client


@pytest.mark.parametrize("name", recipes.__all__)
async def test_a_store_lists_the_tools_of_its_own_system(name: str) -> None:
    assert set(BY_RECIPE) == set(recipes.__all__)
    async with serving(getattr(recipes, name)) as client:
        listed = (await client.list_tools()).tools
        tools = [tool.name for tool in listed]
        assert len(tools) == len(set(tools))
        assert set(tools[N_OWN:]) == BY_RECIPE[name]
        for missing in {"hm_recall", "memory_save", "search_memory"} - set(tools):
            told = refusal_of(await client.call_tool(missing, {}))
            assert told.startswith("OptionError: name: expected one of remember")
        for tool in listed:  # what shows stored data says that it is no instruction
            assert tool.annotations is not None
            reads = tool.annotations.read_only_hint
            assert (tool.description or "").endswith(NOTICE) is reads, tool.name


async def test_systems_that_share_the_index_may_be_named() -> None:
    async with serving(recipes.hebb, systems=["hebb", "honeycomb"]) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert tools >= BY_RECIPE["hebb"] | BY_RECIPE["honeycomb"]
    async with serving(recipes.l0, systems=[]) as client:
        assert len((await client.list_tools()).tools) == N_OWN
    for wrong, told in (
        ("l0", "systems whose recipe shares an index with default"),
        ("loom", "one of hypergraph, l0, honeycomb, hebb"),
    ):
        with pytest.raises(OptionError, match=told):
            async with serving(recipes.default, systems=[wrong]):
                pass


# ---- hypergraph ----


async def test_hm_recall_answers_as_the_function_does() -> None:
    memory = MemorySync.in_memory(embedder=None, recipe=recipes.hypergraph)
    async with serving(recipes.hypergraph) as client:
        for key in ("jwt", "auth", "tea"):
            fields = {"id": key, "kind": "topic", "metadata": {"n": 1}}
            memory.remember(f"{key} decisions", user_id="ann", **fields)  # type: ignore[arg-type]
            await client.call_tool("remember", {"text": f"{key} decisions", **fields})
        memory.link(["jwt", "auth"], "decided by", user_id="ann")
        await client.call_tool(
            "link", {"participants": ["jwt", "auth"], "relationship": "decided by"}
        )
        for given in (
            {"query": "decisions"},
            {"query": "jwt", "session_id": "s", "max_results": 1},
            {"query": "^(jwt|tea)", "force_regex": True},
        ):
            reply = await client.call_tool("hm_recall", given)
            found = data_of(reply)
            wanted: Any = hm_recall(memory, user_id="ann", **given)  # type: ignore[arg-type]
            for one in (found, wanted):
                one["metadata"].pop("took_ms")
                for edge in one["edges"]:
                    edge.pop("id")
            assert found == json.loads(json.dumps(wanted))
            assert json.loads(text_of(reply))["count"] == found["count"]
        assert found["count"] == 2
        for wrong, refused in (
            ({"query": " "}, "OptionError: query: expected"),
            ({"query": "(", "force_regex": True}, "OptionError: text['regex'][0]: expected"),
            ({"query": "x", "n": 5}, "UnknownOptionError: hm_recall: expected"),
        ):
            assert refusal_of(await client.call_tool("hm_recall", wrong)).startswith(refused)
    memory.close()


# ---- l0 ----


async def test_notes_are_saved_by_key_and_found_by_beginnings_of_words() -> None:
    async with serving(recipes.l0, None) as client:
        saved = await client.call_tool(
            "memory_save",
            {"key": "deploy", "value": "Deploys run on Friday", "tags": "ci, ops",
             "origin": "chat"},
        )  # fmt: skip
        assert data_of(saved) == {
            "key": "deploy", "scope": "user", "version": 1, "embedded": False,
        }  # fmt: skip
        again = {"key": "deploy", "value": "Deploys run on Monday", "tags": ["ci"]}
        assert data_of(await client.call_tool("memory_save", again))["version"] == 2
        reply = await client.call_tool("memory_search", {"query": "mon"})
        (hit,) = data_of(reply)["results"]
        assert hit["snippet"] == "Deploys run on <<Monday>>"
        assert hit["score"] > 0
        assert hit["value"] is None
        assert (hit["key"], hit["scope"], hit["tags"]) == ("deploy", "user", "ci")
        assert hit["origin"] == "chat"
        assert hit["size_bytes"] == len("Deploys run on Monday")
        assert 0 < hit["created_at"] <= hit["updated_at"]
        (shown,) = json.loads(text_of(reply))
        assert "value" not in shown
        expand = await client.call_tool("memory_search", {"query": "mon", "expand": True})
        (hit,) = data_of(expand)["results"]
        assert (hit["value"], hit["snippet"], hit["score"]) == (again["value"], None, None)
        for blank in ("", "  "):
            found = data_of(await client.call_tool("memory_search", {"query": blank}))
            assert found == {"results": [], "degraded": []}
        told = refusal_of(await client.call_tool("memory_search", {"scope": "user"}))
        assert told == "OptionError: query: expected a value, got none"


async def test_notes_found_by_words_alone_say_that_the_embedder_failed() -> None:
    class Failing:
        model, dim = "failing", 4

        def embed(self, texts: Sequence[str]) -> object:
            raise OSError

    async with (
        Memory.in_memory(embedder=Failing(), recipe=recipes.l0) as memory,
        Client(create_server(memory, caller=None)) as client,
    ):
        await client.call_tool("memory_save", {"key": "a", "value": "deploys on Monday"})
        found = data_of(await client.call_tool("memory_search", {"query": "monday"}))
        assert [one["key"] for one in found["results"]] == ["a"]
        assert found["degraded"] == ["embed_unavailable (crashed: OSError)"]


async def test_a_scope_is_the_callers_own_or_any_for_one_that_may_choose() -> None:
    async with (
        Memory.in_memory(embedder=None, recipe=recipes.l0) as memory,
        Client(create_server(memory, caller=ANY)) as free,
        Client(create_server(memory, caller=ANN)) as ann,
    ):
        for scope in ("ann", "bob", ""):
            note = {"key": "k", "value": f"tea of {scope or 'user'}", "scope": scope}
            assert data_of(await free.call_tool("memory_save", note))["version"] == 1

        async def scopes(client: Client, **given: Any) -> list[str]:
            found = data_of(await client.call_tool("memory_search", {"query": "tea"} | given))
            return sorted(hit["scope"] for hit in found["results"])

        assert await scopes(free) == ["ann", "bob", "user"]
        assert await scopes(free, scope="bob") == ["bob"]
        assert await scopes(ann) == ["ann"]
        assert await scopes(ann, scope="ann") == ["ann"]
        for tool, given in (
            ("memory_search", {"query": "tea", "scope": "bob"}),
            ("memory_save", {"key": "k", "value": "mine", "scope": "bob"}),
        ):
            told = refusal_of(await ann.call_tool(tool, given))
            assert told == "ScopeError: scope: expected the caller's own, or none, got another"
        (hit,) = data_of(await free.call_tool("memory_search", {"query": "tea", "scope": "bob"}))[
            "results"
        ]
        assert hit["snippet"] == "<<tea>> of bob"


@pytest.mark.filterwarnings("ignore::hyrecall.memory.IsolationWarning")
async def test_a_caller_without_a_user_keeps_and_finds_the_notes_without_a_user() -> None:
    """No call can name these: l0's default scope is a user, whom this caller is not."""

    nobody, of_acme = Caller(rights=READ_AND_WRITE), Caller(org="acme", rights=READ_AND_WRITE)
    async with (
        Memory.in_memory(embedder=None, recipe=recipes.l0) as memory,
        Client(create_server(memory, caller=nobody)) as client,
        Client(create_server(memory, caller=of_acme)) as other,
    ):
        await memory.remember("tea of user", id="k", kind=KIND, user_id="user")
        note = {"key": "k", "value": "tea of nobody"}
        reply = await client.call_tool("memory_save", note)
        kept = {"key": "k", "scope": "", "version": 1, "embedded": False}
        assert data_of(reply) == kept
        assert text_of(reply) == "Saved k."
        assert data_of(await other.call_tool("memory_save", note)) == kept
        assert data_of(await client.call_tool("memory_save", note))["version"] == 2
        (hit,) = data_of(await client.call_tool("memory_search", {"query": "tea"}))["results"]
        assert (hit["key"], hit["scope"]) == ("k", "")
        assert hit["snippet"] == "<<tea>> of nobody"
        for tool, given in (
            ("memory_search", {"query": "tea", "scope": "user"}),
            ("memory_save", {**note, "scope": "user"}),
        ):
            told = refusal_of(await client.call_tool(tool, given))
            assert told == "ScopeError: scope: expected the caller's own, or none, got another"
        kept_for_user = await memory.get("k", user_id="user")
        assert kept_for_user is not None
        assert kept_for_user.text == "tea of user"


async def test_scopes_of_another_organisation_are_not_looked_through() -> None:
    """By one that may choose the user of its own organisation, then by one that names another."""
    of_acme = Caller(org="acme", may_choose_user=True, rights=READ_AND_WRITE)
    of_any = Caller(may_choose_user=True, may_choose_partition=True, rights=READ_AND_WRITE)

    async with Memory.in_memory(embedder=None, recipe=recipes.l0) as memory:
        for org in ("acme", "other"):
            note = {"id": "k", "kind": KIND, "user_id": f"u-{org}", "org": org}
            await memory.remember("tea", **note)  # type: ignore[arg-type]
        async with Client(create_server(memory, caller=of_acme)) as client:
            found = data_of(await client.call_tool("memory_search", {"query": "tea"}))
            assert [hit["scope"] for hit in found["results"]] == ["u-acme"]
            given = {"query": "tea", "scope": "u-other"}
            found = data_of(await client.call_tool("memory_search", given))
            assert found["results"] == []
        async with Client(create_server(memory, caller=of_any)) as client:
            given = {"query": "tea", "org": "other"}
            found = data_of(await client.call_tool("memory_search", given))
            assert [hit["scope"] for hit in found["results"]] == ["u-other"]


async def test_notes_saved_at_once_under_one_key_all_end_as_versions() -> None:
    async with serving(recipes.l0) as client:
        notes = [{"key": "k", "value": f"value {n}"} for n in range(12)]
        replies = await asyncio.gather(*(client.call_tool("memory_save", one) for one in notes))
        versions = sorted(data_of(reply)["version"] for reply in replies)
        assert versions == list(range(1, 13))


# ---- honeycomb ----


async def test_honeycombs_tools_keep_find_change_and_forget() -> None:
    async with serving(recipes.honeycomb) as client:
        stored = data_of(
            await client.call_tool("memory_store", {"content": "CI runs on Debian 12"})
        )
        key = stored["id"]
        assert stored == {"id": key, "action": "stored"}
        await client.call_tool("remember", {"text": "debian talk", "id": "t", "source": "session"})
        for tool in ("memory_search", "honeycomb_search", "hivemind_search"):
            found = data_of(await client.call_tool(tool, {"query": "debian"}))
            first, second = found["hits"]
            assert (first["id"], first["kind"], first["secondary"]) == (key, "memory", False)
            assert (first["source"], first["memoryType"]) == ("memories", "fact")
            assert (second["id"], second["kind"], second["secondary"]) == ("t", "session", True)
            assert second["source"] == "sessions"
            whose = [first[name] for name in ("org", "workspace", "agent", "visibility")]
            assert whose == [None, None, "ann", "private"]
            assert {"memoryId", "memoryType"} & set(second) == set()
            assert found["sources"] == ["memories", "sessions"]
            assert set(found) == {"hits", "sources", "degraded", "scope"}
            assert found["degraded"] is False
            cut = {"query": "debian", "tokenBudget": 1, "limit": 200}
            assert len(data_of(await client.call_tool(tool, cut))["hits"]) == 1
        modified = {"id": key, "content": "CI runs on Debian 13", "reason": "upgraded"}
        reply = data_of(await client.call_tool("memory_modify", modified))
        assert reply == {"id": key, "action": "modified", "audited": True}
        got = data_of(await client.call_tool("memory_get", {"id": key}))["memory"]
        assert (got["content"], got["type"]) == ("CI runs on Debian 13", "fact")
        listed = data_of(await client.call_tool("memory_list", {}))["memories"]
        assert [one["id"] for one in listed] == ["t", key]
        index = data_of(await client.call_tool("honeycomb_index", {}))
        for tool in ("honeycomb_read", "hivemind_read"):
            read = data_of(await client.call_tool(tool, {"path": "/index.md"}))
            assert read == index
        assert key in index["text"]
        gone = {"id": key, "reason": "no longer so"}
        reply = data_of(await client.call_tool("memory_forget", gone))
        assert reply == {"id": key, "action": "forgotten", "audited": True}
        told = refusal_of(await client.call_tool("memory_forget", gone))
        assert told == "NotFoundError: id: expected a memory of the caller, got none"
        for tool, given in (
            ("memory_forget", {"id": "t"}),
            ("memory_modify", {"id": "t", "content": "x"}),
            ("memory_get", {"id": key}),
            ("memory_store", {"content": "x", "type": "rumour"}),
            ("memory_search", {"query": ""}),
            ("memory_search", {"query": "x", "limit": 201}),
            ("memory_search", {"query": "x", "token_budget": 5}),
            ("honeycomb_index", {"path": "/"}),
        ):
            refusal_of(await client.call_tool(tool, given))


# ---- Hebb ----


async def test_hebbs_tools_write_and_search() -> None:
    async with serving(recipes.hebb) as client:
        first = {"content": "Deploys run on Friday", "tags": ["ci"], "importance": 8}
        written = data_of(await client.call_tool("write_memory", first))
        assert (written["content"], written["importance_score"]) == (first["content"], 8)
        other = {"content": "Debian 12 builds", "tags": ["ci"]}
        await client.call_tool("write_memory", other)
        found = data_of(await client.call_tool("search_memory", {"query": "deploys", "top_k": 1}))
        (result,) = found["results"]
        assert result["memory"] == written
        assert result["memory"]["importance_score"] == 8
        assert result["memory"]["partition_id"] == "mem_hippocampus"
        assert result["importance_score_normalized"] == 0.8
        parts = ("recency_score", "importance_score_normalized", "relevance_score")
        mean = sum(result[part] for part in parts) / 3
        assert result["score"] == pytest.approx(mean, rel=1e-12)
        assert [one["content"] for one in found["related"]] == ["Debian 12 builds"]
        nothing = data_of(await client.call_tool("search_memory", {"query": "  "}))
        assert nothing == {"results": [], "related": []}
        for tool, given in (
            ("write_memory", {"content": ""}),
            ("write_memory", {"content": "x" * 10_001}),
            ("write_memory", {"content": "x", "importance": 11}),
            ("search_memory", {"query": ""}),
            ("search_memory", {"query": "x", "top_k": 101}),
            ("search_memory", {"query": "x", "strict": True}),
        ):
            refusal_of(await client.call_tool(tool, given))
