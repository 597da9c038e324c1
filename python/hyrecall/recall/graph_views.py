"""Declares the interface of a graph in a recall; :class:`hyrecall.Graph` has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.filters import Filter
from hyrecall.hits.reply import Reply
from hyrecall.segments.segments import State
from hyrecall.table.schema import Schema

Matches: TypeAlias = Callable[[Any], npt.NDArray[np.bool_]]
"""Says which strings of a column match."""


class _Edges(Protocol):
    @property
    def schema(self) -> Schema: ...


class GraphKeys(Protocol):
    """A graph's columns, and its nodes' keys as arrays."""

    @property
    def edges(self) -> _Edges:
        """The index of edges."""
        ...

    @property
    def participants_column(self) -> str:
        """The column of edges that lists the nodes at their ends."""
        ...

    def participants(self, column: pa.Array) -> tuple[npt.NDArray[Any], pa.Array]:
        """Return the edge and the key of every participant."""
        ...

    def flat_keys(
        self, argument: str, keys: Sequence[Sequence[Any]]
    ) -> tuple[npt.NDArray[np.int64], pa.Array]:
        """Return the keys of several queries as offsets and one array."""
        ...


class EdgeCredits(NamedTuple):
    """The participants of the best edges of some queries."""

    query: npt.NDArray[np.uint32]
    keys: pa.Array
    edge: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float32]
    names: pa.Array


class BoundGraphLike(Protocol):
    """A graph as it stands at one moment; every read names a scope."""

    @property
    def graph(self) -> GraphKeys:
        """The graph itself."""
        ...

    @property
    def edges(self) -> State:
        """The state of its edges."""
        ...

    def credits(self, texts: Sequence[object], scope: object, depth: int) -> EdgeCredits:
        """Return the participants of each query's best edges by their texts."""
        ...

    def participants_where(self, scope: object, matches: Matches) -> pa.Array:
        """Return the participants of a scope's edges that have a text that matches."""
        ...

    def best_edges(
        self,
        texts: Sequence[object],
        scope: object,
        depth: int,
        *,
        filter: Sequence[Filter | None] | None = None,  # noqa: A002
    ) -> Reply:
        """Return each query's best edges by their texts."""
        ...

    def adjacency(self, scope: object, n: int) -> _core.arms.Adjacency:
        """Return who is connected with whom for n queries."""
        ...


BoundGraphs: TypeAlias = Mapping[object, BoundGraphLike]
"""The graphs of one call, by what an arm, a stage or an expansion holds."""
