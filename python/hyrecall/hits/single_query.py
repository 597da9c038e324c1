"""Takes the hits of one query out of a batch whose other queries are those of other callers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hyrecall.hits.hit import QueryHits
from hyrecall.hits.reply_arrays import QUERY_ARRAYS

__all__ = ["single_query"]

_PLACES = ("segment", "row")  # in the snapshot


def single_query(hits: QueryHits) -> QueryHits:
    """Return the hits of a query as values, as if it had been asked alone; like unpickled ones."""
    # Nothing says how many other queries there were, which number this one had, or what they ask.
    n, at = hits._reply.n_queries, hits.query
    reply = hits._alone()
    arrays = {name: one for name, one in reply.arrays.items() if name not in _PLACES}
    for name in QUERY_ARRAYS:
        if name in arrays:
            rows = arrays[name].reshape(n, -1) if name != "offsets" else None
            arrays[name] = np.array([0, reply.n_hits]) if rows is None else rows[at]
    alone = replace(
        reply,
        facts=reply.facts.plain(),
        trace=reply.trace.of_query(at),
        query_keys=None,
        arrays=arrays,
        phases=None if reply.phases is None else [reply.phases[at]],
        kept_source=None,
        _gathered={name: reply.column(name) for name in reply.facts.schema.row_columns},
        _values={},
    )
    return QueryHits(alone, 0)
