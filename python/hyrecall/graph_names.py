"""Graphs in place of their names: a recipe is plain data and names a graph by its role."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hyrecall.arms.regex import Edges
from hyrecall.errors import DTypeError, OptionError, error

if TYPE_CHECKING:
    from hyrecall.plan import Options
    from hyrecall.recipe import Recipe

__all__ = ["bind_graphs", "bind_recipes"]


def bind_graphs(options: Options) -> Options:
    """Put graphs in the place of names, in arms, stages and expansion.

    Raises
    ------
    OptionError
        A name without a graph, a graph that nothing names.
    """
    if options.graphs is None and not (options.arms or options.shaping or options.expansion):
        return options
    binder = _Binder(options.graphs)
    bound = replace(
        options,
        arms=binder.each(options.arms),
        shaping=binder.each(options.shaping),
        expansion=binder.each(options.expansion),
        graphs=None,
    )
    binder.check_used()
    return bound


def bind_recipes(recipes: Iterable[Recipe], graphs: object) -> list[Recipe]:
    """Put graphs in the place of names, in the recipes of one batch.

    Raises
    ------
    OptionError
        A name without a graph, a graph that none of the recipes names.
    """
    binder = _Binder(graphs)
    bound = [
        one.replace(
            more=binder.each(one.more),
            on_no_match=binder.each(one.on_no_match),
            shaping=binder.each(one.shaping),
            expansion=binder.each(one.expansion),
        )
        for one in recipes
    ]
    binder.check_used()
    return bound


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
