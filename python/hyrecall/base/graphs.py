"""Declares the interface of a graph, so that arms, stages and expansions can refer to one."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class GraphLike(Protocol):
    """A graph over the recalled index: :class:`hyrecall.Graph`."""

    def _bind(self, argument: str, facts: Any, nodes: Any) -> Any:
        """Return the graph's current state over one state of its nodes' index."""
        ...
