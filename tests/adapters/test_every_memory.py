"""What recalls for a user, in any framework: a memory, a tool of a model or a storage."""

import asyncio
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest

import hyrecall as hr
from adapters.agent_tools import call, run
from adapters.degraded_world import degraded_store
from adapters.examples import adapter
from hyrecall.adapters.degraded import DegradedWarning
from hyrecall.errors import DTypeError, ScopeError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ImportWarning")


class Asked(NamedTuple):
    """How something that recalls is made with a store and a user, and what it answers a query."""

    make: Callable[..., Any]
    ask: Callable[[Any, str], object]


def autogen_memory() -> Asked:
    def ask(memory: Any, query: str) -> object:
        return [one.content for one in asyncio.run(memory.query(query)).results]

    return Asked(partial(adapter("autogen").HyrecallMemory, kind="episodic"), ask)


def autogen_tool() -> Asked:
    made = adapter("autogen").recall_tool
    from autogen_core import CancellationToken

    return Asked(
        made, lambda tool, query: asyncio.run(tool.run_json({"query": query}, CancellationToken()))
    )


def openai_agents_tool() -> Asked:
    made = adapter("openai_agents").recall_tool
    return Asked(made, lambda tool, query: call(tool, "nobody", query))


def pydantic_ai_tool() -> Asked:
    def ask(tool: Any, query: str) -> object:
        return [one["text"] for one in json.loads(run(tool, {"query": query}))]

    return Asked(adapter("pydantic_ai").recall_tool, ask)


def crewai_tool() -> Asked:
    return Asked(adapter("crewai").HyrecallRecallTool, lambda tool, query: tool.run(query=query))


def crewai_external() -> Asked:
    def ask(storage: Any, query: str) -> object:
        return [one["content"] for one in storage.search(query, 5, 0.0)]

    return Asked(adapter("crewai").HyrecallExternalStorage, ask)


def llama_index_block() -> Asked:
    made = adapter("llama_index").HyrecallMemoryBlock
    from llama_index.core.base.llms.types import ChatMessage

    return Asked(made, lambda block, query: asyncio.run(block.aget([ChatMessage(content=query)])))


RECALLING = {
    made.__name__: made
    for made in (
        *(autogen_memory, autogen_tool, openai_agents_tool, pydantic_ai_tool),
        *(crewai_tool, crewai_external, llama_index_block),
    )
}
recalling = pytest.mark.parametrize("name", RECALLING)
NOTHING: tuple[object, ...] = ("", [], "No memories were found.")


@pytest.fixture
def memory() -> Iterator[Any]:
    pytest.importorskip("apsw", reason="the extra [memory] is not installed")
    from hyrecall.memory import MemorySync

    with MemorySync.in_memory(recipe=hr.recipes.loom, embedder=None) as store:
        store.remember("The build\nruns on Debian 12", user_id="ann")
        store.remember("The build of bob runs on Fedora", user_id="bob")
        yield store


@recalling
def test_a_user_s_memories_are_recalled_and_no_other_s(name: str, memory: Any) -> None:
    make, ask = RECALLING[name]()
    told = str(ask(make(memory=memory, user_id="ann"), "build"))
    assert "Debian 12" in told
    assert "Fedora" not in told
    assert ask(make(memory=memory, user_id="eve"), "build") in NOTHING


@recalling
def test_what_only_fills_a_list_is_not_recalled(name: str, memory: Any) -> None:
    make, ask = RECALLING[name]()
    assert memory.search("zebra", user_id="ann")[0].is_fill
    assert ask(make(memory=memory, user_id="ann"), "zebra") in NOTHING


@recalling
@pytest.mark.parametrize("user", [None, "", " ", 7])
def test_what_has_no_user_is_not_made(name: str, user: Any, memory: Any) -> None:
    make, _ = RECALLING[name]()
    with pytest.raises(ScopeError, match=r"user_id: expected the id of the user .* not blank"):
        make(memory=memory, user_id=user)
    with pytest.raises(TypeError, match="user_id"):
        make(memory=memory)


@recalling
def test_what_no_search_could_follow_is_not_made(name: str, memory: Any) -> None:
    make, _ = RECALLING[name]()
    with pytest.raises(DTypeError, match=r"memory: expected a hyrecall\.memory\.Memory"):
        make(memory=object(), user_id="ann")
    if name != "crewai_external":
        with pytest.raises(ValueError, match="limit"):
            make(memory=memory, user_id="ann", limit=0)
    if not name.startswith(("crewai", "llama_index")):
        for kind, told in (("", "1 to 512 bytes"), (" ", "1 to 512 bytes"), (5, "a str")):
            with pytest.raises(hr.HyrecallError, match=f"kind: expected {told}"):
                make(memory=memory, user_id="ann", kind=kind)


@recalling
def test_a_degraded_recall_warns(name: str) -> None:
    make, ask = RECALLING[name]()
    with degraded_store() as store:
        made = make(memory=store, user_id="ann")
        with pytest.warns(DegradedWarning, match="embed_unavailable"):
            assert "green tea" in str(ask(made, "tea"))
