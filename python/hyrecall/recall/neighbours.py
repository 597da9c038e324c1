"""The neighbourhood of results: which documents are one hop away, and by which edge."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from hyrecall import _core
from hyrecall.ask.filters import Filter
from hyrecall.errors import OptionError, ShapeError, error
from hyrecall.hits.around import Neighbour
from hyrecall.recall.graph_views import BoundGraph
from hyrecall.recall.reach import Reach
from hyrecall.segments.segments import gather_column

__all__ = ["Keys", "check_surroundings", "find_neighbours"]

Keys = Sequence[Sequence[object]]
Scores = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]


def check_surroundings(
    n_queries: int, text: Sequence[object] | None, exclude: Keys | None, n: object
) -> None:
    """Check what is asked beside the keys."""
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= 1000:
        raise error(OptionError, "n", "an int in [1, 1000]", repr(n))
    for name, given in (("text", text), ("exclude", exclude)):
        if given is not None and len(given) != n_queries:
            raise error(ShapeError, name, f"{n_queries} queries as keys has", len(given))


def find_neighbours(
    reach: Reach,
    keys: Keys,
    scope: object,
    text: Sequence[object] | None,
    exclude: Keys | None,
    n: int | None,
) -> list[list[tuple[Neighbour, ...]]]:
    """Find the neighbours of each query's documents, best edge first; None: all of them."""
    bound = reach.bound
    offsets, flat = bound.graph.flat_keys("keys", keys)
    hidden_offsets, hidden = bound.graph.flat_keys(
        "exclude", [()] * len(keys) if exclude is None else exclude
    )
    found = _core.arms.Neighbours(reach.adjacency, offsets, flat)
    n_edges = int(found.counts.max(initial=0))
    scores = _edge_scores(bound, keys, scope, text, n_edges)
    most = max(n_edges, 1) if n is None else n
    bounds, names, segment, row, score = found.best(*scores, hidden_offsets, hidden, most)
    column = bound.graph.edges.schema.key
    edges = gather_column(bound.edges.segments, segment, row, column).to_pylist()
    best = list(map(Neighbour, names, edges, score.tolist()))
    of_key = [tuple(best[begin:end]) for begin, end in pairwise(bounds.tolist())]
    return [of_key[begin:end] for begin, end in pairwise(offsets.tolist())]


def _edge_scores(
    bound: BoundGraph, keys: Keys, scope: object, text: Sequence[object] | None, depth: int
) -> Scores:
    """Return the BM25 of each query's edges that match its text: offsets, segment, row, score."""
    if text is None or not depth:
        place = np.zeros(0, np.uint32)
        return np.zeros(len(keys) + 1, np.int64), place, place, np.zeros(0)
    # A filter leaves the statistics alone: the scores are those of the whole scope's edges.
    column = bound.graph.participants_column
    filters = [Filter(**{column: list(one)}) if len(one) else None for one in keys]
    arrays = bound.best_edges(list(text), scope, depth, filter=filters).arrays
    score = arrays["score"].astype(np.float64)
    return arrays["offsets"], arrays["segment"], arrays["row"], score
