"""Opens saved indexes for a batch: a single index, or the shards of one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from hyrecall.distributed.saved_folders import find_folders
from hyrecall.distributed.shard_opening import ShardOpening
from hyrecall.distributed.sharded import ShardedIndex
from hyrecall.errors import IndexMismatchError, ShardLostError, error
from hyrecall.hits.hits import Hits
from hyrecall.index import Index
from hyrecall.segments.facts import IndexFacts

__all__ = [
    "DEGRADED",
    "Opened",
    "check_seals",
    "check_whole",
    "facts_of",
    "n_shards",
    "open_saved",
    "reasons_in",
    "reasons_of",
    "seals_of",
    "with_reasons",
]

Opened = Index | ShardedIndex


def open_saved(
    folders: Sequence[Path],
    opening: ShardOpening,
    *,
    processes: bool = False,
    timeout: float | None = None,
) -> Opened:
    """Open the folders as an index, or as shards, each in its own process if ``processes``."""
    if find_folders(folders).is_index:
        return opening.open(folders[0])
    return ShardedIndex.open(folders, processes=processes, timeout=timeout, **opening.options)


def facts_of(index: Opened) -> IndexFacts:
    """Return the facts of an index, which all of its shards share."""
    if isinstance(index, Index):
        return index._facts
    shard: Any = index.shards[0]
    facts: IndexFacts = shard.facts
    return facts


def n_shards(index: Opened) -> int:
    """Return the number of parts that a recall joins."""
    return 1 if isinstance(index, Index) else len(index)


def seals_of(folders: Sequence[Path]) -> tuple[str, ...]:
    """Return the seal of each shard's saved version, as its folder holds it now."""
    return find_folders(folders).seals


def check_seals(folders: Sequence[Path], seals: Sequence[str]) -> None:
    """Refuse folders that got another version since a batch began.

    Raises
    ------
    IndexMismatchError
        The output would mix hits of two versions.
    """
    if seals_of(folders) != tuple(seals):
        wish = "the version with which the batch began, until it ends"
        raise error(IndexMismatchError, "index", wish, "another, saved since")


def check_whole(hits: Hits) -> Hits:
    """Refuse hits that lack a shard: a batch has all hits of a query or none.

    Raises
    ------
    ShardLostError
        A shard did not answer; its name is in the message.
    """
    lost = [told for told in hits.trace.degraded if told not in hits.trace.about]
    if lost:
        raise error(ShardLostError, "index", "an answer of every shard", "; ".join(lost))
    return hits


DEGRADED = b"degraded"
"""In the metadata of a table of hits: the queries that were not answered as asked, and why."""


def reasons_of(hits: Hits) -> dict[int, list[str]]:
    """Return why queries were not answered as asked, as each of them is told alone."""
    out: dict[int, list[str]] = {}
    for told in hits.trace.degraded:
        every = dict.fromkeys(range(len(hits)), told)
        for query, alone in hits.trace.about.get(told, every).items():
            out.setdefault(query, []).append(alone)
    return out


def with_reasons(table: pa.Table, reasons: Mapping[Any, Sequence[str]]) -> pa.Table:
    """Add the reasons to a table's metadata, as JSON; without any the table stays as it is."""
    if not reasons:
        return table
    told = {str(query): list(why) for query, why in reasons.items()}
    return table.replace_schema_metadata({DEGRADED: json.dumps(told)})


def reasons_in(tables: Iterable[pa.Table]) -> dict[str, list[str]]:
    """Return the reasons in the metadata of tables."""
    out: dict[str, list[str]] = {}
    for table in tables:
        out |= json.loads((table.schema.metadata or {}).get(DEGRADED, b"{}"))
    return out
