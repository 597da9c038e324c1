"""Documents that share tags with the hits of a reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.base.arguments import check_objects
from hyrecall.base.options import integer
from hyrecall.errors import OptionError, error
from hyrecall.hits.around import Related
from hyrecall.hits.hits import Hits, reply_of
from hyrecall.hits.reply import Reply
from hyrecall.segments.segments import gather_column, seqs_of
from hyrecall.table.attributes import tag_attribute

Array: TypeAlias = npt.NDArray[Any]


@check_objects
def related(
    hits: Hits, column: str, *, n: int = 5, columns: Sequence[str] = ()
) -> list[list[Related]]:
    """Follow the tags of the results one step, to other documents that each query may see.

    Parameters
    ----------
    hits : Hits
        The results; their scopes, filters and snapshot hold here too.
    column : str
        An attribute column of strings or lists of strings.
    n : int, default 5
        At most so many per query, in [1, 1000].
    columns : sequence of str, default ()
        Row columns to give with each.

    Returns
    -------
    list of list of Related
        Per query documents that are none of its results: most shared tags first, then seq.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import hyrecall as hr
    >>> tags = [["tea", "kettle"], ["kettle"], ["milk"]]
    >>> table = pa.table({"id": ["a", "b", "c"], "text": ["x", "y", "z"], "tags": tags})
    >>> schema = hr.Schema(key="id", cell=None, text="text", attributes="tags")
    >>> found = hr.Index.build(table, schema).recall(text=["x"])
    >>> [one.key for one in related(found, "tags")[0]]
    ['b']
    """
    reply = reply_of(hits)
    found = [related_documents(part, column, n, columns) for part in reply.parts]
    by_part = dict(zip(map(id, reply.parts), found, strict=True))
    return [by_part[id(reply.part_of(query))][query] for query in range(len(hits))]


def related_documents(
    reply: Reply, column: str, n: int, columns: Sequence[str] = (), *, hops: int = 0
) -> list[list[Related]]:
    """Return the related documents of each query of a reply by one recipe; see :func:`related`."""
    # With a hop, documents of tags beside those of the results come after the others.
    facts, source = reply.facts, reply.source
    attribute = tag_attribute("column", column, facts)
    n = integer("n", n, 1, 1000)
    named = [facts.schema.key, *facts.schema.cell_columns, *columns]
    for name in columns:
        if name not in facts.schema.row_columns:
            known = list(facts.schema.row_columns)
            raise error(OptionError, "columns", f"columns of {known}", repr(name))
    arrays = reply.arrays
    audience = _core.arms.Audience(source.state.snapshot, source.request)
    offsets, segment, row, shared = audience.related(
        attribute, arrays["offsets"].astype(np.int64), arrays["segment"], arrays["row"], n
    )
    if hops and (np.diff(offsets) < n).any():
        found = offsets, segment, row, shared
        offsets, segment, row, shared = _with_beside(reply, column, attribute, audience, found, n)
    values = {
        name: gather_column(source.state.segments, segment, row, name).to_pylist()
        for name in dict.fromkeys(named)
    }
    made = [
        Related(
            values[facts.schema.key][at],
            tuple(values[name][at] for name in facts.schema.cell_columns),
            int(shared[at]),
            {name: values[name][at] for name in columns},
        )
        for at in range(len(row))
    ]
    return [made[offsets[q] : offsets[q + 1]] for q in range(reply.n_queries)]


def _with_beside(
    reply: Reply,
    column: str,
    attribute: int,
    audience: _core.arms.Audience,
    found: tuple[Array, Array, Array, Array],
    n: int,
) -> tuple[Array, Array, Array, Array]:
    """Add documents of tags beside those of the results, as far as there is room."""
    segments, n_queries = reply.source.state.segments, reply.n_queries
    offsets, segment, row, shared = found
    arrays = reply.arrays
    query = np.repeat(np.arange(n_queries), np.diff(arrays["offsets"]))
    query_of_tag, tags = tags_of_rows(segments, query, arrays["segment"], arrays["row"], column)
    beside_offsets, beside = audience.tags_beside(
        attribute, offsets_of(query_of_tag, n_queries), tags
    )
    own = np.repeat(np.arange(n_queries), np.diff(offsets))
    known = np.concatenate([query, own])
    order = np.argsort(known, kind="stable")
    seqs = [
        seqs_of(segments, *places)
        for places in ((arrays["segment"], arrays["row"]), (segment, row))
    ]
    more = audience.sharing(
        attribute,
        beside_offsets,
        pa.array(beside, pa.large_string()),
        offsets_of(known[order], n_queries),
        np.concatenate(seqs)[order].astype(np.int64),
        n,
    )
    joined = np.concatenate([own, np.repeat(np.arange(n_queries), np.diff(more[0]))])
    order = np.argsort(joined, kind="stable")
    queries = joined[order]
    kept = order[np.arange(len(order)) - offsets_of(queries, n_queries)[queries] < n]
    none = np.zeros(len(more[3]), shared.dtype)  # they share none of the results' own
    columns = ((segment, more[1]), (row, more[2]), (shared, none))
    segment, row, shared = (np.concatenate(pair)[kept] for pair in columns)
    return offsets_of(joined[kept], n_queries), segment, row, shared


def tags_of_rows(
    segments: Sequence[Any], query: Array, segment: Array, row: Array, column: str
) -> tuple[Array, pa.Array]:
    """Return the queries and tags of rows, each pair once, by query."""
    hit, tags = _flat(gather_column(segments, segment, row, column))
    named = pa.table({"query": pa.array(query, pa.int64()).take(hit), "tag": tags})
    named = named.filter(named["tag"].is_valid())
    named = named.group_by(["query", "tag"], use_threads=False).aggregate([]).sort_by("query")
    return named["query"].to_numpy(), named["tag"].combine_chunks()


def offsets_of(query: Array, n_queries: int) -> npt.NDArray[np.int64]:
    """Return where the entries of each query begin and end; ``query`` rises."""
    return np.searchsorted(query, np.arange(n_queries + 1)).astype(np.int64)


def _flat(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the strings of a column of strings or lists of these, each with its row."""
    import pyarrow.compute as pc

    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return pc.list_parent_indices(column), pc.list_flatten(column).cast(pa.large_string())
    return pa.array(np.arange(len(column))), column.cast(pa.large_string())
