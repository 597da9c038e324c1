"""Graphs over the documents of an index, whose edges are documents of a second index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hyrecall.ask.scope import scope_entries
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, OptionError, ShapeError, error
from hyrecall.graph.asked import NO_NODES, AskedGraph
from hyrecall.graph.nodes import GraphNodes
from hyrecall.graph.reads import GraphReads
from hyrecall.graph.schema import GraphSchema
from hyrecall.graph.states import BoundGraph
from hyrecall.hits.around import Neighbour
from hyrecall.index import Index
from hyrecall.recall.arms.listed import read_keys
from hyrecall.recall.neighbours import Keys, check_surroundings, find_neighbours
from hyrecall.recall.reach import Reach
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.segments import State
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

__all__ = ["Graph", "GraphSchema", "Neighbour"]

MOST_HOPS = 16


@check_keywords
class Graph(GraphReads):
    """Edges and hyperedges between the documents of an index.

    Make a graph with :meth:`build` or :meth:`open`. An edge names its participants by key and has
    its own cell; all participants of an edge are one hop apart. A query sees only edges in its
    scope and participants in its scope; paths through other documents do not count. A key in
    several cells of the scope means all of its documents.

    Examples
    --------
    >>> import hyrecall as hr
    >>> import pyarrow as pa
    >>> people = pa.table({"id": ["ann", "bo", "cy"], "text": ["a cook", "a nurse", "a pilot"]})
    >>> index = hr.Index.build(people, hr.Schema(key="id", cell=None, text="text"))
    >>> who = [["ann", "bo"], ["bo", "cy"]]
    >>> edges = pa.table({"id": [1, 2], "label": ["sister of", "flies with"], "who": who})
    >>> schema = hr.GraphSchema(key="id", cell=None, text="label", participants="who")
    >>> graph = hr.Graph.build(edges, schema, nodes=index)
    >>> graph.distances([["ann"]])
    [{'ann': 0, 'bo': 1, 'cy': 2}]
    >>> arm = hr.arms.EdgeLexical(graph)
    >>> hits = index.recall(text=["sister"], arms=arm)[0]
    >>> [(hit.key, hit.evidence("edges")) for hit in hits]
    [('ann', 1), ('bo', 1)]
    """

    def __init__(self, edges: Index, nodes: Index | GraphNodes, schema: GraphSchema) -> None:
        """Join both indexes; use :meth:`build` or :meth:`open` instead."""
        cells = {name: edges._facts.row_types[name] for name in edges.schema.cell_columns}
        known = {name: nodes._facts.row_types[name] for name in nodes.schema.cell_columns}
        if cells and cells != known:
            wish = f"the nodes' cell columns {known}, or None"
            raise error(OptionError, "cell", wish, cells)
        super().__init__(edges, nodes, schema.participants_column)
        self._schema = schema

    # ---- build, open, save ----

    @classmethod
    def build(
        cls,
        table: object,
        schema: GraphSchema,
        *,
        nodes: Index | GraphNodes,
        analyzer: Analyzer | None = None,
        bm25: BM25 | None = None,
        threads: int | None = None,
    ) -> Graph:
        """Index a table of edges."""
        if not isinstance(schema, GraphSchema):
            raise error(DTypeError, "schema", "an hr.GraphSchema", type(schema).__name__)
        _check_nodes(nodes)
        edges = Index.build(
            schema.with_participants(table, nodes._facts.row_types[nodes.schema.key]),
            schema.index_schema,
            analyzer=analyzer,
            bm25=bm25,
            threads=threads,
        )
        return cls(edges, nodes, schema)

    @classmethod
    def open(
        cls,
        path: str | Path,
        schema: GraphSchema,
        *,
        nodes: Index | GraphNodes,
        analyzer: Analyzer | None = None,
    ) -> Graph:
        """Open a graph that :meth:`save` wrote, over an index."""
        _check_nodes(nodes)
        edges = Index.open(path, analyzer=analyzer)
        wanted = schema.index_schema.to_dict()
        if edges.schema.to_dict() != wanted:
            raise error(OptionError, "schema", f"{edges.schema.to_dict()}", wanted)
        return cls(edges, nodes, schema)

    def __reduce__(self) -> tuple[object, ...]:
        """Refuse to be pickled; the message says how processes share a graph.

        Raises
        ------
        DTypeError
            Always.
        """
        got = "a Graph"
        remedy = "graph.save(path), then in each process hr.Graph.open(path, schema, nodes=index)"
        raise error(DTypeError, "pickle", "a folder that each process opens", got, remedy)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Save the edges, as :meth:`hyrecall.Index.save`; save the nodes on their own."""
        self._edges.save(path, overwrite=overwrite)

    # ---- change ----

    def add(self, table: object) -> None:
        """Add edges, as :meth:`hyrecall.Index.add`."""
        self._edges.add(self._schema.with_participants(table, self.key_type))

    def upsert(self, table: object) -> None:
        """Add edges, replacing those with the same cell and key."""
        self._edges.upsert(self._schema.with_participants(table, self.key_type))

    def delete(self, keys: Sequence[object], *, scope: object = None) -> int:
        """Delete edges by key within a scope; return the number deleted."""
        return self._edges.delete(keys, scope=scope)

    def delete_incident(self, keys: Sequence[object], *, scope: object = None) -> int:
        """Delete the edges of a scope that have one of these documents as a participant.

        Parameters
        ----------
        keys : sequence
            Keys of documents, which may already be deleted.
        scope
            The scope of the edges, as in :meth:`hyrecall.Index.recall`.

        Returns
        -------
        int
            The number of deleted edges.
        """
        wanted = read_keys("keys", list(keys), self._nodes._facts)
        found = BoundGraph(self, self._edges._state, NO_NODES).incident(wanted, scope)
        columns = [self._edges.schema.key, *self._edges.schema.cell_columns]
        values = [found.column(name).to_pylist() for name in columns]
        if not self._edges.schema.cell_columns:
            return self._edges.delete(values[0])
        cells = list(zip(*values[1:], strict=True))
        return self._edges.delete(values[0], scope=cells)

    def compact(self) -> None:
        """Merge all segments of edges into one. Replies stay the same."""
        self._edges.compact()

    def __len__(self) -> int:
        """Return the number of edges."""
        return len(self._edges)

    # ---- read ----

    def distances(self, hot: Keys, *, scope: object = None, hops: int = 3) -> list[dict[Any, int]]:
        """Return the number of hops from the nearest of some documents.

        Parameters
        ----------
        hot : sequence of sequence
            For each query, the keys to start from.
        scope
            As in :meth:`hyrecall.Index.recall`.
        hops : int, default 3
            The greatest distance, in [0, 16].

        Returns
        -------
        list of dict
            For each query, the hops of each reached document by key, sorted by key. A start key
            without an edge is not included.

        Raises
        ------
        DTypeError, OptionError, ScopeError, ShapeError
            An invalid key, hops, scope, or number of scopes.
        ShardLostError, CorruptIndexError
            The documents lie in shards, of which one does not answer or is damaged.
        """
        read_hops(hops)
        offsets, keys = self.flat_keys("hot", hot)
        adjacency = self._reach(self._entries(scope), hot, hops).adjacency
        return [
            dict(zip(near, far, strict=True))
            for near, far in adjacency.distances(offsets, keys, hops)
        ]

    def topical(
        self,
        hot: Sequence[Mapping[Any, float]],
        among: Keys,
        *,
        scope: object = None,
        hops: int = 3,
    ) -> list[npt.NDArray[np.float64]]:
        """Score documents by their nearness to hot ones: the largest of score x 2^-hops.

        Parameters
        ----------
        hot : sequence of mapping of key to float
            For each query, the hot documents and their scores, finite and >= 0.
        among : sequence of sequence
            For each query, the keys to score.
        scope, hops
            As in :meth:`distances`.

        Returns
        -------
        list of ndarray, float64
            For each query, a score for each of its keys; 0 if no hot document is within reach. The
            distance of a hot document to itself is 0.

        Raises
        ------
        DTypeError, OptionError, ScopeError, ShapeError
            As in :meth:`distances`; also for invalid scores and another number of lists of keys.
        ShardLostError, CorruptIndexError
            As in :meth:`distances`.
        """
        read_hops(hops)
        if len(hot) != len(among):
            raise error(ShapeError, "among", f"{len(hot)} queries, as in hot", len(among))
        sources = [list(one) for one in hot]
        offsets, keys = self.flat_keys("hot", sources)
        scores = np.array([score for one in hot for score in one.values()], np.float64)
        if not (np.isfinite(scores) & (scores >= 0)).all():
            raise error(OptionError, "hot", "finite scores >= 0", list(scores))
        target_offsets, targets = self.flat_keys("among", among)
        adjacency = self._reach(self._entries(scope), sources, hops).adjacency
        found = adjacency.spread(offsets, keys, scores, target_offsets, targets, hops)
        return [found[b:e] for b, e in pairwise(target_offsets)]

    def neighbours(
        self,
        keys: Keys,
        *,
        scope: object = None,
        text: Sequence[object] | None = None,
        exclude: Keys | None = None,
        n: int = 3,
    ) -> list[list[tuple[Neighbour, ...]]]:
        """Return the documents one hop away, to show beside results.

        Parameters
        ----------
        keys : sequence of sequence
            For each query, the documents whose neighbours are returned, such as its first results.
        scope
            As in :meth:`hyrecall.Index.recall`.
        text : sequence of str or typed query or None, optional
            For each query, a text; its BM25 scores of the edges order the neighbours.
        exclude : sequence of sequence, optional
            For each query, documents to leave out, such as all its results; `keys` are always left
            out.
        n : int, default 3
            The most neighbours of a document.

        Returns
        -------
        list of list of tuple of Neighbour
            For each query and key, ordered by score of the edge descending, then key.

        Raises
        ------
        DTypeError, OptionError, ScopeError, ShapeError
            As in :meth:`distances`; also for an invalid text or ``n``, and another number of texts.
        ShardLostError, CorruptIndexError
            As in :meth:`distances`.
        """
        check_surroundings(len(keys), text, exclude, n)
        for name, given in (("keys", keys), ("exclude", () if exclude is None else exclude)):
            self.flat_keys(name, given)
        scope = self._entries(scope)
        reach = self._reach(scope, keys, 1)
        return find_neighbours(reach, keys, scope, text, exclude, n)

    def _entries(self, scope: object) -> object:
        return scope_entries(self._nodes._facts.cell_types, scope)

    def _bind(self, argument: str, facts: IndexFacts, nodes: State) -> BoundGraph:
        # A sharded index has the facts of its first shard, which is not the whole of its nodes.
        if not isinstance(self._nodes, Index) or self._nodes._facts is not facts:
            raise error(OptionError, argument, "a graph over the recalled index", "another")
        return BoundGraph(self, self._edges._state, nodes)

    def _reach(self, scope: object, sources: Keys, hops: int) -> Reach:
        """Return the current graph as queries see it, within some hops of their sources."""
        edges = self._edges._state
        bound = (
            BoundGraph(self, edges, self._nodes._state)
            if isinstance(self._nodes, Index)
            else AskedGraph(self, edges, NO_NODES, self._nodes._nodes_in)
        )
        return Reach.of(bound, scope, len(sources), sources, hops)

    def __repr__(self) -> str:
        """Show the numbers of edges and documents."""
        nodes = self._nodes
        over = f"{len(nodes)} documents" if isinstance(nodes, Index) else "documents in shards"
        return f"<Graph: {len(self)} edges over {over}>"


def _check_nodes(nodes: object) -> None:
    """Refuse what is no index."""
    if not isinstance(nodes, Index | GraphNodes):
        raise error(DTypeError, "nodes", "an hr.Index or a ShardedIndex", type(nodes).__name__)


def read_hops(hops: object) -> None:
    """Refuse a number of hops that is not an int in range."""
    if isinstance(hops, bool) or not isinstance(hops, int) or not 0 <= hops <= MOST_HOPS:
        raise error(OptionError, "hops", f"an int in [0, {MOST_HOPS}]", repr(hops))
