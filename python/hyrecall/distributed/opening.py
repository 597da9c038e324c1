"""Opens saved indexes as shards, and reads the arguments of calls over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from hyrecall.base.arguments import as_int, as_items, number
from hyrecall.distributed.generations import Opener, OpenShards
from hyrecall.distributed.replicated import ReplicatedShard
from hyrecall.distributed.shards import (
    MOST_SECONDS,
    CheckedVersion,
    LocalShard,
    OpenShard,
    ProcessShard,
    SavedShard,
    Shard,
    ShardOpening,
    read_timeout,
)
from hyrecall.distributed.shards_file import SHARDS, SavedFolders, find_folders, read_folders
from hyrecall.errors import CorruptIndexError, OptionError, error
from hyrecall.index import Index
from hyrecall.parts.merging import check_shards
from hyrecall.parts.request import Request
from hyrecall.segments.manifest import MANIFEST, read_seal
from hyrecall.segments.segments import IndexFacts
from hyrecall.table.columns import open_source
from hyrecall.text.analyzer import Analyzer

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


def open_found(paths: object, opener: Opener) -> OpenShards:
    """Open the saved indexes that paths name, as shards of one index."""
    given = read_folders("paths", paths)
    while True:
        found = find_folders(given)
        try:
            return opener(found, {})
        except CorruptIndexError:
            if found.placed is None or found.placed.is_current:
                raise


def open_here(
    found: SavedFolders,
    kept: Mapping[Path, Shard],
    *,
    opening: ShardOpening,
    analyzer: Analyzer | Mapping[str, Analyzer] | None = None,
) -> OpenShards:
    """Open indexes in this process and check that they are shards of one."""
    # A shard of ``kept`` stays as it is; where another process has it, it is opened here, too.
    fresh: list[LocalShard] = []
    shards: list[LocalShard] = []
    try:
        for at, folder in enumerate(found.folders):
            known = kept.get(folder.absolute())
            if isinstance(known, LocalShard):
                shards.append(known)
                continue
            how = opening if known is None else opening.once_checked
            index = how.open(folder, analyzer)
            shards.append(LocalShard(str(folder), index, is_fixed=found.placed is not None))
            fresh.append(shards[-1])
            if found.placed is not None:
                _check_seal(index, folder, found.placed.seals[at])
        if found.placed is None:
            check_alike(shards)
        else:
            found.placed.check([(one.facts, one.index._state) for one in shards])
    except BaseException:
        for one in fresh:
            one.close()
        raise
    for one, name in zip(shards, names_of(found.folders), strict=True):
        one.name = name
    return OpenShards(list(shards), found.folders, found.placed, shards[0].facts)


def _check_seal(index: Index, folder: Path, seal: str | None) -> None:
    """Refuse an index that was saved since ``shards.json`` was read."""
    found = index._lineage.seals
    if found != (seal,):
        wish = f"the version {seal} that {SHARDS} names"
        raise error(CorruptIndexError, str(folder / MANIFEST), wish, ", ".join(found))


Maker = Callable[[Sequence[SavedShard], IndexFacts], list[Shard]]
"""Makes the shards of saved indexes, which other processes open."""


def open_apart(
    found: SavedFolders, kept: Mapping[Path, Shard], *, opening: ShardOpening, make: Maker
) -> OpenShards:
    """Check indexes here, and let other processes open them."""
    # With ``verify="full"``, every block is compared here; otherwise each process compares what it
    # opens first.
    is_full = opening.verify == "full"
    here = ShardOpening("cpu", opening.threads, verify="full" if is_full else "structure")
    looked = open_here(found, kept, opening=here)
    saved = []
    for at, (one, folder) in enumerate(zip(looked.shards, looked.folders, strict=True)):
        assert isinstance(one, LocalShard)
        checked = CheckedVersion(one.index._lineage.seals[0] if is_full else None)
        seal = None if found.placed is None else found.placed.seals[at]
        saved.append(SavedShard(folder, seal, checked))
        one.close()
    known = [kept.get(one.path.absolute()) for one in saved]
    wanted = [one for one, shard in zip(saved, known, strict=True) if shard is None]
    fresh = iter(make(wanted, looked.facts) if wanted else [])
    return looked._replace(shards=[next(fresh) if one is None else one for one in known])


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
    opening: ShardOpening,
    timeout: float | None,
) -> list[Shard]:
    """Make a shard for each saved index, whose processes start with the first call."""

    def make(one: SavedShard, name: str, tries: int) -> ProcessShard:
        return ProcessShard(one, facts, opening, timeout=timeout, name=name, tries=tries)

    return [
        replication.shard(one, name, partial(make, one, name))
        for one, name in zip(saved, names_of([one.path for one in saved]), strict=True)
    ]


_REFUSED: Mapping[str, tuple[object, ...]] = {
    "surrounding": (0,), "expansion": ((), []), "graphs": (None, {}),
}  # fmt: skip
"""Options that shards do not support, with the values that ask for nothing, the default first."""


def read_request(options: Mapping[str, Any]) -> Request:
    """Make the request of a call; options that shards do not support are refused."""
    given = dict(options)
    for name, nothing in _REFUSED.items():
        value = given.pop(name, None)
        if value is not None and value not in nothing:
            wish = f"{nothing[0]!r} in a recall over shards (it reads more than candidates)"
            raise error(OptionError, name, wish, repr(value)[:80])
    return Request(**given)
