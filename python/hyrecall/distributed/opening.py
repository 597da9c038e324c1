"""Opens saved indexes as shards, and reads the arguments of calls over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from hyrecall.base.arguments import as_int, as_items, number
from hyrecall.distributed.placed import PlacedShards
from hyrecall.distributed.replicated import ReplicatedShard
from hyrecall.distributed.saved_folders import find_folders, read_folders
from hyrecall.distributed.shards import (
    MOST_SECONDS,
    LocalShard,
    OpenShard,
    ProcessShard,
    SavedShard,
    Shard,
    read_timeout,
)
from hyrecall.errors import CorruptIndexError, OptionError, error
from hyrecall.index import Index
from hyrecall.parts.placing import check_shards
from hyrecall.parts.request import Request
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.manifest import MANIFEST, read_seal
from hyrecall.table.source import open_source

__all__ = [
    "Replication",
    "check_alike",
    "looked_at",
    "names_of",
    "open_here",
    "process_shards",
    "read_request",
    "read_tables",
]

MOST_REPLICAS = 64


def read_tables(tables: object) -> list[pa.Table]:
    """Return tables, each of which becomes a shard."""
    given = None if isinstance(tables, pa.Table) else as_items(tables)
    if not given:
        wish = "a sequence of tables, one per shard"
        raise error(OptionError, "tables", wish, type(tables).__name__)
    opened = map(open_source, given)
    return [one if isinstance(one, pa.Table) else one.read_all() for one in opened]


def names_of(folders: Sequence[Path]) -> list[str]:
    """Return the names of shards in replies: those of their folders, or paths if these repeat."""
    names = [one.absolute().name for one in folders]
    return names if len(set(names)) == len(names) else [str(one) for one in folders]


def open_here(
    paths: object, **options: Any
) -> tuple[list[LocalShard], list[Path], PlacedShards | None]:
    """Open indexes in this process and check that they are shards of one index."""
    given = read_folders("paths", paths)
    while True:
        folders, placed, _ = find_folders(given)
        shards: list[LocalShard] = []
        try:
            for one in folders:
                index = Index.open(one, **options)
                shards.append(LocalShard(str(one), index, is_fixed=placed is not None))
        except CorruptIndexError:
            for shard in shards:
                shard.close()
            if placed is None or placed.is_current:
                raise
        else:
            break
    if placed is None:
        check_alike(shards)
    else:
        placed.check([(one.facts, one.index._state) for one in shards])
    for shard, name in zip(shards, names_of(folders), strict=True):
        shard.name = name
    return shards, folders, placed


def looked_at(
    paths: object, threads: int | None
) -> tuple[list[SavedShard], PlacedShards | None, IndexFacts]:
    """Check indexes that other processes will open; also return the facts that they share."""
    shards, folders, placed = open_here(paths, device="cpu", threads=threads, verify="structure")
    for one in shards:
        one.close()
    seals = [None] * len(shards) if placed is None else placed.seals
    saved = [SavedShard(path, seal) for path, seal in zip(folders, seals, strict=True)]
    return saved, placed, shards[0].facts


def check_alike(shards: Sequence[LocalShard]) -> None:
    """Check that indexes are shards of one index."""
    check_shards([(one.name, one.facts, one.index._state) for one in shards])


class Replication:
    """The number of replicas of each shard, and when a second replica is asked."""

    def __init__(self, replicas: int, hedge: float | None, timeout: float | None) -> None:
        """Check the arguments of :meth:`hyrecall.distributed.ShardedIndex.open`."""
        n = as_int(replicas)
        if n is None or not 1 <= n <= MOST_REPLICAS:
            wish = f"an int in [1, {MOST_REPLICAS}]"
            raise error(OptionError, "replicas", wish, repr(replicas))
        self.n = n
        self.hedge = hedge
        read_timeout(timeout)
        if hedge is None:
            return
        wish = f"seconds from 0 to {MOST_SECONDS:.0f}, or None"
        self.hedge = number("hedge", hedge, 0.0, MOST_SECONDS, wish)
        if self.n < 2:
            raise error(OptionError, "hedge", "None with one replica", repr(hedge), "replicas=2")
        if timeout is None:
            wish = "seconds beside hedge (a late replica may never answer)"
            raise error(OptionError, "timeout", wish, "None")

    def shard(self, saved: SavedShard, name: str, make: Callable[[int], OpenShard]) -> Shard:
        """Make a shard of a saved index; ``make`` takes the number of tries of a question."""
        if self.n == 1:
            return make(2)
        made = [make(1) for _ in range(self.n)]
        return ReplicatedShard(
            name, made, partial(_seal, saved.path.absolute(), saved.seal), hedge=self.hedge
        )


def _seal(folder: Path, only: str | None = None) -> str | None:
    """Return the seal of the version in a folder, by one small read, or ``only`` if given."""
    if only is not None:
        return only
    try:
        return read_seal(folder / MANIFEST)
    except (OSError, CorruptIndexError):
        return None


def process_shards(
    saved: Sequence[SavedShard],
    facts: IndexFacts,
    replication: Replication,
    *,
    device: str,
    threads: int | None,
    timeout: float | None,
) -> list[Shard]:
    """Make a shard for each saved index, whose processes start with the first call."""

    def make(one: SavedShard, name: str, tries: int) -> ProcessShard:
        return ProcessShard(
            one, facts, device=device, threads=threads, timeout=timeout, name=name, tries=tries
        )

    return [
        replication.shard(one, name, partial(make, one, name))
        for one, name in zip(saved, names_of([one.path for one in saved]), strict=True)
    ]


_REFUSED = {"graphs": None, "expansion": (), "surrounding": 0}


def read_request(options: Mapping[str, Any]) -> Request:
    """Make the request of a call; options that shards do not support are refused."""
    given = dict(options)
    for name, nothing in _REFUSED.items():
        value = given.pop(name, nothing)
        if value is not None and value != nothing:
            wish = f"{nothing!r} in a recall over shards (it reads more than candidates)"
            raise error(OptionError, name, wish, repr(value)[:80])
    return Request(**given)
