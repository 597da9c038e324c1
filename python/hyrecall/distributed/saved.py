"""Opens saved indexes for a batch: a single index, or the shards of one."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from hyrecall.ask.request import CallOptions, Search
from hyrecall.distributed.sharded import ShardedIndex
from hyrecall.distributed.shards import ShardOpening
from hyrecall.distributed.shards_file import find_folders
from hyrecall.errors import IndexMismatchError, ShardLostError, error
from hyrecall.hits.hits import Hits
from hyrecall.index import Index
from hyrecall.recall.embedders import Embedders
from hyrecall.segments.segments import IndexFacts

Opened = Index | ShardedIndex


def open_saved(
    folders: Sequence[Path],
    opening: ShardOpening,
    *,
    processes: bool = False,
) -> Opened:
    """Open the folders as an index, or as shards, each in its own process if ``processes``."""
    if find_folders(folders).is_index:
        return opening.open(folders[0])
    return ShardedIndex.open(folders, processes=processes, **opening.options)


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
    """Refuse folders that got another version since a batch began."""
    if seals_of(folders) != tuple(seals):
        wish = "the version with which the batch began, until it ends"
        raise error(IndexMismatchError, "index", wish, "another, saved since")


def recall_whole(
    index: Opened, given: Mapping[str, Any], options: Mapping[str, Any], embedders: Embedders
) -> tuple[Hits, dict[int, list[str]]]:
    """Answer queries, whose texts these embedders embed; a batch has all hits of a query or
    none.
    """
    # Return the hits, and why queries were not answered as asked.
    fusion, recipe = options.get("fusion"), options.get("recipe")
    how = CallOptions(fusion=fusion, more=options.get("arms"), shaping=options.get("shaping"))
    before = Search(now=options["now"], text=given.get("text"), vectors=given.get("vectors"))
    request, told = embedders.of_queries(
        facts_of(index), None, before, recipe, how, seconds=math.inf
    )
    if request is not before:  # without any vectors, the arms of words answer
        given = {**given, "text": request.text, "vectors": request.vectors or {}}
    hits = index.recall(**given, **options)
    lost = [told for told in hits.trace.degraded if told not in hits.trace.about]
    if lost:
        raise error(ShardLostError, "index", "an answer of every shard", "; ".join(lost))
    reasons = _reasons(told.degraded, told.about, len(hits))
    for query, why in reasons_of(hits).items():
        reasons.setdefault(query, []).extend(why)
    return hits, reasons


DEGRADED = b"degraded"
"""In the metadata of a table of hits: the queries that were not answered as asked, and why."""


def reasons_of(hits: Hits) -> dict[int, list[str]]:
    """Return why queries were not answered as asked, as each of them is told alone."""
    return _reasons(hits.trace.degraded, hits.trace.about, len(hits))


def _reasons(degraded: Sequence[str], about: Any, n_queries: int) -> dict[int, list[str]]:
    out: dict[int, list[str]] = {}
    for told in degraded:
        every = dict.fromkeys(range(n_queries), told)
        for query, alone in about.get(told, every).items():
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
