"""Files of queries, read in batches of rows: Parquet, JSON lines, CSV."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from hyrecall.cli.tables import check_columns, float_vectors, kind_of, reading
from hyrecall.errors import DTypeError, error

__all__ = ["QueryFile"]

_BATCH_BYTES = 64 << 20  # of query columns in memory at once
_TEXT, _VECTOR, _KEY = "--query-text", "--query-vector", "--query-key"

Rows = Sequence[tuple[int, dict[str, Any]]]  # line number and object


class QueryFile:
    """A file of queries, read in batches of rows.

    Parquet says what its columns are. In CSV all are text but the scope's, in JSON lines each value
    says what it is; keys are text in both, so that every batch has the same columns.

    Parameters
    ----------
    path : Path
    wanted : mapping of str to str
        Column to the option that names it.
    cells : mapping of str to pyarrow.DataType
        Types of the columns that have each query's cell, for CSV.

    Attributes
    ----------
    n_rows : int or None
        None where only reading the file would tell.
    """

    def __init__(
        self, path: Path, wanted: Mapping[str, str], cells: Mapping[str, pa.DataType]
    ) -> None:
        """Open the file and check its columns, where the file lists them."""
        self._path = path
        self._kind = kind_of(path)
        self._wanted = dict(wanted)
        self._types = {
            name: cells.get(name, pa.string()) if option == "--query-scope" else pa.string()
            for name, option in wanted.items()
        }
        self.n_rows: int | None = None
        self._row_bytes = 0.0
        with path.open("rb"):
            pass
        if self._kind == "parquet":
            with reading(path, self._kind):
                metadata = pq.read_metadata(path)
                schema = metadata.schema.to_arrow_schema()
                check_columns(path, schema.names, wanted)
            self._types = {name: schema.field(name).type for name in wanted}
            self.n_rows = metadata.num_rows
            groups = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
            self._row_bytes = sum(groups) / max(metadata.num_rows, 1)

    def batches(self, n_rows: int) -> Iterator[pa.Table]:
        """Give tables of at most `n_rows` rows (fewer where rows are long), in file order."""
        n_rows = max(1, min(n_rows, int(_BATCH_BYTES / max(self._row_bytes, 1.0))))
        read = {"parquet": self._parquet, "jsonl": self._jsonl, "csv": self._csv}[self._kind]
        typed = [f"{kind} in {name!r}" for name, kind in self._types.items() if kind != pa.string()]
        note = f" with {', '.join(typed)}" if typed and self._kind == "csv" else ""
        with reading(self._path, self._kind, note):
            for batch in read(n_rows):
                for first in range(0, batch.num_rows, n_rows):
                    yield batch.slice(first, n_rows)

    def empty(self) -> pa.Table:
        """Give the columns without a row."""
        vectors = [name for name, option in self._wanted.items() if option == _VECTOR]
        types = dict(self._types)
        if self._kind != "parquet":
            types |= dict.fromkeys(vectors, pa.list_(pa.float64()))
        return pa.table({name: pa.array([], kind) for name, kind in types.items()})

    def _parquet(self, n_rows: int) -> Iterator[pa.Table]:
        # Buffered and without prefetch: a file may be one row group as large as itself.
        with pq.ParquetFile(self._path, pre_buffer=False, buffer_size=1 << 20) as file:
            for batch in file.iter_batches(n_rows, columns=list(self._wanted)):
                yield pa.Table.from_batches([batch])

    def _jsonl(self, n_rows: int) -> Iterator[pa.Table]:
        first, checked = 1, False
        with self._path.open("rb") as file:
            while lines := list(islice(file, n_rows)):
                numbered = enumerate(lines, start=first)
                rows = [(at, self._object(line, at)) for at, line in numbered if line.strip()]
                first += len(lines)
                if not rows:
                    continue
                if not checked:
                    check_columns(self._path, list(rows[0][1]), self._wanted)
                    checked = True
                yield pa.table({name: self._column(name, rows) for name in self._wanted})

    def _object(self, line: bytes, number: int) -> dict[str, Any]:
        where = f"{self._path} line {number}"
        try:
            row = json.loads(line)
        except ValueError as fault:
            raise error(DTypeError, where, "a JSON object", fault) from None
        if not isinstance(row, dict):
            raise error(DTypeError, where, "a JSON object", type(row).__name__)
        return row

    def _column(self, name: str, rows: Rows) -> pa.Array:
        option = self._wanted[name]
        values = [row.get(name) for _, row in rows]
        if option == _KEY:
            values = [v if v is None or isinstance(v, str) else json.dumps(v) for v in values]
        if option == _TEXT:
            for value, (number, _) in zip(values, rows, strict=True):
                if value is not None and not isinstance(value, str):
                    where = f"{self._path} line {number}"
                    wish = f"a string or null in column {name!r}"
                    raise error(DTypeError, option, wish, f"{value!r} in {where}")
        try:
            array = pa.array(values, pa.string() if option in (_TEXT, _KEY) else None)
        except (ValueError, TypeError, OverflowError) as fault:  # pyarrow's own are among them
            lines = f"lines {rows[0][0]} to {rows[-1][0]} of {self._path}"
            wish = f"values of one type in column {name!r}"
            raise error(DTypeError, option, wish, f"others in {lines} ({fault})") from None
        return float_vectors(array) if option == _VECTOR else array

    def _csv(self, n_rows: int) -> Iterator[pa.Table]:
        del n_rows  # pyarrow reads blocks
        convert = pa_csv.ConvertOptions(column_types=self._types, strings_can_be_null=False)
        parse = pa_csv.ParseOptions(newlines_in_values=True)
        with pa_csv.open_csv(self._path, parse_options=parse, convert_options=convert) as reader:
            check_columns(self._path, reader.schema.names, self._wanted)
            for batch in reader:
                yield pa.Table.from_batches([batch]).select(list(self._wanted))
