"""Haystack's retrievers over the document store: by words, by an embedding, by both.

Without ``from __future__ import annotations``: Haystack reads the types of ``run`` as they stand.
"""

from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.types import FilterPolicy, apply_filter_policy

from hyrecall.adapters.awaiting import awaited
from hyrecall.adapters.documents import FoundDocument
from hyrecall.adapters.haystack_store import HyrecallDocumentStore
from hyrecall.ask.scoring import RRF
from hyrecall.base.arguments import as_int
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, OptionError, error

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
        """Make a retriever."""
        if not isinstance(document_store, HyrecallDocumentStore):
            got = type(document_store).__name__
            raise error(DTypeError, "document_store", "a HyrecallDocumentStore", got)
        self.document_store, self.filters = document_store, filters
        self.top_k = _at_least_1("top_k", top_k)
        policy = filter_policy
        self.filter_policy = FilterPolicy.from_str(policy) if isinstance(policy, str) else policy

    def _recall(
        self, filters: dict[str, Any] | None, top_k: int | None, scope: Any, **asked: Any
    ) -> list[tuple[Document, FoundDocument]]:
        return self.document_store.recall(
            filters=apply_filter_policy(self.filter_policy, self.filters, filters),
            scope=scope,
            limit=self.top_k if top_k is None else _at_least_1("top_k", top_k),
            **asked,
        )

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


def _at_least_1(name: str, value: object) -> int:
    n = as_int(value)
    if n is None or n < 1:
        raise error(OptionError, name, "an int >= 1", repr(value))
    return n


@component
@check_keywords
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
        return {"documents": [document for document, _ in found]}

    run_async = awaited(run)


@component
@check_keywords
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
        return {"documents": [document for document, _ in found]}

    run_async = awaited(run)


@component
@check_keywords
class HyrecallHybridRetriever(_Retriever):
    """Finds documents by words and by an embedding, and joins the two lists.

    Parameters
    ----------
    alpha : float, optional
        Joins by reciprocal ranks, with the weight of the embedding in [0, 1]; default: as
        ``hyrecall.recipes.default`` joins them, by a weighted sum of scores.
    depth : int, default 100
        How many documents each of the two lists hands on, and the most that ``top_k`` may be: one
        depth for all runs, so that a smaller ``top_k`` gives the first documents of a larger one.
    """

    def __init__(
        self,
        document_store: HyrecallDocumentStore,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        filter_policy: str | FilterPolicy = FilterPolicy.REPLACE,
        alpha: float | None = None,
        depth: int = 100,
    ) -> None:
        """Make a retriever; the other options are those of the other retrievers."""
        # Not super(): Haystack's decorator makes the class anew.
        _Retriever.__init__(self, document_store, filters, top_k, filter_policy)
        self.alpha, self.depth = alpha, _at_least_1("depth", depth)
        self._check_depth(top_k)
        self._fusion = None if alpha is None else RRF(alpha=alpha)

    def _more(self) -> dict[str, Any]:
        return {"alpha": self.alpha, "depth": self.depth}

    def _check_depth(self, top_k: int) -> None:
        if (n := _at_least_1("top_k", top_k)) > self.depth:
            raise error(OptionError, "top_k", f"<= {self.depth} (depth)", n, f"pass depth={n}")

    @component.output_types(
        documents=list[Document], scores=list[dict[str, float | None]], cells=list[list[str]]
    )
    def run(
        self,
        query: str,
        query_embedding: list[float],
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        scope: Any = None,
    ) -> dict[str, Any]:
        """Return the best documents with fused scores; of each its BM25 score, cosine and cell."""
        self._check_depth(self.top_k if top_k is None else top_k)
        found = self._recall(
            filters, top_k, scope, text=query, vector=query_embedding, fusion=self._fusion,
            depth=self.depth,
        )  # fmt: skip
        return {
            "documents": [document for document, _ in found],
            "scores": [dict(one.scores) for _, one in found],
            "cells": [list(one.document.cell) for _, one in found],
        }

    run_async = awaited(run)
