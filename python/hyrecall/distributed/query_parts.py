"""Cuts a dataset of queries in Parquet files into parts of a given number of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from hyrecall.distributed.source_files import PARQUET, ending, has_rows
from hyrecall.errors import DTypeError, OptionError, error

__all__ = ["QueryPart", "identity_of", "parts_of", "query_files", "read_part"]

_HASHED_BYTES = 1 << 20  # at a time


class QueryPart(NamedTuple):
    """Consecutive rows of a file."""

    number: int
    path: str
    first: int
    n_rows: int

    @property
    def output(self) -> str:
        """The name of the file with the hits of this part: the same for each try."""
        return f"part-{self.number:06d}.parquet"

    def __str__(self) -> str:
        """Name the rows in a message."""
        return f"rows {self.first:,} to {self.first + self.n_rows - 1:,} of {self.path}"


def query_files(paths: Sequence[Path]) -> list[Path]:
    """Return the Parquet files of paths, and those in folders at any depth, sorted by name."""
    # Names that begin with a dot or an underscore are skipped, as other readers do.
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            found = sorted(one for one in path.rglob("*") if one.is_file())
            found = [one for one in found if not _is_hidden(one.relative_to(path))]
            others = [one for one in found if has_rows(one)]
            if others:  # their queries would not be answered
                raise error(OptionError, "queries", "Parquet files alone", str(others[0]))
            files += [one for one in found if ending(one) == PARQUET]
        else:
            files.append(path)
    absolute = [one.absolute() for one in files]
    if not files or len(set(absolute)) < len(files):
        got = "one of them twice" if files else f"none in {', '.join(map(str, paths))}"
        raise error(OptionError, "queries", "Parquet files, each once", got)
    return absolute


def _is_hidden(path: Path) -> bool:
    return any(one.startswith((".", "_")) for one in path.parts)


def parts_of(files: Sequence[Path], columns: Sequence[str], n_rows: int) -> list[QueryPart]:
    """Cut files into parts of at most ``n_rows`` rows: consecutive row groups, or pieces of one."""
    parts: list[QueryPart] = []
    for path in files:
        try:
            footer = pq.read_metadata(path)
        except pa.ArrowInvalid as fault:
            raise error(DTypeError, str(path), "a Parquet file", fault) from None
        names = footer.schema.to_arrow_schema().names
        missing = [one for one in columns if one not in names]
        if missing:
            raise error(OptionError, str(path), f"a column {missing[0]!r}", f"{names}"[:120])
        begin = size = 0
        for group in range(footer.num_row_groups):
            own = footer.row_group(group).num_rows
            if size and size + own > n_rows:
                parts.append(QueryPart(len(parts), str(path), begin, size))
                begin, size = begin + size, 0
            size += own
            while size > n_rows:
                parts.append(QueryPart(len(parts), str(path), begin, n_rows))
                begin, size = begin + n_rows, size - n_rows
        if size:
            parts.append(QueryPart(len(parts), str(path), begin, size))
    return parts


def read_part(part: QueryPart, columns: Sequence[str], n_rows: int) -> Iterator[pa.Table]:
    """Yield the rows of a part, at most ``n_rows`` at a time."""
    try:
        yield from _read(part, columns, n_rows)
    except (pa.ArrowInvalid, OSError) as fault:
        if isinstance(fault, OSError) and fault.errno is not None:  # an error of the file system
            raise
        raise error(DTypeError, part.path, "rows that can be read", fault) from None


def _read(part: QueryPart, columns: Sequence[str], n_rows: int) -> Iterator[pa.Table]:
    begin, left = part.first, part.n_rows
    # Buffered and without prefetch: the whole file may be one row group.
    with pq.ParquetFile(part.path, pre_buffer=False, buffer_size=1 << 20) as file:
        groups: list[int] = []
        n_read = 0
        for group in range(file.num_row_groups):
            own = file.metadata.row_group(group).num_rows
            if not groups and begin >= own:
                begin -= own
            elif n_read < begin + left:
                groups.append(group)
                n_read += own
        batches = file.iter_batches(n_rows, row_groups=groups, columns=list(columns))
        for batch in batches:
            passed = min(begin, batch.num_rows)
            begin -= passed
            rows = batch.slice(passed, left)
            left -= rows.num_rows
            if rows.num_rows:
                yield pa.Table.from_batches([rows])
            if not left:
                return


def identity_of(files: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the names, sizes and hashes of files; all bytes are read once."""
    out = []
    for path in files:
        found = xxhash.xxh3_128()
        with path.open("rb") as file:
            while piece := file.read(_HASHED_BYTES):
                found.update(piece)
            size = file.tell()
        out.append({"name": str(path), "bytes": size, "xxh3_128": found.hexdigest()})
    return out
