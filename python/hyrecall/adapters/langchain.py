"""LangChain: a retriever over an index, and a vector store, each with a scope."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeAlias, get_args

from hyrecall.adapters.documents import Collection, DocumentIndex, FoundDocument
from hyrecall.adapters.documents import Document as Row
from hyrecall.adapters.extras import check_arms, column_types, needs_extra, search, text_of
from hyrecall.ask.filter_json import filter_from_json
from hyrecall.base.arguments import as_int, check_keywords, one_of
from hyrecall.errors import DTypeError, OptionError, ScopeError, ShapeError, error
from hyrecall.hits.hits import Hit
from hyrecall.index import Index
from hyrecall.stages.choice import MMR

with needs_extra("langchain"):
    from langchain_core.callbacks import (
        AsyncCallbackManagerForRetrieverRun,
        CallbackManagerForRetrieverRun,
    )
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.vectorstores import VectorStore
    from pydantic import ConfigDict, Field, model_validator


__all__ = ["HyrecallRetriever", "HyrecallVectorStore"]


# ---- LangChain's documents and filters, from ours and to ours ----


def refuse(options: Mapping[str, Any], **reasons: str) -> None:
    """Refuse options that a call would not follow, each with the reason."""
    for name, reason in reasons.items():
        if name in options:
            raise error(OptionError, name, f"none ({reason})", repr(options[name]))


def read_filter(index: Index | DocumentIndex, asked: Any) -> Any:
    """Return a filter, or None; a dict has the form of the service's JSON, an empty one is none."""
    if not isinstance(asked, dict):
        return asked
    if not asked:
        return None
    if isinstance(index, DocumentIndex):
        return filter_from_json(asked, index.attributes, "filter")
    kinds = column_types(index, index.schema.attributes or ())
    return filter_from_json(asked, {one.name: one.type for one in kinds}, "filter")


def texts_of(documents: list[Document], batch_size: int | None) -> Iterator[list[str]]:
    """Return the texts of documents in batches; None: all at once."""
    size = len(documents) if batch_size is None else as_int(batch_size)
    if size is None or (size < 1 and documents):
        raise error(OptionError, "batch_size", "an int >= 1, or None", repr(batch_size))
    texts = [one.page_content for one in documents]
    return (texts[at : at + size] for at in range(0, len(texts), size or 1))


def check_length(name: str, values: Sequence[Any], n: int, each: str) -> None:
    """Refuse a list that does not have one value for each of ``n``."""
    if len(values) != n:
        raise error(ShapeError, name, f"{n}, one per {each}", len(values))


def rows_of(documents: list[Document], ids: list[str] | None, vectors: list[Any]) -> list[Row]:
    """Return documents and their vectors as what an index writes; `ids` come before their own."""
    check_length("ids", ids or documents, len(documents), "document")
    check_length("embedding", vectors, len(documents), "document")
    keys: list[str | None] = [*ids] if ids else [one.id for one in documents]
    return [
        Row(id=key, text=one.page_content, vector=vector, metadata=one.metadata)
        for key, one, vector in zip(keys, documents, vectors, strict=True)
    ]


def document_of(row: Row, **more: Any) -> Document:
    """Return a document of LangChain, with more metadata."""
    metadata = {**row.metadata, **more}
    return Document(id=row.id, page_content=row.text or "", metadata=metadata)


def with_scores(found: FoundDocument) -> Document:
    """Return a document that was found, with its scores and cell in the metadata."""
    scores: dict[str, Any] = {"rank": found.rank, "score": found.score, **found.scores}
    scores["cell"] = list(found.document.cell)
    return document_of(found.document, hyrecall=scores)


def of_hit(hit: Hit, columns: Sequence[str], index: Index) -> Document:
    """Return a hit as a document, with columns, scores and cell in the metadata."""
    arms = (*index.schema.text_arms, *index.schema.vector_arms)
    scores: dict[str, Any] = {arm: hit.arm_score(arm) for arm in arms}
    scores |= {"rank": hit.rank, "score": hit.score, "cell": list(hit.cell)}
    metadata = {name: hit[name] for name in columns} | {"hyrecall": scores}
    return Document(id=str(hit.key), page_content=text_of(hit, index), metadata=metadata)


# ---- LangChain's retriever over an index, with a scope ----

_OWN: Final = {
    "text": "the query is the text", "vector": "embeddings= makes it", "limit": "k is the limit",
    "columns": "a field of the retriever",
}  # fmt: skip


class HyrecallRetriever(BaseRetriever):
    """Retrieves documents by BM25 and cosine, fused, within a scope.

    A call may name another ``k``, ``scope`` and ``filter``, and any option of
    :meth:`hyrecall.Index.recall_one`: ``retriever.invoke("tea", scope="bob")``. Fields can be
    configured by LangChain's ``configurable_fields``. Scores and the cell of a document are in
    ``metadata["hyrecall"]``.

    Parameters
    ----------
    index : Index or DocumentIndex
        What is searched. The text of a hit becomes the page content.
    scope : cell or Scope
        What a call may see; None only for an index with one audience (``cell=None``).
    embeddings : Embeddings, optional
        Makes the query's vector; without it, text alone is searched. An ``Index`` without a text
        arm needs it, one without vectors refuses it.
    k : int, default 4
    filter : Filter, pyarrow.compute.Expression or dict, optional
        A dict is as the service's JSON: ``{"kind": "note", "year": {"from": 2024}}``.
    columns : sequence of str, default ()
        Columns of an ``Index`` that become metadata, beside its attributes.
    options : dict, default {}
        More options of ``recall_one`` for each call, such as ``recipe`` or ``fusion``.

    Raises
    ------
    ScopeError
        No scope, or one that the index cannot read.
    OptionError
        An option that no call would follow. Pydantic wraps it in a ``ValidationError``.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    index: Any
    scope: Any
    embeddings: Embeddings | None = None
    k: int = 4
    filter: Any = None
    columns: Sequence[str] = ()
    options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _needs_scope(cls, values: Any) -> Any:
        if isinstance(values, dict) and "scope" not in values:
            raise error(ScopeError, "scope", "a scope: a cell or hr.Scope([...])", "none")
        return values

    @model_validator(mode="after")
    def _check(self) -> HyrecallRetriever:
        if not isinstance(self.index, Index | DocumentIndex):
            wish = "an hr.Index or a DocumentIndex"
            raise error(DTypeError, "index", wish, type(self.index).__name__)
        if self.k < 0:
            raise error(OptionError, "k", "an int >= 0", self.k)
        refuse(self.options, scope="a field", filter="a field", **_OWN)
        if isinstance(self.index, DocumentIndex):
            if self.columns:
                raise error(OptionError, "columns", "none (metadata comes whole)", self.columns)
        else:
            check_arms(self.index, "embeddings", self.embeddings)
            column_types(self.index, self.columns)
        self.index.count(scope=self.scope, filter=read_filter(self.index, self.filter))
        return self

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        vector = self.embeddings.embed_query(query) if self.embeddings else None
        return self._recall(query, vector, **options)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        vector = await self.embeddings.aembed_query(query) if self.embeddings else None
        return await to_thread(partial(self._recall, query, vector, **options))

    def _recall(
        self, query: str, vector: list[float] | None, /, *, k: int | None = None, **options: Any
    ) -> list[Document]:
        refuse(options, **_OWN)
        asked = {"scope": self.scope, "filter": self.filter} | self.options | options
        asked["filter"] = read_filter(self.index, asked["filter"])
        asked |= {"text": query, "vector": vector, "limit": self.k if k is None else k}
        if isinstance(self.index, DocumentIndex):
            return [with_scores(one) for one in self.index.recall(**asked)]
        columns = (*(self.index.schema.attributes or ()), *self.columns)
        hits = search(self.index, asked.pop("text"), asked.pop("vector"), **asked, columns=columns)
        return [of_hit(hit, columns, self.index) for hit in hits]


# ---- LangChain's vector store: documents of one cell ----

Mode: TypeAlias = Literal["vector", "hybrid", "text"]


@check_keywords
class HyrecallVectorStore(VectorStore):
    """A vector store: documents lie in one cell, reads have a scope.

    Reads take ``filter=``, ``scope=``, ``mode=`` and every option of ``DocumentIndex.recall``.

    Parameters
    ----------
    embedding : Embeddings
    cell : str or tuple of str
        Where documents are written to and deleted from: the user or tenant.
    scope, documents, attributes
        As of :class:`hyrecall.adapters.documents.Collection`, errors too.
    mode : {"vector", "hybrid", "text"}, default "vector"
        How texts are searched: by cosine, by cosine and BM25, or by BM25 alone.
    """

    def __init__(
        self, embedding: Embeddings, *, cell: str | tuple[str, ...], scope: object = None,
        documents: DocumentIndex | None = None, attributes: dict[str, Any] | None = None,
        mode: Mode = "vector",
    ) -> None:  # fmt: skip
        """Make a store over new documents, or over those of other stores."""
        one_of("mode", mode, get_args(Mode))
        self.embedding, self.mode = embedding, mode
        opened = Collection(cell, scope=scope, attributes=attributes, documents=documents)
        self.documents, self.cell, self.scope = opened.documents, opened.cell, opened.scope

    @property
    def embeddings(self) -> Embeddings:
        """What makes vectors of texts."""
        return self.embedding

    @classmethod
    def from_texts(
        cls, texts: list[str], embedding: Embeddings, metadatas: list[dict[str, Any]] | None = None,
        *, ids: list[str] | None = None, **kwargs: Any,
    ) -> HyrecallVectorStore:  # fmt: skip
        """Make a store of texts; ``cell=`` and the other options are those of the class."""
        made = cls(embedding, **kwargs)
        made.add_texts(texts, metadatas, ids=ids)
        return made

    def add_texts(
        self, texts: Iterable[str], metadatas: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> list[str]:
        """Write texts, as :meth:`add_documents`; ``texts`` may be a generator."""
        given = [*texts]
        check_length("ids", kwargs.get("ids") or given, len(given), "text")
        return list(super().add_texts(given, metadatas, **kwargs))

    async def aadd_texts(
        self, texts: Iterable[str], metadatas: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> list[str]:
        """Write texts as :meth:`add_texts` does, off the event loop."""
        given = [*texts]
        check_length("ids", kwargs.get("ids") or given, len(given), "text")
        return list(await super().aadd_texts(given, metadatas, **kwargs))

    def add_documents(
        self, documents: list[Document], ids: list[str] | None = None, **kwargs: Any
    ) -> list[str]:
        """Write documents into the cell; an id that is there already is overwritten.

        ``on_duplicate`` may be ``"skip"`` or ``"fail"``; ``batch_size`` texts are embedded at once.
        """
        batches = texts_of(documents, kwargs.pop("batch_size", None))
        vectors = [vector for one in batches for vector in self.embedding.embed_documents(one)]
        return self.documents.write(rows_of(documents, ids, vectors), cell=self.cell, **kwargs)

    async def aadd_documents(
        self, documents: list[Document], ids: list[str] | None = None, **kwargs: Any
    ) -> list[str]:
        """Write documents as :meth:`add_documents` does, off the event loop."""
        batches = texts_of(documents, kwargs.pop("batch_size", None))
        vectors = [one for some in batches for one in await self.embedding.aembed_documents(some)]
        rows = rows_of(documents, ids, vectors)
        return await to_thread(self.documents.write, rows, cell=self.cell, **kwargs)

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Delete documents of the cell by id or ``filter=``; all of them by ``everything=True``."""
        narrowed = read_filter(self.documents, kwargs.pop("filter", None))
        self.documents.delete(ids, cell=self.cell, filter=narrowed, **kwargs)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return documents in the order of their ids; those that are not in scope are left out."""
        return [document_of(one) for one in self.documents.get(ids, scope=self.scope)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return the best documents with their scores: by default cosine, the highest first."""
        vector = None if self._mode(kwargs) == "text" else self.embedding.embed_query(query)
        return self._search(query, vector, k, **kwargs)

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Search as :meth:`similarity_search_with_score` does, off the event loop."""
        is_text = self._mode(kwargs) == "text"
        vector = None if is_text else await self.embedding.aembed_query(query)
        return await to_thread(self._search, query, vector, k, **kwargs)

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the best documents, as :meth:`similarity_search_with_score`."""
        return [one for one, _ in self.similarity_search_with_score(query, k, **kwargs)]

    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Search as :meth:`similarity_search` does, off the event loop."""
        return [one for one, _ in await self.asimilarity_search_with_score(query, k, **kwargs)]

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[Document]:
        """Return the documents whose vectors are nearest by cosine."""
        return [one for one, _ in self._search(None, embedding, k, **kwargs)]

    def max_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5,
        **kwargs: Any,
    ) -> list[Document]:  # fmt: skip
        """Return documents that are near the vector and unlike one another."""
        refuse(kwargs, shaping="lambda_mult weighs MMR", depth="fetch_k is the depth")
        asked = {"shaping": MMR(lambda_mult, relevance="raw"), "depth": max(fetch_k, k)}
        return [one for one, _ in self._search(None, embedding, k, **asked, **kwargs)]

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return documents that are near the query's vector and unlike one another."""
        vector = self.embedding.embed_query(query)
        asked = (k, fetch_k, lambda_mult)
        return self.max_marginal_relevance_search_by_vector(vector, *asked, **kwargs)

    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Search as :meth:`max_marginal_relevance_search` does, off the event loop."""
        vector = await self.embedding.aembed_query(query)
        search = self.max_marginal_relevance_search_by_vector
        return await to_thread(search, vector, k, fetch_k, lambda_mult, **kwargs)

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        options = self._relevance(kwargs)
        return _in_0_to_1(self.similarity_search_with_score(query, k, **options), options)

    async def _asimilarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        options = self._relevance(kwargs)
        return _in_0_to_1(await self.asimilarity_search_with_score(query, k, **options), options)

    def _relevance(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a search whose scores become relevance scores."""
        refuse(options, normalize="relevance scores have a scale")
        return {**options, "normalize": self._mode(options) != "vector"}

    def _mode(self, options: dict[str, Any]) -> str:
        one_of("mode", options.get("mode", self.mode), get_args(Mode))
        return str(options.get("mode", self.mode))

    def _search(
        self, query: str | None, vector: list[float] | None, k: int, /, **options: Any
    ) -> list[tuple[Document, float]]:
        refuse(options, text="the query is the text", vector="the query's", limit="k is the limit")
        if query is None and (mode := options.pop("mode", "vector")) != "vector":
            raise error(OptionError, "mode", "'vector' where there is no text", repr(mode))
        if self._mode(options) == "vector":
            query = None
        options.pop("mode", None)
        asked: dict[str, Any] = {"scope": self.scope} | options
        asked["filter"] = read_filter(self.documents, options.get("filter"))
        found = self.documents.recall(text=query, vector=vector, limit=k, **asked)
        return [(document_of(one.document), one.score) for one in found]


def _in_0_to_1(
    found: list[tuple[Document, float]], options: dict[str, Any]
) -> list[tuple[Document, float]]:
    """Return scores in [0, 1]; those that are not normalized are cosines."""
    if options["normalize"]:
        return found
    return [(one, (1 + cosine) / 2) for one, cosine in found]
