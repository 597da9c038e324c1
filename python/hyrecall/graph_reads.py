"""What arms and context read of a graph: its edges, who takes part in them, who is near."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hyrecall import _core
from hyrecall.arms.batch import Batch, scope_request
from hyrecall.arms.listed import read_keys
from hyrecall.hits import Hits
from hyrecall.index import Index
from hyrecall.plan import Options
from hyrecall.recall import run_recall
from hyrecall.segments import State, gather

__all__ = ["GraphReads"]


class GraphReads:
    """An index of edges over an index of nodes; every read names a scope."""

    def __init__(self, edges: Index, nodes: Index, participants_column: str) -> None:
        """Hold both."""
        self._edges = edges
        self._nodes = nodes
        self._column = participants_column

    @property
    def edges(self) -> Index:
        """The index of edges: its hits are edges."""
        return self._edges

    @property
    def nodes(self) -> Index:
        """The index of documents."""
        return self._nodes

    @property
    def participants_column(self) -> str:
        """The list column of participants."""
        return self._column

    @property
    def key_type(self) -> pa.DataType:
        """Of the nodes' keys."""
        return self._nodes._facts.row_types[self._nodes.schema.key]

    def edge_scope(self, scope: object) -> object:
        """Give the scope as the index of edges takes it."""
        return scope if self._edges.schema.cell_columns else None

    def best_edges(
        self,
        texts: Sequence[object],
        scope: object,
        depth: int,
        *,
        state: State | None = None,
        **options: Any,
    ) -> Hits:
        """Give each query's best edges by their texts; ``state`` is one of the edges."""
        asked = Options(
            text={"text": texts}, scope=self.edge_scope(scope), limit=depth, depth=depth, **options
        )
        edges = self._edges
        return run_recall(
            edges._facts, state or edges._state, edges.device, asked, columns=(), now=None
        )

    def edge_rows(self, state: State, scope: object, columns: Sequence[str]) -> pa.Table:
        """Give columns of all edges of one scope."""
        request = scope_request(self._edges._facts, state, self.edge_scope(scope), 1)
        segment, row = _core.arms.Audience(state.snapshot, request).rows(0)
        return gather(state.segments, segment, row, columns)

    def participants(self, column: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
        """Give (which edge, key) of every participant of a column of lists."""
        which = pc.list_parent_indices(column).to_numpy().astype(np.int64)
        keys = pc.list_flatten(column)
        if keys.null_count:
            present = keys.is_valid().to_numpy(zero_copy_only=False)
            which, keys = which[present], keys.filter(pa.array(present))
        return which, keys.cast(self.key_type)

    def participants_where(
        self, batch: Batch, query: int, matches: Callable[[Any], npt.NDArray[np.bool_]]
    ) -> pa.Array:
        """Give the participants of a query's edges that have a text that matches."""
        scope = batch.scope[query] if isinstance(batch.scope, list) else batch.scope
        texts = self._edges.schema.text_columns
        rows = self.edge_rows(self._edges._state, scope, [*texts, self._column])
        found = np.zeros(rows.num_rows, bool)
        for name in texts:
            found |= matches(rows.column(name))
        column = rows.column(self._column).combine_chunks()
        return self.participants(column.filter(pa.array(found)))[1]

    def incident(self, keys: pa.Array, scope: object) -> pa.Table:
        """Give key and cells of every edge of one scope that has one of the keys."""
        schema = self._edges.schema
        named = [schema.key, *schema.cell_columns]
        rows = self.edge_rows(self._edges._state, scope, [*named, self._column])
        edge, found = self.participants(rows.column(self._column).combine_chunks())
        wanted = pc.is_in(found, keys).to_numpy(zero_copy_only=False)
        return rows.select(named).take(pa.array(np.unique(edge[wanted])))

    def adjacency(
        self, scope: object, n: int, *, state: State | None = None
    ) -> _core.arms.Adjacency:
        """Give who is connected with whom for n queries; ``state`` is one of the edges."""
        edges, nodes = self._edges, self._nodes
        edge_state, node_state = state or edges._state, nodes._state
        return _core.arms.Adjacency(
            edge_state.snapshot,
            scope_request(edges._facts, edge_state, self.edge_scope(scope), n),
            list(edges.schema.attributes).index(self._column),
            node_state.snapshot,
            scope_request(nodes._facts, node_state, scope, n),
        )

    def flat_keys(
        self, argument: str, keys: Sequence[Sequence[object]]
    ) -> tuple[npt.NDArray[np.int64], pa.Array]:
        """Give offsets and keys of lists back to back."""
        lists = [list(one) for one in keys]
        offsets = np.cumsum([0, *(len(one) for one in lists)], dtype=np.int64)
        flat = [key for one in lists for key in one]
        return offsets, read_keys(argument, flat, self._nodes._facts)
