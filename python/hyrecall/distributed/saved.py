"""Opens saved indexes for a batch: a single index, or the shards of one."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hyrecall.ask.request import CallOptions, Search
from hyrecall.base.arguments import as_list, python_scalar
from hyrecall.distributed.sharded import ShardedIndex
from hyrecall.distributed.shards import ShardOpening
from hyrecall.distributed.shards_file import find_folders
from hyrecall.errors import DTypeError, IndexMismatchError, ShardLostError, error
from hyrecall.hits.hits import Hits
from hyrecall.index import Index
from hyrecall.recall.embedders import Embedders

Opened = Index | ShardedIndex


def open_saved(
    folders: Sequence[Path],
    opening: ShardOpening,
) -> Opened:
    """Open the folders as an index, or as shards of one."""
    if find_folders(folders).is_index:
        return opening.open(folders[0])
    return ShardedIndex.open(folders, **opening.options)


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
    request, told = embedders.of_queries(index._facts, None, before, recipe, how, seconds=math.inf)
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


def encode(argument: str, value: Any) -> Any:
    """Return an argument of a call as plain data, by which it is recognised later."""
    value = python_scalar(as_list(value))
    value = value.tolist() if isinstance(value, np.ndarray) else value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, Mapping):
        value = list(value.items())
    if isinstance(value, list | tuple):
        return [encode(argument, one) for one in value]
    try:
        made = value.__reduce_ex__(4)  # what pickle takes; of a function only a name
        _, *parts = made if isinstance(made, tuple) else ()
        return [encode(argument, one) for one in (type(value), *parts)]
    except (TypeError, ValueError, RecursionError) as fault:
        if isinstance(fault, DTypeError):
            raise
        wish = "plain data that another process can read (no function, no graph)"
        raise error(DTypeError, argument, wish, repr(value)[:80]) from fault
