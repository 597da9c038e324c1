"""Haystack's document store: documents of one cell, in an index that may hold many."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from haystack import Document, default_from_dict, default_to_dict
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError

from hyrecall.adapters.awaiting import awaited
from hyrecall.adapters.document_folder import open_documents, type_names
from hyrecall.adapters.document_table import AttributeType, read_cell
from hyrecall.adapters.documents import DocumentIndex, FoundDocument
from hyrecall.adapters.haystack_documents import POLICIES, document_of, row_of
from hyrecall.adapters.haystack_filters import filter_of
from hyrecall.adapters.haystack_metadata import MetadataQueries
from hyrecall.ask.scope import Scope, ScopePattern
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, KeyConflictError, OptionError, error

__all__ = ["HyrecallDocumentStore"]


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
        attributes: Mapping[str, AttributeType | str] | None = None,
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
    def from_dict(cls, data: dict[str, Any]) -> HyrecallDocumentStore:
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
