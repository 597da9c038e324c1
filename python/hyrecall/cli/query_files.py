"""Reads files of queries in slices of rows: Parquet, JSON lines or CSV; also from stdin.

Slices of text formats are parsed only when their table is needed, so that an invalid row is refused
alone, without its neighbours.
"""

from __future__ import annotations

import csv
import glob
import gzip
import json
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from shutil import copyfileobj
from typing import Any, BinaryIO, Literal, NamedTuple, TypeAlias, TypeVar, cast
from weakref import finalize

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from hyrecall.distributed.batch_recall import QueryRows, TableRows
from hyrecall.errors import DTypeError, OptionError, error

# ---- Reads corpora from Parquet, JSON lines, CSV or TSV, also by gzip; and helpers for query files

STDIN = Path("-")
InputKind: TypeAlias = Literal["parquet", "jsonl", "csv", "tsv"]
_KINDS = {
    ".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv",
    ".tsv": "tsv",
}  # fmt: skip
_JSON_BLOCK = 64 << 20  # bytes; a line must fit into a block


def kind_of(path: Path) -> str:
    """Return a file's format by its name, with or without ``.gz`` at its end."""
    if path.is_dir():
        got = f"a folder: name its files, as '{path}/*.jsonl'"
        raise error(OptionError, str(path), "a file", got)
    name = path.with_suffix("") if is_packed(path) else path
    kind = _KINDS.get(name.suffix.lower())
    if kind is None:
        wish = f"a name that ends in {', '.join(_KINDS)}, or one of them and .gz"
        raise error(OptionError, str(path), wish, repr(path.name))
    return kind


def input_kind(path: Path, named: str | None) -> str:
    """Return the format of an input: as named, by its name, or JSON lines for stdin."""
    return named or ("jsonl" if path == STDIN else kind_of(path))


def is_packed(path: Path) -> bool:
    """Return whether a name is that of a file in gzip."""
    return path.suffix.lower() == ".gz"


def unpacked(path: Path) -> BinaryIO:
    """Open a file to read what was packed in it by gzip, if its name says so."""
    return cast(BinaryIO, gzip.open(path, "rb")) if is_packed(path) else path.open("rb")


def corpus_files(named: Sequence[Path]) -> list[Path]:
    """Return the files of a corpus, in the order named; patterns give theirs by name."""
    found: list[Path] = []
    for one in named:
        if one.exists() or not glob.has_magic(str(one)):
            found.append(one)
            continue
        matches = sorted(glob.glob(str(one), recursive=True))
        if not matches:
            raise error(OptionError, "FILE", "a pattern of files that are there", repr(str(one)))
        found += map(Path, matches)
    if found.count(STDIN) > 1:
        raise error(OptionError, "FILE", "stdin (-) once", "twice")
    return found


@contextmanager
def reading(path: Path, kind: str, note: str = "") -> Iterator[None]:
    """Turn errors of pyarrow in the block into an error that names the file."""
    try:
        yield
    except pa.ArrowException as fault:
        raise error(DTypeError, str(path), f"a {kind} file{note}", fault) from fault
    except (gzip.BadGzipFile, EOFError, zlib.error) as fault:
        raise error(DTypeError, str(path), "a whole file in gzip", fault) from fault


def check_columns(path: Path, given: Sequence[str], wanted: Mapping[str, str]) -> None:
    """Refuse a column that the file lacks; the error names the column's option."""
    for column, option in wanted.items():
        if column not in given:
            wish = f"a column of {path} ({', '.join(given)})"
            raise error(OptionError, option, wish, repr(column))


def read_corpora(
    paths: Sequence[Path], wanted: Mapping[str, str], texts: Sequence[str], named: str | None
) -> pa.Table:
    """Read the files of a corpus as one table; numbers of text files may be of several types."""
    first, *others = [_read_corpus(path, wanted, texts, named) for path in paths]
    for path, table in zip(paths[1:], others, strict=True):
        try:
            first = pa.concat_tables([first, table], promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as fault:
            wish = f"columns of the types of {paths[0]}"
            raise error(DTypeError, str(path), wish, fault) from None
    return first


def _read_corpus(
    path: Path, wanted: Mapping[str, str], texts: Sequence[str], named: str | None
) -> pa.Table:
    """Read the columns of one file."""
    kind = input_kind(path, named)
    columns = list(wanted)
    with reading(path, kind):
        source = _source(path)
        if kind == "parquet":
            check_columns(path, pq.read_schema(_input(source)).names, wanted)
            return pq.read_table(_input(source), columns=columns)
        as_text = dict.fromkeys(texts, pa.string())
        if kind in ("csv", "tsv"):
            known = [name for name, option in wanted.items() if option in ("--key", "--cell")]
            table = _read_csv(source, as_text | dict.fromkeys(known, pa.string()), kind)
            check_columns(path, table.column_names, wanted)
            return table.select(columns)
        table = _read_jsonl(source, as_text)
        check_columns(path, table.column_names, wanted)
        names = [name for name, option in wanted.items() if option in ("--key", "--cell")]
        times = [name for name in names if pa.types.is_temporal(table.schema.field(name).type)]
        if times:  # strings that pyarrow reads as times
            table = _read_jsonl(source, as_text | dict.fromkeys(times, pa.string()))
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


def _source(path: Path) -> Path | pa.Buffer:
    """Return what to read: the file, or the bytes of stdin or of a file in gzip."""
    if path == STDIN:
        return pa.py_buffer(sys.stdin.buffer.read())
    with unpacked(path) as file:  # a missing file raises an error with its name
        return pa.py_buffer(file.read()) if is_packed(path) else path


def _input(source: Path | pa.Buffer) -> Path | pa.BufferReader:
    return source if isinstance(source, Path) else pa.BufferReader(source)


def _read_csv(
    source: Path | pa.Buffer, as_text: dict[str, pa.DataType], kind: str = "csv"
) -> pa.Table:
    convert = pa_csv.ConvertOptions(column_types=as_text, strings_can_be_null=False)
    parse = pa_csv.ParseOptions(newlines_in_values=True, delimiter="\t" if kind == "tsv" else ",")
    return pa_csv.read_csv(_input(source), parse_options=parse, convert_options=convert)


def _read_jsonl(source: Path | pa.Buffer, as_text: dict[str, pa.DataType]) -> pa.Table:
    """Read JSON lines, with the columns of `as_text` as text even if they look like times."""
    options = pa_json.ParseOptions(explicit_schema=pa.schema(as_text)) if as_text else None
    size = source.stat().st_size if isinstance(source, Path) else source.size
    block = min(_JSON_BLOCK, max(size, 1))
    return pa_json.read_json(
        _input(source), read_options=pa_json.ReadOptions(block_size=block), parse_options=options
    )


# ---- Reads files of queries in slices of rows: Parquet, JSON lines or CSV; also from stdin ----

_BATCH_BYTES = 64 << 20  # of query columns in memory at once
_FIELD_BYTES = 1 << 30  # of one value in CSV
_TEXT, _VECTOR, _KEY = "--query-text", "--query-vector", "--query-key"
# The values that mean null in a typed column of CSV, as in pyarrow's CSV reader.
_NULLS = ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND",
          "1.#QNAN", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"]  # fmt: skip

Line = tuple[int, Any]  # a line's number, and the line as it was read
L_ = TypeVar("L_", bytes, list[str])


class QueryFile:
    """A file of queries, read in slices of rows.

    Parquet has the types of its columns. In CSV, all columns except the scope are text. In JSON
    lines, each value has its own type. Keys are text in both, so that all slices have equal types.

    Parameters
    ----------
    path : Path
        ``STDIN`` reads stdin.
    wanted : mapping of str to str
        The columns to read, each with the option that names it.
    cells : mapping of str to pyarrow.DataType
        Types of the columns of cells, for CSV.
    kind : {"parquet", "jsonl", "csv", "tsv"}, optional
        The format. Default: by the file's name; JSON lines for stdin.

    Attributes
    ----------
    name : str
        The name of the file in messages.
    wanted : dict of str to str
    types : dict of str to pyarrow.DataType
    n_rows : int or None
        None if it is not known before the file is read.
    """

    def __init__(
        self,
        path: Path,
        wanted: Mapping[str, str],
        cells: Mapping[str, pa.DataType],
        kind: str | None = None,
    ) -> None:
        self._path = path
        self._kind = input_kind(path, kind)
        self.name = "stdin" if path == STDIN else str(path)
        self.wanted = dict(wanted)
        self.types = {
            name: cells.get(name, pa.string()) if option == "--query-scope" else pa.string()
            for name, option in wanted.items()
        }
        self.n_rows: int | None = None
        self._row_bytes = 0.0
        self._source = self._open()
        if self._kind == "parquet":
            with reading(Path(self.name), self._kind):
                metadata = pq.read_metadata(self._source)
                schema = metadata.schema.to_arrow_schema()
                check_columns(Path(self.name), schema.names, wanted)
            self.types = {name: schema.field(name).type for name in wanted}
            self.n_rows = metadata.num_rows
            groups = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
            self._row_bytes = sum(groups) / max(metadata.num_rows, 1)

    def slices(self, n_rows: int, *, first: int = 0) -> Iterator[QueryRows]:
        """Yield slices of at most `n_rows` rows, fewer if rows are long, from row `first` on.

        The file is read once.
        """
        n_rows = max(1, min(n_rows, int(_BATCH_BYTES / max(self._row_bytes, 1.0))))
        read = {"parquet": self._parquet, "jsonl": self._jsonl, "csv": self._csv,
                "tsv": self._csv}[self._kind]  # fmt: skip
        with reading(Path(self.name), self._kind):
            yield from read(n_rows, first)

    def empty(self) -> pa.Table:
        """Return the columns without rows."""
        vectors = [name for name, option in self.wanted.items() if option == _VECTOR]
        types = dict(self.types)
        if self._kind != "parquet":
            types |= dict.fromkeys(vectors, pa.list_(pa.float64()))
        return pa.table({name: pa.array([], kind) for name, kind in types.items()})

    def _open(self) -> Path | BinaryIO:
        """Return the path or the open file to read; raise for a missing file."""
        packed_parquet = self._kind == "parquet" and is_packed(self._path)
        if self._path.is_file() and not packed_parquet:
            with self._path.open("rb"):
                return self._path
        pipe = sys.stdin.buffer if self._path == STDIN else unpacked(self._path)
        if self._kind != "parquet":
            return pipe
        kept = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this object
        with reading(Path(self.name), self._kind):
            copyfileobj(pipe, kept)  # reading Parquet starts at its end
        finalize(self, kept.close)
        return kept

    @contextmanager
    def _bytes(self) -> Iterator[BinaryIO]:
        if isinstance(self._source, Path):
            with unpacked(self._source) as file:
                yield file
        else:
            yield self._source

    def _parquet(self, n_rows: int, first: int) -> Iterator[QueryRows]:
        # Buffered and without prefetch: the whole file may be one row group.
        with pq.ParquetFile(self._source, pre_buffer=False, buffer_size=1 << 20) as file:
            groups = list(range(file.metadata.num_row_groups))
            while groups and file.metadata.row_group(groups[0]).num_rows <= first:
                first -= file.metadata.row_group(groups.pop(0)).num_rows
            batches = file.iter_batches(n_rows, row_groups=groups, columns=list(self.wanted))
            for batch in batches:
                passed = min(first, batch.num_rows)
                first -= passed
                if passed < batch.num_rows:
                    yield TableRows(pa.Table.from_batches([batch]).slice(passed))

    def _jsonl(self, n_rows: int, first: int) -> Iterator[QueryRows]:
        checked = first > 0
        with self._bytes() as file:
            lines = ((at, line) for at, line in enumerate(file, start=1) if line.strip())
            for some in _in_slices(islice(lines, first, None), n_rows):
                if not checked:
                    checked = self._check_first(some)
                yield _Rows(_Asked(self.name, self.wanted, self.types), some)

    def _check_first(self, lines: Sequence[Line]) -> bool:
        """Refuse columns that the first object lacks; return False if no line is an object."""
        for at, line in lines:
            try:
                given = list(_object(line, self.name, at))
            except DTypeError:
                continue  # refused later, with its row
            check_columns(Path(self.name), given, self.wanted)
            return True
        return False

    def _csv(self, n_rows: int, first: int) -> Iterator[QueryRows]:
        csv.field_size_limit(_FIELD_BYTES)
        with self._bytes() as file:
            # Invalid UTF-8 becomes lone surrogates, which are refused when the row is parsed.
            text = TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")
            reader = csv.reader(text, delimiter="\t" if self._kind == "tsv" else ",")
            try:
                header = next((row for row in reader if row), None)
                if header is None:
                    raise error(
                        DTypeError, self.name, f"a {self._kind} file with a header", "an empty file"
                    )
                check_columns(Path(self.name), header, self.wanted)
                asked = _Asked(self.name, self.wanted, self.types, header)
                rows = ((reader.line_num, row) for row in reader if row)
                for some in _in_slices(islice(rows, first, None), n_rows):
                    yield _Rows(asked, some)
            except csv.Error as fault:
                where = f"{self.name} line {reader.line_num}"
                raise error(DTypeError, where, f"a row of {self._kind}", fault) from None
            finally:
                text.detach()  # keeps stdin open


def _in_slices(rows: Iterator[tuple[int, L_]], n_rows: int) -> Iterator[list[tuple[int, L_]]]:
    """Yield lists of rows, limited in number and bytes."""
    some: list[tuple[int, L_]] = []
    n_bytes = 0
    for number, row in rows:
        some.append((number, row))
        n_bytes += len(row) if isinstance(row, bytes) else sum(map(len, row))
        if len(some) == n_rows or n_bytes > _BATCH_BYTES:
            yield some
            some, n_bytes = [], 0
    if some:
        yield some


class _Asked(NamedTuple):
    """What a file's rows need of it; as :class:`QueryFile` has it."""

    name: str
    wanted: dict[str, str]
    types: dict[str, pa.DataType]
    header: list[str] | None = None  # of CSV


class _Rows:
    """Unparsed rows of a text file: lines of JSON, or values under the header of CSV."""

    def __init__(self, file: _Asked, lines: Sequence[Line]) -> None:
        self._file, self._lines = file, lines
        self.n_rows = len(lines)

    def slice(self, first: int, n_rows: int) -> QueryRows:
        return _Rows(self._file, self._lines[first : first + n_rows])

    def key(self, column: str) -> Any:
        line, header = self._lines[0][1], self._file.header
        if header is not None:
            return next((v for name, v in zip(header, line, strict=False) if name == column), None)
        try:
            return _object(line, "", 0).get(column)
        except DTypeError:
            return None

    def table(self) -> pa.Table:
        read = self._of_json if self._file.header is None else self._of_csv
        return pa.table({name: read(name) for name in self._file.wanted})

    def _where(self) -> str:
        first, last = self._lines[0][0], self._lines[-1][0]
        told = f"line {first}" if first == last else f"lines {first} to {last}"
        return f"in {told} of {self._file.name}"

    @cached_property
    def _rows(self) -> list[tuple[int, dict[str, Any]]]:
        """The rows by name, each behind the number of its line."""
        name, header = self._file.name, self._file.header
        if header is None:
            return [(at, _object(line, name, at)) for at, line in self._lines]
        for at, row in self._lines:
            if len(row) != len(header):
                raise error(DTypeError, f"{name} line {at}", f"{len(header)} values", len(row))
        places = {
            name: header.index(name) for name in self._file.wanted
        }  # of equal names the first
        return [(at, {name: row[i] for name, i in places.items()}) for at, row in self._lines]

    def _of_json(self, name: str) -> pa.Array:
        option = self._file.wanted[name]
        values = [row.get(name) for _, row in self._rows]
        if option == _KEY:
            values = [v if v is None or isinstance(v, str) else json.dumps(v) for v in values]
        if option == _TEXT:
            for value, (number, _) in zip(values, self._rows, strict=True):
                if value is not None and not isinstance(value, str):
                    where = f"{self._file.name} line {number}"
                    wish = f"a string or null in column {name!r}"
                    raise error(DTypeError, option, wish, f"{value!r} in {where}")
        try:
            array = pa.array(values, pa.string() if option in (_TEXT, _KEY) else None)
        except UnicodeEncodeError as fault:
            wish = f"text without lone surrogates in column {name!r}"
            got = f"others {self._where()} ({fault.reason})"
            raise error(DTypeError, option, wish, got) from None
        except (ValueError, TypeError, OverflowError) as fault:  # includes pyarrow's errors
            wish = f"values of one type in column {name!r}"
            raise error(DTypeError, option, wish, f"others {self._where()} ({fault})") from None
        return float_vectors(array) if option == _VECTOR else array

    def _of_csv(self, name: str) -> pa.Array:
        kind, option = self._file.types[name], self._file.wanted[name]
        try:
            texts = pa.array([row[name] for _, row in self._rows], pa.string())
        except UnicodeEncodeError:
            wish = f"UTF-8 in column {name!r}"
            raise error(DTypeError, option, wish, f"other bytes {self._where()}") from None
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return texts.cast(kind)
        trimmed = pc.utf8_trim_whitespace(texts)
        is_null = pc.is_in(trimmed, pa.array(_NULLS))
        try:
            return pc.if_else(is_null, pa.scalar(None, pa.string()), trimmed).cast(kind)
        except pa.ArrowInvalid as fault:
            wish = f"{kind} in column {name!r}"
            raise error(DTypeError, option, wish, f"others {self._where()} ({fault})") from None


def _object(line: bytes, name: str, number: int) -> dict[str, Any]:
    where = f"{name} line {number}"
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as fault:
        raise error(DTypeError, where, "a JSON object", fault) from None
    if not isinstance(row, dict):
        raise error(DTypeError, where, "a JSON object", type(row).__name__)
    return row
