"""One state of a graph, a state of its edges and of its nodes, and the reads on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.arms.edges import EdgeLexical
from hyrecall.ask.arms.regex import Regex
from hyrecall.ask.filters import Filter
from hyrecall.ask.request import CallOptions, Request
from hyrecall.graph.reads import GraphReads
from hyrecall.hits.reply import Reply
from hyrecall.recall.answer import answer_by_options
from hyrecall.recall.arms.batch import scope_request
from hyrecall.recall.graph_views import EdgeCredits, Matches
from hyrecall.segments.segments import State, gather

__all__ = ["BoundGraph"]


@dataclass(frozen=True, eq=False)
class BoundGraph:
    """A graph's state for the arms, signals and context of one call; every read names a scope."""

    graph: GraphReads
    edges: State
    nodes: State

    def best_edges(
        self,
        texts: Sequence[object],
        scope: object,
        depth: int,
        *,
        filter: Sequence[Filter | None] | None = None,  # noqa: A002
    ) -> Reply:
        """Return each query's best edges by BM25 of their texts."""
        graph = self.graph
        request = Request(
            now=datetime.now(UTC), text={"text": texts}, scope=graph.edge_scope(scope),
            filter=filter, limit=depth,
        )  # fmt: skip
        index, options = graph.edges, CallOptions(depth=depth)
        with self.edges.reading():
            return answer_by_options(index._facts, self.edges, index.device, request, options)

    def credits(
        self, arm: EdgeLexical, texts: Sequence[object], scope: object, depth: int
    ) -> EdgeCredits:
        """Return the participants of each query's best edges by BM25 of their texts."""
        del arm
        graph = self.graph
        reply = self.best_edges(texts, scope, depth)
        edge, keys = graph.participants(reply.column(graph.participants_column))
        queries = np.arange(reply.n_queries, dtype=np.uint32)
        query = np.repeat(queries, np.diff(reply.offsets))[edge]
        names = reply.column(graph.edges.schema.key)
        return EdgeCredits(query, keys, edge, reply.arrays["arm_scores"], names)

    def matching(
        self, arm: Regex, place: int, query: int, scope: object, matches: Matches
    ) -> pa.Array:
        """Return the participants of those edges of a scope that have a matching text."""
        del arm, place, query
        return self.participants_where(scope, matches)

    def edge_rows(self, scope: object, columns: Sequence[str]) -> pa.Table:
        """Return columns of all edges of one scope."""
        graph = self.graph
        request = scope_request(graph.edges._facts, self.edges, graph.edge_scope(scope), 1)
        with self.edges.reading():
            segment, row = _core.arms.Audience(self.edges.snapshot, request).rows(0)
            return gather(self.edges.segments, segment, row, columns)

    def participants_where(self, scope: object, matches: Matches) -> pa.Array:
        """Return the participants of those edges of a scope that have a matching text."""
        graph = self.graph
        texts = graph.edges.schema.text_columns
        rows = self.edge_rows(scope, [*texts, graph.participants_column])
        found = np.zeros(rows.num_rows, bool)
        for name in texts:
            found |= matches(rows.column(name))
        column = rows.column(graph.participants_column).combine_chunks()
        return graph.participants(column.filter(pa.array(found)))[1]

    def incident(self, keys: pa.Array, scope: object) -> pa.Table:
        """Return key and cells of every edge of one scope with one of the keys as participant."""
        import pyarrow.compute as pc

        graph = self.graph
        schema = graph.edges.schema
        named = [schema.key, *schema.cell_columns]
        rows = self.edge_rows(scope, [*named, graph.participants_column])
        edge, found = graph.participants(rows.column(graph.participants_column).combine_chunks())
        wanted = pc.is_in(found, keys).to_numpy(zero_copy_only=False)
        return rows.select(named).take(pa.array(np.unique(edge[wanted])))

    @property
    def is_partial(self) -> bool:
        """False: an adjacency has all connections."""
        return False

    def adjacency(
        self, scope: object, n: int, sources: Sequence[Sequence[Any]] = (), hops: int = 0
    ) -> _core.arms.Adjacency:
        """Return the connections between documents for n queries, from any sources."""
        del sources, hops
        nodes = self.graph.nodes._facts
        with self.nodes.reading():
            return self.between(scope, n, self.nodes, scope_request(nodes, self.nodes, scope, n))

    def between(
        self, scope: object, n: int, nodes: State, seen: _core.BatchRequest
    ) -> _core.arms.Adjacency:
        """Return the connections by edges in scope between those nodes that n queries see."""
        graph, edges = self.graph, self.graph.edges
        with self.edges.reading():
            return _core.arms.Adjacency(
                self.edges.snapshot,
                scope_request(edges._facts, self.edges, graph.edge_scope(scope), n),
                list(edges.schema.attributes).index(graph.participants_column),
                nodes.snapshot,
                seen,
            )
