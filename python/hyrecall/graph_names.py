"""Graphs in place of their names: a recipe is plain data and names a graph by its role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hyrecall.arms.regex import Edges
from hyrecall.errors import DTypeError, OptionError, error

if TYPE_CHECKING:
    from hyrecall.plan import Options

__all__ = ["bind_graphs"]


def bind_graphs(options: Options) -> Options:
    """Put graphs in the place of names, in arms, stages and expansion.

    Raises
    ------
    OptionError
        A name without a graph, a graph that nothing names.
    """
    graphs = options.graphs
    if graphs is None and not (options.arms or options.shaping or options.expansion):
        return options
    if graphs is not None and not isinstance(graphs, Mapping):
        raise error(DTypeError, "graphs", "{name: hr.Graph}", type(graphs).__name__)
    binder = _Binder(graphs or {})
    bound = replace(
        options,
        arms=binder.each(options.arms),
        shaping=binder.each(options.shaping),
        expansion=binder.each(options.expansion),
        graphs=None,
    )
    for name in graphs or ():
        if name not in binder.used:
            raise error(OptionError, "graphs", f"graphs that are named ({binder.used})", repr(name))
    return bound


class _Binder:
    def __init__(self, graphs: Mapping[str, Any]) -> None:
        self._graphs = graphs
        self.used: list[str] = []

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
