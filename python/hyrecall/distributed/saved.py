"""Opens saved indexes for a batch: one as an index, several as the shards of one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hyrecall.base.arguments import as_items, read_path
from hyrecall.distributed.placed import PlacedShards
from hyrecall.distributed.sharded import ShardedIndex
from hyrecall.distributed.shards_file import SHARDS
from hyrecall.errors import IndexMismatchError, OptionError, ShardLostError, error
from hyrecall.hits.hits import Hits
from hyrecall.index import Index
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.manifest import MANIFEST, read_seal

__all__ = [
    "Opened",
    "check_seals",
    "check_whole",
    "facts_of",
    "n_shards",
    "open_saved",
    "read_folders",
    "seals_of",
]

Opened = Index | ShardedIndex


def read_folders(argument: str, value: object) -> tuple[Path, ...]:
    """Return the folders of an argument, which is a path or several."""
    if isinstance(value, str | Path):
        return (read_path(value),)
    named = as_items(value)
    if not named:
        raise error(OptionError, argument, "a path, or a sequence of at least one", repr(value))
    return tuple(read_path(one) for one in named)


def open_saved(
    folders: Sequence[Path],
    *,
    device: str = "auto",
    threads: int | None = None,
    processes: bool = False,
    timeout: float | None = None,
) -> Opened:
    """Open one folder as an index, and several as shards, in processes of their own if asked."""
    if len(folders) == 1 and not (folders[0] / SHARDS).is_file():
        return Index.open(folders[0], device=device, threads=threads)
    # A folder of shards is named alone: it says itself where each lies.
    given: Any = folders[0] if len(folders) == 1 else folders
    return ShardedIndex.open(
        given, processes=processes, device=device, threads=threads, timeout=timeout
    )


def facts_of(index: Opened) -> IndexFacts:
    """Return what is fixed for an index; the shards of one have it in common."""
    if isinstance(index, Index):
        return index._facts
    shard: Any = index.shards[0]
    facts: IndexFacts = shard.facts
    return facts


def n_shards(index: Opened) -> int:
    """Return how many parts a recall joins."""
    return 1 if isinstance(index, Index) else len(index)


def seals_of(folders: Sequence[Path]) -> tuple[str, ...]:
    """Name the saved version of each shard, as its folder holds it now."""
    if len(folders) == 1 and (folders[0] / SHARDS).is_file():
        folders = PlacedShards.read(folders[0]).folders
    return tuple(read_seal(one / MANIFEST) for one in folders)


def check_seals(folders: Sequence[Path], seals: Sequence[str]) -> None:
    """Refuse folders that got another version since a batch began.

    Raises
    ------
    IndexMismatchError
        Hits of two versions would stand in one output.
    """
    if seals_of(folders) != tuple(seals):
        wish = "the version with which the batch began, until it ends"
        raise error(IndexMismatchError, "index", wish, "another, saved since")


def check_whole(hits: Hits) -> Hits:
    """Refuse hits that lack a shard: a batch has all hits or none of a query.

    Raises
    ------
    ShardLostError
        A shard did not answer; its name is in the message.
    """
    if hits.degraded:
        got = "; ".join(hits.trace.degraded)
        raise error(ShardLostError, "index", "an answer of every shard", got)
    return hits
