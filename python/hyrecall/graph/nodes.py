"""Declares what a graph needs of an index that is no :class:`hyrecall.Index`, such as shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import pyarrow as pa

from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.segments import State
from hyrecall.table.schema import Schema

__all__ = ["GraphNodes"]


@runtime_checkable
class GraphNodes(Protocol):
    """An index whose documents a graph connects, and which says which of some keys exist."""

    @property
    def schema(self) -> Schema:
        """The schema of the index."""
        ...

    @property
    def _facts(self) -> IndexFacts: ...

    def _nodes_in(self, scopes: Sequence[object], keys: Sequence[pa.Array]) -> State:
        """Return a state of the documents of each scope that have one of its keys."""
        ...
