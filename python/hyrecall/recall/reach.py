"""Who is connected with whom in the graphs of one call: read once, however many parts ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hyrecall import _core
from hyrecall.ask.scope import scope_of
from hyrecall.recall.graph_views import BoundGraph, BoundGraphs

__all__ = ["Reach", "Reaches"]


@dataclass(frozen=True, eq=False)
class Reach:
    """A graph as some queries see it."""

    bound: BoundGraph
    adjacency: _core.arms.Adjacency

    @staticmethod
    def of(
        bound: BoundGraph, scope: object, n: int, sources: Sequence[Sequence[Any]], hops: int
    ) -> Reach:
        """Read a graph for n queries, as far as ``hops`` from each query's sources."""
        return Reach(bound, bound.adjacency(scope, n, sources, hops))


class Reaches:
    """The reach of each graph that a call asks, made when it is first asked."""

    def __init__(self, graphs: BoundGraphs, scope: object) -> None:
        """Take the graphs and the scope of the call."""
        self._graphs = graphs
        self._scope = scope
        self._made: dict[tuple[BoundGraph, int, int], Reach] = {}

    def of(
        self, graph: object, begin: int, end: int, sources: Sequence[Sequence[Any]], hops: int
    ) -> Reach:
        """Return a graph's reach for the queries [begin, end), each from its sources."""
        bound, own = self._graphs[graph], scope_of(self._scope, begin, end)
        if bound.is_partial:
            return Reach.of(bound, own, end - begin, sources, hops)
        made = self._made.get((bound, begin, end))
        if made is None:
            made = Reach.of(bound, own, end - begin, sources, hops)
            self._made[bound, begin, end] = made
        return made
