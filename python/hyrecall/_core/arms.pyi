"""Native parts of the arms other than text and vectors.

Documents of a batch are concatenated: query q has those from offsets[q] to offsets[q + 1].
"""

from collections.abc import Sequence
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt

from hyrecall._core import Analyzer, BatchRequest, Snapshot, _ArrowArray

_Rows: TypeAlias = npt.NDArray[np.uint32]
_Offsets: TypeAlias = npt.NDArray[np.int64]
_Docs: TypeAlias = tuple[_Offsets, _Rows, _Rows, npt.NDArray[np.float32]]

@final
class Audience:
    """The rows of a snapshot that each query of a request may see."""

    def __init__(self, snapshot: Snapshot, request: BatchRequest) -> None: ...
    @property
    def n_groups(self) -> int: ...
    @property
    def group_of(self) -> _Rows: ...
    def rows(self, group: int) -> tuple[_Rows, _Rows]:
        """Return (segment, row) of every row that the queries of a group may see."""
    def newest(self, attribute: int, n: int, with_missing: bool) -> _Docs:
        """Return each query's n newest rows by an attribute: offsets, segment, row, score."""
    def locate(
        self, keys: _ArrowArray, query_of: _Rows
    ) -> tuple[npt.NDArray[np.int64], _Rows, _Rows]:
        """Return (number of the key, segment, row) of every visible document with a key."""
    def tags(
        self,
        attribute: int,
        analyzer: Analyzer,
        queries: Sequence[bytes | None],
        hops: int,
        partial: bool,
        depth: int,
    ) -> _Docs:
        """Return each query's documents near its tags: offsets, segment, row, score."""
    def related(
        self,
        attribute: int,
        offsets: _Offsets,
        segment: _Rows,
        row: _Rows,
        n: int,
        with_beside: bool,
    ) -> _Docs:
        """Return each query's documents with the most tags in common with its results."""

@final
class Adjacency:
    """Connections between documents, for each query of two requests with the same queries."""

    def __init__(
        self,
        edges: Snapshot,
        edge_request: BatchRequest,
        participants: int,
        nodes: Snapshot,
        node_request: BatchRequest,
    ) -> None: ...
    def distances(
        self, offsets: _Offsets, sources: _ArrowArray, most: int
    ) -> list[tuple[list[Any], list[int]]]:
        """Return each query's (keys, hops) of the nodes within `most` hops of a source."""
    def spread(
        self,
        offsets: _Offsets,
        sources: _ArrowArray,
        scores: npt.NDArray[np.float64],
        target_offsets: _Offsets,
        targets: _ArrowArray,
        most: int,
    ) -> npt.NDArray[np.float64]:
        """Return for each target the largest score x 2^-hops over its query's sources."""

@final
class Neighbours:
    """The nodes one hop from each query's keys."""

    def __init__(self, adjacency: Adjacency, offsets: _Offsets, keys: _ArrowArray) -> None: ...
    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """The number of neighbours of each query's keys, counted once per edge."""
    def best(
        self,
        score_offsets: _Offsets,
        segment: _Rows,
        row: _Rows,
        score: npt.NDArray[np.float64],
        hidden_offsets: _Offsets,
        hidden: _ArrowArray,
        n: int,
    ) -> tuple[_Offsets, list[Any], _Rows, _Rows, npt.NDArray[np.float64]]:
        """Return each key's n best neighbours: offsets, keys, edge segment, edge row, score."""

def place_score(place: int) -> float:
    """Return 1 / place."""
