"""``hyrecall index --memory``: indexes a Parquet file in parts that fit a limit of memory."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from hyrecall.cli.show import say
from hyrecall.cli.tables import check_columns, kind_of, reading
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
    corpus: Path,
    output: Path,
    schema: Schema,
    wanted: Mapping[str, str],
    memory: str,
    *,
    resume: bool,
    join: bool,
    threads: int | None,
) -> None:
    """Index the columns of a Parquet file, part by part, and say how far it is after each.

    Raises
    ------
    OptionError
        Another kind of file, or one of :meth:`hyrecall.Index.build_in_parts`.
    """
    limit = read_size("--memory", memory)
    if kind_of(corpus) != "parquet":
        wish = "a .parquet file, which can be read in parts"
        raise error(OptionError, "--memory", wish, repr(str(corpus)))
    started = time.perf_counter()

    def tell(done: int, total: int, what: str = "rows") -> None:
        seconds = time.perf_counter() - started
        say(f"{done:,} of {total:,} {what}, {seconds:.1f} s")

    with reading(corpus, "parquet"), pq.ParquetFile(corpus, pre_buffer=False) as file:
        check_columns(corpus, file.schema_arrow.names, wanted)
        made = Index.build_in_parts(
            file.iter_batches(_BATCH_ROWS, columns=list(wanted)),
            schema,
            output,
            memory_limit=limit,
            threads=threads,
            resume=resume,
            join=join,
            total_rows=file.metadata.num_rows,
            progress=tell,
            join_progress=partial(tell, what="rows joined by cell"),
        )
    n_segments = made.stats()["n_segments"]
    told = f"indexed {len(made):,} documents in {time.perf_counter() - started:.1f} s"
    say(f"{told}, {n_segments} segments")
    say(f"written to {output}")
