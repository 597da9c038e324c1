"""LlamaIndex over documents in cells and over a memory: vector store, retriever, memory block."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_, or_
from pathlib import Path
from typing import Any, Final

from hyrecall.adapters.documents import (
    ORDERS,
    AttributeType,
    Collection,
    Document,
    DocumentIndex,
    all_of,
)
from hyrecall.adapters.extras import (
    at_least_1,
    awaiting,
    check_arms,
    check_index,
    check_limit,
    column_types,
    needs_extra,
    search,
    text_of,
)
from hyrecall.adapters.memories import Store, UserMemories
from hyrecall.ask.filter_json import FilterLike
from hyrecall.ask.filters import AllOf, Between, Filter, IsNull
from hyrecall.ask.scope import Scope
from hyrecall.ask.scoring import RRF, Fusion
from hyrecall.errors import OptionError, error
from hyrecall.hits.hits import Hit
from hyrecall.index import Index
from hyrecall.stages.choice import MMR

with needs_extra("llama-index"):
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.bridge.pydantic import ConfigDict, Field, PrivateAttr
    from llama_index.core.memory import BaseMemoryBlock
    from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle, TextNode
    from llama_index.core.vector_stores.types import (
        BasePydanticVectorStore,
        FilterCondition,
        FilterOperator,
        MetadataFilter,
        MetadataFilters,
        VectorStoreQuery,
        VectorStoreQueryMode,
        VectorStoreQueryResult,
    )
    from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict


__all__ = ["HyrecallMemoryBlock", "HyrecallRetriever", "HyrecallVectorStore"]


# ---- LlamaIndex's retriever over an index of yours, and its memory block over a store ----


class HyrecallRetriever(BaseRetriever):
    """Retrieves rows of an index, in one scope, by words and, with an embedding model, by vector.

    Parameters
    ----------
    index : Index
    scope : cell or Scope
        What :meth:`hyrecall.Index.recall` takes; None only for an index with one audience
        (``cell=None``). There is no default.
    embed_model : BaseEmbedding, optional
        Embeds queries that bring no embedding; default: those are searched by words alone. An index
        without a text arm needs it, one without vectors refuses it.
    limit : int, default 10
        At least 1. In an index with several arms at most ``depth``.
    depth : int, default 100
        How many rows each arm hands on: one depth for all queries, so that a smaller limit gives
        the first rows of a larger one.
    filter : Filter, optional
    fusion : RRF or WeightedSum or Max or DBSF, optional
        As in :meth:`hyrecall.Index.recall`.
    columns : tuple of str, default ()
        Columns for the metadata of the nodes.
    callback_manager, verbose
        Of LlamaIndex's retrievers.

    Raises
    ------
    ScopeError, DTypeError, OptionError
        No scope; no index; an option that the index cannot follow.
    """

    def __init__(
        self, index: Index, *, scope: object, embed_model: BaseEmbedding | None = None,
        limit: int = 10, filter: FilterLike | None = None, fusion: Fusion | None = None,  # noqa: A002
        columns: tuple[str, ...] = (), depth: int = 100, callback_manager: Any = None,
        verbose: bool = False,
    ) -> None:  # fmt: skip
        """Check the index and the scope."""
        check_arms(check_index(index), "embed_model", embed_model)
        index.count(scope=scope, filter=filter)  # refuses what no recall would take
        column_types(index, columns)
        check_limit(limit, depth, index)
        super().__init__(callback_manager=callback_manager, verbose=verbose)
        self._index, self._embed_model, self._columns = index, embed_model, columns
        self._options: dict[str, Any] = {
            "scope": scope, "filter": filter, "limit": limit, "fusion": fusion, "columns": columns,
            "depth": depth,
        }  # fmt: skip

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        vector = query_bundle.embedding
        if vector is None and self._embed_model is not None:
            vector = self._embed_model.get_agg_embedding_from_queries(query_bundle.embedding_strs)
        return self._recall(query_bundle.query_str, vector)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        vector, model = query_bundle.embedding, self._embed_model
        if vector is None and model is not None:
            vector = await model.aget_agg_embedding_from_queries(query_bundle.embedding_strs)
        return await to_thread(self._recall, query_bundle.query_str, vector)

    def _recall(self, text: str, vector: list[float] | None) -> list[NodeWithScore]:
        if not text and vector is None:
            return []  # a query without words finds nothing
        hits = search(self._index, text or None, vector, **self._options)
        return [NodeWithScore(node=self._node(hit), score=hit.score) for hit in hits]

    def _node(self, hit: Hit) -> TextNode:
        metadata = {name: hit[name] for name in self._columns}
        return TextNode(id_=str(hit.key), text=text_of(hit, self._index), metadata=metadata)


class HyrecallMemoryBlock(BaseMemoryBlock[str]):
    """Keeps what leaves a conversation's short-term memory, and recalls it for the same user.

    Parameters
    ----------
    memory : Memory or MemorySync
    user_id : str
        Whose memories. There is no default.
    org, workspace : str, optional
        The partition around the user.
    limit : int, default 5
        At most so many memories in a prompt.
    context_messages : int, default 3
        How many of the last messages make the query.
    name, description, priority, accept_short_term_memory
        Of LlamaIndex's memory blocks.

    Raises
    ------
    ScopeError, DTypeError
        No user; no store.

    Notes
    -----
    Memories of all sessions are recalled; each keeps the session that it comes from. What a recipe
    only fills its list with is left out.
    """

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(default=5, ge=1)
    context_messages: int = Field(default=3, ge=1)
    _memories: UserMemories = PrivateAttr()

    def __init__(
        self, *, memory: Store, user_id: str, org: str | None = None, workspace: str | None = None,
        name: str = "memories", **options: Any,
    ) -> None:  # fmt: skip
        """Check the store and the user."""
        memories = UserMemories(memory, user_id, org, workspace)
        super().__init__(name=name, **options)
        self._memories = memories

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        last = (messages or [])[-self.context_messages :]
        query = "\n".join(text for text in map(_text, last) if text)
        if not query:
            return ""
        found = await self._memories.search(query, limit=self.limit)
        return "\n".join(one.episode.full_text for one in found)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        for message in messages:
            if _text(message):
                await self._memories.call(
                    "remember", _text(message),
                    session_id=message.additional_kwargs.get("session_id"),
                    metadata={"role": str(message.role.value)},
                )  # fmt: skip


def _text(message: ChatMessage) -> str:
    return (message.content or "").strip()


# ---- LlamaIndex's metadata filters as filters of an index: declared fields only, AND, OR and NOT

_LISTS: Final = (FilterOperator.IN, FilterOperator.NIN, FilterOperator.ANY, FilterOperator.ALL)
_OF_LISTS: Final = (FilterOperator.CONTAINS, FilterOperator.ANY, FilterOperator.ALL)
_ANY_OF: Final = (
    *(FilterOperator.EQ, FilterOperator.IN), *(FilterOperator.CONTAINS, FilterOperator.ANY),
)  # fmt: skip


def one_of(name: str, ids: list[str] | None) -> Filter | None:
    """Return a filter that passes what has one of some ids; None for no ids asked."""
    return None if ids is None else Filter(**{name: ids})


def filter_of(given: MetadataFilters | None, collection: Collection) -> Filter | None:
    """Return the filter that LlamaIndex's filters mean; None for none."""
    parts = [
        filter_of(one, collection) if isinstance(one, MetadataFilters) else _read(one, collection)
        for one in (given.filters if given is not None else ())
    ]
    known = [one for one in parts if one is not None]
    if given is None or not known:
        return None
    if given.condition == FilterCondition.NOT:  # none of them holds
        return ~reduce(or_, known)
    return reduce(or_ if given.condition == FilterCondition.OR else and_, known)


def _read(given: MetadataFilter, collection: Collection) -> Filter:
    name, operator, value = given.key, FilterOperator(given.operator), given.value
    if operator == FilterOperator.IS_EMPTY:
        return _is_empty(name, collection)
    if operator in _OF_LISTS and not collection.holds_lists(name):
        wish = f"a field that is declared as a list, for {operator.value!r}"
        raise error(OptionError, "filter", wish, repr(name), "mode='text_search' searches texts")
    if isinstance(value, list) and operator not in _LISTS:
        raise error(OptionError, "filter", f"one value for {operator.value!r}", repr(value))
    values: list[Any] = value if isinstance(value, list) else [value]
    if operator in _ANY_OF:
        return collection.equal(name, values)
    if operator in (FilterOperator.NE, FilterOperator.NIN):
        return ~collection.equal(name, values)
    if operator == FilterOperator.ALL:
        return Filter(**{name: AllOf(*(collection.documents.value(name, one) for one in values))})
    if operator.value not in ORDERS:
        wish = "an operator that compares whole values"
        remedy = "mode='text_search' searches texts"
        raise error(OptionError, "filter", wish, repr(operator.value), remedy)
    if value is None:
        raise error(OptionError, "filter", f"a value for {operator.value!r}", "None")
    return collection.ordered(name, operator.value, value)


def _is_empty(name: str, collection: Collection) -> Filter:
    """Return the filter of null, and of the text or list that holds nothing."""
    if collection.holds_lists(name):
        return Filter(**{name: IsNull()}) | ~Filter(**{name: Between(None, None)})
    is_text = str(collection.documents.attributes.get(name, "string")).endswith("string")
    return collection.equal(name, ["", None] if is_text else [None], finds_null=True)


# ---- LlamaIndex's queries as recalls, and its nodes as documents of an index and back ----

_NAME: Final = "HyrecallVectorStore"
_DENSE: Final = (VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.MMR)
_LEXICAL: Final = (VectorStoreQueryMode.TEXT_SEARCH, VectorStoreQueryMode.SPARSE)
_HYBRID: Final = (VectorStoreQueryMode.HYBRID,)
_MODES: Final = (*_DENSE, *_LEXICAL, *_HYBRID)
# The fields that only some modes read, and no mode reads the last two.
_READ_BY: Final = {
    "mmr_threshold": (VectorStoreQueryMode.MMR,), "alpha": _HYBRID, "hybrid_top_k": _HYBRID,
    "sparse_top_k": (*_LEXICAL, *_HYBRID), "output_fields": (), "embedding_field": (),
}  # fmt: skip


def read_query(
    query: VectorStoreQuery, collection: Collection, depth: int, mmr_threshold: float | None,
    more: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Return the options of the recall that a query means, all but its scope."""
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
            wish, how = f"at most {depth} (depth of the store)", f"{_NAME}(depth={most})"
            raise error(OptionError, f"query of mode {mode.value!r}", wish, most, how)
    # LlamaIndex's own index passes an empty list where it restricts nothing.
    options["filter"] = all_of(
        filter_of(query.filters, collection),
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


# ---- LlamaIndex's vector store: nodes of one cell, by vector, by words, by both, or diverse ----


class HyrecallVectorStore(BasePydanticVectorStore):
    """Keeps LlamaIndex's nodes in one cell, such as a user or a tenant, and finds them there.

    Parameters
    ----------
    cell : str or tuple of str
        Where nodes are written. There is no default.
    scope, path, attributes, documents
        As of :class:`hyrecall.adapters.documents.Collection`, errors too. A query may name another
        scope: ``query(..., scope=...)``, or ``as_retriever(vector_store_kwargs={"scope": ...})``.
        ``doc_id``, the id of a node's source, is an attribute always; a shared index needs it.
    depth : int, default 100
        How many nodes each of the two lists of a hybrid query hands on, and MMR chooses from; a
        query may ask for so many at most. One depth for all queries, so that a smaller
        ``similarity_top_k`` gives the first nodes of a larger one.

    Examples
    --------
    >>> from llama_index.core.schema import TextNode
    >>> from llama_index.core.vector_stores.types import VectorStoreQuery
    >>> store = HyrecallVectorStore(cell="ann")
    >>> store.add([TextNode(id_="1", text="hot tea", embedding=[1.0, 0.0])])
    ['1']
    >>> store.query(VectorStoreQuery(query_embedding=[1.0, 0.0])).ids
    ['1']
    """

    stores_text: bool = True
    _collection: Collection = PrivateAttr()
    _depth: int = PrivateAttr()

    def __init__(
        self, *, cell: str | tuple[str, ...], scope: str | tuple[str, ...] | Scope | None = None,
        path: str | Path | None = None,
        attributes: Mapping[str, AttributeType] | None = None,
        documents: DocumentIndex | None = None, depth: int = 100,
    ) -> None:  # fmt: skip
        """Open the nodes, or make an empty index for them."""
        super().__init__(stores_text=True)
        self._depth = at_least_1("depth", depth)
        self._collection = Collection(
            cell, scope=scope, path=path, attributes=attributes, documents=documents,
            always={"doc_id": str},
        )  # fmt: skip

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the class."""
        return _NAME

    @property
    def client(self) -> DocumentIndex:
        """The index of the nodes."""
        return self._collection.documents

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Write nodes; one whose id the cell holds is replaced. A node may lack an embedding."""
        _refuse("add", kwargs)
        return self._collection.write(map(document_of, nodes))

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete the nodes of a source document."""
        _refuse("delete", delete_kwargs)
        self._collection.delete(filter=Filter(doc_id=ref_doc_id))

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None,
        **delete_kwargs: Any,
    ) -> None:  # fmt: skip
        """Delete nodes by id, by filter, or by both; without either use ``clear``."""
        _refuse("delete_nodes", delete_kwargs)
        chosen = filter_of(filters, self._collection)
        if node_ids is None and chosen is None:
            raise error(OptionError, "node_ids", "ids or filters", "neither", "store.clear()")
        self._collection.delete(node_ids, filter=chosen)

    def clear(self) -> None:
        """Delete all nodes of the cell."""
        self._collection.delete(everything=True)

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Return nodes of the scope: in the order of the ids, else in the order of writing."""
        if node_ids is not None and filters is None:
            return [node_of(one) for one in self._collection.get(node_ids)]
        chosen = all_of(filter_of(filters, self._collection), one_of("id", node_ids))
        return [node_of(one) for one in self._collection.find(chosen)]

    def query(
        self, query: VectorStoreQuery, *, scope: object = None, mmr_threshold: float | None = None,
        **kwargs: Any,
    ) -> VectorStoreQueryResult:  # fmt: skip
        """Return the best nodes: by vector, by words, by both, or by vector and diverse.

        ``alpha`` weighs the vector in hybrid mode, by reciprocal ranks; without it, lists are
        joined as ``hyrecall.recipes`` does. ``scope`` replaces the store's. A mode or option that
        an index cannot follow is refused.
        """
        options = read_query(query, self._collection, self._depth, mmr_threshold, kwargs)
        found = self._collection.recall(scope=scope, **options)
        nodes = [node_of(one.document) for one in found]
        return VectorStoreQueryResult(
            nodes=nodes,
            similarities=[one.score for one in found],
            ids=[node.node_id for node in nodes],
        )

    # mypy reads the base's methods as what is to be awaited, and misses their `self`.
    async_add = awaiting(add)  # type: ignore[arg-type]
    adelete = awaiting(delete)  # type: ignore[arg-type]
    adelete_nodes = awaiting(delete_nodes)  # type: ignore[arg-type]
    aclear = awaiting(clear)
    aget_nodes = awaiting(get_nodes)
    aquery = awaiting(query)  # type: ignore[arg-type]

    def persist(self, persist_path: str, fs: Any = None) -> None:
        """Write the nodes to a folder of this machine, which ``path=`` opens."""
        if fs is not None:
            raise error(OptionError, "fs", "None: a folder of this machine", type(fs).__name__)
        self._collection.documents.save(persist_path)


def _refuse(method: str, options: dict[str, Any]) -> None:
    """Refuse options that would be ignored; LlamaIndex's index passes on those of its callers."""
    if options:
        raise error(OptionError, method, "no further option", sorted(options))
