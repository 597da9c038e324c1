"""AutoGen: a memory of one user, and the tool that recalls."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("autogen_core", reason="autogen-core is not installed")

from autogen_core import CancellationToken, Image
from autogen_core.memory import MemoryContent, MemoryMimeType
from autogen_core.model_context import BufferedChatCompletionContext
from autogen_core.models import SystemMessage, UserMessage

import hyrecall as hr
from hyrecall.adapters.autogen import HyrecallMemory, recall_tool
from hyrecall.memory import Memory, MemorySync


@pytest.fixture
def store() -> Iterator[MemorySync]:
    with MemorySync.in_memory(embedder=None) as made:
        yield made


def text(said: str, **metadata: Any) -> MemoryContent:
    return MemoryContent(content=said, mime_type=MemoryMimeType.TEXT, metadata=metadata or None)


def test_what_was_added_is_found_with_its_metadata(store: MemorySync) -> None:
    memory = HyrecallMemory(store, user_id="ann")

    async def use() -> Any:
        await memory.add(text("green tea", source="menu"))
        await memory.add(
            MemoryContent(content={"drink": "oolong tea"}, mime_type="application/json")
        )
        await memory.add(text("coffee"))
        return (await memory.query(text("tea"))).results

    found = asyncio.run(use())
    assert sorted(str(one.content) for one in found) == ["green tea", "{'drink': 'oolong tea'}"]
    (green,) = [one for one in found if one.content == "green tea"]
    assert green.metadata is not None
    assert green.metadata["source"] == "menu"
    assert set(green.metadata) == {"source", "id", "score", "occurred_at"}
    assert {one.mime_type for one in found} == {"text/plain", "application/json"}
    scores = [one.metadata["score"] for one in found if one.metadata]
    assert scores == sorted(scores, reverse=True)


def test_a_memory_is_its_users_and_outlives_the_store(tmp_path: Path) -> None:
    async def use(add: bool) -> Any:
        async with Memory.open(tmp_path / "m", embedder=None) as store:
            memories = [HyrecallMemory(store, user_id=user) for user in ("ann", "bob")]
            if add:
                await memories[0].add(text("green tea"))
            return [len((await one.query("tea")).results) for one in memories]

    assert asyncio.run(use(True)) == asyncio.run(use(False)) == [1, 0]


def test_the_context_gets_what_its_last_message_asks_for(store: MemorySync) -> None:
    memory = HyrecallMemory(store, user_id="ann", limit=1)

    async def use(said: list[Any]) -> Any:
        context = BufferedChatCompletionContext(buffer_size=9)
        for one in said:
            await context.add_message(UserMessage(content=one, source="ann"))
        result = await memory.update_context(context)
        return await context.get_messages(), result.memories.results

    asyncio.run(memory.add(text("green tea")))
    asyncio.run(memory.add(text("black coffee")))
    messages, found = asyncio.run(use(["coffee?", "or tea?"]))
    assert isinstance(messages[-1], SystemMessage)
    assert messages[-1].content.endswith("\n1. green tea\n")
    assert [one.content for one in found] == ["green tea"]
    for said in ([], ["nothing of it"], [""]):
        messages, found = asyncio.run(use(said))
        assert len(messages) == len(said)
        assert found == []


def test_clear_forgets_what_was_added_and_nothing_else(store: MemorySync) -> None:
    memory = HyrecallMemory(store, user_id="ann")
    store.remember("tea of another kind", user_id="ann")
    asyncio.run(HyrecallMemory(store, user_id="bob").add(text("tea of bob")))
    asyncio.run(memory.add(text("tea")))
    asyncio.run(memory.clear())
    assert asyncio.run(memory.query("tea")).results == []
    assert [one.text for one in store.list(user_id="ann")] == ["tea of another kind"]
    assert len(store.list(user_id="bob")) == 1


@pytest.mark.parametrize("name", ["user_id", "org", "workspace", "partitions"])
def test_a_query_never_names_another_user(store: MemorySync, name: str) -> None:
    memory = HyrecallMemory(store, user_id="ann")
    with pytest.raises(hr.ScopeError, match=f"{name}: expected none: this memory is that of 'ann'"):
        asyncio.run(memory.query("tea", **{name: "bob"}))


def test_options_of_a_query_are_those_of_search(store: MemorySync) -> None:
    memory = HyrecallMemory(store, user_id="ann")
    for said in ("green tea", "black tea"):
        asyncio.run(memory.add(text(said)))
    assert len(asyncio.run(memory.query("tea", limit=1)).results) == 1
    with pytest.raises(hr.UnknownOptionError, match="top_k"):
        asyncio.run(memory.query("tea", top_k=1))


def test_bytes_and_images_are_refused(store: MemorySync) -> None:
    from PIL import Image as Pillow

    memory = HyrecallMemory(store, user_id="ann")
    image = Image(Pillow.new("RGB", (1, 1)))
    for content, mime_type in ((b"x", MemoryMimeType.BINARY), (image, MemoryMimeType.IMAGE)):
        with pytest.raises(hr.DTypeError, match="content: expected a str or a dict of JSON"):
            asyncio.run(memory.add(MemoryContent(content=content, mime_type=mime_type)))


def test_a_cancelled_query_raises(store: MemorySync) -> None:
    token = CancellationToken()
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(HyrecallMemory(store, user_id="ann").query("tea", token))


def test_a_memory_that_others_kept_is_a_text(store: MemorySync) -> None:
    for metadata in ({"mime_type": "text/html"}, {"content": 5, "metadata": [1]}):
        store.remember("green tea", user_id="ann", kind="content", metadata=metadata)
    found = asyncio.run(HyrecallMemory(store, user_id="ann").query("tea")).results
    assert [(one.content, one.mime_type) for one in found] == [("green tea", "text/plain")] * 2


def test_a_tool_has_the_name_that_it_is_given(store: MemorySync) -> None:
    assert recall_tool(store, user_id="ann", name="look_up").schema["name"] == "look_up"
