"""Reads Arrow IPC streams of queries, so that few bytes never become many values.

A column has one of a few plain types, and its values lie in the stream itself: no compression,
dictionary, run or view stands for more than what was sent. Types are checked before a batch is
read, lengths before a value becomes an object of Python.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hyrecall.base.arrow_messages import is_compressed
from hyrecall.serve.errors import ServiceError
from hyrecall.serve.json_shape import is_deeper
from hyrecall.serve.limits import check_size
from hyrecall.serve.options import ServiceOptions

__all__ = [
    "CELLS", "FLAG", "FLOORS", "JSON", "NUMBER", "NUMBERS", "PLAIN", "TEXT", "TEXTS", "TIME",
    "TIMES", "Kind", "check_count", "longest", "read_table", "values_of",
]  # fmt: skip

MAX_BATCHES = 4_096
"""Record batches of a stream that hold rows: each has a cost beside its bytes."""

MAX_HEADER = 1 << 20
"""Bytes of the schema, which may name many fields, and of a batch's list of buffers."""

MANY = 100
"""Lists of ``max_ids`` values whose total a stream may hold as objects of Python."""

_AS_JSON = "application/json"
_Fits = Callable[[pa.DataType], bool]


# ---- types ----


@dataclass(frozen=True)
class Kind:
    """What a column holds."""

    wish: str
    fits: _Fits
    is_json: bool = False


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or _is_text(kind))


def _is_plain(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind) or _is_text(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _is_cell(kind: pa.DataType) -> bool:
    if not pa.types.is_struct(kind):
        return _is_plain(kind)
    return kind.num_fields > 0 and all(_is_plain(one.type) for one in kind)


def _is_list_of(fits: _Fits) -> _Fits:
    return lambda kind: _is_list(kind) and fits(kind.value_type)


def _is_vector(kind: pa.DataType) -> bool:
    tensor = isinstance(kind, pa.FixedShapeTensorType)
    return _is_list_of(_is_number)(kind.storage_type if tensor else kind)


TEXT = Kind("strings", _is_text)
JSON = Kind("strings of JSON", _is_text, is_json=True)
NUMBER = Kind("numbers", _is_number)
FLOORS = Kind(
    "numbers, or strings of JSON", lambda kind: _is_number(kind) or _is_text(kind), is_json=True
)
FLAG = Kind("booleans", pa.types.is_boolean)
TIME = Kind("timestamps or strings", _is_time)
PLAIN = Kind("strings, numbers, booleans or times", _is_plain)
TEXTS = Kind("lists of strings", _is_list_of(_is_text))
TIMES = Kind("lists of timestamps or strings", _is_list_of(_is_time))
NUMBERS = Kind("lists of numbers", _is_vector)
CELLS = Kind(
    "cells (plain values, or structs of them), or lists of cells",
    lambda kind: _is_cell(kind) or _is_list_of(_is_cell)(kind),
)


def _check_types(schema: pa.Schema, wanted: Mapping[str, Kind]) -> None:
    names = schema.names
    if len(set(names)) < len(names) or not set(names) <= wanted.keys():
        wish = ", ".join(sorted(wanted))
        raise ServiceError(422, "Invalid", f"columns of the table: expected each once, of {wish}")
    for field in schema:
        # A column of no type holds nulls alone, as many as it has rows.
        if not pa.types.is_null(field.type) and not wanted[field.name].fits(field.type):
            wish, got = wanted[field.name].wish, str(field.type).partition("<")[0]
            raise ServiceError(422, "Invalid", f"{field.name}: expected {wish}, got {got}")


# ---- the stream ----


def read_table(body: bytes, wanted: Mapping[str, Kind], sizes: ServiceOptions, most: int) -> Any:
    """Read and check a stream; nothing that it says of sizes is believed."""
    try:
        messages = iter(pa.ipc.MessageReader.open_stream(pa.py_buffer(body)))
        schema = _schema(next(messages, None))
        _check_types(schema, wanted)
        table = pa.Table.from_batches(list(_batches(messages, schema, most)), schema)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, struct.error) as fault:
        got = type(fault).__name__
        raise ServiceError(422, "Invalid", f"expected an Arrow IPC stream, got {got}") from None
    if table.nbytes > len(body):
        wish = "buffers of their own"
        raise ServiceError(422, "Invalid", f"columns of the table: expected {wish}, got shared")
    for name in table.column_names:
        _check_lengths(name, table[name], wanted[name], sizes)
    return table


def _schema(message: pa.ipc.Message | None) -> pa.Schema:
    if message is None or message.type != "schema":
        raise pa.ArrowInvalid("no schema")
    check_size("schema", message.metadata.size, MAX_HEADER, "bytes")
    return pa.ipc.read_schema(message)


def _batches(
    messages: Iterator[pa.ipc.Message], schema: pa.Schema, most: int
) -> Iterator[pa.RecordBatch]:
    n_rows = n_batches = 0
    for message in messages:
        if message.type != "record batch":
            raise ServiceError(422, "Invalid", f"expected record batches, got a {message.type}")
        check_size("header", message.metadata.size, MAX_HEADER, "bytes")
        if is_compressed(message):
            raise ServiceError(422, "Invalid", "expected record batches without compression")
        batch = pa.ipc.read_record_batch(message, schema)
        n_rows += batch.num_rows
        check_size("rows", n_rows, most, "queries")
        if batch.num_rows:
            n_batches += 1
            check_size("record batches", n_batches, MAX_BATCHES, "")
            yield batch


# ---- lengths ----


def _check_lengths(name: str, column: pa.ChunkedArray, kind: Kind, sizes: ServiceOptions) -> None:
    if _is_text(column.type):
        check_size(name, longest(column), sizes.max_body, "bytes")
        if kind.is_json:
            _check_json(name, column, sizes)
    check_size(name, _list_lengths(column)[0], sizes.max_ids, "values")


def longest(column: pa.ChunkedArray) -> int:
    """Return the bytes of the longest text of a column; 0 of other columns."""
    if not _is_text(column.type):
        return 0
    return pc.max(pc.binary_length(column)).as_py() or 0


def _check_json(name: str, column: pa.ChunkedArray, sizes: ServiceOptions) -> None:
    """Refuse JSON that is deeper than it could be in a body, whose object is a level of its own."""
    for text in column:
        if is_deeper((text.as_py() or "").encode(), _AS_JSON, sizes.max_levels - 1):
            wish = f"at most {sizes.max_levels - 1} levels of JSON"
            raise ServiceError(422, "Invalid", f"{name}: expected {wish}")


def _list_lengths(column: pa.ChunkedArray) -> tuple[int, int]:
    """Return the length of the longest list, and of all together; 0 of other columns."""
    kind = column.type
    if isinstance(kind, pa.FixedShapeTensorType):
        size = kind.storage_type.list_size
        return size, size * len(column)
    if not _is_list(kind) or not len(column):
        return 0, 0
    lengths = pc.list_value_length(column)
    return pc.max(lengths).as_py() or 0, pc.sum(lengths).as_py() or 0


def check_count(table: pa.Table, wanted: Mapping[str, Kind], sizes: ServiceOptions) -> None:
    """Refuse columns whose lists and JSON hold too many values in all to become Python's
    objects.
    """
    n_values = 0
    for name in table.column_names:
        column = table[name]
        n_values += _list_lengths(column)[1]
        if wanted[name].is_json and _is_text(column.type):
            # A value stands behind a comma or a bracket; those in strings are counted too.
            n_values += pc.sum(pc.count_substring_regex(column, "[,\\[{]")).as_py() or 0
    check_size("values in lists and JSON", n_values, MANY * sizes.max_ids, "")


def values_of(column: pa.ChunkedArray | pa.Table, name: str) -> list[Any]:
    """Return a column, or the rows of a table, as values of Python."""
    try:
        made: list[Any] = column.to_pylist()
    except (pa.ArrowException, ValueError, OverflowError, LookupError, OSError):
        wish = "times of the years 1 to 9999 in a known time zone"
        raise ServiceError(422, "Invalid", f"{name}: expected {wish}") from None
    return made
