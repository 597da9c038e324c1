"""Writes hits as Parquet, CSV or JSON lines.

A file can be written in segments, each by its own writer, so that writing can continue after the
end of a segment. Segments of text are simply concatenated. Each segment of Parquet ends with a
footer; :func:`finish` appends one footer for all segments.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from hyrecall.cli.show import finite
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.table.arrow_values import python_values

__all__ = [
    "OUTPUT_KINDS",
    "STDOUT",
    "TableWriter",
    "check_types",
    "finish",
    "output_kind",
    "writer",
]

OUTPUT_KINDS = ("parquet", "csv", "jsonl")
STDOUT = Path("-")

_SUFFIXES = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_MAGIC = b"PAR1"
_ZEROS = memoryview(bytes(1 << 20))
_TAIL = 8  # bytes at the end of Parquet: the footer's length and the magic bytes


class TableWriter(Protocol):
    """Writes tables of one schema."""

    def write_table(self, table: pa.Table) -> None:
        """Write the rows of a table."""

    def close(self) -> None:
        """Write the end of a segment; the file stays open."""


def output_kind(path: Path, named: str | None) -> str:
    """Return the format of the output: the named one, or by the file's name; JSON lines for stdout.

    Raises
    ------
    OptionError
        An unknown format or suffix.

    Examples
    --------
    >>> output_kind(Path("hits.csv"), None), output_kind(STDOUT, None)
    ('csv', 'jsonl')
    """
    if named is not None:
        if named not in OUTPUT_KINDS:
            raise error(OptionError, "--output-format", f"one of {', '.join(OUTPUT_KINDS)}", named)
        return named
    if path == STDOUT:
        return "jsonl"
    kind = _SUFFIXES.get(path.suffix.lower())
    if kind is None:
        wish = f"a name that ends in {', '.join(_SUFFIXES)}, or --output-format"
        raise error(OptionError, "--output", wish, repr(path.name))
    return kind


def check_types(kind: str, schema: pa.Schema) -> None:
    """Refuse columns that a format cannot hold."""
    for field in schema if kind == "csv" else ():
        if pa.types.is_nested(field.type):
            wish = "columns of single values for CSV (or .parquet, .jsonl)"
            raise error(DTypeError, field.name, wish, field.type)


def writer(kind: str, file: BinaryIO, schema: pa.Schema, *, at: int = 0) -> TableWriter:
    """Make a writer for a segment.

    Parameters
    ----------
    kind : str
        One of ``OUTPUT_KINDS``.
    file : binary file
        It is only written to, so it may be a pipe.
    schema : pyarrow.Schema
    at : int, default 0
        Number of bytes that the file already has.
    """
    if kind == "parquet":
        return _parquet(file, schema, at)
    if kind == "csv":
        how = pa_csv.WriteOptions(include_header=at == 0)
        return pa_csv.CSVWriter(file, schema, write_options=how)  # type: ignore[no-any-return]
    return _JsonLines(file)


def _parquet(file: BinaryIO, schema: pa.Schema, at: int) -> TableWriter:
    """Make a writer whose offsets count from the start of the file, not of the segment."""
    # Arrow uses the number of bytes written so far as the offset. So it first writes `at`
    # bytes, the
    # magic bytes and zeros, which are discarded.
    stream = pa.PythonFile(_Without(file, at), mode="w")
    made = pq.ParquetWriter(stream, schema, compression="zstd")
    for begin in range(len(_MAGIC), at, len(_ZEROS)):
        stream.write(_ZEROS[: at - begin])
    return made  # type: ignore[no-any-return]


def finish(kind: str, file: BinaryIO, ends: Sequence[int]) -> None:
    """Complete a file that was written in segments.

    Parameters
    ----------
    kind : str
    file : binary file
        Open for reading and writing.
    ends : sequence of int
        The end of each segment in the file; the last is the end of the file.

    Notes
    -----
    A Parquet footer has the offsets of row groups. In the footers of the segments they count from
    the start of the file, so a last footer with all row groups completes the file; the other
    footers stay unused between the row groups.
    """
    if kind != "parquet" or len(ends) < 2:
        return
    whole, *others = (_footer(file, end) for end in ends)
    for one in others:
        whole.append_row_groups(one)
    made = io.BytesIO()
    whole.write_metadata_file(made)
    file.seek(ends[-1])
    file.write(made.getvalue()[len(_MAGIC) :])


def _footer(file: BinaryIO, end: int) -> Any:
    file.seek(end - _TAIL)
    tail = file.read(_TAIL)
    length = int.from_bytes(tail[: -len(_MAGIC)], "little")
    file.seek(end - _TAIL - length)
    return pq.read_metadata(pa.BufferReader(_MAGIC + file.read(length) + tail))


class _Without:
    """Wraps a file to discard the first bytes written; closing has no effect."""

    closed = False

    def __init__(self, file: BinaryIO, n_bytes: int) -> None:
        self._file = file
        self._n_bytes = n_bytes

    def write(self, data: bytes) -> None:
        left_out = min(self._n_bytes, len(data))
        self._n_bytes -= left_out
        if left_out < len(data):
            self._file.write(data[left_out:])

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        pass


class _JsonLines:
    """Writes an object per row, with full precision; values that JSON lacks become null or str."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write_table(self, table: pa.Table) -> None:
        names = (json.dumps(name).replace("%", "%%") for name in table.column_names)
        line = "{" + ", ".join(f"{name}: %s" for name in names) + "}\n"
        columns = map(_as_json, table.columns)
        self._file.write("".join(line % row for row in zip(*columns, strict=True)).encode())

    def close(self) -> None:
        pass


def _as_json(column: pa.ChunkedArray) -> list[str]:
    """Return each value of a column as JSON, with faster encoders for numbers and text."""
    kind = column.type
    encode: Callable[[Any], str] = _value
    if pa.types.is_integer(kind):
        encode = int.__repr__
    elif pa.types.is_floating(kind):
        encode = _number
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        encode = encode_basestring
    return ["null" if one is None else encode(one) for one in python_values(column)]


def _number(value: float) -> str:
    return float.__repr__(value) if math.isfinite(value) else "null"


def _value(value: Any) -> str:
    return json.dumps(finite(value), ensure_ascii=False, default=str, allow_nan=False)
