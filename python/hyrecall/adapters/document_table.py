"""Documents with metadata, as the rows of a table: what the adapters of vector stores write."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any, Final, TypeAlias, get_args, get_origin

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.base.arguments import check_unicode
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, OptionError, ScopeError, ShapeError, error

__all__ = ["AttributeType", "Document", "FoundDocument"]

AttributeType: TypeAlias = "pa.DataType | type[Any]"
"""The type of an attribute: str, int, float, bool, datetime, date, a list of one, or Arrow's."""

ARMS: Final = ("text", "vector")
ROW_COLUMNS: Final = ("id", "text", "metadata", "position", "vector")
MOST_LEVELS: Final = 64  # of metadata, as in a store
MOST_INT_BITS: Final = 8192  # Python prints and reads ints of up to 4,300 digits
_PLAIN: Final[dict[Any, pa.DataType]] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    datetime: pa.timestamp("us", "UTC"),
    date: pa.date32(),
}


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


def read_cell(cell: object, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return one cell as a tuple: a value for each cell column, each a non-empty str."""
    parts = cell if isinstance(cell, tuple) else (cell,)
    if len(parts) != len(columns) or not all(isinstance(part, str) and part for part in parts):
        shape = "a non-empty str" if len(columns) == 1 else "a tuple of non-empty str"
        raise error(ScopeError, "cell", f"one cell: {shape} for ({', '.join(columns)})", repr(cell))
    return parts


def read_type(name: str, kind: object) -> pa.DataType:
    """Return the Arrow type of an attribute that can be filtered by."""
    if get_origin(kind) is list:
        return pa.list_(read_type(name, *get_args(kind)))
    found = _PLAIN.get(kind, kind) if isinstance(kind, type) else kind
    if not isinstance(found, pa.DataType) or _reader_of(found) is None:
        wish = "str, int, float, bool, datetime, date, a list of one (list[str]), or its Arrow type"
        raise error(DTypeError, f"attributes[{name!r}]", wish, repr(kind))
    return found


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


def _is_time(kind: pa.DataType) -> bool:
    """Return whether a type holds every datetime; seconds and milliseconds would cut it."""
    return bool(pa.types.is_timestamp(kind)) and kind.unit in ("us", "ns")


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _reader_of(kind: pa.DataType) -> Any:
    """Return the Python type of an Arrow type's values; None: no type of an attribute."""
    if is_list(kind):
        return None if is_list(kind.value_type) else _reader_of(kind.value_type)
    tests = {
        bool: pa.types.is_boolean,
        int: pa.types.is_integer,
        float: pa.types.is_floating,
        datetime: _is_time,
        date: pa.types.is_date32,
    }
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return str if is_text else next((type_ for type_, test in tests.items() if test(kind)), None)


def read_documents(documents: Iterable[Document]) -> list[Document]:
    """Check documents and give an id to each that has none."""
    made = []
    for at, document in enumerate(documents):
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
