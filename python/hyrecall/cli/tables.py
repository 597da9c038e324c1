"""Files of rows: a corpus read whole, queries read in batches. Parquet, JSON lines, CSV."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from hyrecall.errors import DTypeError, OptionError, error

__all__ = ["QueryFile", "check_columns", "read_corpus"]

_KINDS = {".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}
_JSON_BLOCK = 64 << 20  # bytes; a line must fit into a block
_BATCH_BYTES = 64 << 20  # of query columns in memory at once


def _kind(path: Path) -> str:
    kind = _KINDS.get(path.suffix.lower())
    if kind is None:
        wish = f"a name that ends in {', '.join(_KINDS)}"
        raise error(OptionError, str(path), wish, repr(path.suffix))
    return kind


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except pa.ArrowException as fault:
        raise error(DTypeError, str(path), f"a {kind} file", fault) from fault


def check_columns(path: Path, given: Sequence[str], wanted: Mapping[str, str]) -> None:
    """Refuse a column (of the option that names it) which the file lacks."""
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
        Column to the option that names it.
    texts : sequence of str
        Columns that are text wherever the file itself does not say so: in CSV, keys, cells and
        texts; in JSON lines, texts. All other types are inferred there.
    """
    kind = _kind(path)
    with path.open("rb"):  # a missing file is refused by its own name
        pass
    columns = list(wanted)
    with _reading(path, kind):
        if kind == "parquet":
            check_columns(path, pq.read_schema(path).names, wanted)
            return pq.read_table(path, columns=columns)
        as_text = dict.fromkeys(texts, pa.string())
        table = _read_csv(path, as_text) if kind == "csv" else _read_jsonl(path, as_text)
        check_columns(path, table.column_names, wanted)
        return table.select(columns)


def _read_csv(path: Path, as_text: dict[str, pa.DataType]) -> pa.Table:
    convert = pa_csv.ConvertOptions(column_types=as_text, strings_can_be_null=False)
    return pa_csv.read_csv(
        path, parse_options=pa_csv.ParseOptions(newlines_in_values=True), convert_options=convert
    )


def _read_jsonl(path: Path, as_text: dict[str, pa.DataType]) -> pa.Table:
    """Read JSON lines; strings that look like times are times only outside the named columns."""
    options = pa_json.ParseOptions(explicit_schema=pa.schema(as_text)) if as_text else None
    block = min(_JSON_BLOCK, max(path.stat().st_size, 1))
    return pa_json.read_json(
        path, read_options=pa_json.ReadOptions(block_size=block), parse_options=options
    )


class QueryFile:
    """A file of queries, read in batches of rows.

    Attributes
    ----------
    n_rows : int or None
        None where only reading the file would tell.
    """

    def __init__(self, path: Path, wanted: Mapping[str, str]) -> None:
        """Open the file and check its columns, where the file lists them."""
        self._path = path
        self._kind = _kind(path)
        self._wanted = dict(wanted)
        self.n_rows: int | None = None
        self._row_bytes = 0.0
        with path.open("rb"):
            pass
        if self._kind == "parquet":
            with _reading(path, self._kind):
                metadata = pq.read_metadata(path)
                check_columns(path, metadata.schema.to_arrow_schema().names, wanted)
            self.n_rows = metadata.num_rows
            groups = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
            self._row_bytes = sum(groups) / max(metadata.num_rows, 1)

    def batches(self, n_rows: int) -> Iterator[pa.Table]:
        """Give tables of at most `n_rows` rows (fewer where rows are long), in file order."""
        n_rows = max(1, min(n_rows, int(_BATCH_BYTES / max(self._row_bytes, 1.0))))
        read = {"parquet": self._parquet, "jsonl": self._jsonl, "csv": self._csv}[self._kind]
        with _reading(self._path, self._kind):
            for batch in read(n_rows):
                for first in range(0, batch.num_rows, n_rows):
                    yield batch.slice(first, n_rows)

    def _parquet(self, n_rows: int) -> Iterator[pa.Table]:
        # Buffered and without prefetch: a file may be one row group as large as itself.
        with pq.ParquetFile(self._path, pre_buffer=False, buffer_size=1 << 20) as file:
            for batch in file.iter_batches(n_rows, columns=list(self._wanted)):
                yield pa.Table.from_batches([batch])

    def _jsonl(self, n_rows: int) -> Iterator[pa.Table]:
        first = 1
        with self._path.open("rb") as file:
            while lines := list(islice(file, n_rows)):
                numbered = enumerate(lines, start=first)
                rows = [self._row(line, at) for at, line in numbered if line.strip()]
                first += len(lines)
                columns = {name: [row.get(name) for row in rows] for name in self._wanted}
                yield pa.table({name: pa.array(column) for name, column in columns.items()})

    def _row(self, line: bytes, number: int) -> dict[str, Any]:
        where = f"{self._path} line {number}"
        try:
            row = json.loads(line)
        except ValueError as fault:
            raise error(DTypeError, where, "a JSON object", fault) from None
        if not isinstance(row, dict):
            raise error(DTypeError, where, "a JSON object", type(row).__name__)
        if number == 1:
            check_columns(self._path, list(row), self._wanted)
        return row

    def _csv(self, n_rows: int) -> Iterator[pa.Table]:
        as_text = dict.fromkeys(self._wanted, pa.string())
        with pa_csv.open_csv(
            self._path,
            parse_options=pa_csv.ParseOptions(newlines_in_values=True),
            convert_options=pa_csv.ConvertOptions(column_types=as_text, strings_can_be_null=False),
        ) as reader:
            check_columns(self._path, reader.schema.names, self._wanted)
            for batch in reader:
                yield pa.Table.from_batches([batch]).select(list(self._wanted))
