"""What stands near hits: neighbours in a graph, read once a call, and documents with their tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from hyrecall import _core
from hyrecall.ask.expansion import Expansion, SharedTags
from hyrecall.ask.filters import Filter
from hyrecall.ask.scope import scope_of
from hyrecall.base.arguments import check_objects
from hyrecall.base.options import integer
from hyrecall.errors import OptionError, ShapeError, error
from hyrecall.hits.around import AroundHits, Neighbour, Related
from hyrecall.hits.hits import Hits, reply_of
from hyrecall.hits.reply import Reply
from hyrecall.recall.graph_views import BoundGraphLike, BoundGraphs
from hyrecall.segments.segments import gather_column
from hyrecall.stages.session import Session
from hyrecall.table.attributes import tag_attribute


@dataclass(frozen=True, eq=False)
class Reach:
    """A graph, limited to the scopes of some queries."""

    bound: BoundGraphLike
    adjacency: _core.arms.Adjacency

    @staticmethod
    def of(bound: BoundGraphLike, scope: object, n: int) -> Reach:
        """Read a graph for n queries."""
        return Reach(bound, bound.adjacency(scope, n))


class Reaches:
    """The reach of each graph that a call asks, made when it is first asked."""

    def __init__(self, graphs: BoundGraphs, scope: object) -> None:
        self._graphs = graphs
        self._scope = scope
        self._made: dict[tuple[BoundGraphLike, int, int], Reach] = {}

    def of(self, graph: object, begin: int, end: int) -> Reach:
        """Return a graph's reach for the queries [begin, end)."""
        bound = self._graphs[graph]
        made = self._made.get((bound, begin, end))
        if made is None:
            made = Reach.of(bound, scope_of(self._scope, begin, end), end - begin)
            self._made[bound, begin, end] = made
        return made


# ---- The neighbourhood of results: which documents are one hop away, and by which edge ----

Keys = Sequence[Sequence[object]]
Scores = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]


def check_surroundings(
    n_queries: int, text: Sequence[object] | None, exclude: Keys | None, n: object
) -> None:
    """Check what is asked beside the keys."""
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= 1000:
        raise error(OptionError, "n", "an int in [1, 1000]", repr(n))
    for name, given in (("text", text), ("exclude", exclude)):
        if given is not None and len(given) != n_queries:
            raise error(ShapeError, name, f"{n_queries} queries as keys has", len(given))


def find_neighbours(
    reach: Reach,
    keys: Keys,
    scope: object,
    text: Sequence[object] | None,
    exclude: Keys | None,
    n: int | None,
) -> list[list[tuple[Neighbour, ...]]]:
    """Find the neighbours of each query's documents, best edge first; None: all of them."""
    bound = reach.bound
    offsets, flat = bound.graph.flat_keys("keys", keys)
    hidden_offsets, hidden = bound.graph.flat_keys(
        "exclude", [()] * len(keys) if exclude is None else exclude
    )
    found = _core.arms.Neighbours(reach.adjacency, offsets, flat)
    n_edges = int(found.counts.max(initial=0))
    scores = _edge_scores(bound, keys, scope, text, n_edges)
    most = max(n_edges, 1) if n is None else n
    bounds, names, segment, row, score = found.best(*scores, hidden_offsets, hidden, most)
    column = bound.graph.edges.schema.key
    edges = gather_column(bound.edges.segments, segment, row, column).to_pylist()
    best = list(map(Neighbour, names, edges, score.tolist()))
    of_key = [tuple(best[begin:end]) for begin, end in pairwise(bounds.tolist())]
    return [of_key[begin:end] for begin, end in pairwise(offsets.tolist())]


def _edge_scores(
    bound: BoundGraphLike, keys: Keys, scope: object, text: Sequence[object] | None, depth: int
) -> Scores:
    """Return the BM25 of each query's edges that match its text: offsets, segment, row, score."""
    if text is None or not depth:
        place = np.zeros(0, np.uint32)
        return np.zeros(len(keys) + 1, np.int64), place, place, np.zeros(0)
    # A filter leaves the statistics alone: the scores are those of the whole scope's edges.
    column = bound.graph.participants_column
    filters = [Filter(**{column: list(one)}) if len(one) else None for one in keys]
    arrays = bound.best_edges(list(text), scope, depth, filter=filters).arrays
    score = arrays["score"].astype(np.float64)
    return arrays["offsets"], arrays["segment"], arrays["row"], score


# ---- Documents that share tags with hits ----


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


# ---- Looks around the hits of a reply: neighbours in a graph, documents with the same tags ----


def expand(
    parts: Sequence[Expansion],
    reply: Reply,
    scope: object,
    texts: Sequence[str | None],
    reaches: Reaches,
    sessions: Sequence[Session | None] = (),
) -> AroundHits:
    """Look around the hits of a reply, within the scopes and the snapshot of the call."""
    # Neighbours that a query's conversation has received come before its other neighbours.
    n = reply.n_queries
    context: Sequence[Sequence[tuple[Neighbour, ...]]] = [()] * n
    near: Sequence[Sequence[Related]] = [[] for _ in range(n)]
    for part in parts:
        if isinstance(part, SharedTags):
            near = related_documents(reply, part.column, part.n, hops=part.hops)
            continue
        named = reply.cached("row", reply.facts.schema.key)
        keys = [named[begin:end] for begin, end in pairwise(reply.offsets.tolist())]
        top = [one[: part.top] for one in keys]
        reach = reaches.of(part.graph, 0, n)
        met = [one.accessed if one is not None else {} for one in sessions]
        if any(met):
            every = find_neighbours(reach, top, scope, list(texts), keys, None)
            context = [
                [_first_of(near, own)[: part.n] for near in beside]
                for own, beside in zip(met, every, strict=True)
            ]
        else:
            context = find_neighbours(reach, top, scope, list(texts), keys, part.n)
    return AroundHits(context, near)


def _first_of(near: Sequence[Neighbour], met: Mapping[Any, object]) -> tuple[Neighbour, ...]:
    """Return neighbours with those that a conversation has received first."""
    return tuple(sorted(near, key=lambda one: one.key not in met))
