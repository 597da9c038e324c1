"""LangChain: a retriever over an index, and a vector store, each with a scope."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias, get_args

from hyrecall.adapters.document_folder import open_documents
from hyrecall.adapters.documents import DocumentIndex
from hyrecall.adapters.extras import needs_extra
from hyrecall.adapters.langchain_documents import (
    check_length,
    document_of,
    read_filter,
    refuse,
    rows_of,
    texts_of,
)
from hyrecall.adapters.langchain_retriever import HyrecallRetriever
from hyrecall.ask.shaping import MMR
from hyrecall.base.arguments import one_of
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import OptionError, error

with needs_extra("langchain"):
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore

__all__ = ["HyrecallRetriever", "HyrecallVectorStore"]

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
    scope : cell or Scope, optional
        What reads see; default: the cell.
    documents : DocumentIndex, optional
        Several stores may share one, each with its own cell; default: a new one.
    attributes : mapping of str to type, optional
        Of the new one: the fields of the metadata to filter by, as ``{"year": int}``.
    mode : {"vector", "hybrid", "text"}, default "vector"
        How texts are searched: by cosine, by cosine and BM25, or by BM25 alone.

    Raises
    ------
    ScopeError
        A cell or scope that the documents cannot have.
    """

    def __init__(
        self,
        embedding: Embeddings,
        *,
        cell: str | tuple[str, ...],
        scope: object = None,
        documents: DocumentIndex | None = None,
        attributes: dict[str, Any] | None = None,
        mode: Mode = "vector",
    ) -> None:
        """Make a store over new documents, or over those of other stores."""
        one_of("mode", mode, get_args(Mode))
        self.embedding, self.mode = embedding, mode
        self.documents = open_documents(documents, None, attributes, keep_vectors=False)
        self.cell = self.documents.cell(cell)
        self.scope = self.cell if scope is None else scope
        self.documents.count(scope=self.scope)

    @property
    def embeddings(self) -> Embeddings:
        """What makes vectors of texts."""
        return self.embedding

    @classmethod
    def from_texts(
        cls,
        texts: list[str], embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None, **kwargs: Any,
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
        return await asyncio.to_thread(self.documents.write, rows, cell=self.cell, **kwargs)

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
        return await asyncio.to_thread(self._search, query, vector, k, **kwargs)

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
        return await asyncio.to_thread(search, vector, k, fetch_k, lambda_mult, **kwargs)

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
