"""What arms beside text and vectors read.

Documents of a batch come back to back: query q has those from offsets[q] to offsets[q + 1].
"""

from collections.abc import Sequence
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt

from hyrecall._core import Analyzer, Request, Snapshot, _ArrowArray

_Rows: TypeAlias = npt.NDArray[np.uint32]
_Offsets: TypeAlias = npt.NDArray[np.int64]
_Docs: TypeAlias = tuple[_Offsets, _Rows, _Rows, npt.NDArray[np.float32]]

@final
class Audience:
    """What each query of a request may see of a snapshot."""

    def __init__(self, snapshot: Snapshot, request: Request) -> None: ...
    @property
    def n_groups(self) -> int: ...
    @property
    def group_of(self) -> _Rows: ...
    def rows(self, group: int) -> tuple[_Rows, _Rows]:
        """(segment, row) of every row that the queries of a group may see."""
    def newest(self, attribute: int, n: int, with_missing: bool) -> _Docs:
        """Per query the n newest rows by an attribute: offsets, segment, row, score."""
    def locate(
        self, keys: _ArrowArray, query_of: _Rows
    ) -> tuple[npt.NDArray[np.int64], _Rows, _Rows]:
        """(which, segment, row) of every visible document with one of the keys."""
    def tags(
        self,
        attribute: int,
        analyzer: Analyzer,
        queries: Sequence[bytes | None],
        hops: int,
        partial: bool,
        depth: int,
    ) -> _Docs:
        """Per query the documents near the tags it names: offsets, segment, row, score."""
    def related(
        self, attribute: int, offsets: _Offsets, segment: _Rows, row: _Rows, n: int
    ) -> _Docs:
        """Per query the documents that share most tags with its results, and how many."""

@final
class Adjacency:
    """Who is connected with whom, for each query of two requests with the same queries."""

    def __init__(
        self,
        edges: Snapshot,
        edge_request: Request,
        participants: int,
        nodes: Snapshot,
        node_request: Request,
    ) -> None: ...
    def distances(
        self, offsets: _Offsets, sources: _ArrowArray, most: int
    ) -> list[tuple[list[Any], list[int]]]:
        """Per query (keys, hops) of every node within `most` hops of the nearest source."""
    def spread(
        self,
        offsets: _Offsets,
        sources: _ArrowArray,
        scores: npt.NDArray[np.float64],
        target_offsets: _Offsets,
        targets: _ArrowArray,
        most: int,
    ) -> npt.NDArray[np.float64]:
        """For each target the largest score x 2^-hops over its query's sources."""

@final
class Neighbours:
    """The nodes one hop from each query's keys."""

    def __init__(self, adjacency: Adjacency, offsets: _Offsets, keys: _ArrowArray) -> None: ...
    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Per query how many neighbours its keys have, one for each edge."""
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
        """For each key its n best neighbours: offsets, keys, edge segment, edge row, score."""

def place_score(place: int) -> float:
    """1 / place."""
