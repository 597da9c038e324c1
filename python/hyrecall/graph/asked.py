"""A graph whose nodes are the documents of several indexes together.

Such an index is asked which participants of edges exist: only those within the hops that a walk
takes. A small state with their keys and cells then stands for all of its documents.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.scope import distinct_scopes, scope_key
from hyrecall.graph.states import BoundGraph
from hyrecall.parts.lookups import cell_column
from hyrecall.recall.arms.batch import scope_request
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.segments import State, one_array, segment_from_parts

__all__ = ["NO_NODES", "AskedGraph", "nodes_of"]

NO_NODES = State.of((), (), 0)

Ask = Callable[[Sequence[object], Sequence[pa.Array]], State]
"""Takes scopes and the keys of each; returns a state of the documents that exist."""


@dataclass(frozen=True, eq=False)
class AskedGraph(BoundGraph):
    """The edges of a graph at one moment; ``ask`` says which of their participants exist."""

    ask: Ask
    _connected: dict[Hashable, _core.arms.Adjacency] = field(default_factory=dict, init=False)

    @property
    def is_partial(self) -> bool:
        """True: an adjacency has the connections near its sources."""
        return True

    def adjacency(
        self, scope: object, n: int, sources: Sequence[Sequence[Any]] = (), hops: int = 0
    ) -> _core.arms.Adjacency:
        """Return the connections within some hops of each query's sources."""
        # Checked for each query, as one index does; shards are asked each scope only once.
        scope_request(self.graph.nodes._facts, NO_NODES, scope, n)
        scopes, number = distinct_scopes(scope, n)
        starts: list[dict[Any, None]] = [{} for _ in scopes]
        for at, own in zip(number.tolist(), sources, strict=True):
            starts[at] |= dict.fromkeys(own)
        nodes = self.ask(scopes, self._near(scopes, list(map(list, starts)), hops))
        bound = BoundGraph(self.graph, self.edges, nodes)
        return bound.adjacency(scope, n)

    def _near(
        self, scopes: list[object], sources: Sequence[Sequence[Any]], hops: int
    ) -> list[pa.Array]:
        """Return the participants within some hops of the sources of each scope."""
        # Which of them exist is not known here, so paths lead through all of them.
        kind = self.graph.key_type
        if not any(map(len, sources)):
            return [pa.array([], kind)] * len(scopes)
        name = tuple(map(scope_key, scopes))
        if name not in self._connected:  # signals and context of a call walk along the same edges
            self._connected[name] = self._all_connected(scopes)
        starts = self.graph.flat_keys("sources", sources)
        return [pa.array(near, kind) for near, _ in self._connected[name].distances(*starts, hops)]

    def _all_connected(self, scopes: list[object]) -> _core.arms.Adjacency:
        """Return the connections by the edges of each scope, whoever exists."""
        import pyarrow.compute as pc

        # Without cells, every query sees every node.
        facts, n = self.graph.nodes._facts, len(scopes)
        bare = replace(facts, schema=replace(facts.schema, cell=None))
        distinct = scopes if self.graph.edges.schema.cell_columns else scopes[:1]
        keys = [self._participants(one) for one in distinct]
        every = nodes_of(bare, [pa.table({"key": pc.unique(pa.concat_arrays(keys))})])
        return self.between(scopes, n, every, scope_request(bare, every, None, n))

    def _participants(self, scope: object) -> pa.Array:
        """Return the participants of the edges of one scope."""
        column = self.graph.participants_column
        rows = self.edge_rows(scope, [column])
        return self.graph.participants(rows.column(column).combine_chunks())[1]


def nodes_of(facts: IndexFacts, found: Sequence[pa.Table]) -> State:
    """Make a state of documents that have only a key and a cell."""
    schema = facts.schema
    names = ["key", *(cell_column(at) for at in range(len(schema.cell_columns)))]
    tables = [one.select(names) for one in found if one.num_rows]
    if not tables:
        return NO_NODES
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
