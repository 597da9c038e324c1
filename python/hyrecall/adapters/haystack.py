"""Haystack over documents in cells: a document store, and keyword, embedding and hybrid retrievers.

Without ``from __future__ import annotations``: Haystack reads the types of ``run`` as they stand.
"""

import json
from collections.abc import Callable, Mapping
from datetime import date, datetime
from functools import reduce
from operator import and_, or_
from pathlib import Path
from typing import Any, Final, Literal

from hyrecall.adapters.documents import (
    ORDERS,
    AttributeType,
    Collection,
    DocumentIndex,
    FoundDocument,
    type_names,
)
from hyrecall.adapters.documents import Document as Row
from hyrecall.adapters.extras import at_least_1, awaiting, needs_extra
from hyrecall.ask.filters import Filter
from hyrecall.ask.scope import Scope, ScopePattern
from hyrecall.ask.scoring import RRF
from hyrecall.base.arguments import check_keywords
from hyrecall.errors import DTypeError, KeyConflictError, OptionError, error

with needs_extra("haystack"):
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.document_stores.errors import DuplicateDocumentError
    from haystack.document_stores.types import DuplicatePolicy, FilterPolicy, apply_filter_policy
    from haystack.errors import FilterError


__all__ = [
    "HyrecallDocumentStore",
    "HyrecallEmbeddingRetriever",
    "HyrecallHybridRetriever",
    "HyrecallKeywordRetriever",
]


# ---- Haystack's documents as the rows of an index, and back ----

POLICIES: Final[dict[DuplicatePolicy, Literal["overwrite", "skip", "fail"]]] = {
    DuplicatePolicy.NONE: "fail", DuplicatePolicy.FAIL: "fail",
    DuplicatePolicy.SKIP: "skip", DuplicatePolicy.OVERWRITE: "overwrite",
}  # fmt: skip


def row_of(at: int, document: object) -> Row:
    """Return the row of a document; refuse what an index does not hold."""
    if not isinstance(document, Document):
        raise ValueError(f"documents[{at}]: expected a Document, got {document!r}")
    for name in ("blob", "sparse_embedding"):
        held = getattr(document, name)
        if held is not None:
            raise ValueError(f"documents[{at}].{name}: expected None, got {type(held).__name__}")
    return Row(
        id=document.id, text=document.content, vector=document.embedding, metadata=document.meta
    )


def document_of(row: Row, score: float | None = None) -> Document:
    """Return the document of a row, with its score if a query found it."""
    vector = None if row.vector is None else list(row.vector)
    return Document(
        id=row.id or "", content=row.text, meta=dict(row.metadata), embedding=vector, score=score
    )


# ---- Haystack's filters as filters of an index: comparisons of declared fields, AND, OR and NOT
# A filter that Haystack could not answer either, or that names an undeclared field, is Haystack's
# ``FilterError``; its message names the field and the line that declares it.

_LOGIC: Final[dict[str, Callable[[list[Filter]], Filter]]] = {
    "AND": lambda parts: reduce(and_, parts),
    "OR": lambda parts: reduce(or_, parts),
    "NOT": lambda parts: ~reduce(and_, parts),
}


def filter_of(given: dict[str, Any] | None, collection: Collection) -> Filter | None:
    """Return the filter that a Haystack filter means; None for none."""
    try:
        return _read(given, collection) if given else None
    except (OptionError, DTypeError) as fault:
        raise FilterError(str(fault)) from fault


def _read(given: object, collection: Collection) -> Filter:
    if not isinstance(given, dict):
        raise _not("a dict", given)
    is_comparison = "field" in given
    for key in ("operator", "value") if is_comparison else ("operator", "conditions"):
        if key not in given:
            raise _not(f"the key {key!r}", given)
    operator = given["operator"]
    for key in ("field", "operator"):
        if not isinstance(given.get(key, ""), str):
            raise _not(f"a str as {key!r}", given[key])
    if is_comparison:
        name = given["field"].removeprefix("meta.")
        return _compare(name, operator, given["value"], collection)
    conditions = given["conditions"]
    if operator not in _LOGIC or not isinstance(conditions, list) or not conditions:
        wish = f"one of {list(_LOGIC)} with a list of conditions"
        raise _not(wish, f"{operator} with {conditions!r}")
    return _LOGIC[operator]([_read(one, collection) for one in conditions])


def _compare(name: str, operator: str, value: object, collection: Collection) -> Filter:
    equality = {"==": [value], "!=": [value], "in": value, "not in": value}
    if operator in equality:
        values = equality[operator]
        if not isinstance(values, list):
            raise _not(f"a list for {operator!r}", value)
        equal = collection.equal(name, values, finds_null=True)
        return ~equal if operator in ("!=", "not in") else equal
    if operator not in ORDERS:
        raise _not(f"one of {[*ORDERS, *equality]}", operator)
    read = collection.documents.value(name, value)
    if read is None:  # in no order to any value
        return collection.equal(name, [])
    if isinstance(read, bool) or not isinstance(read, int | float | datetime | date):
        wish = "a number, or a time in a field that is declared as datetime"
        raise _not(f"{wish} for {operator!r} of {name!r}", value)
    return collection.ordered(name, operator, read)


def _not(wish: str, got: object) -> FilterError:
    return FilterError(f"filters: expected {wish}, got {got!r}")


_TYPES = {bool: "boolean", int: "int", float: "float"}


def _distinct(values: list[Any]) -> list[Any]:
    """Return each value once; 1, 1.0, "1" and true are four."""
    return list({json.dumps(value, sort_keys=True): value for value in values}.values())


# ---- Haystack's document store: documents of one cell, in an index that may hold many ----


@check_keywords
class HyrecallDocumentStore:
    """Keeps Haystack's documents in one cell, such as a user or a tenant, and finds them there.

    Parameters
    ----------
    cell : str, or tuple or list of str
        Where documents are written. There is no default.
    scope, path, attributes, documents
        As of :class:`hyrecall.adapters.documents.Collection`, errors too. ``attributes`` are fields
        of ``meta``; a shared index with ``keep_vectors=True`` gives documents back with their
        embeddings.

    Examples
    --------
    >>> from haystack import Document
    >>> store = HyrecallDocumentStore(cell="ann", attributes={"year": "int"})
    >>> store.write_documents([Document(content="hot tea", meta={"year": 2026})])
    1
    >>> late = {"field": "meta.year", "operator": ">", "value": 2025}
    >>> [document.content for document in store.filter_documents(late)]
    ['hot tea']
    """

    def __init__(
        self, *, cell: str | tuple[str, ...] | list[str],
        scope: str | tuple[str, ...] | Scope | None = None, path: str | Path | None = None,
        attributes: "Mapping[str, AttributeType] | None" = None,
        documents: DocumentIndex | None = None,
    ) -> None:  # fmt: skip
        """Open the documents, or make an empty index for them."""
        self._collection = Collection(
            tuple(cell) if isinstance(cell, list) else cell,
            scope=scope, path=path, attributes=attributes, documents=documents, keep_vectors=True,
        )  # fmt: skip

    def count_documents(self) -> int:
        """Return how many documents the scope holds."""
        return self._collection.count()

    def count_documents_by_filter(self, filters: dict[str, Any]) -> int:
        """Return how many documents of the scope pass a filter."""
        return self._collection.count(self._filter(filters))

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """Return the documents of the scope that pass a filter, in the order of writing."""
        return [document_of(row) for row in self._collection.find(self._filter(filters))]

    def recall(
        self, *, filters: dict[str, Any] | None = None, scope: object = None, **options: Any
    ) -> list[tuple[Document, FoundDocument]]:
        """Return the best documents, by the options of ``DocumentIndex.recall``."""
        chosen = self._filter(filters)
        found = self._collection.recall(scope=scope, filter=chosen, **options)
        return [(document_of(one.document, one.score), one) for one in found]

    def write_documents(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """Write documents, all or none; return how many. NONE is FAIL.

        An index holds no blob and no sparse embedding: such documents are a ``ValueError``.
        """
        if not isinstance(documents, list):
            raise ValueError(f"documents: expected a list, got {type(documents).__name__}")
        if not isinstance(policy, DuplicatePolicy):
            raise error(DTypeError, "policy", "a DuplicatePolicy", repr(policy))
        rows = [row_of(at, document) for at, document in enumerate(documents)]
        try:
            return len(self._collection.write(rows, POLICIES[policy]))
        except KeyConflictError as fault:
            told = str(fault).rpartition("; ")[0]
            how = "replace it: policy=DuplicatePolicy.OVERWRITE"
            raise DuplicateDocumentError(f"{told}; {how}") from fault

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents of the cell by id; an id that it does not hold is no error."""
        self._collection.delete(document_ids)

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        """Delete the documents of the cell that pass a filter; return how many there were."""
        return self._collection.delete(filter=self._filter(filters))

    def delete_all_documents(self) -> None:
        """Delete all documents of the cell."""
        self._collection.delete(everything=True)

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Set fields of ``meta`` where a filter passes; return how many documents changed.

        An updated document is written again, and so comes last in ``filter_documents``. A shared
        index with embeddings needs ``keep_vectors=True``, or their documents would lose them.
        """
        if not filters:
            raise FilterError("filters: expected a filter of what to update, got none")
        return self._collection.update(meta, self._filter(filters))

    # ---- metadata: read from the documents themselves, so that no field has to be declared ----

    def _values(self, field: str, filters: dict[str, Any] | None = None) -> list[Any]:
        """Return the values of a field, without nulls, in the order of the documents."""
        name = field.removeprefix("meta.")
        found = (document.meta.get(name) for document in self.filter_documents(filters))
        return [value for value in found if value is not None]

    def count_unique_metadata_by_filter(
        self, filters: dict[str, Any], metadata_fields: list[str]
    ) -> dict[str, int]:
        """Return how many distinct values each field has in the documents that pass a filter."""
        return {
            field.removeprefix("meta."): len(_distinct(self._values(field, filters)))
            for field in metadata_fields
        }

    def get_metadata_fields_info(self) -> dict[str, dict[str, str]]:
        """Return the type of each field: boolean, int, float or keyword."""
        found: dict[str, dict[str, str]] = {}
        for document in self.filter_documents():
            for name, value in document.meta.items():
                if value is not None:
                    found[name] = {"type": _TYPES.get(type(value), "keyword")}
        return found

    def get_metadata_field_min_max(self, metadata_field: str) -> dict[str, Any]:
        """Return the least and the largest value of a field; None where they do not compare."""
        values = [one for one in self._values(metadata_field) if isinstance(one, int | float | str)]
        try:
            return {"min": min(values), "max": max(values)}
        except (TypeError, ValueError):  # numbers beside strings; no value
            return {"min": None, "max": None}

    def get_metadata_field_unique_values(
        self, metadata_field: str, search_term: str | None = None, from_: int = 0, size: int = 10,
        filters: dict[str, Any] | None = None,
    ) -> tuple[list[Any], int]:  # fmt: skip
        """Return a page of a field's distinct values, sorted as text, and the number of them."""
        values = _distinct(self._values(metadata_field, filters))
        wanted = (search_term or "").lower()
        found = sorted((one for one in values if wanted in str(one).lower()), key=str)
        return found[from_ : from_ + size], len(found)

    count_documents_async = awaiting(count_documents)
    count_documents_by_filter_async = awaiting(count_documents_by_filter)
    filter_documents_async = awaiting(filter_documents)
    write_documents_async = awaiting(write_documents)
    delete_documents_async = awaiting(delete_documents)
    delete_by_filter_async = awaiting(delete_by_filter)
    delete_all_documents_async = awaiting(delete_all_documents)
    update_by_filter_async = awaiting(update_by_filter)
    count_unique_metadata_by_filter_async = awaiting(count_unique_metadata_by_filter)
    get_metadata_fields_info_async = awaiting(get_metadata_fields_info)
    get_metadata_field_min_max_async = awaiting(get_metadata_field_min_max)
    get_metadata_field_unique_values_async = awaiting(get_metadata_field_unique_values)

    def to_dict(self) -> dict[str, Any]:
        """Return what makes the store again; without ``path`` that is an empty store."""
        if self._collection.is_shared:
            wish = "path=, so that another process can open the documents"
            raise error(OptionError, "documents", wish, "an index of this process")
        scope, path = self._collection.scope, self._collection.path
        if isinstance(scope, ScopePattern):
            raise error(OptionError, "scope", "cells, which a file can hold", repr(scope))
        if isinstance(scope, Scope):
            scope = {"cells": [list(cell) for cell in scope.cells]}
        made: dict[str, Any] = default_to_dict(
            self,
            cell=list(self._collection.cell),
            scope=list(scope) if isinstance(scope, tuple) else scope,
            path=None if path is None else str(path),
            attributes=type_names(self._collection.documents),
        )
        return made

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "HyrecallDocumentStore":
        """Make the store that :meth:`to_dict` described."""
        options = dict(data.get("init_parameters", {}))
        scope = options.get("scope")
        if isinstance(scope, dict):
            options["scope"] = Scope([tuple(cell) for cell in scope["cells"]])
        elif isinstance(scope, list):
            options["scope"] = tuple(scope)
        made: HyrecallDocumentStore = default_from_dict(cls, {**data, "init_parameters": options})
        return made

    def _filter(self, filters: dict[str, Any] | None) -> Any:
        return filter_of(filters, self._collection)


# ---- Haystack's retrievers over the document store: by words, by an embedding, by both ----


class _Retriever:
    """What the three retrievers share: their options, and one recall of the store."""

    def __init__(
        self, document_store: HyrecallDocumentStore, filters: dict[str, Any] | None = None,
        top_k: int = 10, filter_policy: str | FilterPolicy = FilterPolicy.REPLACE,
    ) -> None:  # fmt: skip
        """Make a retriever."""
        if not isinstance(document_store, HyrecallDocumentStore):
            got = type(document_store).__name__
            raise error(DTypeError, "document_store", "a HyrecallDocumentStore", got)
        self.document_store, self.filters = document_store, filters
        self.top_k = at_least_1("top_k", top_k)
        policy = filter_policy
        self.filter_policy = FilterPolicy.from_str(policy) if isinstance(policy, str) else policy

    def _recall(
        self, filters: dict[str, Any] | None, top_k: int | None, scope: Any, **asked: Any
    ) -> list[tuple[Document, FoundDocument]]:
        return self.document_store.recall(
            filters=apply_filter_policy(self.filter_policy, self.filters, filters),
            scope=scope,
            limit=self.top_k if top_k is None else at_least_1("top_k", top_k),
            **asked,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what makes the retriever again."""
        made: dict[str, Any] = default_to_dict(
            self, document_store=self.document_store.to_dict(), filters=self.filters,
            top_k=self.top_k, filter_policy=self.filter_policy.value, **self._more(),
        )  # fmt: skip
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
@check_keywords
class HyrecallKeywordRetriever(_Retriever):
    """Finds documents by words: BM25, whose statistics are those of the scope alone."""

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None,
        scope: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the best documents for a query's words, with BM25 scores."""
        found = self._recall(filters, top_k, scope, text=query)
        return {"documents": [document for document, _ in found]}

    run_async = awaiting(run)


@component
@check_keywords
class HyrecallEmbeddingRetriever(_Retriever):
    """Finds documents by an embedding: exact cosine."""

    @component.output_types(documents=list[Document])
    def run(
        self, query_embedding: list[float], filters: dict[str, Any] | None = None,
        top_k: int | None = None, scope: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the best documents for an embedding, with cosines in [-1, 1]."""
        found = self._recall(filters, top_k, scope, vector=query_embedding)
        return {"documents": [document for document, _ in found]}

    run_async = awaiting(run)


@component
@check_keywords
class HyrecallHybridRetriever(_Retriever):
    """Finds documents by words and by an embedding, and joins the two lists.

    Parameters
    ----------
    alpha : float, optional
        Joins by reciprocal ranks, with the weight of the embedding in [0, 1]; default: as
        ``hyrecall.recipes`` joins them, by a weighted sum of scores.
    depth : int, default 100
        How many documents each of the two lists hands on, and the most that ``top_k`` may be: one
        depth for all runs, so that a smaller ``top_k`` gives the first documents of a larger one.
    """

    def __init__(
        self, document_store: HyrecallDocumentStore, filters: dict[str, Any] | None = None,
        top_k: int = 10, filter_policy: str | FilterPolicy = FilterPolicy.REPLACE,
        alpha: float | None = None, depth: int = 100,
    ) -> None:  # fmt: skip
        """Make a retriever; the other options are those of the other retrievers."""
        # Not super(): Haystack's decorator makes the class anew.
        _Retriever.__init__(self, document_store, filters, top_k, filter_policy)
        self.alpha, self.depth = alpha, at_least_1("depth", depth)
        self._check_depth(top_k)
        self._fusion = None if alpha is None else RRF(alpha=alpha)

    def _more(self) -> dict[str, Any]:
        return {"alpha": self.alpha, "depth": self.depth}

    def _check_depth(self, top_k: int) -> None:
        if (n := at_least_1("top_k", top_k)) > self.depth:
            raise error(OptionError, "top_k", f"<= {self.depth} (depth)", n, f"pass depth={n}")

    @component.output_types(
        documents=list[Document], scores=list[dict[str, float | None]], cells=list[list[str]]
    )
    def run(
        self, query: str, query_embedding: list[float], filters: dict[str, Any] | None = None,
        top_k: int | None = None, scope: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
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

    run_async = awaiting(run)
