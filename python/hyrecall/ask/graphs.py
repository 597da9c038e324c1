"""A graph as arms, stages and expansions hold it: as data, nothing of it is read here."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

__all__ = ["GraphLike"]


@runtime_checkable
class GraphLike(Protocol):
    """A graph over the index that is asked: :class:`hyrecall.Graph`."""

    def _bind(self, argument: str, facts: Any, nodes: Any) -> Any:
        """Return the graph as it is now, over one state of its nodes' index.

        Raises
        ------
        OptionError
            It is over another index than that with these facts.
        """
        ...
