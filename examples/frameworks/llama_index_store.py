"""LlamaIndex: a user's documents by words, by vectors and by both, and memories of conversations.

A real program embeds with a model, such as ``OpenAIEmbedding``; a class that hashes words plays it
here, so that the example runs without a network and without a key.
"""

from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.memory import Memory
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters

from hyrecall.adapters.llama_index import HyrecallMemoryBlock, HyrecallVectorStore
from hyrecall.embed import HashEmbedder
from hyrecall.memory import MemorySync
from hyrecall import recipes as loom


class Words(BaseEmbedding):
    """Embeds by hashing words."""

    def _get_text_embedding(self, text: str) -> list[float]:
        made: list[float] = HashEmbedder(dim=64).embed([text])[0].tolist()
        return made

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


# A store has a cell, here a user, or it is not made.
store = HyrecallVectorStore(cell="ann", attributes={"year": int})
texts = ["The build runs on Debian 12", "Ann drinks oolong tea", "The build takes an hour"]
index = VectorStoreIndex.from_documents(
    [Document(text=text, metadata={"year": 2024 + at}) for at, text in enumerate(texts)],
    storage_context=StorageContext.from_defaults(vector_store=store),
    embed_model=Words(),
)

question = "what does the build run on"
for mode in ("default", "text_search", "hybrid", "mmr"):
    retriever = index.as_retriever(vector_store_query_mode=mode, similarity_top_k=2)
    print(mode, [one.node.get_content() for one in retriever.retrieve(question)])

hybrid = index.as_retriever(vector_store_query_mode="hybrid", alpha=0.5, similarity_top_k=1)
assert hybrid.retrieve(question)[0].node.get_content() == texts[0]
late = MetadataFilters(filters=[MetadataFilter(key="year", value=2025, operator=FilterOperator.GT)])
assert [one.node.get_content() for one in index.as_retriever(filters=late).retrieve(question)] == [
    texts[2]
]
of_bob = index.as_retriever(vector_store_kwargs={"scope": "bob"})
assert of_bob.retrieve(question) == []

# What leaves the short-term memory of one conversation is recalled in the next, for its user alone.
with MemorySync.in_memory(recipe=loom, embedder=None) as memories:
    told = Memory.from_defaults(
        session_id="monday", token_limit=20, token_flush_size=5, tokenizer_fn=str.split,
        memory_blocks=[HyrecallMemoryBlock(memory=memories, user_id="ann")],
    )  # fmt: skip
    told.put(ChatMessage(role="user", content="My cat is called Miso"))
    for _ in range(8):
        told.put(ChatMessage(role="user", content="and so on"))
    for user, knows in (("ann", True), ("bob", False)):
        block = HyrecallMemoryBlock(memory=memories, user_id=user, limit=1)
        asked = Memory.from_defaults(tokenizer_fn=str.split, memory_blocks=[block])
        prompt = " ".join(one.content or "" for one in asked.get("What is my cat called?"))
        assert ("Miso" in prompt) is knows
