"""Rows laid into shards in any way, and changed as those of one index are."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

import hyrecall as hr
from hyrecall.distributed import Part, Request, ShardedIndex, Statistics
from seams import LocalShard

Build = Callable[[pa.Table, int], hr.Index]
"""Builds an index of a table, from an insertion number on."""


def sent(given: Any) -> Any:
    """What is left of an object that is sent to another process."""
    return pickle.loads(pickle.dumps(given))


class ApartShard(LocalShard):
    """A shard in this process that is asked by itself, as those of other processes are."""


class WireShard(ApartShard):
    """A shard in this process, all of whose questions and answers are sent as to others."""

    def statistics(self, request: Request) -> Statistics:
        counted: Statistics = sent(super().statistics(sent(request)))
        return counted

    def candidates(self, request: Request, statistics: Statistics) -> Part:
        part: Part = sent(super().candidates(sent(request), sent(statistics)))
        return part


def laid_out(
    table: pa.Table, build: Build, n_shards: int, chance: random.Random, keys: Sequence[Any] = ()
) -> list[hr.Index]:
    """Lay each row of a table into a shard by chance, with the row's number as its own.

    ``keys``: rows with one key lie in one shard; none: each row where it falls.
    """
    place: dict[Any, int] = {}
    where = [
        place.setdefault(keys[row] if keys else row, chance.randrange(n_shards))
        for row in range(table.num_rows)
    ]
    shards = [build(table.slice(0, 0), 0) for _ in range(n_shards)]
    add_rows(shards, table, where)
    return shards


def add_rows(shards: Sequence[hr.Index], table: pa.Table, where: Sequence[int]) -> None:
    """Add each row of a table to its shard, with the row's number as its own."""
    first = 0
    for shard, neighbours in groupby(where):
        n = sum(1 for _ in neighbours)
        shards[shard].add(table.slice(first, n), first_seq=first)
        first += n


def index_of(
    shards: Sequence[hr.Index], *, wire: bool, kind: type[LocalShard] = LocalShard
) -> ShardedIndex:
    """Return shards as one index."""
    kind = WireShard if wire else kind
    return ShardedIndex([kind(f"shard {at}", one) for at, one in enumerate(shards)])
