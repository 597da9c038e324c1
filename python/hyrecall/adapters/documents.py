"""An index of documents (id, text, vector, metadata), which adapters of vector stores share.

Each document lies in one cell. Every call names the cell it writes, or the scope it reads.
"""

from __future__ import annotations

import json
import math
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, cast, get_args, get_origin

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.adapters.degraded import warn_if_degraded
from hyrecall.arms import Newest
from hyrecall.ask import filter_program
from hyrecall.ask.filter_json import FilterLike
from hyrecall.ask.filters import Between, Filter, IsNull, NoneOf
from hyrecall.ask.queries import TextQuery
from hyrecall.ask.scope import ANY, Scope, ScopePattern
from hyrecall.ask.scoring import Above, Fusion
from hyrecall.base.arguments import (
    as_int,
    as_items,
    check_keywords,
    check_unicode,
    one_of,
    read_path,
)
from hyrecall.base.forks import free_in_children
from hyrecall.errors import (
    DTypeError,
    IndexNotFoundError,
    KeyConflictError,
    OptionError,
    ScopeError,
    ShapeError,
    error,
)
from hyrecall.index import Index
from hyrecall.recipe import Recipe
from hyrecall.stages.stage import Stage
from hyrecall.table.schema import Schema, Text
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

__all__ = ["Document", "DocumentIndex", "FoundDocument"]

AttributeType: TypeAlias = "pa.DataType | type[Any] | str"
"""The type of an attribute: str, int, float, bool, datetime, date, a list of one, the name of one
of these (``"int"``, ``"list[str]"``), or Arrow's."""

ARMS: Final = ("text", "vector")
ROW_COLUMNS: Final = ("id", "text", "metadata", "position", "vector")
MOST_LEVELS: Final = 64  # of metadata, as in a store
MOST_INT_BITS: Final = 8192  # Python prints and reads ints of up to 4,300 digits


@check_keywords
@dataclass(frozen=True, kw_only=True)
class Document:
    """A document: what a framework adds to a store, and gets back.

    Parameters
    ----------
    text : str or None
        What BM25 searches; None: the vector alone.
    id : str, optional
        Unique within its cell; None: a new one is made when the document is written.
    vector : sequence of float or array, shape (dim,), optional
        What cosine searches; None or zeros: the text alone.
    metadata : mapping of str to JSON values, default {}
        Returned whole; the fields that the index declares as attributes can be filtered by.
    cell : tuple of str, default ()
        Where a document that was read lies; not read when a document is written.

    Examples
    --------
    >>> Document(text="hot tea", id="a", metadata={"year": 2026}).metadata
    {'year': 2026}
    """

    text: str | None
    id: str | None = None
    vector: Sequence[float] | npt.NDArray[Any] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    cell: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FoundDocument:
    """A document that a recall found.

    Attributes
    ----------
    document : Document
    rank : int
        Place in the whole list, from 1.
    score : float
        What the list is ordered by: the fused score, or that of the only arm.
    scores : dict of str to float or None
        The scores of the arms ``text`` (BM25, at least 0) and ``vector`` (cosine, in [-1, 1]);
        None: not computed.
    """

    document: Document
    rank: int
    score: float
    scores: Mapping[str, float | None]


# ---- The types of attributes: by Python's type, by a name that a file can hold, or by Arrow's type


class _Kind(NamedTuple):
    """What holds the values of an attribute: in Python, in the index, and in Arrow at all."""

    python: type
    arrow: pa.DataType
    tests: tuple[Callable[[pa.DataType], bool], ...]


def _is_exact_time(kind: pa.DataType) -> bool:
    """Return whether a type holds every datetime; seconds and milliseconds would cut it."""
    return bool(pa.types.is_timestamp(kind)) and kind.unit in ("us", "ns")


_KINDS: Final = {
    "str": _Kind(str, pa.string(), (pa.types.is_string, pa.types.is_large_string)),
    "int": _Kind(int, pa.int64(), (pa.types.is_integer,)),
    "float": _Kind(float, pa.float64(), (pa.types.is_floating,)),
    "bool": _Kind(bool, pa.bool_(), (pa.types.is_boolean,)),
    "datetime": _Kind(datetime, pa.timestamp("us", "UTC"), (_is_exact_time,)),
    "date": _Kind(date, pa.date32(), (pa.types.is_date32,)),
}
# Arrow's own name of float32 is that of our float64.
_NAMES: Final = {one.arrow: name for name, one in _KINDS.items()} | {
    pa.large_string(): "str",
    pa.float32(): "float32",
}


def read_type(name: str, kind: object) -> pa.DataType:
    """Return the Arrow type of an attribute that can be filtered by."""
    if get_origin(kind) is list:
        return pa.list_(read_type(name, *get_args(kind)))
    found = kind
    if isinstance(kind, str | type):
        if isinstance(kind, str) and kind.startswith("list["):
            return pa.list_(read_type(name, kind[5:-1]))
        found = next((one.arrow for key, one in _KINDS.items() if kind in (key, one.python)), kind)
    if isinstance(found, str):
        with suppress(ValueError):
            found = pa.type_for_alias(found)
    if not isinstance(found, pa.DataType) or _reader_of(found) is None:
        wish = "str, int, float, bool, datetime, date, a list of one (list[str]), or its Arrow type"
        raise error(DTypeError, f"attributes[{name!r}]", wish, repr(kind))
    return found


def type_name(kind: pa.DataType) -> str:
    """Return the name of a type, as :func:`read_type` takes it."""
    return f"list[{type_name(kind.value_type)}]" if is_list(kind) else _NAMES.get(kind, str(kind))


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _reader_of(kind: pa.DataType) -> Any:
    """Return the Python type of an Arrow type's values; None: no type of an attribute."""
    if is_list(kind):
        return None if is_list(kind.value_type) else _reader_of(kind.value_type)
    return next(
        (one.python for one in _KINDS.values() if any(test(kind) for test in one.tests)), None
    )


def read_value(place: str, value: object, kind: pa.DataType) -> Any:
    """Convert a JSON value, or a value of a filter, to the type of an attribute.

    Times may be ISO 8601 strings. Nothing else is converted: 1.5 is no int, 1 no str.
    """
    if value is None:
        return None
    if is_list(kind):
        if not isinstance(value, list | tuple):
            raise error(DTypeError, place, f"a list ({kind})", repr(value))
        return [read_value(f"{place}[{i}]", one, kind.value_type) for i, one in enumerate(value)]
    reader = _reader_of(kind)
    try:
        if isinstance(value, str) and reader in (datetime, date):
            return reader.fromisoformat(value)
        allowed = (int, float) if reader is float else reader
        is_other = isinstance(value, bool) != (reader is bool)  # a bool is an int in Python,
        is_other |= isinstance(value, datetime) != (reader is datetime)  # a datetime a date
        if is_other or not isinstance(value, allowed):
            raise TypeError
        return pa.scalar(value, kind).as_py()
    except (TypeError, ValueError, OverflowError):
        raise error(DTypeError, place, str(kind), repr(value)) from None


# ---- Documents as the rows of an index, and rows as documents ----


def read_documents(documents: Iterable[Document]) -> list[Document]:
    """Check documents and give an id to each that has none."""
    made = []
    items = as_items(documents)
    if items is None:
        raise error(DTypeError, "documents", "Documents", repr(documents))
    for at, document in enumerate(items):
        place = f"documents[{at}]"
        if not isinstance(document, Document):
            raise error(DTypeError, place, "a Document", type(document).__name__)
        for name, value in (("id", document.id), ("text", document.text)):
            if value is not None and not isinstance(value, str):
                raise error(DTypeError, f"{place}.{name}", "a str or None", repr(value))
            check_unicode(f"{place}.{name}", value or "")
        made.append(
            replace(
                document,
                id=str(uuid.uuid4()) if document.id is None else document.id,
                vector=_read_vector(f"{place}.vector", document.vector),
            )
        )
    return made


def _read_vector(place: str, vector: object) -> Any:
    """Return a vector as a float32 array."""
    if vector is None:
        return None
    try:
        with np.errstate(over="ignore"):
            read = np.asarray(vector, np.float32)
    except (TypeError, ValueError):
        raise error(DTypeError, place, "numbers", repr(vector)) from None
    if read.ndim != 1 or len(read) < 2:
        raise error(ShapeError, place, "at least 2 values", f"shape {read.shape}")
    if not np.isfinite(read).all():
        raise error(OptionError, place, "finite float32 values", repr(vector))
    return read


def check_json(place: str, value: object, levels: int = MOST_LEVELS) -> None:
    """Refuse what JSON would lose or change, and name its place."""
    if isinstance(value, dict | list) and not levels:
        raise error(OptionError, place, f"at most {MOST_LEVELS} levels", "more")
    if isinstance(value, dict):
        for name, one in value.items():
            if not isinstance(name, str):
                raise error(DTypeError, place, "names that are str", repr(name))
            check_unicode(place, name)
            check_json(f"{place}[{name!r}]", one, levels - 1)
    elif isinstance(value, list):
        for at, one in enumerate(value):
            check_json(f"{place}[{at}]", one, levels - 1)
    elif isinstance(value, str):
        check_unicode(place, value)
    elif isinstance(value, int) and value.bit_length() > MOST_INT_BITS:
        got = f"one of {value.bit_length():,} bits"
        raise error(OptionError, place, f"an int of at most {MOST_INT_BITS:,} bits", got)
    elif not isinstance(value, int | float | None) or (
        isinstance(value, float) and not math.isfinite(value)
    ):
        wish = "a JSON value (str, int, finite float, bool, None, list or dict)"
        remedy = "write it as value.isoformat()" if isinstance(value, date) else ""
        raise error(DTypeError, place, wish, f"{type(value).__name__} {value!r}", remedy)


def table_of(
    documents: Sequence[Document],
    cell: Mapping[str, str],
    attributes: Mapping[str, pa.DataType],
    dim: int | None,
    first_position: int,
) -> pa.Table:
    """Return the rows of documents; without a dimension no document has a vector."""
    n = len(documents)
    columns: dict[str, pa.Array] = {
        "id": pa.array([document.id for document in documents], pa.string()),
        **{name: pa.array([part] * n, pa.string()) for name, part in cell.items()},
        "text": pa.array([document.text for document in documents], pa.string()),
        "metadata": pa.array(_metadata(documents), pa.string()),
        "position": pa.array(range(first_position, first_position + n), pa.int64()),
    }
    for name, kind in attributes.items():
        values = [
            read_value(f"documents[{at}].metadata[{name!r}]", _field(document, name), kind)
            for at, document in enumerate(documents)
        ]
        columns[name] = pa.array(values, kind)
    columns["vector"] = _vectors(documents, dim or 1)
    return pa.table(columns)


def _metadata(documents: Sequence[Document]) -> list[str]:
    for at, document in enumerate(documents):
        place = f"documents[{at}].metadata"
        if not isinstance(document.metadata, Mapping):
            raise error(DTypeError, place, "a mapping", repr(document.metadata))
        check_json(place, dict(document.metadata))
    return [json.dumps(dict(document.metadata), ensure_ascii=False) for document in documents]


def _field(document: Document, name: str) -> object:
    """Return a field of the metadata; a name with dots may go into nested objects."""
    found: object = document.metadata
    if name in document.metadata:
        return document.metadata[name]
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def dim_of(documents: Sequence[Document]) -> int | None:
    """Return the length of the first vector, or None if no document has one."""
    return next((len(one.vector) for one in documents if one.vector is not None), None)


def _vectors(documents: Sequence[Document], dim: int) -> pa.Array:
    rows = np.zeros((len(documents), dim), np.float32)
    missing = np.ones(len(documents), bool)
    for at, document in enumerate(documents):
        if document.vector is None:
            continue
        if len(document.vector) != dim:
            got = len(document.vector)
            raise error(ShapeError, f"documents[{at}].vector", f"{dim} values", got)
        rows[at], missing[at] = document.vector, False
    mask = pa.array(missing)
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), dim, mask=mask)


def document_of(row: Mapping[str, Any], cell_columns: Sequence[str]) -> Document:
    """Return the document of a row that an index returned."""
    return Document(
        text=row["text"],
        id=row["key"],
        vector=row.get("vector"),
        metadata=json.loads(row["metadata"]),
        cell=tuple(row[name] for name in cell_columns),
    )


def found_of(row: Mapping[str, Any], cell_columns: Sequence[str]) -> FoundDocument:
    """Return the document of a hit's row, with its scores."""
    return FoundDocument(
        document=document_of(row, cell_columns),
        rank=row["rank"],
        score=row["score"],
        scores={arm: row[f"{arm}_score"] for arm in ARMS if f"{arm}_score" in row},
    )


# ---- Filters of documents: on declared attributes only, and what an undeclared one is told ----


def read_filter(
    filter: FilterLike | None,  # noqa: A002
    attributes: Mapping[str, pa.DataType],
) -> Filter | None:
    """Return a filter whose columns are all declared attributes, or ``id``."""
    made = filter_program.read_filter("filter", filter)
    for name in _columns(made) if made is not None else ():
        _check_declared(name, attributes)
    return made


def _columns(filter: Filter) -> Iterator[str]:  # noqa: A002
    yield from (name for name, _ in filter.predicates)
    for part in filter.parts:
        yield from _columns(part)


def _check_declared(
    name: str, attributes: Mapping[str, pa.DataType], kind: type[object] = str
) -> None:
    if name != "id" and name not in attributes:
        wish = f"a declared attribute ({', '.join(['id', *attributes])})"
        shown = kind.__name__ if kind in (int, float, bool, datetime, date) else "str"
        remedy = f"declare it: attributes={{{name!r}: {shown}}}"
        raise error(OptionError, "filter", wish, repr(name), remedy)


def check_names(cell_columns: Sequence[str], attributes: Iterable[str]) -> None:
    """Refuse names that the index's own columns have, and attributes that name a cell column.

    Such an attribute would let a document's metadata say in which cell the document lies.
    """
    own = ", ".join(ROW_COLUMNS)
    for argument, names in (("cell_columns", cell_columns), ("attributes", attributes)):
        for name in names:
            if name in ROW_COLUMNS:
                wish = f"no name of the index's own columns ({own})"
                raise error(OptionError, argument, wish, repr(name))
            if argument == "attributes" and name in cell_columns:
                wish = f"no name of a cell column ({', '.join(cell_columns)})"
                remedy = "cell_columns= takes other names"
                raise error(OptionError, argument, wish, repr(name), remedy)


# ---- The rows of an index of documents: its schema, and rows by filter in the order of writing

# The vector arm of an index that has met no vector: its one value is null in every document.
# The arm is there from the start, so that the first vector of one cell changes no reply of another.
UNKNOWN_DIM: Final = 1
_ALL_ROWS: Final = 2**31 - 1  # the largest limit


def everyone(index: Index) -> ScopePattern:
    """Return the scope of every cell: for the index's own upkeep, never for a caller."""
    return Scope.matching(**dict.fromkeys(index.schema.cell_columns, ANY))


def rows_of(
    index: Index,
    scope: object,
    narrowed: Filter | None,
    columns: Sequence[str],
    *,
    limit: int = _ALL_ROWS,
) -> pa.Table:
    """Return rows of a scope that pass a filter, in the order of writing; the newest few."""
    hits = index.recall_one(
        arms=Newest("position"), scope=scope, filter=narrowed, limit=limit, columns=columns
    )
    return hits.to_arrow()[::-1].select(["key", *index.schema.cell_columns, *columns])


def dim_of_index(index: Index) -> int | None:
    """Return the length of an index's vectors, or None if it holds none yet."""
    dim: int = index.stats()["dims"]["vector"]
    return None if dim == UNKNOWN_DIM else dim


def rows_for_vectors(index: Index, dim: int) -> pa.Table:
    """Return all rows of an index without vectors, with a column for vectors of a length."""
    own = {index.schema.key, *index.schema.cell_columns, "vector"}
    columns = [name for name in index.schema.row_columns if name not in own]
    rows = rows_of(index, everyone(index), None, columns).rename_columns({"key": "id"})
    return rows.append_column("vector", pa.nulls(len(rows), pa.list_(pa.float32(), dim)))


# ---- An index of documents (id, text, vector, metadata), which adapters of vector stores share


@check_keywords
class DocumentIndex:
    """An index of documents, for frameworks that have vector stores.

    It may hold many cells, say one per user; the stores of a framework share it. Any number of
    threads may read; writes wait for one another.

    Parameters
    ----------
    attributes : mapping of str to type, optional
        Fields of the metadata to filter by: str, int, float, bool, datetime, date, a list of one
        (``list[str]``), the name of one (``"list[str]"``), or an Arrow type. A name with dots
        reaches into nested objects. Times are ISO 8601 strings in the metadata.
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
        cells = (cell_columns,) if isinstance(cell_columns, str) else as_items(cell_columns)
        if cells is None or not all(isinstance(one, str) for one in cells):
            wish = "a name, or a sequence of names"
            raise error(DTypeError, "cell_columns", wish, repr(cell_columns))
        if not isinstance(attributes, Mapping | None):
            raise error(DTypeError, "attributes", "a mapping of name to type", repr(attributes))
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
        columns = self._cell_columns
        parts = cell if isinstance(cell, tuple) else (cell,)
        if len(parts) != len(columns) or not all(isinstance(one, str) and one for one in parts):
            shape = "a non-empty str" if len(columns) == 1 else "a tuple of non-empty str"
            wish = f"one cell: {shape} for ({', '.join(columns)})"
            raise error(ScopeError, "cell", wish, repr(cell))
        return parts

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
        _check_declared(name, self._attributes, type(value))
        kind = self._attributes.get(name, pa.string())  # string: of the id
        return read_value(f"filter: {name}", value, kind.value_type if is_list(kind) else kind)

    # ---- writing ----

    def write(
        self, documents: Iterable[Document], *, cell: str | tuple[str, ...],
        on_duplicate: Literal["overwrite", "skip", "fail"] = "overwrite",
    ) -> list[str]:  # fmt: skip
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
        place = self.cell(cell)
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
        self, ids: Sequence[str] | None = None, *, cell: str | tuple[str, ...],
        filter: FilterLike | None = None, everything: bool = False,  # noqa: A002
    ) -> int:  # fmt: skip
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
        place = self.cell(cell)
        narrowed = read_filter(filter, self._attributes)
        if ids is None and narrowed is None and not everything:
            wish = "ids, a filter, or everything=True for the whole cell"
            raise error(OptionError, "ids", wish, "none of them")
        with self._writing:
            return self._index.delete(ids, scope=place, filter=narrowed, everything=everything)

    def update(
        self, metadata: Mapping[str, Any], *, cell: str | tuple[str, ...],
        filter: FilterLike,  # noqa: A002
    ) -> int:  # fmt: skip
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
            found = self.find(scope=self.cell(cell), filter=filter)
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
        self, *, scope: object, filter: FilterLike | None = None,  # noqa: A002
        limit: int | None = None,
    ) -> list[Document]:  # fmt: skip
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
        min_confidence: float | None = None,
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
        filter, limit, offset, depth, fusion, min_score, min_fused, min_confidence
        normalize, shaping, recipe
            As in :meth:`hyrecall.Index.recall_one`, errors too. The arms are ``text`` and
            ``vector``.

        Returns
        -------
        list of FoundDocument
            By score descending; equal scores in the order of writing.

        Notes
        -----
        Before the first vector is written, a query's vector finds nothing, whatever its length. A
        degraded reply warns (:class:`hyrecall.adapters.degraded.DegradedWarning`).
        """
        index = self._index
        if vector is not None and dim_of_index(index) is None:
            vector = [0.0] * UNKNOWN_DIM  # a vector that an index takes, and that finds nothing
        asked: Any = {} if text is None and vector is None else text  # {} is refused
        hits = index.recall_one(
            text=asked, vector=vector, scope=scope, limit=limit, offset=offset, depth=depth,
            filter=read_filter(filter, self._attributes), fusion=fusion, min_score=min_score,
            min_fused=min_fused, min_confidence=min_confidence, normalize=normalize,
            shaping=shaping, recipe=recipe,
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
        cls, path: str | Path, *, analyzer: Analyzer | None = None, memory: str = "mmap",
        verify: str | None = None, device: str = "auto", threads: int | None = None,
    ) -> DocumentIndex:  # fmt: skip
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
        own = {*ROW_COLUMNS, *self._cell_columns}
        schema = Schema(
            key="id",
            cell=self._cell_columns,
            text={"text": self._text},
            vector="vector",
            attributes=("id", "position", *(one for one in table.column_names if one not in own)),
            stored=("text", "metadata", *(("vector",) if self._keep_vectors else ())),
        )
        return Index.build(table, schema, device=self._device, threads=self._threads)

    def __len__(self) -> int:
        """Return the number of documents in all cells."""
        return len(self._index)

    def __repr__(self) -> str:
        """Show size and attributes."""
        return f"<DocumentIndex: {len(self)} documents, attributes {list(self._attributes)}>"


# ---- What the stores of frameworks stand on: the documents of one cell, a folder, filters
# A framework's module translates its words alone: its types to documents and back, and its language
# of filters to ``Collection.equal`` and ``Collection.ordered``.

T_ = TypeVar("T_")

# An end of a range is included, so that a strict comparison also excludes its value.
ORDERS: Final[dict[str, Callable[[Any], list[Any]]]] = {
    ">": lambda value: [Between(value, None), NoneOf(value)],
    ">=": lambda value: [Between(value, None)],
    "<": lambda value: [Between(None, value), NoneOf(value)],
    "<=": lambda value: [Between(None, value)],
}


def all_of(*filters: Filter | None) -> Filter | None:
    """Return a filter that passes what passes each; None for none."""
    given = [one for one in filters if one is not None]
    return reduce(and_, given) if given else None


class Collection:
    """The documents of one cell, in an index that other cells may share; saved after every change.

    Parameters
    ----------
    cell : str or tuple of str
        Where documents are written.
    scope : cell or Scope, optional
        What is read; default: the cell.
    path : path-like, optional
        A folder: opened if it holds documents, and saved to after every change. One store writes to
        it: those of several cells share ``documents``.
    attributes : mapping of str to type, optional
        Fields of the metadata that filters may name, as of :class:`DocumentIndex`; needed where
        ``path`` holds nothing yet, and otherwise those of the folder.
    documents : DocumentIndex, optional
        An index to share with other cells, in place of ``path`` and ``attributes``.
    always : mapping of str to type, optional
        Attributes that an adapter declares itself.
    keep_vectors : bool, default False
        As of :class:`DocumentIndex`, where none is given.
    """

    def __init__(
        self, cell: object, *, scope: Any = None, path: str | Path | None = None,
        attributes: Mapping[str, AttributeType] | None = None,
        documents: DocumentIndex | None = None,
        always: Mapping[str, AttributeType] | None = None, keep_vectors: bool = False,
    ) -> None:  # fmt: skip
        """Open the documents, or make an empty index for them."""
        self.path, self.is_shared = path, documents is not None
        if documents is None:
            documents = _opened(path, attributes, dict(always or {}), keep_vectors=keep_vectors)
        elif not isinstance(documents, DocumentIndex):
            raise error(DTypeError, "documents", "a DocumentIndex", type(documents).__name__)
        else:
            for name, value in (("path", path), ("attributes", attributes)):
                if value is not None:
                    raise error(OptionError, name, "None beside documents=", repr(value))
        self.documents: DocumentIndex = documents
        for name, kind in (always or {}).items():
            documents.value(name, None)  # refuses an index without it
            wish, got = (
                type_name(one) for one in (read_type(name, kind), documents.attributes[name])
            )
            if got != wish:
                raise error(DTypeError, f"attributes[{name!r}]", wish, got)
        self.cell = documents.cell(cell)
        self.scope: Any = self.cell if scope is None else scope
        self.count()  # refuses what is no scope of these cells

    def write(
        self,
        rows: Iterable[Document],
        on_duplicate: Literal["overwrite", "skip", "fail"] = "overwrite",
    ) -> list[str]:
        return self._saved(self.documents.write(rows, cell=self.cell, on_duplicate=on_duplicate))

    def delete(
        self,
        ids: Sequence[str] | None = None,
        *,
        filter: Any = None,  # noqa: A002
        everything: bool = False,
    ) -> int:
        return self._saved(
            self.documents.delete(ids, cell=self.cell, filter=filter, everything=everything)
        )

    def update(self, metadata: Mapping[str, Any], filter: Any) -> int:  # noqa: A002
        return self._saved(self.documents.update(metadata, cell=self.cell, filter=filter))

    def get(self, ids: Sequence[str]) -> list[Document]:
        return self.documents.get(ids, scope=self.scope)

    def find(self, filter: Any = None) -> list[Document]:  # noqa: A002
        return self.documents.find(scope=self.scope, filter=filter)

    def count(self, filter: Any = None) -> int:  # noqa: A002
        return self.documents.count(scope=self.scope, filter=filter)

    def recall(self, *, scope: Any = None, **options: Any) -> list[FoundDocument]:
        """Return what is found in the scope of a call, or where it names none in that of reads."""
        return self.documents.recall(scope=self.scope if scope is None else scope, **options)

    def _saved(self, changed: T_) -> T_:
        """Save the documents if there is a folder and something changed; return what changed."""
        if self.path is not None and changed:
            self.documents.save(self.path)
        return changed

    # ---- filters: comparisons of declared fields ----

    def holds_lists(self, name: str) -> bool:
        """Return whether a field is declared as a list."""
        return is_list(self.documents.attributes.get(name, pa.string()))

    def equal(self, name: str, values: Iterable[object], *, finds_null: bool = False) -> Filter:
        """Return the filter of what equals one of some values; None equals nothing, or is null."""
        read = [self.documents.value(name, one) for one in values]
        found = Filter(**{name: [one for one in read if one is not None]})
        return found | Filter(**{name: IsNull()}) if finds_null and None in read else found

    def ordered(self, name: str, operator: str, value: object) -> Filter:
        """Return the filter of a comparison by one of ``ORDERS``."""
        read = self.documents.value(name, value)
        if operator in (">", "<") and self.holds_lists(name):
            # Of two elements one may be in the range, and the other be the value that is excluded.
            wish = f"'{operator}=' for the list {name!r}"
            raise error(OptionError, "filter", wish, repr(operator))
        return reduce(and_, [Filter(**{name: one}) for one in ORDERS[operator](read)])


def _opened(
    path: str | Path | None,
    attributes: Mapping[str, AttributeType] | None,
    always: dict[str, AttributeType],
    *,
    keep_vectors: bool,
) -> DocumentIndex:
    """Return what a folder holds, or an empty index; refuse attributes other than the folder's."""
    found = made = DocumentIndex(
        attributes={**always, **(attributes or {})}, keep_vectors=keep_vectors
    )
    if path is not None:
        try:
            found = DocumentIndex.open(path)
        except IndexNotFoundError:
            return made
    if attributes is not None and type_names(found) != type_names(made):
        wish = f"those of the saved documents ({type_names(found)}), or none"
        raise error(OptionError, "attributes", wish, type_names(made))
    return found


def type_names(documents: DocumentIndex) -> dict[str, str]:
    """Return the types of the declared fields, as ``attributes`` takes them."""
    return {name: type_name(kind) for name, kind in documents.attributes.items()}
