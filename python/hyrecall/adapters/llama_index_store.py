"""LlamaIndex's vector store: nodes of one cell, by vector, by words, by both, or diverse."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryResult,
)

from hyrecall.adapters.document_folder import open_documents, saved
from hyrecall.adapters.document_table import AttributeType, read_cell
from hyrecall.adapters.documents import DocumentIndex
from hyrecall.adapters.llama_index_filters import all_of, filter_of, one_of
from hyrecall.adapters.llama_index_query import document_of, node_of, read_depth, read_query
from hyrecall.ask.filters import Filter
from hyrecall.ask.scope import Scope
from hyrecall.errors import OptionError, error

__all__ = ["HyrecallVectorStore"]

T_ = TypeVar("T_")


class HyrecallVectorStore(BasePydanticVectorStore):
    """Keeps LlamaIndex's nodes in one cell, such as a user or a tenant, and finds them there.

    Parameters
    ----------
    cell : str or tuple of str
        Where nodes are written. There is no default.
    scope : str, tuple or Scope, optional
        What is read; default: the cell. A query may name another one: ``query(..., scope=...)``,
        or ``as_retriever(vector_store_kwargs={"scope": ...})``.
    path : path-like, optional
        A folder: opened if it holds nodes, and saved to after every write. One store writes to it:
        stores of several cells share ``documents``.
    attributes : mapping of str to type, optional
        The fields of the metadata that filters may name, as in
        :class:`hyrecall.adapters.documents.DocumentIndex`. ``doc_id``, the id of a node's source,
        is one of them always.
    documents : DocumentIndex, optional
        An index to share with stores of other cells, in place of ``path`` and ``attributes``; it
        needs the attribute ``doc_id``.
    depth : int, default 100
        How many nodes each of the two lists of a hybrid query hands on, and MMR chooses from; a
        query may ask for so many at most. One depth for all queries, so that a smaller
        ``similarity_top_k`` gives the first nodes of a larger one.

    Raises
    ------
    ScopeError
        No cell.
    OptionError
        ``documents`` beside ``path`` or ``attributes``, or without ``doc_id``.

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
    _documents: DocumentIndex = PrivateAttr()
    _cell: tuple[str, ...] = PrivateAttr()
    _scope: Any = PrivateAttr()
    _path: str | Path | None = PrivateAttr()
    _depth: int = PrivateAttr()

    def __init__(
        self, *, cell: str | tuple[str, ...], scope: str | tuple[str, ...] | Scope | None = None,
        path: str | Path | None = None,
        attributes: Mapping[str, AttributeType | str] | None = None,
        documents: DocumentIndex | None = None, depth: int = 100,
    ) -> None:  # fmt: skip
        """Open the nodes, or make an empty index for them."""
        super().__init__(stores_text=True)
        always = {"doc_id": str}
        opened = open_documents(documents, path, attributes, keep_vectors=False, always=always)
        opened.value("doc_id", "")  # refuses an index without it, or with another type of it
        self._documents, self._path, self._depth = opened, path, read_depth(depth)
        self._cell = read_cell(cell, opened.cell_columns)
        self._scope = self._cell if scope is None else scope
        opened.count(scope=self._scope)  # refuses what is no scope of these cells

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the class."""
        return "HyrecallVectorStore"

    @property
    def client(self) -> DocumentIndex:
        """The index of the nodes."""
        return self._documents

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Write nodes; one whose id the cell holds is replaced. A node may lack an embedding."""
        _refuse("add", kwargs)
        return self._saved(self._documents.write(map(document_of, nodes), cell=self._cell))

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete the nodes of a source document."""
        _refuse("delete", delete_kwargs)
        self._saved(self._documents.delete(cell=self._cell, filter=Filter(doc_id=ref_doc_id)))

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None,
        **delete_kwargs: Any,
    ) -> None:  # fmt: skip
        """Delete nodes by id, by filter, or by both; without either use ``clear``."""
        _refuse("delete_nodes", delete_kwargs)
        chosen = filter_of(filters, self._documents)
        if node_ids is None and chosen is None:
            raise error(OptionError, "node_ids", "ids or filters", "neither", "store.clear()")
        self._saved(self._documents.delete(node_ids, cell=self._cell, filter=chosen))

    def clear(self) -> None:
        """Delete all nodes of the cell."""
        self._saved(self._documents.delete(cell=self._cell, everything=True))

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Return nodes of the scope: in the order of the ids, else in the order of writing."""
        if node_ids is not None and filters is None:
            found = self._documents.get(node_ids, scope=self._scope)
        else:
            chosen = all_of(filter_of(filters, self._documents), one_of("id", node_ids))
            found = self._documents.find(scope=self._scope, filter=chosen)
        return [node_of(one) for one in found]

    def query(
        self, query: VectorStoreQuery, *, scope: object = None, mmr_threshold: float | None = None,
        **kwargs: Any,
    ) -> VectorStoreQueryResult:  # fmt: skip
        """Return the best nodes: by vector, by words, by both, or by vector and diverse.

        ``alpha`` weighs the vector in hybrid mode, by reciprocal ranks; without it, lists are
        joined as ``hyrecall.recipes.default`` does. ``scope`` replaces the store's.

        Raises
        ------
        OptionError
            A mode or option that an index cannot follow, or a query without what its mode needs.
        """
        found = self._documents.recall(
            scope=self._scope if scope is None else scope,
            **read_query(query, self._documents, self._depth, mmr_threshold, kwargs),
        )
        nodes = [node_of(one.document) for one in found]
        return VectorStoreQueryResult(
            nodes=nodes,
            similarities=[one.score for one in found],
            ids=[node.node_id for node in nodes],
        )

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Write nodes, off the event loop."""
        return await to_thread(self.add, nodes, **kwargs)

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete the nodes of a source document, off the event loop."""
        await to_thread(self.delete, ref_doc_id, **delete_kwargs)

    async def adelete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None,
        **delete_kwargs: Any,
    ) -> None:  # fmt: skip
        """Delete nodes by id or by filter, off the event loop."""
        await to_thread(self.delete_nodes, node_ids, filters, **delete_kwargs)

    async def aclear(self) -> None:
        """Delete all nodes of the cell, off the event loop."""
        await to_thread(self.clear)

    async def aget_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Return nodes of the scope, off the event loop."""
        return await to_thread(self.get_nodes, node_ids, filters)

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Return the best nodes, off the event loop; options as of ``query``."""
        return await to_thread(self.query, query, **kwargs)

    def persist(self, persist_path: str, fs: Any = None) -> None:
        """Write the nodes to a folder of this machine, which ``path=`` opens."""
        if fs is not None:
            raise error(OptionError, "fs", "None: a folder of this machine", type(fs).__name__)
        self._documents.save(persist_path)

    def _saved(self, changed: T_) -> T_:
        return saved(self._documents, self._path, changed)


def _refuse(method: str, options: dict[str, Any]) -> None:
    """Refuse options that would be ignored; LlamaIndex's index passes on those of its callers."""
    if options:
        raise error(OptionError, method, "no further option", sorted(options))
