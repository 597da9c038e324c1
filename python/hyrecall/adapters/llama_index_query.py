"""LlamaIndex's queries as recalls, and its nodes as documents of an index and back."""

from __future__ import annotations

from typing import Any, Final

from llama_index.core.schema import BaseNode, MetadataMode, TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from hyrecall.adapters.documents import Document, DocumentIndex
from hyrecall.adapters.llama_index_filters import all_of, filter_of, one_of
from hyrecall.ask.scoring import RRF
from hyrecall.ask.shaping import MMR
from hyrecall.base.arguments import as_int
from hyrecall.errors import OptionError, error

__all__ = ["document_of", "node_of", "read_depth", "read_query"]

_DENSE: Final = (VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.MMR)
_LEXICAL: Final = (VectorStoreQueryMode.TEXT_SEARCH, VectorStoreQueryMode.SPARSE)
_HYBRID: Final = (VectorStoreQueryMode.HYBRID,)
_MODES: Final = (*_DENSE, *_LEXICAL, *_HYBRID)
# The fields that only some modes read, and no mode reads the last two.
_READ_BY: Final = {
    "mmr_threshold": (VectorStoreQueryMode.MMR,), "alpha": _HYBRID, "hybrid_top_k": _HYBRID,
    "sparse_top_k": (*_LEXICAL, *_HYBRID), "output_fields": (), "embedding_field": (),
}  # fmt: skip


def read_depth(depth: object) -> int:
    """Return the depth of a store's queries."""
    if (n := as_int(depth)) is None or n < 1:
        raise error(OptionError, "depth", "an int >= 1", repr(depth))
    return n


def read_query(
    query: VectorStoreQuery,
    documents: DocumentIndex,
    depth: int,
    mmr_threshold: float | None,
    more: dict[str, Any],
) -> dict[str, Any]:
    """Return the options of the recall that a query means, all but its scope.

    Raises
    ------
    OptionError
        A mode or option that an index cannot follow, or a query without what its mode needs.
    """
    mode, limit = VectorStoreQueryMode(query.mode), query.similarity_top_k
    _check(query, mode, more)
    if mmr_threshold is not None and mode != VectorStoreQueryMode.MMR:
        raise error(OptionError, "mmr_threshold", f"None, for mode {mode.value!r}", mmr_threshold)
    options: dict[str, Any] = {}
    if mode == VectorStoreQueryMode.MMR:
        given = mmr_threshold if query.mmr_threshold is None else query.mmr_threshold
        options["shaping"] = MMR(0.5 if given is None else given, relevance="raw")
    elif mode in _LEXICAL:
        limit = query.sparse_top_k or limit
    elif mode == VectorStoreQueryMode.HYBRID:
        limit = query.hybrid_top_k or limit
        options["fusion"] = None if query.alpha is None else RRF(alpha=query.alpha)
    if mode not in (VectorStoreQueryMode.DEFAULT, *_LEXICAL):
        most = max(limit, query.sparse_top_k or 0)
        if most > depth:
            wish, how = (
                f"at most {depth} (depth of the store)",
                f"HyrecallVectorStore(depth={most})",
            )
            raise error(OptionError, f"query of mode {mode.value!r}", wish, most, how)
    # LlamaIndex's own index passes an empty list where it restricts nothing.
    options["filter"] = all_of(
        filter_of(query.filters, documents),
        one_of("id", query.node_ids or None),
        one_of("doc_id", query.doc_ids or None),
    )
    return {
        "text": None if mode in _DENSE else query.query_str,
        "vector": None if mode in _LEXICAL else query.query_embedding,
        "limit": limit,
        "depth": depth,
        **options,
    }


def _check(query: VectorStoreQuery, mode: VectorStoreQueryMode, more: dict[str, Any]) -> None:
    """Refuse what would be ignored, and a query without what its mode needs."""
    if mode not in _MODES:
        known = [one.value for one in _MODES]
        raise error(OptionError, "query.mode", f"one of {known}", repr(mode.value))
    needs = {"query_embedding": mode not in _LEXICAL, "query_str": mode not in _DENSE}
    for name, is_needed in needs.items():
        if is_needed and getattr(query, name) is None:
            raise error(OptionError, f"query.{name}", f"one, for mode {mode.value!r}", "None")
    for name, modes in _READ_BY.items():
        if getattr(query, name) is not None and mode not in modes:
            wish = f"None, for mode {mode.value!r}" if modes else "None"
            raise error(OptionError, f"query.{name}", wish, repr(getattr(query, name)))
    if more:
        raise error(OptionError, "query", "scope=, mmr_threshold= or no option", sorted(more))


def document_of(node: BaseNode) -> Document:
    """Return a node as a document; ``_node_content`` of the metadata has its other fields."""
    text = node.get_content(metadata_mode=MetadataMode.NONE)
    metadata = node_to_metadata_dict(node, remove_text=True)
    return Document(id=node.node_id, text=text, vector=node.embedding, metadata=metadata)


def node_of(document: Document) -> BaseNode:
    """Return the node that a document was; of another program's document, a text node."""
    metadata = dict(document.metadata)
    if "_node_content" not in metadata:
        return TextNode(id_=document.id, text=document.text or "", metadata=metadata)
    return metadata_dict_to_node(metadata, text=document.text)
