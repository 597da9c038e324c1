"""The graphs of a call: put in the place of their names, and held as they are at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from hyrecall.ask.arms.edges import EdgeLexical
from hyrecall.ask.arms.regex import Edges, Regex
from hyrecall.ask.expansion import Context
from hyrecall.ask.graphs import GraphLike
from hyrecall.ask.recipe import Recipe
from hyrecall.ask.shaping import SessionSignals
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.recall.plan import Options
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.segments import State

__all__ = ["bind_graphs", "bind_recipes", "hold_graphs", "parts_of_recipes"]


def bind_graphs(facts: IndexFacts, state: State, options: Options) -> Options:
    """Put graphs in the place of names, in arms, stages and expansion, and hold them.

    Raises
    ------
    OptionError
        A name without a graph, a graph that nothing names, one over another index.
    """
    parts = (options.arms, options.shaping, options.expansion)
    if options.graphs is None and all(map(_is_nothing, parts)):
        return options
    binder = _Binder(options.graphs)
    bound = options._replace(
        arms=binder.each(options.arms),
        shaping=binder.each(options.shaping),
        expansion=binder.each(options.expansion),
        graphs=None,
    )
    binder.check_used()
    return hold_graphs(facts, state, bound, _parts_of_options(bound))


def _is_nothing(parts: object) -> bool:
    return parts is None or (isinstance(parts, (tuple, list)) and not parts)


def bind_recipes(recipes: Iterable[Recipe], graphs: object) -> list[Recipe]:
    """Put graphs in the place of names, in the recipes of one batch.

    Raises
    ------
    OptionError
        A name without a graph, a graph that none of the recipes names.
    """
    binder = _Binder(graphs)
    bound = [binder.recipe(one) for one in recipes]
    binder.check_used()
    return bound


def hold_graphs(
    facts: IndexFacts, state: State, options: Options, parts: Iterable[object]
) -> Options:
    """Hold each graph of some arms, stages and expansions as it is now, and a copy of the scope.

    So all parts of a call, and the explanations of its reply, read the same, whatever is written
    meanwhile. What the options hold already stays.

    Parameters
    ----------
    facts, state
        Of the index that is asked: the graphs' nodes are read in this state.
    options : Options
    parts : iterable
        Without names of graphs.

    Raises
    ------
    OptionError
        No graph, or one over another index.
    """
    held = dict(options.bound)
    for part in parts:
        for argument, given in _graphs_of(part):
            if not isinstance(given, GraphLike):
                raise error(OptionError, argument, "an hr.Graph in place of its name", repr(given))
            bound = given._bind(argument, facts, state)
            held.setdefault(given, bound)
    scope = list(options.scope) if isinstance(options.scope, list) else options.scope
    return options._replace(scope=scope, bound=held)


def _parts_of_options(options: Options) -> Iterator[object]:
    """Return what may have a graph, in the order in which it runs."""
    for parts in (options.arms, options.shaping, options.expansion):
        yield from parts if isinstance(parts, tuple | list) else (parts,)


def parts_of_recipes(recipes: Iterable[Recipe]) -> Iterator[object]:
    """Return what may have a graph."""
    for one in recipes:
        yield from (*one.more, *one.on_no_match, *one.shaping, *one.expansion)


def _graphs_of(part: object) -> Iterator[tuple[str, object]]:
    """Return each graph with what messages call it."""
    match part:
        case EdgeLexical():
            yield f"{part.name}.graph", part.graph
        case Regex():
            for column in part.columns:
                if isinstance(column, Edges):
                    yield f"{part.name}.columns", column.graph
        case SessionSignals() if part.graph is not None:
            yield "SessionSignals.graph", part.graph
        case Context():
            yield "Context.graph", part.graph


class _Binder:
    def __init__(self, graphs: object) -> None:
        if graphs is not None and not isinstance(graphs, Mapping):
            raise error(DTypeError, "graphs", "{name: hr.Graph}", type(graphs).__name__)
        self._graphs: Mapping[str, Any] = graphs or {}
        self.used: list[str] = []

    def check_used(self) -> None:
        """Refuse a graph that nothing names."""
        for name in self._graphs:
            if name not in self.used:
                wish = f"graphs that are named ({self.used})"
                raise error(OptionError, "graphs", wish, repr(name))

    def each(self, parts: Any) -> Any:
        """Bind one part or a sequence of them; what is neither is left to its own check."""
        if isinstance(parts, tuple | list):
            return tuple(self._one(part) for part in parts)
        return self._one(parts)

    def recipe(self, recipe: Recipe) -> Recipe:
        """Bind the parts of a recipe; one that names no graph stays as it is."""
        n_used = len(self.used)
        names = ("more", "on_no_match", "shaping", "expansion")
        bound = {name: self.each(getattr(recipe, name)) for name in names}
        return recipe if len(self.used) == n_used else replace(recipe, **bound)

    def _one(self, part: Any) -> Any:
        graph = getattr(part, "graph", None)
        if isinstance(graph, str):
            return replace(part, graph=self._graph(part, graph))
        columns = getattr(part, "columns", None)
        if isinstance(columns, tuple) and any(_is_named(column) for column in columns):
            bound = (
                replace(column, graph=self._graph(column, column.graph))
                if _is_named(column)
                else column
                for column in columns
            )
            return replace(part, columns=tuple(bound))
        return part

    def _graph(self, part: Any, name: str) -> Any:
        if name not in self._graphs:
            wish = f"{{{name!r}: hr.Graph}}, which {type(part).__name__} names"
            raise error(OptionError, "graphs", wish, sorted(self._graphs))
        self.used.append(name)
        return self._graphs[name]


def _is_named(column: object) -> bool:
    return isinstance(column, Edges) and isinstance(column.graph, str)
