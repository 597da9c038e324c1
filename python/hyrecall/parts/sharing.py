"""Documents near merged hits by their tags; they may lie in any shard."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from hyrecall.ask.expansion import SharedTags
from hyrecall.hits.around import Related
from hyrecall.hits.reply import Reply
from hyrecall.parts.lookups import QUERY, Ask, Lookup, cell_column, sound_rows
from hyrecall.parts.request import Request
from hyrecall.recall.related import Array, tags_of_rows
from hyrecall.segments.segments import seqs_of
from hyrecall.table.attributes import tag_attribute

_TAGS = {QUERY: pa.int64(), "tag": pa.large_string()}
_NUMBERS = dict.fromkeys((QUERY, "shared", "seq"), pa.int64())
_NOTHING = pa.table({**{name: [] for name in _NUMBERS}, "key": []})
_ORDER = [(QUERY, "ascending"), ("shared", "descending"), ("seq", "ascending")]


def find_related(reply: Reply, part: SharedTags, request: Request, ask: Ask) -> list[list[Related]]:
    """Return the documents of all shards that are near each query's hits by their tags."""
    facts, n_queries, arrays = reply.facts, reply.n_queries, reply.arrays
    tag_attribute("column", part.column, facts)
    given, segments = request.read(facts).asked, reply.source.state.segments
    query = np.repeat(np.arange(n_queries), np.diff(reply.offsets))
    query_of_tag, tags = tags_of_rows(
        segments, query, arrays["segment"], arrays["row"], part.column
    )
    seqs = seqs_of(segments, arrays["segment"], arrays["row"])
    asked = _TagLookup(
        Lookup(
            "related", request.id, n_queries, given.scope, pa.table({}), given.filter,
            {"column": part.column, "n": part.n},
        ),
        ask,
    )  # fmt: skip
    held = pa.table({QUERY: pa.array(query_of_tag, pa.int64()), "tag": tags})
    out: list[list[Related]] = [[] for _ in range(n_queries)]
    cells = len(facts.schema.cell_columns)
    found = asked.documents(held, query, seqs, cells)
    _add(out, found, part.n, cells)
    if part.hops and any(len(one) < part.n for one in out):
        known = np.concatenate([query, found[QUERY].to_numpy()])
        seqs = np.concatenate([seqs, found["seq"].to_numpy()])
        beside = asked.documents(asked.beside(held), known, seqs, cells)
        none = pa.array(np.zeros(beside.num_rows, np.int64))
        at = beside.schema.get_field_index("shared")
        _add(out, beside.set_column(at, "shared", none), part.n, cells)
    return out


@dataclass(frozen=True)
class _TagLookup:
    """Asks the shards for documents by tag; ``lookup`` is a template without rows."""

    lookup: Lookup
    ask: Ask

    def documents(self, tags: pa.Table, query: Array, seqs: Array, n_cells: int) -> pa.Table:
        """Return the documents with most of some tags, in their order, but those of ``seqs``."""
        left_out = pa.table({QUERY: pa.array(query, pa.int64()), "seq": pa.array(seqs, pa.int64())})
        rows = pa.concat_tables([tags, left_out], promote_options="default").sort_by(QUERY)
        cells = [cell_column(at) for at in range(n_cells)]
        names = ("key", *cells)
        found = [
            sound_rows(one, _NUMBERS, names) for one in self.ask(replace(self.lookup, rows=rows))
        ]
        return pa.concat_tables(found).sort_by(_ORDER) if found else _NOTHING

    def beside(self, tags: pa.Table) -> pa.Table:
        """Return the other tags of the documents that have one of some."""
        column = {"column": self.lookup.settings["column"]}
        question = replace(self.lookup, kind="tags", rows=tags, settings=column)
        found = [sound_rows(one, _TAGS).select([QUERY, "tag"]) for one in self.ask(question)]
        rows = pa.concat_tables([tags.slice(0, 0), *found])
        rows = rows.group_by([QUERY, "tag"], use_threads=False).aggregate([])
        return rows.join(tags, [QUERY, "tag"], join_type="left anti").sort_by(QUERY)


def _add(out: list[list[Related]], found: pa.Table, n: int, n_cells: int) -> None:
    """Add documents to those of their queries, as far as there is room."""
    cells = [found[cell_column(at)].to_pylist() for at in range(n_cells)] if len(found) else []
    queries, keys, shared = (found[name].to_pylist() for name in (QUERY, "key", "shared"))
    for at, query in enumerate(queries):
        if len(out[query]) < n:
            cell = tuple(values[at] for values in cells)
            out[query].append(Related(keys[at], cell, shared[at], {}))
