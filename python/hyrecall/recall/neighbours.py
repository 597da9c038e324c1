"""The neighbourhood of results: which documents are one hop away, and by which edge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hyrecall.ask.filters import Filter
from hyrecall.errors import OptionError, ShapeError, error
from hyrecall.hits.around import Neighbour
from hyrecall.recall.graph_views import BoundGraph
from hyrecall.recall.reach import Reach
from hyrecall.segments.segments import gather_column, seqs_of

__all__ = ["Keys", "check_surroundings", "find_neighbours"]

Keys = Sequence[Sequence[object]]
Found = tuple[list[Any], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]


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
    n: int,
) -> list[list[tuple[Neighbour, ...]]]:
    """Find the neighbours of each query's documents, best edge first."""
    bound = reach.bound
    offsets, flat = bound.graph.flat_keys("keys", keys)
    query_of = np.repeat(np.arange(len(keys), dtype=np.uint32), np.diff(offsets))
    found = reach.adjacency.neighbours(query_of, flat)
    by_query = [found[begin:end] for begin, end in _spans(offsets)]
    scores = _edge_scores(bound, keys, scope, text, by_query)
    names = _edge_keys(bound, found)
    out = []
    for query, (begin, end) in enumerate(_spans(offsets)):
        hidden = {*keys[query], *(exclude[query] if exclude is not None else ())}
        out.append(
            [
                _best(one, edges, scores[query], hidden, n)
                for one, edges in zip(found[begin:end], names[begin:end], strict=True)
            ]
        )
    return out


def _spans(offsets: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    return list(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True))


def _edge_keys(bound: BoundGraph, found: Sequence[Found]) -> list[list[tuple[Any, int]]]:
    """Return (key, seq) of every edge found."""
    if not found:
        return []
    segment, row = (np.concatenate([one[part] for one in found]) for part in (1, 2))
    segments = bound.edges.segments
    keys = gather_column(segments, segment, row, bound.graph.edges.schema.key).to_pylist()
    seqs = seqs_of(segments, segment, row).tolist()
    named = list(zip(keys, seqs, strict=True))
    ends = np.cumsum([0, *(len(one) for one, _, _ in found)])
    return [named[begin:end] for begin, end in _spans(ends)]


def _edge_scores(
    bound: BoundGraph,
    keys: Keys,
    scope: object,
    text: Sequence[object] | None,
    found: Sequence[Sequence[Found]],
) -> list[dict[tuple[int, int], float]]:
    """Return the BM25 of each query's edges that match its text, by place."""
    counts = [sum(len(row) for _, _, row in one) for one in found]
    if text is None or not any(counts):
        return [{} for _ in keys]
    # A filter leaves the statistics alone: the scores are those of the whole scope's edges.
    column = bound.graph.participants_column
    filters = [Filter(**{column: list(one)}) if len(one) else None for one in keys]
    reply = bound.best_edges(list(text), scope, max(counts), filter=filters)
    arrays = reply.arrays
    return [
        {
            (int(arrays["segment"][at]), int(arrays["row"][at])): float(arrays["score"][at])
            for at in range(begin, end)
        }
        for begin, end in _spans(arrays["offsets"])
    ]


def _best(
    found: Found,
    edges: Sequence[tuple[Any, int]],
    scores: dict[tuple[int, int], float],
    hidden: set[Any],
    n: int,
) -> tuple[Neighbour, ...]:
    best: dict[Any, tuple[float, int, Any]] = {}
    for key, segment, row, (edge, seq) in zip(*found, edges, strict=True):
        score = scores.get((int(segment), int(row)), 0.0)
        rank = (-score, seq, edge)
        if key not in hidden and (key not in best or rank[:2] < best[key][:2]):
            best[key] = rank
    order = sorted(best, key=lambda key: (best[key][0], key))
    return tuple(Neighbour(key, best[key][2], -best[key][0] + 0.0) for key in order[:n])
