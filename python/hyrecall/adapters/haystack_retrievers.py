"""Haystack's retrievers over the document store: by words, by an embedding, by both.

Without ``from __future__ import annotations``: Haystack reads the types of ``run`` as they stand.
"""

from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.types import FilterPolicy, apply_filter_policy

from hyrecall.adapters.awaiting import awaited
from hyrecall.adapters.haystack_store import HyrecallDocumentStore
from hyrecall.ask.scoring import RRF
from hyrecall.errors import DTypeError, error

__all__ = ["HyrecallEmbeddingRetriever", "HyrecallHybridRetriever", "HyrecallKeywordRetriever"]


class _Retriever:
    """What the three retrievers share: their options, and one recall of the store."""

    def __init__(
        self,
        document_store: HyrecallDocumentStore,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        filter_policy: str | FilterPolicy = FilterPolicy.REPLACE,
    ) -> None:
        """Make a retriever.

        Parameters
        ----------
        document_store : HyrecallDocumentStore
            Its scope is what a run reads, unless the run names another one.
        filters : dict, optional
            Haystack's filters.
        top_k : int, default 10
        filter_policy : FilterPolicy, default REPLACE
            Whether the filters of a run replace these or are joined with them.

        Raises
        ------
        DTypeError
            Another kind of document store.
        """
        if not isinstance(document_store, HyrecallDocumentStore):
            got = type(document_store).__name__
            raise error(DTypeError, "document_store", "a HyrecallDocumentStore", got)
        self.document_store, self.filters, self.top_k = document_store, filters, top_k
        policy = filter_policy
        self.filter_policy = FilterPolicy.from_str(policy) if isinstance(policy, str) else policy

    def _recall(
        self, filters: dict[str, Any] | None, top_k: int | None, scope: Any, **asked: Any
    ) -> dict[str, Any]:
        limit = self.top_k if top_k is None else top_k
        found = self.document_store.recall(
            filters=apply_filter_policy(self.filter_policy, self.filters, filters),
            scope=scope,
            limit=limit,
            depth=max(100, limit),
            **asked,
        )
        documents, scores = [one for one, _ in found], [dict(one.scores) for _, one in found]
        return {"documents": documents, "scores": scores}

    def to_dict(self) -> dict[str, Any]:
        """Return what makes the retriever again."""
        made: dict[str, Any] = default_to_dict(
            self,
            document_store=self.document_store.to_dict(),
            filters=self.filters,
            top_k=self.top_k,
            filter_policy=self.filter_policy.value,
            **self._more(),
        )
        return made

    def _more(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any:
        """Make the retriever that :meth:`to_dict` described."""
        options = dict(data["init_parameters"])
        if isinstance(options["document_store"], dict):
            options["document_store"] = HyrecallDocumentStore.from_dict(options["document_store"])
        return default_from_dict(cls, {**data, "init_parameters": options})


@component
class HyrecallKeywordRetriever(_Retriever):
    """Finds documents by words: BM25, whose statistics are those of the scope alone."""

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        scope: Any = None,
    ) -> dict[str, Any]:
        """Return the best documents for a query's words, with BM25 scores."""
        found = self._recall(filters, top_k, scope, text=query)
        return {"documents": found["documents"]}

    run_async = awaited(run)


@component
class HyrecallEmbeddingRetriever(_Retriever):
    """Finds documents by an embedding: exact cosine."""

    @component.output_types(documents=list[Document])
    def run(
        self,
        query_embedding: list[float],
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        scope: Any = None,
    ) -> dict[str, Any]:
        """Return the best documents for an embedding, with cosines in [-1, 1]."""
        found = self._recall(filters, top_k, scope, vector=query_embedding)
        return {"documents": found["documents"]}

    run_async = awaited(run)


@component
class HyrecallHybridRetriever(_Retriever):
    """Finds documents by words and by an embedding, and joins the two lists.

    Parameters
    ----------
    alpha : float, optional
        Joins by reciprocal ranks, with the weight of the embedding in [0, 1]; default: as
        ``hyrecall.recipes.default`` joins them, by a weighted sum of scores.
    """

    def __init__(
        self,
        document_store: HyrecallDocumentStore,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        filter_policy: str | FilterPolicy = FilterPolicy.REPLACE,
        alpha: float | None = None,
    ) -> None:
        """Make a retriever; the other options are those of the other retrievers."""
        # Not super(): Haystack's decorator makes the class anew.
        _Retriever.__init__(self, document_store, filters, top_k, filter_policy)
        self.alpha = alpha
        self._fusion = None if alpha is None else RRF(alpha=alpha)

    def _more(self) -> dict[str, Any]:
        return {"alpha": self.alpha}

    @component.output_types(documents=list[Document], scores=list[dict[str, float | None]])
    def run(
        self,
        query: str,
        query_embedding: list[float],
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        scope: Any = None,
    ) -> dict[str, Any]:
        """Return the best documents with fused scores, and each one's BM25 score and cosine."""
        return self._recall(
            filters, top_k, scope, text=query, vector=query_embedding, fusion=self._fusion
        )

    run_async = awaited(run)
