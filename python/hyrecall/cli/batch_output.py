"""Writes the hits of a batch as Parquet, CSV or JSON lines, and lists refused queries."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from hyrecall.cli.show import finite
from hyrecall.distributed.batch_recall import ERROR, QUERY_KEY
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.table.arrow_values import python_values

OutputKind: TypeAlias = Literal["parquet", "csv", "jsonl"]
STDOUT = Path("-")

_SUFFIXES = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}


def output_kind(path: Path, named: str | None) -> str:
    """Return the format of the output: the named one, or by the file's name; JSON lines for stdout.

    Examples
    --------
    >>> output_kind(Path("hits.csv"), None), output_kind(STDOUT, None)
    ('csv', 'jsonl')
    """
    if named is not None:
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
    for column in schema if kind == "csv" else ():
        if pa.types.is_nested(column.type):
            wish = "columns of single values for CSV (or .parquet, .jsonl)"
            raise error(DTypeError, column.name, wish, column.type)


def writer(kind: str, file: BinaryIO, schema: pa.Schema) -> Any:
    """Make a writer of a format."""
    if kind == "parquet":
        return pq.ParquetWriter(file, schema, compression="zstd")
    if kind == "csv":
        return pa_csv.CSVWriter(file, schema)
    return _JsonLines(file)


def write_hits(
    tables: Iterable[pa.Table],
    schema: pa.Schema,
    kind: str,
    file: BinaryIO,
    rejects: BinaryIO | None,
) -> None:
    """Write hits, and, to another file, the rows that only say why a query was refused."""
    out = writer(kind, file, schema.remove(schema.get_field_index(ERROR)))
    try:
        for table in tables:
            why = table.column(ERROR)
            hits = table
            if why.null_count < table.num_rows:
                if rejects is not None:
                    rejects.writelines(map(_reject, table.filter(pc.is_valid(why)).to_pylist()))
                hits = table.filter(pc.is_null(why))
            out.write_table(hits.drop_columns(ERROR).replace_schema_metadata(None))
    except BaseException:
        with suppress(Exception):  # while its file is open
            out.close()
        raise
    out.close()
    file.flush()


def _reject(row: dict[str, Any]) -> bytes:
    told = {"query": row["query"], "key": row.get(QUERY_KEY), "error": row[ERROR]}
    return json.dumps(told, ensure_ascii=True, default=str).encode() + b"\n"


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
