"""``hyrecall shards``: builds the shards of a large table, shows and rebalances them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Unpack

from hyrecall.base.progress import ProgressFunction
from hyrecall.base.text_tables import Column, Row
from hyrecall.cli import index_command
from hyrecall.cli.declare import group
from hyrecall.cli.index_command import NamedColumns, read_schema, read_size
from hyrecall.cli.show import print_json, print_table, say
from hyrecall.distributed import ShardEntry, Shards, build_shards
from hyrecall.distributed import rebalance as rebalance_shards
from hyrecall.distributed.shards_file import verify_shards
from hyrecall.errors import OptionError, error

SHARED = f"""{index_command.SHARED}
folder DIR: Folder of the shards.
number --shards N: How many shards.
shard_rows N: Instead of --shards: about how many rows a shard has.
memory SIZE: The most memory: 8GB, 512MiB. [default: 2GiB]
"""


def build(
    source: Path,
    output: Path,
    *,
    number: int | None = None,
    shard_rows: int | None = None,
    memory: str | None = None,
    resume: bool = False,
    threads: int | None = None,
    **columns: Unpack[NamedColumns],
) -> None:
    """Index Parquet files as shards. A cell lies in one shard, unless it is larger than a shard.

    Arguments
    source SOURCE: A folder of .parquet files, read by name, or one such file; without sub-folders.
    output DIR: The folder to write.
    Options
    resume: Go on with an unfinished build, if any.
    """
    _check_sizes(number, shard_rows)
    schema, _ = read_schema(columns)
    started = time.perf_counter()
    made = build_shards(
        source, schema, output, shards=number, shard_rows=shard_rows, resume=resume,
        memory_limit=None if memory is None else read_size("--memory", memory),
        threads=threads, progress=_tell(started, "steps (two a row)"),
    )  # fmt: skip
    told = f"{made.rows:,} documents in {len(made.shards)} shards"
    say(f"indexed {told} in {time.perf_counter() - started:.1f} s")
    say(f"written to {output}")


def info(folder: Path, *, verify: bool = False, as_json: bool = False) -> None:
    """Show the shards of a folder: rows, cells, bytes, and the share of all rows.

    Options
    verify: Check every block, and the place of every cell.
    """
    found = verify_shards(folder) if verify else Shards.read(folder)
    if as_json:
        print_json(_facts(found))
        return
    columns = [Column("shard"), *(Column(one, "right") for one in ("rows", "cells", "bytes"))]
    columns += [Column("share", "right"), Column("folder")]
    print_table(columns, [_row(one, found.rows) for one in found.shards])
    n_split = len(found.placement.split)
    cells = "1 cell lies" if n_split == 1 else f"{n_split:,} cells lie"
    told = f"{cells} in several shards" if n_split else "each cell lies in one shard"
    say(f"generation {found.generation}, {found.rows:,} documents; {told}")
    if verify:
        say("all checksums and places are right")


def rebalance(
    folder: Path,
    *,
    number: int | None = None,
    shard_rows: int | None = None,
    memory: str | None = None,
    threads: int | None = None,
) -> None:
    """Change how many shards there are, or even out their sizes, by moving cells.

    hyrecall serve takes the new shards up by itself. Other programs keep what they have
    opened until they reload it.
    """
    _check_sizes(number, shard_rows)
    before = Shards.read(folder)
    started = time.perf_counter()
    made = rebalance_shards(
        folder, shards=number, shard_rows=shard_rows, threads=threads,
        memory_limit=None if memory is None else read_size("--memory", memory),
        progress=_tell(started, "rows"),
    )  # fmt: skip
    if made.generation == before.generation:
        say("nothing to move")
        return
    kept = {one.folder for one in before.shards}
    n_written = sum(one.folder not in kept for one in made.shards)
    told = f"generation {made.generation}: {len(made.shards)} shards, of which {n_written} are new"
    say(f"{told}, in {time.perf_counter() - started:.1f} s")


def _check_sizes(number: int | None, shard_rows: int | None) -> None:
    if (number is None) == (shard_rows is None):
        got = "neither" if number is None else "both"
        raise error(OptionError, "--shards", "--shards or --shard-rows", got)


def _tell(started: float, unit: str) -> ProgressFunction:
    def tell(done: int, total: int) -> None:
        say(f"{done:,} of {total:,} {unit}, {time.perf_counter() - started:.1f} s")

    return tell


def _facts(found: Shards) -> dict[str, Any]:
    split: Sequence[tuple[object, ...]] = [cell for cell, _ in found.placement.split]
    return {
        "generation": found.generation,
        "rows": found.rows,
        "shards": [asdict(one) for one in found.shards],
        "split_cells": [list(one) for one in split],
    }


def _row(one: ShardEntry, n_rows: int) -> Row:
    share = one.rows / n_rows if n_rows else 0.0
    numbers = [f"{one.rows:,}", f"{one.cells:,}", f"{one.bytes:,}", f"{share:.1%}"]
    return Row([one.name, *numbers, one.folder])


shards = group(
    "shards", "An index in several shards: build, show and rebalance them.", build, info, rebalance
)
