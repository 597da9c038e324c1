"""Haystack over documents in cells: a document store, and keyword, embedding and hybrid retrievers.

The store lies in :mod:`hyrecall.adapters.haystack_store`, the retrievers in
:mod:`hyrecall.adapters.haystack_retrievers`.
"""

from hyrecall.errors import MissingExtraError, error

try:
    import haystack as _haystack  # noqa: F401
except ImportError as fault:
    _wish = "the extra [haystack] (pip install 'hyrecall[haystack]')"
    _got = f"no package {fault.name}"
    raise error(MissingExtraError, "hyrecall.adapters.haystack", _wish, _got) from None

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
