"""Documents that share tags with merged hits; they may lie in any shard."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hyrecall.hits.around import Related
from hyrecall.hits.reply import Reply
from hyrecall.parts.lookups import QUERY, Ask, Lookup, cell_column, sound_rows
from hyrecall.parts.request import Request
from hyrecall.recall.arms.tags import tag_attribute
from hyrecall.segments.segments import gather_column, seqs_of

__all__ = ["find_related"]

_TEXT = pa.large_string()
_NUMBERS = dict.fromkeys((QUERY, "shared", "seq"), pa.int64())
_ORDER = [(QUERY, "ascending"), ("shared", "descending"), ("seq", "ascending")]


def find_related(
    reply: Reply, column: str, n: int, request: Request, ask: Ask
) -> list[list[Related]]:
    """Return the n documents of all shards with most tags in common with each query's hits.

    Parameters
    ----------
    reply : Reply
        Of merged parts.
    column : str
    n : int
    request : Request
    ask : callable
        Asks the shards a look-up.

    Raises
    ------
    OptionError, DTypeError
        As :func:`hyrecall.recall.related.related_documents`.
    HyrecallError
        The errors of ``ask``.
    """
    facts = reply.facts
    tag_attribute("column", column, facts)
    given = request.read(facts).asked
    lookup = Lookup(
        "related", request.id, reply.n_queries, given.scope, _shown(reply, column), given.filter,
        {"column": column, "n": n},
    )  # fmt: skip
    out: list[list[Related]] = [[] for _ in range(reply.n_queries)]
    cells = [cell_column(at) for at in range(len(facts.schema.cell_columns))]
    found = [sound_rows(one, _NUMBERS, ("key", *cells)) for one in ask(lookup)]
    if not found:
        return out
    rows = pa.concat_tables(found).sort_by(_ORDER)
    parts = [rows[name].to_pylist() for name in cells]
    queries, keys, shared = (rows[name].to_pylist() for name in (QUERY, "key", "shared"))
    for at, query in enumerate(queries):
        if len(out[query]) < n:
            cell = tuple(values[at] for values in parts)
            out[query].append(Related(keys[at], cell, shared[at], {}))
    return out


def _shown(reply: Reply, column: str) -> pa.Table:
    """Return the tags and the insertion numbers of each query's hits."""
    segments, segment, row = (
        reply.source.state.segments,
        reply.arrays["segment"],
        reply.arrays["row"],
    )
    query = pa.array(np.repeat(np.arange(reply.n_queries), np.diff(reply.offsets)), pa.int64())
    hit, tags = _flat(gather_column(segments, segment, row, column))
    held = pa.table({QUERY: query.take(hit), "tag": tags}).filter(tags.is_valid())
    held = held.group_by([QUERY, "tag"], use_threads=False).aggregate([])  # each once
    hits = pa.table({QUERY: query, "seq": pa.array(seqs_of(segments, segment, row), pa.int64())})
    return pa.concat_tables([held, hits], promote_options="default").sort_by(QUERY)


def _flat(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the strings of a column of strings or lists of these, each with its row."""
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return pc.list_parent_indices(column), pc.list_flatten(column).cast(_TEXT)
    return pa.array(np.arange(len(column))), column.cast(_TEXT)
