"""Haystack over documents in cells: a document store, and keyword, embedding and hybrid retrievers.

The store lies in :mod:`hyrecall.adapters.haystack_store`, the retrievers in
:mod:`hyrecall.adapters.haystack_retrievers`.
"""

from hyrecall.adapters.extras import needs_extra

with needs_extra("haystack"):
    import haystack as _haystack  # noqa: F401

from hyrecall.adapters.haystack_retrievers import (
    HyrecallEmbeddingRetriever,
    HyrecallHybridRetriever,
    HyrecallKeywordRetriever,
)
from hyrecall.adapters.haystack_store import HyrecallDocumentStore

__all__ = [
    "HyrecallDocumentStore",
    "HyrecallEmbeddingRetriever",
    "HyrecallHybridRetriever",
    "HyrecallKeywordRetriever",
]
