"""LlamaIndex over documents in cells and over a memory: vector store, retriever, memory block.

The store lies in :mod:`hyrecall.adapters.llama_index_store`, the retriever and the memory block in
:mod:`hyrecall.adapters.llama_index_recall`.
"""

from hyrecall.adapters.extras import needs_extra

with needs_extra("llama-index"):
    import llama_index.core as _llama_index  # noqa: F401

from hyrecall.adapters.llama_index_recall import HyrecallMemoryBlock, HyrecallRetriever
from hyrecall.adapters.llama_index_store import HyrecallVectorStore

__all__ = ["HyrecallMemoryBlock", "HyrecallRetriever", "HyrecallVectorStore"]
