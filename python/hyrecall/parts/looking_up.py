"""Answers look-ups from one index."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from hyrecall.errors import OptionError, StaleStatisticsError, error
from hyrecall.parts.lookups import QUERY, Looked, Lookup, audience_of, cell_column
from hyrecall.parts.part import hash_of
from hyrecall.parts.tag_lookups import documents_sharing, named_tags, tags_beside
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.segments import State, gather_column

__all__ = ["look_up"]


def look_up(facts: IndexFacts, state: State, version: str, lookup: Lookup) -> Looked:
    """Answer a look-up from one state of an index."""
    answer = LOOKUPS.get(lookup.kind)
    if answer is None:
        raise error(OptionError, "kind", f"one of {sorted(LOOKUPS)}", repr(lookup.kind))
    if lookup.versions and version not in lookup.versions:
        wish, remedy = "the documents that were counted", "the index changed: count again"
        raise error(StaleStatisticsError, "lookup", wish, "others", remedy)
    return Looked(lookup.request, hash_of(facts), version, answer(facts, state, lookup))


def _keys(facts: IndexFacts, state: State, lookup: Lookup) -> pa.Table:
    """Find the documents that have one of the column ``key``: ``key`` and the parts of its cell."""
    schema = facts.schema
    keys, query = lookup.rows.column("key").combine_chunks(), lookup.query
    kind = facts.row_types[schema.key]
    if keys.type != kind:
        raise error(OptionError, "key", f"keys of {kind}", keys.type)
    which, segment, row = audience_of(facts, state, lookup).locate(keys, query.astype(np.uint32))
    columns = {QUERY: pa.array(query[which], pa.int64()), "key": keys.take(pa.array(which))}
    for at, name in enumerate(schema.cell_columns):
        columns[cell_column(at)] = gather_column(state.segments, segment, row, name)
    return pa.table(columns)


LOOKUPS: Mapping[str, Callable[[IndexFacts, State, Lookup], pa.Table]] = {
    "keys": _keys,
    "named tags": named_tags,
    "tags": tags_beside,
    "related": documents_sharing,
}
"""What answers each kind of look-up."""
