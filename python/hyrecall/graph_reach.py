"""Who is connected with whom in the graphs of one call: read once, however many parts ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hyrecall import _core
from hyrecall.segments import State

if TYPE_CHECKING:
    from hyrecall.graph_reads import GraphReads

__all__ = ["Reach", "Reaches"]


@dataclass(frozen=True, eq=False)
class Reach:
    """A graph as some queries see it.

    Attributes
    ----------
    state : State
        Of the edges: their places mean something in this one only.
    adjacency : _core.arms.Adjacency
        Of these queries.
    """

    state: State
    adjacency: _core.arms.Adjacency

    @staticmethod
    def of(graph: GraphReads, scope: object, n: int) -> Reach:
        """Read a graph for n queries."""
        state = graph.edges._state
        return Reach(state, graph.adjacency(scope, n, state=state))


class Reaches:
    """The reach of each graph that a call asks, made when it is first asked."""

    def __init__(self, scope: object) -> None:
        """Take the scope of the call, as given."""
        self._scope = scope
        self._made: dict[tuple[GraphReads, int, int], Reach] = {}

    def of(self, graph: GraphReads, begin: int, end: int) -> Reach:
        """Give a graph's reach for the queries [begin, end)."""
        made = self._made.get((graph, begin, end))
        if made is None:
            scope = self._scope[begin:end] if isinstance(self._scope, list) else self._scope
            made = self._made[graph, begin, end] = Reach.of(graph, scope, end - begin)
        return made
