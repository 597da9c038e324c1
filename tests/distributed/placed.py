"""Documents in shards that are placed by cell, as a router asks them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import pyarrow as pa

import hyrecall as hr
from distributed.placement import add_rows
from hyrecall.distributed import Placement, ShardedIndex
from seams import (
    LocalShard,
    RowCounts,
    ShardRouter,
    place_counts,
    read_rows,
    rows_of,
)
from seams import distributed_pack as pack

Build = Callable[[pa.Table, int], hr.Index]


def placement_of(table: pa.Table, schema: hr.Schema, n_shards: int) -> Placement:
    """Choose the shards of a table's cells, as a build does."""
    rows = rows_of(table, schema)

    def counted(heavy: Collection[int], large: Collection[bytes]) -> RowCounts:
        counts = RowCounts()
        counts.add(rows, heavy, large)
        return counts

    counts = place_counts(counted, table.num_rows, n_shards)
    columns = read_rows(table, schema, schema.cell_columns)
    kinds = [(name, str(columns[name].type)) for name in schema.cell_columns]
    return pack(kinds, counts, n_shards)


def placed_shards(
    table: pa.Table, schema: hr.Schema, build: Build, placement: Placement, n_shards: int
) -> list[hr.Index]:
    """Lay each row of a table where a placement says, with the row's number as its own."""
    where = rows_of(table, schema).shards(placement)
    shards = [build(table.slice(0, 0), 0) for _ in range(n_shards)]
    add_rows(shards, table, where.tolist())
    return shards


def placed_index(
    shards: Sequence[hr.Index], placement: Placement, kind: type[LocalShard] = LocalShard
) -> ShardedIndex:
    """Return shards as one index that is asked by a placement."""
    index = ShardedIndex([kind(f"shard {at}", one) for at, one in enumerate(shards)])
    router = ShardRouter(placement, shards[0]._facts.cell_types)
    index._now = replace(index._now, router=router)
    return index
