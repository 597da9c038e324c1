"""``hyrecall index --memory``: indexes a Parquet file in parts that fit a limit of memory."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hyrecall.cli.show import say
from hyrecall.cli.tables import STDIN, check_columns, is_packed, kind_of, reading
from hyrecall.errors import OptionError, error
from hyrecall.index import Index
from hyrecall.table.schema import Schema

__all__ = ["index_in_parts", "read_size"]

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([A-Za-z]*)")
_BATCH_ROWS = 4096


def read_size(option: str, text: str) -> int:
    """Return a number of bytes from text such as 2GB or 1.5GiB.

    Raises
    ------
    OptionError
        Something else.
    """
    found = _SIZE.fullmatch(text.strip())
    unit = None if found is None else _UNITS.get(found[2].upper())
    if found is None or unit is None:
        raise error(OptionError, option, "a size such as 2GB or 512MiB", repr(text))
    return int(float(found[1]) * unit)


def index_in_parts(
    files: Sequence[Path],
    output: Path,
    schema: Schema,
    wanted: Mapping[str, str],
    memory: str,
    *,
    resume: bool,
    join: bool,
    threads: int | None,
) -> None:
    """Index the columns of Parquet files, part by part, and say how far it is after each.

    Raises
    ------
    OptionError
        Another kind of file, or one of :meth:`hyrecall.Index.build_in_parts`.
    """
    limit = read_size("--memory", memory)
    for one in files:
        if one == STDIN or is_packed(one) or kind_of(one) != "parquet":
            wish = "a .parquet file, which can be read in parts"
            raise error(OptionError, "--memory", wish, repr(str(one)))
    started = time.perf_counter()

    def tell(done: int, total: int, what: str = "rows") -> None:
        seconds = time.perf_counter() - started
        say(f"{done:,} of {total:,} {what}, {seconds:.1f} s")

    n_rows = 0
    for one in files:
        with reading(one, "parquet"):
            metadata = pq.read_metadata(one)
            check_columns(one, metadata.schema.to_arrow_schema().names, wanted)
            n_rows += metadata.num_rows
    with reading(files[0], "parquet"):
        made = Index.build_in_parts(
            _batches(files, list(wanted)),
            schema,
            output,
            memory_limit=limit,
            threads=threads,
            resume=resume,
            join=join,
            total_rows=n_rows,
            progress=tell,
            join_progress=partial(tell, what="rows joined by cell"),
        )
    n_segments = made.stats()["n_segments"]
    told = f"indexed {len(made):,} documents in {time.perf_counter() - started:.1f} s"
    say(f"{told}, {n_segments} segments")
    say(f"written to {output}")


def _batches(files: Sequence[Path], columns: list[str]) -> Iterator[pa.RecordBatch]:
    for one in files:
        with reading(one, "parquet"), pq.ParquetFile(one, pre_buffer=False) as file:
            yield from file.iter_batches(_BATCH_ROWS, columns=columns)
