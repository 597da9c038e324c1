"""An index of documents (id, text, vector, metadata), which adapters of vector stores share.

Each document lies in one cell. Every call names the cell it writes, or the scope it reads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import pyarrow as pa

from hyrecall.adapters.degraded import warn_if_degraded
from hyrecall.adapters.document_filters import check_names, filter_value, read_filter
from hyrecall.adapters.document_rows import (
    UNKNOWN_DIM,
    dim_of_index,
    everyone,
    rows_for_vectors,
    rows_of,
    schema_of,
)
from hyrecall.adapters.document_table import (
    ROW_COLUMNS,
    AttributeType,
    Document,
    FoundDocument,
    dim_of,
    document_of,
    found_of,
    read_cell,
    read_documents,
    read_type,
    table_of,
)
from hyrecall.ask.filter_like import FilterLike
from hyrecall.ask.queries import TextQuery
from hyrecall.ask.scope import Scope
from hyrecall.ask.scoring import Above, Fusion
from hyrecall.ask.shaping import Stage
from hyrecall.base.arguments import as_int, one_of, read_path
from hyrecall.base.forks import free_in_children
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, KeyConflictError, OptionError, error
from hyrecall.index import Index
from hyrecall.recipe import Recipe
from hyrecall.table.schema import Text
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

__all__ = ["Document", "DocumentIndex", "FoundDocument"]


@check_keywords
class DocumentIndex:
    """An index of documents, for frameworks that have vector stores.

    It may hold many cells, say one per user; the stores of a framework share it. Any number of
    threads may read; writes wait for one another.

    Parameters
    ----------
    attributes : mapping of str to type, optional
        Fields of the metadata to filter by: str, int, float, bool, datetime, date, a list of one
        (``list[str]``), or an Arrow type. A name with dots reaches into nested objects. Times are
        ISO 8601 strings in the metadata.
    cell_columns : sequence of str, default ("cell",)
        What a cell consists of, each a string. A cell is a str, or a tuple if there are several.
    dim : int, optional
        Length of the vectors, at least 2; default: that of the first vector written. Give it where
        users share the index: otherwise the first vector of one cell decides for all.
    keep_vectors : bool, default False
        Whether documents that are read have their vectors.
    analyzer, bm25, device, threads
        As in :meth:`hyrecall.Index.build`.

    Raises
    ------
    OptionError, DTypeError
        A name that the index uses itself or that is a cell column, or a type that no filter reads.

    Examples
    --------
    >>> import hyrecall as hr
    >>> documents = DocumentIndex(attributes={"year": int})
    >>> documents.write([Document(text="hot tea", id="a", metadata={"year": 2026})], cell="ann")
    ['a']
    >>> found = documents.recall(text="tea", scope="ann", filter=hr.Filter(year=(2020, None)))
    >>> found[0].document.text, documents.recall(text="tea", scope="bob")
    ('hot tea', [])
    """

    def __init__(
        self,
        *,
        attributes: Mapping[str, AttributeType] | None = None,
        cell_columns: str | Sequence[str] = ("cell",),
        dim: int | None = None,
        keep_vectors: bool = False,
        analyzer: Analyzer | None = None, bm25: BM25 | None = None,
        device: str = "auto", threads: int | None = None,
    ) -> None:  # fmt: skip
        """Make an empty index."""
        cells = (cell_columns,) if isinstance(cell_columns, str) else tuple(cell_columns)
        declared = dict(attributes or {})
        check_names(cells, declared)
        self._cell_columns = cells
        self._attributes = {name: read_type(name, kind) for name, kind in declared.items()}
        length = UNKNOWN_DIM if dim is None else as_int(dim)
        if dim is not None and (length is None or length < 2):
            raise error(OptionError, "dim", "an int >= 2, or None", repr(dim))
        self._keep_vectors = bool(keep_vectors)
        self._text = Text("text", analyzer=analyzer, bm25=bm25)
        self._device, self._threads = device, threads
        self._writing = free_in_children(threading.RLock())  # an update reads and writes as one
        self._next_position = 0
        self._folder: Path | None = None
        self._without_vectors: Index | None = None  # what was saved before the first vector came
        empty = table_of([], dict.fromkeys(cells, ""), self._attributes, length, 0)
        self._index = self._build(empty)

    # ---- what is there ----

    @property
    def index(self) -> Index:
        """The index of the documents; another one once the first vector was written."""
        return self._index

    @property
    def cell_columns(self) -> tuple[str, ...]:
        """What a cell consists of."""
        return self._cell_columns

    @property
    def attributes(self) -> dict[str, pa.DataType]:
        """The fields of the metadata that can be filtered by, with their Arrow types."""
        return dict(self._attributes)

    @property
    def dim(self) -> int | None:
        """The length of the vectors; None before the first one."""
        return dim_of_index(self._index)

    def cell(self, cell: object) -> tuple[str, ...]:
        """Check that something is one cell of these documents, and return it as a tuple.

        Parameters
        ----------
        cell : str or tuple of str

        Returns
        -------
        tuple of str
            A value for each cell column.

        Raises
        ------
        ScopeError
            Anything else: None, a list, a Scope, an empty str, or another number of values.
        """
        return read_cell(cell, self._cell_columns)

    def value(self, name: str, value: object) -> Any:
        """Convert a value of a framework's filter to the type of an attribute.

        Parameters
        ----------
        name : str
            A declared attribute, or ``id``.
        value : object
            Times may be ISO strings; of a list attribute, the value is one element.

        Returns
        -------
        object
            A value for :class:`hyrecall.Filter`.

        Raises
        ------
        OptionError, DTypeError
            The attribute is not declared (the message has the line that declares it), or the value
            has another type.
        """
        return filter_value(name, value, self._attributes)

    # ---- writing ----

    def write(
        self,
        documents: Iterable[Document],
        *,
        cell: str | tuple[str, ...],
        on_duplicate: Literal["overwrite", "skip", "fail"] = "overwrite",
    ) -> list[str]:
        """Write documents into one cell: all of them, or none if one is refused.

        Parameters
        ----------
        documents : iterable of Document
        cell : str or tuple of str
            One cell; ids of other cells are no duplicates.
        on_duplicate : {"overwrite", "skip", "fail"}, default "overwrite"
            What happens to a document whose id the cell holds already, or that comes twice: the
            last one stays, the first one stays, or KeyConflictError.

        Returns
        -------
        list of str
            The id of each document that was written or overwritten, in the order given.

        Raises
        ------
        KeyConflictError, ScopeError, OptionError, DTypeError, ShapeError
            A duplicate with ``on_duplicate="fail"``, a cell that is not one, or a document that the
            index cannot hold; it is named.
        """
        one_of("on_duplicate", on_duplicate, ("overwrite", "skip", "fail"))
        place = read_cell(cell, self._cell_columns)
        given = read_documents(documents)
        with self._writing:
            if on_duplicate == "skip":
                held = self._index.get([one.id for one in given], scope=place)["key"].to_pylist()
                first = {one.id: one for one in reversed(given) if one.id not in {*held}}
                given = [one for one in given if first.get(one.id) is one]
            kept = given
            if on_duplicate == "overwrite":
                last = {one.id: one for one in given}
                kept = [one for one in given if last[one.id] is one]
            if not kept:
                return []
            index, known = self._index, self.dim
            dim = known or dim_of(kept)
            cells = dict(zip(self._cell_columns, place, strict=True))
            table = table_of(kept, cells, self._attributes, dim, self._next_position)
            if dim != known:
                index = self._build(rows_for_vectors(index, cast("int", dim)))
            try:
                (index.upsert if on_duplicate == "overwrite" else index.add)(table)
            except KeyConflictError as fault:
                got = str(fault).partition(", got ")[2].rpartition("; ")[0]
                wish, how = (
                    "ids that the cell does not hold yet",
                    'replace it: on_duplicate="overwrite"',
                )
                raise error(KeyConflictError, "id", wish, got, how) from None
            if dim != known:
                self._without_vectors, self._index = self._index, index
            self._next_position += len(kept)
        return [cast("str", document.id) for document in given]

    def delete(
        self,
        ids: Sequence[str] | None = None,
        *,
        cell: str | tuple[str, ...],
        filter: FilterLike | None = None,  # noqa: A002
        everything: bool = False,
    ) -> int:
        """Delete documents of one cell by id, by filter, or all of them, as :meth:`Index.delete`.

        An id that the cell does not hold is no error. Without ids and filter, ``everything=True``
        has to say that the whole cell is meant.

        Parameters
        ----------
        ids, filter, everything
            As in :meth:`hyrecall.Index.delete`.
        cell : str or tuple of str

        Raises
        ------
        ScopeError, OptionError, DTypeError
            A cell that is not one, nothing that says what is meant, or an undeclared attribute.
        """
        place = read_cell(cell, self._cell_columns)
        narrowed = read_filter(filter, self._attributes)
        if ids is None and narrowed is None and not everything:
            wish = "ids, a filter, or everything=True for the whole cell"
            raise error(OptionError, "ids", wish, "none of them")
        with self._writing:
            return self._index.delete(ids, scope=place, filter=narrowed, everything=everything)

    def update(
        self,
        metadata: Mapping[str, Any],
        *,
        cell: str | tuple[str, ...],
        filter: FilterLike,  # noqa: A002
    ) -> int:
        """Set fields of the metadata of the documents that pass a filter; return their number.

        No other write comes between the read and the write. Updated documents count as new: they
        move to the end of the order.

        Parameters
        ----------
        metadata : mapping of str to JSON values
            The fields to set; others stay as they are.
        cell : str or tuple of str
        filter : Filter or pyarrow.compute.Expression

        Returns
        -------
        int

        Raises
        ------
        ScopeError, OptionError, DTypeError
            A cell that is not one, a filter that the attributes cannot answer, or a value that the
            index cannot hold; nothing is changed.
        OptionError
            Documents have vectors, but the index does not keep them for its readers, so that
            writing the documents again would lose them.
        """
        if not isinstance(metadata, Mapping):
            raise error(DTypeError, "metadata", "a mapping", repr(metadata))
        with self._writing:
            found = self.find(scope=read_cell(cell, self._cell_columns), filter=filter)
            if found and self.dim is not None and not self._keep_vectors:
                wish = "True to update documents, whose vectors would be lost"
                raise error(OptionError, "keep_vectors", wish, "False")
            changed = [replace(one, metadata={**one.metadata, **metadata}) for one in found]
            return len(self.write(changed, cell=cell))

    # ---- reading ----

    def get(self, ids: Sequence[str], *, scope: object) -> list[Document]:
        """Return the documents of some ids in the order of the ids; those not there are left out.

        Parameters
        ----------
        ids : sequence of str
        scope : cell or Scope
            What may be read. An id that several cells hold gives a document for each.

        Returns
        -------
        list of Document

        Raises
        ------
        ScopeError, DTypeError, KeyConflictError
            No scope, or ids that cannot be one.
        """
        index = self._index
        rows = index.get(ids, scope=scope, columns=self._columns(index))
        return [document_of(row, self._cell_columns) for row in rows.to_pylist()]

    def find(
        self,
        *,
        scope: object,
        filter: FilterLike | None = None,  # noqa: A002
        limit: int | None = None,
    ) -> list[Document]:
        """Return the documents that pass a filter, in the order in which they were written.

        Parameters
        ----------
        scope : cell or Scope
        filter : Filter or pyarrow.compute.Expression, optional
        limit : int, optional
            At most so many: the first ones.

        Returns
        -------
        list of Document

        Raises
        ------
        ScopeError, OptionError, DTypeError
            No scope, or a filter that the attributes cannot answer.
        """
        index, narrowed = self._index, read_filter(filter, self._attributes)
        rows = rows_of(index, scope, narrowed, self._columns(index))
        n = len(rows) if limit is None else as_int(limit)
        if n is None or n < 0:
            raise error(OptionError, "limit", "an int >= 0, or None", repr(limit))
        return [document_of(row, self._cell_columns) for row in rows.slice(0, n).to_pylist()]

    def count(self, *, scope: object, filter: FilterLike | None = None) -> int:  # noqa: A002
        """Count the documents of a scope, or those that pass a filter, as :meth:`Index.count`."""
        return self._index.count(scope=scope, filter=read_filter(filter, self._attributes))

    def recall(
        self,
        *,
        text: TextQuery | None = None, vector: object = None,
        scope: object,
        filter: FilterLike | None = None,  # noqa: A002
        limit: int = 10, offset: int = 0, depth: int = 100,
        fusion: Fusion | None = None,
        min_score: Mapping[str, float | Above] | None = None,
        min_fused: float | Above | None = None,
        normalize: bool = False,
        shaping: Sequence[Stage] | Stage = (),
        recipe: Recipe | None = None,
    ) -> list[FoundDocument]:  # fmt: skip
        """Return the best documents of a scope, by text, by vector, or by both.

        Parameters
        ----------
        text : str or typed query, optional
        vector : array, shape (dim,), optional
        scope : cell or Scope
        filter, limit, offset, depth, fusion, min_score, min_fused, normalize, shaping, recipe
            As in :meth:`hyrecall.Index.recall_one`, errors too. The arms are ``text`` and
            ``vector``.

        Returns
        -------
        list of FoundDocument
            By score descending; equal scores in the order of writing.

        Raises
        ------
        ScopeError, OptionError, ShapeError, DTypeError
            The argument is named.

        Notes
        -----
        Before the first vector is written, a query's vector finds nothing, whatever its length. A
        degraded reply warns (:class:`hyrecall.adapters.degraded.DegradedWarning`).
        """
        index = self._index
        if vector is not None and dim_of_index(index) is None:
            vector = [0.0] * UNKNOWN_DIM  # a vector that an index takes, and that finds nothing
        hits = index.recall_one(
            text=text, vector=vector, scope=scope, limit=limit, offset=offset, depth=depth,
            filter=read_filter(filter, self._attributes), fusion=fusion, min_score=min_score,
            min_fused=min_fused, normalize=normalize, shaping=shaping, recipe=recipe,
            columns=self._columns(index),
        )  # fmt: skip
        warn_if_degraded(hits.trace.degraded)
        return [found_of(row, self._cell_columns) for row in hits.to_arrow().to_pylist()]

    # ---- keeping ----

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the documents to a folder, as :meth:`Index.save`; ``Index.open`` reads it too."""
        folder = read_path(path)
        with self._writing:
            before = self._without_vectors
            # The index was made anew for its first vector, and so knows no folder.
            is_own = before is not None and folder == self._folder and not before.is_stale
            self._index.save(folder, overwrite=overwrite or is_own)
            self._folder, self._without_vectors = folder, None

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        analyzer: Analyzer | None = None,
        memory: str = "mmap",
        verify: str | None = None,
        device: str = "auto",
        threads: int | None = None,
    ) -> DocumentIndex:
        """Open a saved folder, as :meth:`Index.open`; attributes and cell columns are those saved.

        Parameters
        ----------
        path, analyzer, memory, verify, device, threads
            As in :meth:`hyrecall.Index.open`, errors too.

        Returns
        -------
        DocumentIndex

        Raises
        ------
        OptionError
            The folder holds an index of other columns.
        """
        index = Index.open(
            path, analyzer=analyzer, memory=memory, verify=verify, device=device, threads=threads
        )
        schema = index.schema
        missing = set(ROW_COLUMNS[:4]) - set(schema.row_columns)
        if missing or schema.key != "id" or not schema.cell_columns:
            wish = "an index that DocumentIndex.save wrote"
            raise error(OptionError, "path", wish, f"one with the columns {schema.row_columns}")
        names = [name for name in schema.attributes or () if name not in ROW_COLUMNS]
        kinds = index.get([], scope=Scope([]), columns=names).schema
        made = cls(
            attributes={name: kinds.field(name).type for name in names},
            cell_columns=schema.cell_columns,
            keep_vectors="vector" in schema.stored_columns,
            device=device,
            threads=threads,
        )
        made._text = schema.text_arms["text"]
        made._index, made._folder = index, read_path(path)
        newest = rows_of(index, everyone(index), None, ("position",), limit=1)["position"]
        made._next_position = newest[0].as_py() + 1 if len(newest) else 0
        return made

    def _columns(self, index: Index) -> tuple[str, ...]:
        """Return the columns that make a document."""
        has_vectors = self._keep_vectors and dim_of_index(index) is not None
        return ("text", "metadata", "vector") if has_vectors else ("text", "metadata")

    def _build(self, table: pa.Table) -> Index:
        schema = schema_of(table, self._cell_columns, self._text, keep_vectors=self._keep_vectors)
        return Index.build(table, schema, device=self._device, threads=self._threads)

    def __len__(self) -> int:
        """Return the number of documents in all cells."""
        return len(self._index)

    def __repr__(self) -> str:
        """Show size and attributes."""
        return f"<DocumentIndex: {len(self)} documents, attributes {list(self._attributes)}>"
