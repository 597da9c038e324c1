"""Graphs of a recall over shards: this process searches their edges before shards are asked.

Each shard is told which participants of edges its queries credit. Stages and expansions, which
walk along edges, run where the parts are merged; shards then say which participants exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hyrecall.ask.graph_names import check_graphs, graphs_of, name_graphs, names_in, parts_of
from hyrecall.ask.graphs import GraphLike
from hyrecall.ask.recipe import Recipe
from hyrecall.ask.request import CallOptions
from hyrecall.distributed.looking import Looking
from hyrecall.errors import OptionError, error
from hyrecall.graph.asked import NO_NODES, AskedGraph, nodes_of
from hyrecall.graph.graph import Graph
from hyrecall.parts.lookups import lookup_keys
from hyrecall.parts.request import Request
from hyrecall.parts.telling import tell_edges
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.segments import State

__all__ = ["Graphs", "hold_graphs", "take_graphs"]

Graphs = Mapping[str, Graph]
"""The graphs of a call by the names that its request has."""

_FIELDS = {"more": "arms", "shaping": "shaping", "expansion": "expansion"}


def take_graphs(index: object, options: Mapping[str, Any]) -> tuple[dict[str, Any], Graphs]:
    """Return the options of a call with a name for each graph, and the graphs."""
    given = dict(options)
    graphs = given.pop("graphs", None)
    recipe = given.get("recipe")
    recipes = recipe if isinstance(recipe, list) else [recipe]
    settings = CallOptions(**{field: given.get(name) for field, name in _FIELDS.items()})
    hows: list[Any] = [one for one in recipes if isinstance(one, Recipe)]
    if recipe is None:
        hows = [settings]
    known = check_graphs(graphs, [pair for how in hows for pair in names_in(how)])
    for how in hows:
        for part in parts_of(how):
            for argument, graph in graphs_of(part):
                _check_graph(index, argument, known[graph] if isinstance(graph, str) else graph)
    taken: dict[str, Graph] = dict(known)

    def name_of(graph: Graph) -> str:
        """Return a name that no other graph of the call has."""
        for name, one in taken.items():
            if one is graph and name not in known:
                return name
        name = next(name for at in range(len(taken) + 1) if (name := f"graph {at}") not in taken)
        taken[name] = graph
        return name

    changed = name_graphs(settings, name_of)
    given |= {_FIELDS[field]: parts for field, parts in changed.items()}
    named = [
        one.replace(**name_graphs(one, name_of)) if isinstance(one, Recipe) else one
        for one in recipes
    ]
    if taken and recipe is not None:
        given["recipe"] = named if isinstance(recipe, list) else named[0]
    return given, taken


def _check_graph(index: object, argument: str, graph: object) -> None:
    """Refuse what is no graph over the recalled index."""
    if not isinstance(graph, GraphLike):
        raise error(OptionError, argument, "an hr.Graph in place of its name", repr(graph))
    if not isinstance(graph, Graph) or graph.nodes is not index:
        raise error(OptionError, argument, "a graph over the recalled index", "another")


@dataclass(frozen=True, eq=False)
class _HeldGraph:
    """A graph as it was when the shards were asked."""

    bound: AskedGraph

    def _bind(self, argument: str, facts: object, nodes: object) -> AskedGraph:
        del argument, facts, nodes
        return self.bound


def hold_graphs(
    facts: IndexFacts, request: Request, graphs: Graphs, looking: Looking
) -> tuple[Request, Mapping[str, GraphLike]]:
    """Hold graphs for a call as they are now."""

    def ask(scopes: Sequence[object], keys: Sequence[pa.Array]) -> State:
        """Return a state of the documents of each scope that have one of its keys."""
        return nodes_of(facts, looking.ask(lookup_keys(facts, request.id, scopes, keys)))

    edges = {name: AskedGraph(one, one.edges._state, NO_NODES, ask) for name, one in graphs.items()}
    told = tell_edges(facts, request, dict(edges.items()))
    return request._with_told(told), {name: _HeldGraph(one) for name, one in edges.items()}
