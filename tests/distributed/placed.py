"""Documents in shards that are placed by cell, as a router asks them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

import hyrecall as hr
from distributed.placement import WireShard, add_rows
from hyrecall.distributed import Placement, Request, ShardedIndex, Statistics
from seams import (
    N_SLOTS,
    LocalShard,
    RowCounts,
    ShardRouter,
    cell_kinds,
    heavy_slots,
    large_cells,
    most_rows,
    read_rows,
    rows_of,
)
from seams import distributed_pack as pack

Build = Callable[[pa.Table, int], hr.Index]


class CountedShard(WireShard):
    """A shard that counts the queries that it is asked."""

    def __init__(self, name: str, index: hr.Index) -> None:
        super().__init__(name, index)
        self.asked: Counter[int] = Counter()
        self.calls = 0

    def statistics(self, request: Request) -> Statistics:
        self.calls += 1
        scope = request.given["scope"]
        self.asked[len(scope) if isinstance(scope, list) else -1] += 1
        return super().statistics(request)


def placement_of(table: pa.Table, schema: hr.Schema, n_shards: int) -> Placement:
    """Choose the shards of a table's cells, as a build does."""
    rows = rows_of(table, schema)
    most = most_rows(table.num_rows, n_shards)
    counts = RowCounts()
    counts.add(rows)
    cells = RowCounts()
    cells.add(rows, heavy_slots(counts, most) if n_shards > 1 else ())
    counts = RowCounts()
    counts.add(rows, (), large_cells(cells, most))
    kinds = cell_kinds(read_rows(table, schema, schema.cell_columns), schema)
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
    index._generations.current.router = ShardRouter(placement, shards[0]._facts.cell_types)
    return index


def all_in_turn(columns: Sequence[tuple[str, str]], n_shards: int) -> Placement:
    """Place slot after slot."""
    return Placement(dict(columns), np.arange(N_SLOTS) % n_shards)
