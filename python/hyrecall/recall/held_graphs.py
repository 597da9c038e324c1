"""Holds the graphs of a call as they are at one moment."""

from __future__ import annotations

from collections.abc import Iterable

from hyrecall.ask.graph_names import graphs_of
from hyrecall.ask.graphs import GraphLike
from hyrecall.errors import OptionError, error
from hyrecall.recall.graph_views import BoundGraph, BoundGraphs
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.segments import State

__all__ = ["hold_graphs"]


def hold_graphs(facts: IndexFacts, state: State, parts: Iterable[object]) -> BoundGraphs:
    """Hold each graph of some arms, stages and expansions as it is now."""
    # So all parts of a call, and the explanations of its reply, read the same, whatever is written
    # meanwhile.
    held: dict[object, BoundGraph] = {}
    for part in parts:
        for argument, given in graphs_of(part):
            if not isinstance(given, GraphLike):
                raise error(OptionError, argument, "an hr.Graph in place of its name", repr(given))
            bound = given._bind(argument, facts, state)
            held.setdefault(given, bound)
    return held
