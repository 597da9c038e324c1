"""Reads a corpus from Parquet, JSON lines or CSV; also helpers for query files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from hyrecall.errors import DTypeError, OptionError, error

__all__ = ["check_columns", "float_vectors", "kind_of", "read_corpus", "reading"]

_KINDS = {".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}
_JSON_BLOCK = 64 << 20  # bytes; a line must fit into a block


def kind_of(path: Path) -> str:
    """Return a file's format by its name."""
    kind = _KINDS.get(path.suffix.lower())
    if kind is None:
        wish = f"a name that ends in {', '.join(_KINDS)}"
        raise error(OptionError, str(path), wish, repr(path.suffix))
    return kind


@contextmanager
def reading(path: Path, kind: str, note: str = "") -> Iterator[None]:
    """Turn errors of pyarrow in the block into an error that names the file."""
    try:
        yield
    except pa.ArrowException as fault:
        raise error(DTypeError, str(path), f"a {kind} file{note}", fault) from fault


def check_columns(path: Path, given: Sequence[str], wanted: Mapping[str, str]) -> None:
    """Refuse a column that the file lacks; the error names the column's option."""
    for column, option in wanted.items():
        if column not in given:
            wish = f"a column of {path} ({', '.join(given)})"
            raise error(OptionError, option, wish, repr(column))


def read_corpus(path: Path, wanted: Mapping[str, str], texts: Sequence[str]) -> pa.Table:
    """Read the columns of a corpus.

    Parameters
    ----------
    path : Path
    wanted : mapping of str to str
        The columns to read, each with the option that names it.
    texts : sequence of str
        Columns that are read as text if the file has no types: keys, cells and texts in CSV, texts
        in JSON lines. Other types are inferred, but in JSON lines keys and cells are never times,
        and vectors may be whole numbers.
    """
    kind = kind_of(path)
    with path.open("rb"):  # a missing file raises an error with its name
        pass
    columns = list(wanted)
    with reading(path, kind):
        if kind == "parquet":
            check_columns(path, pq.read_schema(path).names, wanted)
            return pq.read_table(path, columns=columns)
        as_text = dict.fromkeys(texts, pa.string())
        if kind == "csv":
            table = _read_csv(path, as_text)
            check_columns(path, table.column_names, wanted)
            return table.select(columns)
        table = _read_jsonl(path, as_text)
        check_columns(path, table.column_names, wanted)
        names = [name for name, option in wanted.items() if option in ("--key", "--cell")]
        times = [name for name in names if pa.types.is_temporal(table.schema.field(name).type)]
        if times:  # strings that pyarrow reads as times
            table = _read_jsonl(path, as_text | dict.fromkeys(times, pa.string()))
        for name in (name for name, option in wanted.items() if option == "--vector"):
            at = table.schema.get_field_index(name)
            table = table.set_column(at, name, float_vectors(table.column(at)))
        return table.select(columns)


def float_vectors(column: Any) -> Any:
    """Convert a column of lists of integers or nulls to floats; return other columns unchanged."""
    kind = column.type
    if not pa.types.is_list(kind):
        return column
    if pa.types.is_integer(kind.value_type) or pa.types.is_null(kind.value_type):
        return column.cast(pa.list_(pa.float64()), safe=False)
    return column


def _read_csv(path: Path, as_text: dict[str, pa.DataType]) -> pa.Table:
    convert = pa_csv.ConvertOptions(column_types=as_text, strings_can_be_null=False)
    return pa_csv.read_csv(
        path, parse_options=pa_csv.ParseOptions(newlines_in_values=True), convert_options=convert
    )


def _read_jsonl(path: Path, as_text: dict[str, pa.DataType]) -> pa.Table:
    """Read JSON lines, with the columns of `as_text` as text even if they look like times."""
    options = pa_json.ParseOptions(explicit_schema=pa.schema(as_text)) if as_text else None
    block = min(_JSON_BLOCK, max(path.stat().st_size, 1))
    return pa_json.read_json(
        path, read_options=pa_json.ReadOptions(block_size=block), parse_options=options
    )
