"""Documents that share tags with the hits of a reply."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hyrecall import _core
from hyrecall.base.arguments import check_objects
from hyrecall.base.options import integer
from hyrecall.errors import OptionError, error
from hyrecall.hits.around import Related
from hyrecall.hits.hits import Hits, reply_of
from hyrecall.hits.reply import Reply
from hyrecall.segments.segments import gather_column
from hyrecall.table.attributes import tag_attribute


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
        attribute,
        arrays["offsets"].astype(np.int64),
        arrays["segment"],
        arrays["row"],
        n,
        hops > 0,
    )
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
