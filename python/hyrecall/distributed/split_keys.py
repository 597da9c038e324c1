"""Checks that keys are unique in a cell whose rows are split over shards by thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from hyrecall.distributed.placement import Placement
from hyrecall.distributed.shard_folders import opened
from hyrecall.distributed.shards_file import ShardEntry
from hyrecall.errors import KeyConflictError, error
from hyrecall.table.schema import Schema

__all__ = ["check_split_keys"]


def check_split_keys(
    folder: Path, schema: Schema, placement: Placement, entries: Mapping[int, ShardEntry]
) -> None:
    """Refuse a key that two threads of a split cell have in two shards."""
    # In other cells all rows with a key lie in one shard, whose build refuses duplicate keys. This
    # check needs 8 bytes a row of the largest split cell.
    if schema.thread is None:
        return
    for cell, parts in placement.split:
        hashes = [
            np.array([_hash(one) for one in keys.to_pylist()], np.uint64)
            for shard in sorted(set(parts))
            for keys in _keys(folder / entries[shard].folder, cell)
        ]
        found, counts = np.unique(
            np.concatenate([*hashes, np.zeros(0, np.uint64)]), return_counts=True
        )
        twice = set(found[counts > 1].tolist())
        if not twice:
            continue
        seen: set[object] = set()  # keys with repeated hashes, which may still differ
        for shard in sorted(set(parts)):
            for keys in _keys(folder / entries[shard].folder, cell):
                for key in keys.to_pylist():
                    if _hash(key) not in twice:
                        continue
                    if key in seen:
                        wish = "keys unique within a cell"
                        raise error(KeyConflictError, schema.key, wish, f"{key!r} in two threads")
                    seen.add(key)


def _hash(key: str | int) -> int:
    return xxhash.xxh3_64_intdigest(key.encode() if isinstance(key, str) else str(key).encode())


def _keys(folder: Path, cell: tuple[object, ...]) -> Iterator[pa.Array]:
    """Yield the keys of a cell in a saved shard."""
    facts, state = opened(folder)
    schema = facts.schema
    for segment in state.segments:
        kept: npt.NDArray[np.bool_] = np.ones(segment.rows.num_rows, np.bool_)
        for name, value in zip(schema.cell_columns, cell, strict=True):
            column = segment.column(name)
            same = (
                column.is_null()
                if value is None
                else pc.equal(column, pa.scalar(value, column.type))
            )
            kept &= pc.fill_null(same, False).to_numpy(zero_copy_only=False)
        yield segment.column(schema.key).filter(pa.array(kept))
