"""Changes the number of shards of a folder, or evens out their sizes, by moving cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from hyrecall.base import disk
from hyrecall.base.arguments import check_keywords, read_path
from hyrecall.base.progress import ProgressFunction, read_progress
from hyrecall.base.runtime import choose_threads
from hyrecall.distributed.building import Move, Shard, read_memory, read_sizes
from hyrecall.distributed.shards_file import (
    GENERATOR,
    PlacedShards,
    Shards,
    opened,
    remove_unused,
    write_shards,
)


@check_keywords
def rebalance(
    folder: str | Path,
    *,
    shards: int | None = None,
    shard_rows: int | None = None,
    memory_limit: int | None = None,
    threads: int | None = None,
    progress: ProgressFunction | None = None,
) -> Shards:
    """Change the number of shards of a folder, or even out their sizes.

    Cells move, not documents: the rows of a slot, or of a part of a split cell, move to another
    shard together, with their insertion numbers, analyzed texts, and vectors. Only shards that gain
    or lose rows are written, beside the old ones. Then ``shards.json`` is replaced, and the old
    folders are removed. Replies stay the same, bit for bit. If the call is killed at any time, the
    folder holds the old generation or the new one; call it again then.

    A process that has opened the old generation still reads the files that it opened, until
    :meth:`ShardedIndex.reload`.

    Parameters
    ----------
    folder : path-like
        A folder that :func:`build_shards` wrote.
    shards : int, optional
        Number of shards, up to 4,096; the present number evens out their sizes.
    shard_rows : int, optional
        Instead of ``shards``: the approximate number of rows of a shard.
    memory_limit : int, optional
        Bytes that the call may use, without pages of mapped files, at least 256 MiB; default:
        2 GiB. A lower limit makes more segments.
    threads : int, optional
        Default: all that the machine allows.
    progress : callable, optional
        ``progress(done, total)`` in rows of the written shards.

    Returns
    -------
    Shards
        The new generation; the old one if nothing moves.

    Raises
    ------
    OptionError
        Both or none of ``shards`` and ``shard_rows``, or one out of range.
    IndexNotFoundError, CorruptIndexError
        There are no shards, or they are damaged.
    WriterBusyError
        Another build or rebalancing of the folder is running.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> import hyrecall as hr
    >>> from hyrecall.distributed import build_shards, rebalance
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> rows = {"id": [1, 2, 3], "user": ["ann", "bob", "cyd"], "text": ["tea", "milk", "hot tea"]}
    >>> pq.write_table(pa.table(rows), folder / "rows.parquet")
    >>> schema = hr.Schema(key="id", cell="user", text="text")
    >>> build_shards(folder, schema, folder / "shards", shards=1).generation
    1
    >>> moved = rebalance(folder / "shards", shards=3)
    >>> moved.generation, sorted(one.rows for one in moved.shards)
    (2, [1, 1, 1])
    """
    read_sizes(shards, shard_rows)
    limit, count, tell = read_memory(memory_limit), choose_threads(threads), read_progress(progress)
    path = read_path(folder)
    PlacedShards.read(path)  # first: no lock file is made in a folder without shards
    with disk.writer_lock(path):
        placed = PlacedShards.read(path)
        before = placed.shards
        remove_unused(path, before.shards)
        n_shards = read_sizes(shards, shard_rows, before.rows)
        sources = [opened(one, count) for one in placed.folders]
        placed.check(sources, cells=True)
        n_bytes = sum(one.bytes for one in before.shards)
        move = Move(path, sources, n_bytes, n_shards, limit)
        placement = move.place(before.placement)
        if placement == before.placement and n_shards == len(before.shards):
            return before
        of_rows = move.shards_of(placement)
        wanted = _changed(move, of_rows) | set(range(len(before.shards), n_shards))
        kept = {at: one for at, one in enumerate(before.shards) if at not in wanted}
        wanted &= set(range(n_shards))
        entries = kept | move.write(of_rows, before.generation + 1, sorted(wanted), tell)
        made = replace(
            before, generation=before.generation + 1, placement=placement, generator=GENERATOR,
            shards=tuple(entries[at] for at in range(n_shards)),
        )  # fmt: skip
        write_shards(path, made)
        remove_unused(path, made.shards)
    return made


def _changed(move: Move, of_rows: Sequence[Shard]) -> set[int]:
    """Return the shards that gain or lose rows."""
    changed: set[int] = set()
    left = iter(of_rows)
    for number, segments in enumerate(move.sources):
        for own in islice(left, len(segments)):
            for moved in set(np.unique(own).tolist()) - {number}:
                changed |= {number, moved}
    return changed
