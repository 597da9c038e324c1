"""Reads the files of a retrieval set: rows from Parquet or JSON lines, pairs from TSV."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hyrecall.errors import DTypeError, OptionError, error

__all__ = ["read_pairs", "read_rows"]

_TEXTS = ("id", "title", "text")
_VECTOR = "embedding"


def read_rows(folder: Path, name: str) -> pa.Table:
    """Read ``name.parquet`` or ``name.jsonl`` as a table with string ``id``, ``text``,
    ``title``.
    """
    found = [path for kind in ("parquet", "jsonl") if (path := folder / f"{name}.{kind}").is_file()]
    if len(found) != 1:
        wish = f"a folder with either {name}.parquet or {name}.jsonl"
        raise error(OptionError, str(folder), wish, "both" if found else "neither")
    (path,) = found
    table = _read_jsonl(path) if path.suffix == ".jsonl" else _read_parquet(path)
    if "_id" in table.column_names and "id" not in table.column_names:
        names = ["id" if column == "_id" else column for column in table.column_names]
        table = table.rename_columns(names)
    for column in ("id", "text"):
        if column not in table.column_names:
            raise error(OptionError, str(path), f"a column {column!r}", table.column_names)
    for column in _TEXTS:
        if column in table.column_names:
            at = table.column_names.index(column)
            table = table.set_column(at, column, _as_text(path, column, table[column]))
    if table["id"].null_count:
        row = table["id"].is_null().to_pylist().index(True) + 1
        raise error(DTypeError, f"{path} row {row}", "an id", "null")
    return table


def _as_text(path: Path, column: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column to strings; only ids may be integers."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    fits = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)
    if not fits and not (column == "id" and pa.types.is_integer(kind)):
        raise error(DTypeError, str(path), f"text in column {column!r}", kind)
    return values.cast(pa.string())


def _read_parquet(path: Path) -> pa.Table:
    try:
        return pq.read_table(path)
    except pa.ArrowException as fault:
        raise error(DTypeError, str(path), "a Parquet file", fault) from fault


def _read_jsonl(path: Path) -> pa.Table:
    """Read one JSON object per line; a missing key is null."""
    rows: list[dict[str, Any]] = []
    places: list[str] = []
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                places.append(f"{path} line {number}")
                rows.append(_read_object(places[-1], line))
    columns = {name: None for row in rows for name in row}
    made = {name: _column(name, [row.get(name) for row in rows], places) for name in columns}
    return pa.table(made)


def _read_object(where: str, line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as fault:
        raise error(DTypeError, where, "a JSON object", fault) from None
    if not isinstance(row, dict):
        raise error(DTypeError, where, "a JSON object", type(row).__name__)
    return row


def _column(name: str, values: list[Any], places: list[str]) -> pa.Array:
    if name == _VECTOR:
        return _vectors(values, places)
    if name in _TEXTS or name == "_id":
        kinds: tuple[type, ...] = (str, int) if name in ("id", "_id") else (str, type(None))
        for value, where in zip(values, places, strict=True):
            if not isinstance(value, kinds) or isinstance(value, bool):
                wish = f"{name!r} as {' or '.join(kind.__name__ for kind in kinds)}"
                raise error(DTypeError, where, wish, repr(value))
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    try:
        return pa.array(values)
    except pa.ArrowException as fault:
        where = f"{places[0].rpartition(' line ')[0]}: {name}"
        raise error(DTypeError, where, "values of one type", fault) from None


def _vectors(values: list[Any], places: list[str]) -> pa.Array:
    """Convert vectors of equal length; null for a line without one."""
    dim = next((len(value) for value in values if isinstance(value, list)), 0)
    kind = pa.list_(pa.float32(), dim)
    for value, where in zip(values, places, strict=True):
        numbers = isinstance(value, list) and all(type(one) in (int, float) for one in value)
        if value is not None and not (numbers and len(value) == dim):
            raise error(DTypeError, where, f"{_VECTOR!r} as a list of {dim} numbers", repr(value))
    return pa.array(values, kind)


def read_pairs(path: Path, n_fields: int, ids: set[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of a TSV after its header: the place, for messages, and the fields."""
    # A first line that begins with one of the ids or ends in a number is refused: it is not a
    # header.
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            where = f"{path} line {number}"
            try:
                fields = [field.strip() for field in line.decode().split("\t")]
            except UnicodeDecodeError as fault:
                raise error(DTypeError, where, "UTF-8", fault) from None
            if not any(fields):
                continue
            if len(fields) != n_fields or not all(fields):
                wish = f"{n_fields} fields separated by tabs"
                raise error(DTypeError, where, wish, repr(line.decode().rstrip("\r\n")))
            if number > 1:
                yield where, fields
            elif fields[0] in ids or fields[-1].lstrip("+-").replace(".", "", 1).isdigit():
                # This first line of data would be lost silently.
                raise error(DTypeError, where, "a header line", repr(line.decode().rstrip("\r\n")))
