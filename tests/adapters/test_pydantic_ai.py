"""Pydantic AI's tools: what its models see, and that no model can choose a user or a scope."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip(
    "pydantic_ai", reason="Pydantic AI is not installed: .ci/frameworks pydantic_ai"
)

from pydantic_ai import Agent, RunContext, Tool

import hyrecall as hr
from adapters.agent_tools import Deps, calling, run
from adapters.degraded_world import degraded_index
from hyrecall.adapters.degraded import DegradedWarning
from hyrecall.adapters.pydantic_ai import recall_tool, remember_tool, search_tool
from hyrecall.embed import EmbedBy, HashEmbedder
from hyrecall.errors import DTypeError, OptionError, ScopeError, UnknownOptionError
from hyrecall.memory import EVERYONE, Memory, MemorySync

# The version of a year ago calls griffe in a way that griffe deprecated at that time.
pytestmark = pytest.mark.filterwarnings("ignore:Passing additional options:DeprecationWarning")

EXAMPLE = Path(__file__).parents[2] / "examples" / "frameworks" / "pydantic_ai_tools.py"


def whose(ctx: RunContext[Deps]) -> str:
    return ctx.deps.user  # type: ignore[return-value]


@pytest.fixture
def memory() -> Iterator[MemorySync]:
    with MemorySync.in_memory(embedder=None) as store:
        store.remember("The build runs on Debian 12", id="a", user_id="ann")
        store.remember("The build of bob runs on Fedora", id="b", user_id="bob")
        yield store


def test_the_model_sees_the_memories_of_the_user_of_its_run(memory: MemorySync) -> None:
    tool = recall_tool(memory, user_id=whose)
    for user, text in (("ann", "Debian 12"), ("bob", "Fedora")):
        (found,) = json.loads(run(tool, {"query": "the build"}, user))
        assert text in found["text"]
        assert set(found) == {"id", "text", "score", "occurred_at"}
        assert found["score"] > 0
    assert json.loads(run(tool, {"query": "the build"}, "eve")) == []


def test_a_fixed_user_holds_whoever_runs(memory: MemorySync) -> None:
    (found,) = json.loads(run(recall_tool(memory, user_id="ann"), {"query": "build"}, "bob"))
    assert found["id"] == "a"


def test_the_model_is_offered_no_user_and_no_scope(memory: MemorySync) -> None:
    table = pa.table({"id": ["x"], "team": ["red"], "text": ["tea"]})
    index = hr.Index.build(table, hr.Schema(key="id", cell="team", text="text"))
    tools: dict[str, list[Tool[Any]]] = {
        "query": [recall_tool(memory, user_id="ann"), search_tool(index, scope="red")],
        "text": [remember_tool(memory, user_id=whose)],
    }
    for argument, made in tools.items():
        for tool in made:
            schema = tool.tool_def.parameters_json_schema
            assert list(schema["properties"]) == [argument]
            assert schema["properties"][argument]["description"]
            assert schema["additionalProperties"] is False
            assert tool.tool_def.description


def test_what_one_user_keeps_only_that_user_recalls(memory: MemorySync) -> None:
    kept = run(remember_tool(memory, user_id=whose, kind="note"), {"text": "Likes oolong"}, "ann")
    episode = memory.get(kept, user_id="ann")
    assert episode is not None
    assert (episode.text, episode.kind) == ("Likes oolong", "note")
    assert memory.get(kept, user_id="bob") is None
    assert json.loads(run(recall_tool(memory, user_id="bob"), {"query": "oolong"})) == []


def test_a_partition_of_the_tool_holds(memory: MemorySync) -> None:
    memory.remember("The build of acme", id="c", user_id="ann", org="acme")
    tool: Tool[Deps] = recall_tool(memory, user_id="ann", org="acme")
    assert [one["id"] for one in json.loads(run(tool, {"query": "build"}))] == ["c"]


def test_an_async_store_serves_the_same_tools() -> None:
    async def main() -> str:
        async with Memory.in_memory(embedder=None) as store:
            keep = Agent(
                calling("remember", {"text": "Likes oolong"}),
                tools=[remember_tool(store, user_id="ann")],
            )
            await keep.run("go")
            recall = Agent(
                calling("recall_memory", {"query": "oolong"}),
                tools=[recall_tool(store, user_id="ann")],
            )
            return (await recall.run("go")).output

    assert json.loads(asyncio.run(main()))[0]["text"] == "Likes oolong"


def test_documents_are_searched_in_the_scope_of_the_run() -> None:
    embedder = HashEmbedder(dim=16)
    texts = ["green tea", "green coffee", "tea of the blue team"]
    rows = {"id": [1, 2, 3], "team": ["red", "red", "blue"], "text": texts, "year": [1, 2, 3]}
    schema = hr.Schema(key="id", cell="team", text="text", vector="v", attributes="year")
    index = hr.Index.build(pa.table(rows), schema, vectors={"v": embedder.embed(texts)})

    def embed(query: str) -> object:
        return embedder.embed([query])[0]

    def team(ctx: RunContext[Deps]) -> object:
        return ctx.deps.user

    tool = search_tool(
        index,
        scope=team,
        embed=embed,
        filter=hr.Filter(year=(None, 2)),
        columns=("year",),
    )
    found = json.loads(run(tool, {"query": "green tea"}, "red"))
    expected = index.recall_one(text="green tea", vector=embed("green tea"), scope="red")
    assert [(one["id"], one["score"]) for one in found] == [(h.key, h.score) for h in expected]
    assert [one["fields"] for one in found] == [{"year": 1}, {"year": 2}]
    assert found[0]["text"] == "green tea"
    assert json.loads(run(tool, {"query": "tea"}, "blue")) == []  # by the filter


def test_a_tool_without_a_user_or_a_scope_is_not_made(memory: MemorySync) -> None:
    index = hr.Index.build(
        pa.table({"id": ["x"], "team": ["red"], "text": ["tea"]}),
        hr.Schema(key="id", cell="team", text="text"),
    )
    with pytest.raises(ScopeError, match=r"user_id: expected the id of the user .* None"):
        remember_tool(memory, user_id=None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="user_id"):
        remember_tool(memory)  # type: ignore[call-arg]
    with pytest.raises(OptionError, match="kind: expected 1 to 512 bytes"):
        remember_tool(memory, user_id="ann", kind="")
    with pytest.raises(ScopeError, match=r"scope: expected a scope: a cell"):
        search_tool(index, scope=None)  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match=r"index: expected an hr\.Index"):
        search_tool(memory, scope="ann")  # type: ignore[arg-type]
    with pytest.raises(UnknownOptionError, match="did you mean limit"):
        recall_tool(memory, user_id="ann", top_k=3)  # type: ignore[call-arg]


def hybrid_index(**schema: Any) -> hr.Index:
    table = pa.table({"id": ["x", "y"], "team": ["red", "red"], "text": ["tea", "milk"]})
    vectors = {"v": HashEmbedder(dim=16).embed(["tea", "milk"])}
    options: dict[str, Any] = {"key": "id", "cell": "team", "text": "text"} | schema
    return hr.Index.build(table, hr.Schema(**options), vectors=vectors)


def test_a_search_that_no_index_could_follow_makes_no_tool() -> None:
    index = hybrid_index(vector="v", stored=("text",))
    faults: list[tuple[dict[str, Any], str]] = [
        ({"limit": -1}, "limit: expected an int >= 1, got -1"),
        ({"limit": 101}, r"limit: expected <= 100 \(depth\), got 101"),
        ({"columns": ("titel",)}, "titel"),
        ({"filter": hr.Filter(year=1)}, "year"),
        ({"scope": ("red", "x")}, "scope"),
    ]
    for options, message in faults:
        with pytest.raises(hr.HyrecallError, match=message):
            search_tool(index, **{"scope": "red"} | options)
    words = hr.Index.build(
        pa.table({"id": ["x"], "team": ["red"], "text": ["tea"]}),
        hr.Schema(key="id", cell="team", text="text"),
    )
    with pytest.raises(OptionError, match=r"embed: expected None \(the index has no vector arm\)"):
        search_tool(words, scope="red", embed=lambda query: [1.0])
    assert len(json.loads(run(search_tool(words, scope="red", limit=101), {"query": "tea"}))) == 1


def test_an_index_that_no_words_search_needs_what_embeds_them() -> None:
    with pytest.raises(OptionError, match=r"embed: expected one \(the index has no text arm\)"):
        search_tool(hybrid_index(vector="v", text=()), scope="red")
    asked: list[str] = []

    class Counting(HashEmbedder):
        def embed(self, texts: Any) -> Any:
            asked.extend(texts)
            return super().embed(texts)

    index = hr.Index.build(
        pa.table({"id": ["x"], "team": ["red"], "text": ["tea"]}),
        hr.Schema(key="id", cell="team", vector="v", stored=("text",)),
        embed=EmbedBy(Counting(dim=16), "text"),
    )
    tool = search_tool(index, scope="red")
    assert asked == ["tea"]  # the document; a tool that is made asks nothing
    assert len(json.loads(run(tool, {"query": "milk"}))) == 1


def test_a_query_is_embedded_by_an_async_function_too() -> None:
    async def embed(query: str) -> Any:
        return HashEmbedder(dim=16).embed([query])[0]

    for schema in ({}, {"text": ()}):
        tool = search_tool(hybrid_index(vector="v", **schema), scope="red", embed=embed, limit=1)
        (found,) = json.loads(run(tool, {"query": "milk"}))
        assert (found["id"], found["text"]) == ("y", "" if schema else "milk")


def test_an_index_with_one_audience_is_searched_without_a_scope_that_is_named() -> None:
    index = hr.Index.build(
        pa.table({"id": ["x"], "text": ["tea"]}), hr.Schema(key="id", cell=None, text="text")
    )
    assert len(json.loads(run(search_tool(index, scope=None), {"query": "tea"}))) == 1
    with pytest.raises(TypeError, match="scope"):
        search_tool(index)  # type: ignore[call-arg]


def test_a_degraded_reply_warns() -> None:
    tool = search_tool(degraded_index(), scope="ann")
    with pytest.warns(DegradedWarning, match=r"crashed \(RuntimeError"):
        assert len(json.loads(run(tool, {"query": "tea"}))) == 1


def test_a_run_without_a_user_fails_and_reads_nothing(memory: MemorySync) -> None:
    with pytest.raises(ScopeError, match="user_id"):
        run(recall_tool(memory, user_id=whose), {"query": "build"}, None)
    with pytest.raises(ScopeError, match="user_id"):
        run(remember_tool(memory, user_id=whose), {"text": "lost"}, None)
    assert {one.id for one in memory.list(user_id=EVERYONE)} == {"a", "b"}
