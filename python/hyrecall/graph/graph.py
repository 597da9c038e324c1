"""Graphs over the documents of an index, whose edges are documents of a second index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.filters import Filter
from hyrecall.ask.request import CallOptions, Search
from hyrecall.ask.scope import scope_entries
from hyrecall.base.arguments import as_items, check_keywords, check_objects, set_fields
from hyrecall.errors import DTypeError, OptionError, ShapeError, error
from hyrecall.hits.around import Neighbour
from hyrecall.hits.reply import Reply
from hyrecall.index import Index
from hyrecall.recall.answer import answer_by_options
from hyrecall.recall.arms import scope_request
from hyrecall.recall.graph_views import EdgeCredits, Matches
from hyrecall.recall.reach import Keys, Reach, check_surroundings, find_neighbours
from hyrecall.segments.segments import IndexFacts, State, gather
from hyrecall.table.arrow_values import check_column
from hyrecall.table.attributes import read_keys
from hyrecall.table.schema import Schema, Text
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

__all__ = [
    "BoundGraph",
    "Graph",
    "GraphSchema",
    "Neighbour",
]


# ---- One state of a graph, a state of its edges and of its nodes, and the reads on it ----


@dataclass(frozen=True, eq=False)
class BoundGraph:
    """A graph's state for the arms, signals and context of one call; every read names a scope."""

    graph: Graph
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
        request = Search(
            now=datetime.now(UTC), text={"text": texts}, scope=graph.edge_scope(scope),
            filter=filter, limit=depth,
        )  # fmt: skip
        index, options = graph.edges, CallOptions(depth=depth)
        with self.edges.reading():
            return answer_by_options(index._facts, self.edges, index.device, request, options)

    def credits(self, texts: Sequence[object], scope: object, depth: int) -> EdgeCredits:
        """Return the participants of each query's best edges by BM25 of their texts."""
        graph = self.graph
        reply = self.best_edges(texts, scope, depth)
        edge, keys = graph.participants(reply.column(graph.participants_column))
        queries = np.arange(reply.n_queries, dtype=np.uint32)
        query = np.repeat(queries, np.diff(reply.offsets))[edge]
        names = reply.column(graph.edges.schema.key)
        return EdgeCredits(query, keys, edge, reply.arrays["arm_scores"], names)

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

    def adjacency(self, scope: object, n: int) -> _core.arms.Adjacency:
        """Return the connections by edges in scope between documents that n queries see."""
        graph, edges, nodes = self.graph, self.graph.edges, self.graph.nodes._facts
        with self.nodes.reading(), self.edges.reading():
            return _core.arms.Adjacency(
                self.edges.snapshot,
                scope_request(edges._facts, self.edges, graph.edge_scope(scope), n),
                list(edges.schema.attributes).index(graph.participants_column),
                self.nodes.snapshot,
                scope_request(nodes, self.nodes, scope, n),
            )


# ---- Defines the schema of a table of edges, and converts its participants to a list column ----

MADE_COLUMN = "participants"
"""The list column that is made from two columns of ends."""


@check_keywords
@dataclass(frozen=True, kw_only=True)
class GraphSchema:
    """Assigns roles to the columns of a table of edges.

    Parameters
    ----------
    key : str
        The column of the edges' ids, unique within a cell.
    cell : str or sequence of str or None
        The cell columns of the edges, with the same names and types as those of the documents. None
        lets every query see every edge.
    text : str or sequence of str, default ("label", "description")
        The text columns of an edge, which form one lexical arm with a gap between them.
    participants : str or tuple of two str, default "participants"
        A list column of document keys (two keys form an edge, more a hyperedge), or the columns of
        the two ends, from which a list column ``participants`` is made.
    attributes, stored : str or sequence of str, default ()
        More columns of edges to filter by, or to return, such as kinds and roles.

    Raises
    ------
    OptionError
        A name that is empty or given twice.

    Examples
    --------
    >>> GraphSchema(key="id", cell="user", participants=("source", "target")).participants_column
    'participants'
    """

    key: str
    cell: str | Sequence[str] | None
    text: str | Sequence[str] = ("label", "description")
    participants: str | tuple[str, str] = "participants"
    attributes: str | Sequence[str] = ()
    stored: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check every name."""
        ends = self.participants
        if not isinstance(ends, str) and not (
            isinstance(ends, tuple) and len(ends) == 2 and all(isinstance(e, str) for e in ends)
        ):
            wish = "a list column, or a tuple of two columns"
            raise error(OptionError, "participants", wish, repr(ends))
        for name in ("text", "attributes", "stored"):
            value = getattr(self, name)
            items = (value,) if isinstance(value, str) else as_items(value)
            if items is None:
                wish = "a column name or a sequence of them"
                raise error(OptionError, name, wish, repr(value))
            set_fields(self, **{name: items})
        _ = self.index_schema

    @property
    def participants_column(self) -> str:
        """The list column of participants."""
        return self.participants if isinstance(self.participants, str) else MADE_COLUMN

    @property
    def index_schema(self) -> Schema:
        """The schema of the index of edges."""
        ends = () if isinstance(self.participants, str) else self.participants
        attributes = (self.participants_column, *self.attributes)
        stored = (*self.text, *ends, *self.stored)
        return Schema(
            key=self.key,
            cell=self.cell,
            text={"text": Text(*self.text)},
            attributes=attributes,
            stored=tuple(dict.fromkeys(name for name in stored if name not in attributes)),
        )

    @check_objects
    def with_participants(self, table: object, kind: pa.DataType) -> pa.Table:
        """Return the table with a list column of participants of the nodes' key type."""
        try:
            edges = pa.table(table)
        except (TypeError, ValueError) as fault:
            wish = "an Arrow table (anything with __arrow_c_stream__)"
            raise error(DTypeError, "table", wish, type(table).__name__) from fault
        name = self.participants_column
        if isinstance(self.participants, str):
            column = _column(edges, name)
            found = column.type
            if not (pa.types.is_list(found) or pa.types.is_large_list(found)):
                raise error(DTypeError, name, f"a list column of {kind}", found)
        else:
            if name in edges.column_names:
                wish = f"no column {name!r} in addition to {self.participants}"
                raise error(OptionError, "participants", wish, "one")
            ends = [_column(edges, end) for end in self.participants]
            column = _pairs(*ends)
        try:
            _check_akin(name, column.type.value_type, kind)
            made = column.cast(pa.list_(kind))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as fault:
            wish = f"keys of the nodes' type {kind}"
            raise error(DTypeError, name, wish, f"{column.type} ({fault})") from None
        if name in edges.column_names:
            return edges.set_column(edges.column_names.index(name), name, made)
        return edges.append_column(name, made)


def _column(edges: pa.Table, name: str) -> pa.ChunkedArray:
    if edges.column_names.count(name) != 1:
        raise error(OptionError, "table", f"one column {name!r}", edges.column_names)
    column = edges.column(name)
    check_column(column, name, lambda row: f"in row {row}")
    return column


def _pairs(first: pa.ChunkedArray, second: pa.ChunkedArray) -> pa.ChunkedArray:
    """Make lists of two keys; the index ignores a null end."""
    if first.type != second.type:
        raise error(DTypeError, "participants", "two columns of one type", second.type)
    both = pa.chunked_array([*first.chunks, *second.chunks], first.type).combine_chunks()
    n = len(first)
    order = np.arange(2 * n).reshape(2, n).T.ravel()
    offsets = pa.array(np.arange(0, 2 * n + 1, 2), pa.int64())
    return pa.chunked_array([pa.LargeListArray.from_arrays(offsets, both.take(pa.array(order)))])


def _check_akin(name: str, found: pa.DataType, kind: pa.DataType) -> None:
    """Refuse participants of another kind than the nodes' keys: the key 1 is not the key "1"."""
    types = pa.types
    is_text = types.is_string(found) or types.is_large_string(found)
    fits = is_text if types.is_large_string(kind) else types.is_integer(found)
    if not fits and not types.is_null(found):
        raise error(DTypeError, name, f"keys of the nodes' type {kind}", found)


# ---- Graphs over the documents of an index, whose edges are documents of a second index ----

MOST_HOPS = 16


class Nodes(Protocol):
    """An index, or the shards of one in this process."""

    @property
    def schema(self) -> Schema:
        """The roles of the columns."""
        ...

    @property
    def _facts(self) -> IndexFacts: ...

    @property
    def _state(self) -> State: ...


@check_keywords
class Graph:
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

    def __init__(self, edges: Index, nodes: Nodes, schema: GraphSchema) -> None:
        """Join both indexes; use :meth:`build` or :meth:`open` instead."""
        cells = {name: edges._facts.row_types[name] for name in edges.schema.cell_columns}
        known = {name: nodes._facts.row_types[name] for name in nodes.schema.cell_columns}
        if cells and cells != known:
            wish = f"the nodes' cell columns {known}, or None"
            raise error(OptionError, "cell", wish, cells)
        self._edges, self._nodes = edges, nodes
        self._schema = schema

    @property
    def edges(self) -> Index:
        """The index of edges, whose hits are edges."""
        return self._edges

    @property
    def nodes(self) -> Nodes:
        """The index of documents, or its shards."""
        return self._nodes

    @property
    def participants_column(self) -> str:
        """The name of the list column of participants."""
        return self._schema.participants_column

    @property
    def key_type(self) -> pa.DataType:
        """The type of the nodes' keys."""
        return self._nodes._facts.row_types[self._nodes.schema.key]

    def edge_scope(self, scope: object) -> object:
        """Return the scope for the index of edges: None if it has no cells."""
        return scope if self._edges.schema.cell_columns else None

    @check_objects
    def participants(self, column: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
        """Return (number of the edge, key) of every participant in a column of lists."""
        import pyarrow.compute as pc

        which = pc.list_parent_indices(column).to_numpy().astype(np.int64)
        keys = pc.list_flatten(column)
        if keys.null_count:
            present = keys.is_valid().to_numpy(zero_copy_only=False)
            which, keys = which[present], keys.filter(pa.array(present))
        return which, keys.cast(self.key_type)

    def flat_keys(
        self, argument: str, keys: Sequence[Sequence[object]]
    ) -> tuple[npt.NDArray[np.int64], pa.Array]:
        """Concatenate lists of keys; return their offsets and keys."""
        lists = [list(one) for one in keys]
        offsets = np.cumsum([0, *(len(one) for one in lists)], dtype=np.int64)
        flat = [key for one in lists for key in one]
        return offsets, read_keys(argument, flat, self._nodes._facts)

    # ---- build, open, save ----

    @classmethod
    def build(
        cls,
        table: object,
        schema: GraphSchema,
        *,
        nodes: Nodes,
        analyzer: Analyzer | None = None,
        bm25: BM25 | None = None,
        threads: int | None = None,
    ) -> Graph:
        """Index a table of edges.

        Parameters
        ----------
        table : object
            As in :meth:`hyrecall.Index.build`, with one edge per row.
        schema : GraphSchema
            The roles of the columns.
        nodes : Index or ShardedIndex
            The documents that edges connect. They may change later; missing participants are
            ignored. Shards must be in this process, on the CPU.
        analyzer, bm25, threads
            As in :meth:`hyrecall.Index.build`.

        Raises
        ------
        DTypeError
            Participants of another type than the nodes' keys, or nodes that are no index.
        OptionError, ShapeError, KeyConflictError
            As in :meth:`hyrecall.Index.build`.
        """
        _check_schema(schema)
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
        nodes: Nodes,
        analyzer: Analyzer | None = None,
    ) -> Graph:
        """Open a graph that :meth:`save` wrote, over an index.

        Parameters
        ----------
        path : path-like
        schema : GraphSchema
            The schema that the graph was built with.
        nodes, analyzer
            As in :meth:`build`.
        """
        _check_schema(schema)
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
        found = self._bound().incident(wanted, scope)
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
        """
        read_hops(hops)
        offsets, keys = self.flat_keys("hot", hot)
        adjacency = self._reach(self._entries(scope), len(hot)).adjacency
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
        """
        read_hops(hops)
        if len(hot) != len(among):
            raise error(ShapeError, "among", f"{len(hot)} queries, as in hot", len(among))
        offsets, keys = self.flat_keys("hot", [list(one) for one in hot])
        scores = np.array([score for one in hot for score in one.values()], np.float64)
        if not (np.isfinite(scores) & (scores >= 0)).all():
            raise error(OptionError, "hot", "finite scores >= 0", list(scores))
        target_offsets, targets = self.flat_keys("among", among)
        adjacency = self._reach(self._entries(scope), len(hot)).adjacency
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
        """
        check_surroundings(len(keys), text, exclude, n)
        for name, given in (("keys", keys), ("exclude", () if exclude is None else exclude)):
            self.flat_keys(name, given)
        scope = self._entries(scope)
        reach = self._reach(scope, len(keys))
        return find_neighbours(reach, keys, scope, text, exclude, n)

    def _entries(self, scope: object) -> object:
        return scope_entries(self._nodes._facts.cell_types, scope)

    def _bind(self, argument: str, facts: IndexFacts, nodes: State) -> BoundGraph:
        if self._nodes._facts is not facts:
            raise error(OptionError, argument, "a graph over the recalled index", "another")
        return BoundGraph(self, self._edges._state, nodes)

    def _bound(self) -> BoundGraph:
        """Return the current state of the graph."""
        return BoundGraph(self, self._edges._state, self._nodes._state)

    def _reach(self, scope: object, n: int) -> Reach:
        """Return the current graph as n queries see it."""
        return Reach.of(self._bound(), scope, n)

    def __repr__(self) -> str:
        """Show the numbers of edges and documents."""
        return f"<Graph: {len(self)} edges over {self._nodes._state.n_docs} documents>"


def _check_schema(schema: object) -> None:
    if not isinstance(schema, GraphSchema):
        raise error(DTypeError, "schema", "an hr.GraphSchema", type(schema).__name__)


def _check_nodes(nodes: object) -> None:
    if not hasattr(type(nodes), "_state"):  # a property, which a closed index refuses
        raise error(DTypeError, "nodes", "an hr.Index or a ShardedIndex", type(nodes).__name__)


def read_hops(hops: object) -> None:
    """Refuse a number of hops that is not an int in range."""
    if isinstance(hops, bool) or not isinstance(hops, int) or not 0 <= hops <= MOST_HOPS:
        raise error(OptionError, "hops", f"an int in [0, {MOST_HOPS}]", repr(hops))
