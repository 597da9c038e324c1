"""Haystack over documents in cells: a document store, and keyword, embedding and hybrid retrievers.

Without ``from __future__ import annotations``: Haystack reads the types of ``run`` as they stand.
"""

import asyncio
import functools
import json
from collections.abc import Callable, Coroutine, Mapping
from datetime import date, datetime
from functools import reduce
from operator import and_, or_
from pathlib import Path
from typing import Any, Final, Literal, ParamSpec, TypeVar

import pyarrow as pa

from hyrecall.adapters.documents import (
    AttributeType,
    DocumentIndex,
    FoundDocument,
    is_list,
    open_documents,
    read_cell,
    type_names,
)
from hyrecall.adapters.documents import Document as Row
from hyrecall.adapters.extras import needs_extra
from hyrecall.ask.filters import Filter, IsNull, NoneOf
from hyrecall.ask.predicates import Predicate
from hyrecall.ask.scope import Scope, ScopePattern
from hyrecall.ask.scoring import RRF
from hyrecall.base.arguments import as_int, check_keywords
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


# ---- Turns blocking methods into coroutine functions, for frameworks that await them ----

P_ = ParamSpec("P_")
T_ = TypeVar("T_")


def awaited(method: Callable[P_, T_]) -> Callable[P_, Coroutine[Any, Any, T_]]:
    """Return a coroutine function that calls a method on a thread, off the event loop."""

    @functools.wraps(method)
    async def call(*args: P_.args, **options: P_.kwargs) -> T_:
        return await asyncio.to_thread(method, *args, **options)

    call.__name__ = f"{method.__name__}_async"
    call.__qualname__ = f"{method.__qualname__}_async"
    return call


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

_NOTHING: Final[list[object]] = []  # a list of no values matches no row
_LOGIC: Final[dict[str, Callable[[list[Filter]], Filter]]] = {
    "AND": lambda parts: reduce(and_, parts),
    "OR": lambda parts: reduce(or_, parts),
    "NOT": lambda parts: ~reduce(and_, parts),
}


def filter_of(given: dict[str, Any] | None, documents: DocumentIndex) -> Filter | None:
    """Return the filter that a Haystack filter means; None for none.

    Raises
    ------
    FilterError
        A key that is missing, an unknown operator, an undeclared field, a value of another type.
    """
    if not given:
        return None
    try:
        return _read(given, documents)
    except (OptionError, DTypeError) as fault:
        raise FilterError(str(fault)) from fault


def field_name(field: str) -> str:
    """Return the attribute of a field: ``meta.`` before it may be left out."""
    return field.removeprefix("meta.")


def _read(given: object, documents: DocumentIndex) -> Filter:
    if not isinstance(given, dict):
        raise FilterError(f"filters: expected a dict, got {given!r}")
    is_comparison = "field" in given
    for key in ("operator", "value") if is_comparison else ("operator", "conditions"):
        if key not in given:
            raise FilterError(f"filters: expected the key {key!r}, got {given}")
    operator = given["operator"]
    for key in ("field", "operator"):
        if not isinstance(given.get(key, ""), str):
            raise FilterError(f"filters: expected a str as {key!r}, got {given[key]!r}")
    if is_comparison:
        return _compare(field_name(given["field"]), operator, given["value"], documents)
    conditions = given["conditions"]
    if operator not in _LOGIC or not isinstance(conditions, list) or not conditions:
        wish = f"one of {list(_LOGIC)} with a list of conditions"
        raise FilterError(f"filters: expected {wish}, got {operator!r} with {conditions!r}")
    return _LOGIC[operator]([_read(one, documents) for one in conditions])


def _compare(name: str, operator: str, value: object, documents: DocumentIndex) -> Filter:
    if operator not in _COMPARISONS:
        known = list(_COMPARISONS)
        raise FilterError(f"filters: expected one of {known}, got {operator!r}")
    test = _COMPARISONS[operator]
    if operator in ("in", "not in"):
        if not isinstance(value, list):
            raise FilterError(f"filters: expected a list for {operator!r}, got {value!r}")
        read = [documents.value(name, one) for one in value]
        has_null = any(one is None for one in read)
        found = Filter(**{name: [one for one in read if one is not None]})
        found = found | Filter(**{name: IsNull()}) if has_null else found
        return ~found if operator == "not in" else found
    read_value = documents.value(name, value)
    if operator in ("==", "!="):
        equal = Filter(**{name: IsNull() if read_value is None else read_value})
        return ~equal if operator == "!=" else equal
    if read_value is None:
        return Filter(**{name: _NOTHING})
    if isinstance(read_value, bool) or not isinstance(read_value, int | float | datetime | date):
        wish = "a number, or a time in a field that is declared as datetime"
        raise FilterError(f"filters: expected {wish} for {operator!r}, got {value!r} for {name!r}")
    if operator in (">", "<") and is_list(documents.attributes.get(name, pa.string())):
        # Of two elements one may be in the range, and the other be the value that is excluded.
        raise FilterError(
            f"filters: expected '{operator}=' for the list {name!r}, got {operator!r}"
        )
    return reduce(and_, [Filter(**{name: one}) for one in test(read_value)])


# An end of a range is included, so that a strict comparison also excludes its value.
_COMPARISONS: Final[dict[str, Callable[[Any], list[tuple[Any, Any] | Predicate]]]] = {
    ">": lambda value: [(value, None), NoneOf(value)],
    ">=": lambda value: [(value, None)],
    "<": lambda value: [(None, value), NoneOf(value)],
    "<=": lambda value: [(None, value)],
    **dict.fromkeys(("==", "!=", "in", "not in"), lambda _: []),
}


# ---- What Haystack asks of a store's metadata: distinct values, types, least and largest values
# These calls read the documents themselves, so that the fields need not be declared.

_TYPES = {bool: "boolean", int: "int", float: "float"}


class MetadataQueries:
    """The methods of a document store that describe metadata; they read ``filter_documents``."""

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """Return the documents that pass a filter."""
        raise NotImplementedError  # the class with the documents has it

    def _values(self, field: str, filters: dict[str, Any] | None = None) -> list[Any]:
        """Return the values of a field, without nulls, in the order of the documents."""
        name = field_name(field)
        found = (document.meta.get(name) for document in self.filter_documents(filters))
        return [value for value in found if value is not None]

    def count_unique_metadata_by_filter(
        self, filters: dict[str, Any], metadata_fields: list[str]
    ) -> dict[str, int]:
        """Return how many distinct values each field has in the documents that pass a filter."""
        return {
            field_name(field): len(_distinct(self._values(field, filters)))
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
        self,
        metadata_field: str,
        search_term: str | None = None,
        from_: int = 0,
        size: int = 10,
        filters: dict[str, Any] | None = None,
    ) -> tuple[list[Any], int]:
        """Return a page of a field's distinct values, sorted as text, and the number of them."""
        values = _distinct(self._values(metadata_field, filters))
        wanted = (search_term or "").lower()
        found = sorted((one for one in values if wanted in str(one).lower()), key=str)
        return found[from_ : from_ + size], len(found)

    count_unique_metadata_by_filter_async = awaited(count_unique_metadata_by_filter)
    get_metadata_fields_info_async = awaited(get_metadata_fields_info)
    get_metadata_field_min_max_async = awaited(get_metadata_field_min_max)
    get_metadata_field_unique_values_async = awaited(get_metadata_field_unique_values)


def _distinct(values: list[Any]) -> list[Any]:
    """Return each value once; 1, 1.0, "1" and true are four."""
    return list({json.dumps(value, sort_keys=True): value for value in values}.values())


# ---- Haystack's document store: documents of one cell, in an index that may hold many ----


@check_keywords
class HyrecallDocumentStore(MetadataQueries):
    """Keeps Haystack's documents in one cell, such as a user or a tenant, and finds them there.

    Parameters
    ----------
    cell : str, or tuple or list of str
        Where documents are written. There is no default.
    scope : str, tuple or Scope, optional
        What is read; default: the cell.
    path : path-like, optional
        A folder: opened if it holds documents, and saved to after every write. One store writes
        to it: stores of several cells share ``documents``.
    attributes : mapping of str to type, optional
        The fields of ``meta`` that filters may name, as in
        :class:`hyrecall.adapters.documents.DocumentIndex`; a type may be written as ``"int"`` or
        ``"list[str]"``. They are needed where ``path`` holds nothing yet.
    documents : DocumentIndex, optional
        An index to share with stores of other cells, in place of ``path`` and ``attributes``. One
        with ``keep_vectors=True`` gives documents back with their embeddings.

    Raises
    ------
    ScopeError
        No cell.
    OptionError
        ``documents`` beside ``path`` or ``attributes``, or attributes other than the saved ones.

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
        attributes: "Mapping[str, AttributeType | str] | None" = None,
        documents: DocumentIndex | None = None,
    ) -> None:  # fmt: skip
        """Open the documents, or make an empty index for them."""
        self._path, self._is_shared = path, documents is not None
        self._documents = open_documents(documents, path, attributes, keep_vectors=True)
        place = tuple(cell) if isinstance(cell, list) else cell
        self._cell = read_cell(place, self._documents.cell_columns)
        self._scope: Any = self._cell if scope is None else scope
        self._documents.count(scope=self._scope)  # refuses what is no scope of these cells

    def count_documents(self) -> int:
        """Return how many documents the scope holds."""
        return self._documents.count(scope=self._scope)

    def count_documents_by_filter(self, filters: dict[str, Any]) -> int:
        """Return how many documents of the scope pass a filter."""
        return self._documents.count(scope=self._scope, filter=self._filter(filters))

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """Return the documents of the scope that pass a filter, in the order of writing."""
        found = self._documents.find(scope=self._scope, filter=self._filter(filters))
        return [document_of(row) for row in found]

    def recall(
        self, *, filters: dict[str, Any] | None = None, scope: object = None, **options: Any
    ) -> list[tuple[Document, FoundDocument]]:
        """Return the best documents, by the options of ``DocumentIndex.recall``."""
        found = self._documents.recall(
            scope=self._scope if scope is None else scope, filter=self._filter(filters), **options
        )
        return [(document_of(one.document, one.score), one) for one in found]

    def write_documents(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """Write documents, all or none; return how many. NONE is FAIL.

        Raises
        ------
        DuplicateDocumentError
            By FAIL, an id that the cell holds or that comes twice.
        ValueError
            Not a list of documents, or one with a blob or a sparse embedding, which no index holds.
        """
        if not isinstance(documents, list):
            raise ValueError(f"documents: expected a list, got {type(documents).__name__}")
        if not isinstance(policy, DuplicatePolicy):
            raise error(DTypeError, "policy", "a DuplicatePolicy", repr(policy))
        rows = [row_of(at, document) for at, document in enumerate(documents)]
        try:
            ids = self._documents.write(rows, cell=self._cell, on_duplicate=POLICIES[policy])
        except KeyConflictError as fault:
            told = str(fault).rpartition("; ")[0]
            how = "replace it: policy=DuplicatePolicy.OVERWRITE"
            raise DuplicateDocumentError(f"{told}; {how}") from fault
        return self._saved(len(ids))

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents of the cell by id; an id that it does not hold is no error."""
        self._saved(self._documents.delete(document_ids, cell=self._cell))

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        """Delete the documents of the cell that pass a filter; return how many there were."""
        return self._saved(self._documents.delete(cell=self._cell, filter=self._filter(filters)))

    def delete_all_documents(self) -> None:
        """Delete all documents of the cell."""
        self._saved(self._documents.delete(cell=self._cell, everything=True))

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Set fields of ``meta`` where a filter passes; return how many documents changed.

        An updated document is written again, and so comes last in ``filter_documents``. A shared
        index with embeddings needs ``keep_vectors=True``, or their documents would lose them.
        """
        if not filters:
            raise FilterError("filters: expected a filter of what to update, got none")
        chosen = self._filter(filters)
        return self._saved(self._documents.update(meta, cell=self._cell, filter=chosen))

    count_documents_async = awaited(count_documents)
    count_documents_by_filter_async = awaited(count_documents_by_filter)
    filter_documents_async = awaited(filter_documents)
    write_documents_async = awaited(write_documents)
    delete_documents_async = awaited(delete_documents)
    delete_by_filter_async = awaited(delete_by_filter)
    delete_all_documents_async = awaited(delete_all_documents)
    update_by_filter_async = awaited(update_by_filter)

    def to_dict(self) -> dict[str, Any]:
        """Return what makes the store again; without ``path`` that is an empty store."""
        if self._is_shared:
            wish = "path=, so that another process can open the documents"
            raise error(OptionError, "documents", wish, "an index of this process")
        scope: Any = self._scope
        if isinstance(scope, ScopePattern):
            raise error(OptionError, "scope", "cells, which a file can hold", repr(scope))
        if isinstance(scope, Scope):
            scope = {"cells": [list(cell) for cell in scope.cells]}
        made: dict[str, Any] = default_to_dict(
            self,
            cell=list(self._cell),
            scope=list(scope) if isinstance(scope, tuple) else scope,
            path=None if self._path is None else str(self._path),
            attributes=type_names(self._documents),
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

    def _saved(self, n: int) -> int:
        """Save the documents if there is a path and something changed; return the number."""
        if self._path is not None and n:
            self._documents.save(self._path)
        return n

    def _filter(self, filters: dict[str, Any] | None) -> Any:
        return filter_of(filters, self._documents)


# ---- Haystack's retrievers over the document store: by words, by an embedding, by both ----
# Without ``from __future__ import annotations``: Haystack reads the types of ``run`` as they stand.


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
        ``hyrecall.recipes`` joins them, by a weighted sum of scores.
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
