"""The documents that a graph connects, if several indexes hold them together.

Such an index is asked which participants of edges exist. A small state with their keys and cells
then stands for all of its documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from hyrecall import _core
from hyrecall.parts.lookups import cell_column
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.segments import State, one_array, segment_from_parts
from hyrecall.table.schema import Schema

__all__ = ["GraphNodes", "nodes_of"]


@runtime_checkable
class GraphNodes(Protocol):
    """An index whose documents a graph connects, and which says which of some keys exist."""

    @property
    def schema(self) -> Schema:
        """The schema of the index."""
        ...

    @property
    def _facts(self) -> IndexFacts: ...

    def _nodes_in(self, scopes: Sequence[object], keys: Sequence[pa.Array]) -> State:
        """Return a state of the documents of each scope that have one of its keys."""
        ...


def nodes_of(facts: IndexFacts, found: Sequence[pa.Table]) -> State:
    """Make a state of documents that have only a key and a cell.

    Parameters
    ----------
    facts : IndexFacts
        Of their index.
    found : sequence of pyarrow.Table
        Answers to look-ups of the kind "keys"; a document may occur several times.
    """
    schema = facts.schema
    names = ["key", *(cell_column(at) for at in range(len(schema.cell_columns)))]
    tables = [one.select(names) for one in found if one.num_rows]
    if not tables:
        return State.of((), (), 0)
    rows = pa.concat_tables(tables).combine_chunks().group_by(names).aggregate([])
    rows = rows.select(names).rename_columns([schema.key, *schema.cell_columns])
    n = rows.num_rows
    seqs = np.arange(n, dtype=np.int64)
    cells = [one_array(rows.column(name)) for name in schema.cell_columns]
    order = _core.sort_rows(cells, n, np.zeros(0, np.int64), seqs)
    rows = rows.take(pa.array(order)).combine_chunks()
    bare = replace(schema, attributes=(), stored=(), thread=None, place=None, cluster=None)
    segment = segment_from_parts(rows, seqs[order], bare, {}, {})
    return State.of([segment], [_core.SegmentView(segment.core)], n)
