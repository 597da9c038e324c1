"""Reads corpora from Parquet, JSON lines, CSV or TSV, also by gzip; and helpers for query files."""

from __future__ import annotations

import glob
import gzip
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from hyrecall.errors import DTypeError, OptionError, error

__all__ = [
    "INPUT_KINDS",
    "STDIN",
    "check_columns",
    "corpus_files",
    "float_vectors",
    "input_kind",
    "is_packed",
    "kind_of",
    "read_corpora",
    "reading",
    "unpacked",
]

STDIN = Path("-")
INPUT_KINDS = ("parquet", "jsonl", "csv", "tsv")
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
    if named is None:
        return "jsonl" if path == STDIN else kind_of(path)
    if named not in INPUT_KINDS:
        raise error(OptionError, "--input-format", f"one of {', '.join(INPUT_KINDS)}", named)
    return named


def is_packed(path: Path) -> bool:
    """Return whether a name is that of a file in gzip."""
    return path.suffix.lower() == ".gz"


def unpacked(path: Path) -> BinaryIO:
    """Open a file to read what was packed in it by gzip, if its name says so."""
    return cast(BinaryIO, gzip.open(path, "rb")) if is_packed(path) else path.open("rb")


def corpus_files(named: Sequence[Path]) -> list[Path]:
    """Return the files of a corpus, in the order named; patterns give theirs by name.

    Raises
    ------
    OptionError
        A pattern without a file, or stdin twice.
    """
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
    """Read the files of a corpus as one table; numbers of text files may be of several types.

    Raises
    ------
    DTypeError, OptionError
        As of one file, or a column of another type than in the first file.
    """
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
