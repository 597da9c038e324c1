"""LlamaIndex's retriever over an index of ours, and its memory block over a store."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip(
    "llama_index.core", reason="LlamaIndex is not installed: .ci/frameworks llama_index"
)

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory as LlamaMemory
from llama_index.core.schema import QueryBundle
from sqlalchemy.ext.asyncio import create_async_engine

import hyrecall as hr
from adapters.degraded_world import degraded_index
from adapters.llama_index_world import Words
from hyrecall.adapters.degraded import DegradedWarning
from hyrecall.adapters.documents import DocumentIndex
from hyrecall.adapters.llama_index import HyrecallMemoryBlock, HyrecallRetriever
from hyrecall.embed import HashEmbedder
from hyrecall.errors import DTypeError, OptionError, ScopeError
from hyrecall.memory import Memory, MemorySync


def test_the_retriever_gives_what_the_index_gives() -> None:
    texts = ["green tea", "green coffee", "tea of the blue team"]
    rows = {"id": [1, 2, 3], "team": ["red", "red", "blue"], "text": texts, "year": [1, 2, 3]}
    schema = hr.Schema(key="id", cell="team", text="text", vector="v", attributes="year")
    vectors = {"v": HashEmbedder(dim=64).embed(texts)}
    index = hr.Index.build(pa.table(rows), schema, vectors=vectors)
    retriever = HyrecallRetriever(
        index, scope="red", embed_model=Words(), columns=("year",), fusion=hr.RRF()
    )
    vector = Words().get_query_embedding("green tea")
    expected = index.recall_one(text="green tea", vector=vector, scope="red", fusion=hr.RRF())
    for found in (retriever.retrieve("green tea"), asyncio.run(retriever.aretrieve("green tea"))):
        assert [(one.node.node_id, one.score) for one in found] == [
            (str(hit.key), hit.score) for hit in expected
        ]
        assert [one.node.metadata for one in found] == [{"year": 1}, {"year": 2}]
        assert found[0].node.get_content() == "green tea"
    by_words = HyrecallRetriever(index, scope="red", limit=1, filter=hr.Filter(year=2))
    assert [one.node.node_id for one in by_words.retrieve("green tea")] == ["2"]
    bundle = QueryBundle("", embedding=vector)
    assert by_words.retrieve(bundle)[0].score == pytest.approx(
        index.recall_one(vector=vector, scope="red", filter=hr.Filter(year=2))[0].score
    )


def test_a_retriever_without_a_scope_is_not_made() -> None:
    documents = DocumentIndex()
    with pytest.raises(ScopeError, match="scope: expected a scope: a cell"):
        HyrecallRetriever(documents.index, scope=None)
    with pytest.raises(TypeError, match="scope"):
        HyrecallRetriever(documents.index)  # type: ignore[call-arg]
    with pytest.raises(ScopeError, match="scope"):
        HyrecallRetriever(documents.index, scope=("ann", "bob"))
    with pytest.raises(DTypeError, match=r"index: expected an hr\.Index"):
        HyrecallRetriever(documents, scope="ann")  # type: ignore[arg-type]


def test_a_retriever_follows_the_arms_and_the_cells_of_its_index() -> None:
    rows = {"id": ["a"], "team": ["red"], "text": ["green tea"]}
    words = hr.Index.build(pa.table(rows), hr.Schema(key="id", cell="team", text="text"))
    assert HyrecallRetriever(words, scope="red").retrieve("") == []
    vectors = hr.Index.build(
        pa.table({"id": ["a"], "team": ["red"]}),
        hr.Schema(key="id", cell="team", vector="v"),
        vectors={"v": HashEmbedder(dim=64).embed(["green tea"])},
    )
    (found,) = HyrecallRetriever(vectors, scope="red", embed_model=Words()).retrieve("green tea")
    assert (found.node.node_id, found.node.get_content()) == ("a", "")
    for index, model, wish in ((words, Words(), "None"), (vectors, None, "one")):
        with pytest.raises(OptionError, match=rf"embed_model: expected {wish} \(the index has no"):
            HyrecallRetriever(index, scope="red", embed_model=model)
    for options in ({"limit": -1}, {"limit": "9"}, {"columns": ("x",)}):
        with pytest.raises(OptionError, match=f"{next(iter(options))}: expected"):
            HyrecallRetriever(words, scope="red", **options)  # type: ignore[arg-type]
    everyone = hr.Index.build(pa.table(rows), hr.Schema(key="id", cell=None, text="text"))
    assert len(HyrecallRetriever(everyone, scope=None).retrieve("tea")) == 1


def test_a_retriever_ranks_at_one_depth_whatever_its_limit() -> None:
    n = 300
    # Each text is another one: LlamaIndex of a year ago drops nodes whose texts are the same.
    texts = ["tea " * (at % 7 + 1) + f"w{at % 11} n{at}" for at in range(n)]
    index = hr.Index.build(
        pa.table({"id": [str(at) for at in range(n)], "text": texts}),
        hr.Schema(key="id", cell=None, text="text", vector="v"),
        vectors={"v": HashEmbedder(dim=64).embed([f"w{at % 13} w{at % 11}" for at in range(n)])},
    )
    with pytest.raises(OptionError, match=r"limit: expected <= 100 \(depth\), got 101; pass depth"):
        HyrecallRetriever(index, scope=None, embed_model=Words(), limit=101)

    def found(limit: int, depth: int = 200) -> list[str]:
        made = HyrecallRetriever(
            index, scope=None, embed_model=Words(), limit=limit, depth=depth, fusion=hr.RRF()
        )
        return [one.node.node_id for one in made.retrieve("tea w5")]

    assert found(60) == found(150)[:60]
    assert found(60, depth=100) != found(150)[:60]  # a depth that follows the limit is seen


def test_a_degraded_retrieval_warns() -> None:
    retriever = HyrecallRetriever(degraded_index(), scope="ann")
    with pytest.warns(DegradedWarning, match=r"vector did not run: crashed \(RuntimeError\)"):
        (found,) = retriever.retrieve("tea")
    assert found.node.node_id == "1"


# ---- memory block ----


@pytest.fixture
def engine() -> Iterator[Any]:
    """Return the database of short-term memories, closed at the end."""
    made = create_async_engine("sqlite+aiosqlite:///:memory:")
    yield made
    asyncio.run(made.dispose())


def talk(block: HyrecallMemoryBlock, engine: Any, session: str, *texts: str) -> LlamaMemory:
    """Return a conversation whose short-term memory holds but a few words."""
    memory = LlamaMemory.from_defaults(
        session_id=session,
        async_engine=engine,
        token_limit=20,
        token_flush_size=5,
        chat_history_token_ratio=0.5,
        memory_blocks=[block],
        tokenizer_fn=str.split,
    )
    for at, text in enumerate(texts):
        memory.put(ChatMessage(role="assistant" if at % 2 else "user", content=text))
    return memory


def test_what_a_conversation_forgets_its_user_recalls_in_another(engine: Any) -> None:
    with MemorySync.in_memory(embedder=None) as store:
        ann = HyrecallMemoryBlock(memory=store, user_id="ann")
        talk(ann, engine, "s1", "My cat is called Miso", "What a nice name", *["and so on"] * 8)
        kept = store.list(user_id="ann")
        first = next(one for one in kept if "Miso" in one.text)
        assert (first.session_id, first.metadata) == ("s1", {"role": "user"})
        for user, expected in (("ann", True), ("bob", False)):
            block = HyrecallMemoryBlock(memory=store, user_id=user, limit=1)
            found = talk(block, engine, "s2").get("What is my cat called?")
            assert any("Miso" in (one.content or "") for one in found) is expected


def test_a_memory_block_takes_an_async_store() -> None:
    async def main() -> str:
        async with Memory.in_memory(embedder=None) as store:
            block = HyrecallMemoryBlock(memory=store, user_id="ann", name="past", priority=1)
            await block.aput([ChatMessage(role="user", content="Miso is a cat")])
            await block.aput([ChatMessage(role="user", content="  ")])
            assert await block.aget([]) == ""
            return await block.aget([ChatMessage(role="user", content="who is Miso?")])

    assert asyncio.run(main()) == "Miso is a cat"


def test_a_memory_block_leaves_out_what_only_fills_a_list() -> None:
    with MemorySync.in_memory(recipe=hr.recipes.loom, embedder=None) as store:
        store.remember("Miso is a cat", user_id="ann")
        assert store.search("zebra", user_id="ann")[0].is_fill
        block = HyrecallMemoryBlock(memory=store, user_id="ann")
        assert asyncio.run(block.aget([ChatMessage(role="user", content="zebra")])) == ""
        told = asyncio.run(block.aget([ChatMessage(role="user", content="zebra cat")]))
        assert told == "Miso is a cat"


def test_an_option_that_a_memory_block_does_not_have_is_refused() -> None:
    with MemorySync.in_memory(embedder=None) as store:
        for option in ({"top_k": 3}, {"limit": 0}, {"context_messages": 0}):
            with pytest.raises(ValueError, match=next(iter(option))):
                HyrecallMemoryBlock(memory=store, user_id="ann", **option)


def test_a_memory_block_without_a_user_is_not_made() -> None:
    with MemorySync.in_memory(embedder=None) as store:
        with pytest.raises(ScopeError, match="user_id"):
            HyrecallMemoryBlock(memory=store, user_id=None)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="user_id"):
            HyrecallMemoryBlock(memory=store)  # type: ignore[call-arg]
    with pytest.raises(DTypeError, match=r"memory: expected a hyrecall\.memory\.Memory"):
        HyrecallMemoryBlock(memory=object(), user_id="ann")  # type: ignore[arg-type]
