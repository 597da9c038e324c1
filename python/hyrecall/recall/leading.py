"""Rows that come before all others of a list, whatever their score: what stages do with them.

``exact`` marks them in a pool; without it there are none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hyrecall import _core

if TYPE_CHECKING:
    from hyrecall.ask.shaping import MMR
    from hyrecall.recall.fused_lists import Floats, FusedLists, Piece

__all__ = ["choose_leading", "lead", "others", "scaled_relevance"]


def lead(pool: FusedLists) -> FusedLists:
    """Put the rows that lead in front of the others; among themselves both keep their order."""
    if "exact" not in pool.arrays:
        return pool
    return pool.take((pool.offsets, np.lexsort((others(pool), pool.query))))


def others(pool: FusedLists) -> npt.NDArray[np.int64]:
    """Return 0 for each entry that leads, and 1 for any other: what to order by first."""
    if "exact" not in pool.arrays:
        return np.zeros(len(pool), np.int64)
    return 1 - pool.arrays["exact"].astype(np.int64)


def scaled_relevance(how: str, score: float, high: float, low: float) -> float:
    """Return what a score counts in MMR, beside the list's highest and lowest."""
    if how == "max":
        return score / high if high > 0 else 0.0
    return score if how == "raw" else _core.arithmetic.minmax_scale(score, low, high)


def choose_leading(
    pool: FusedLists,
    found: Any,
    piece: Piece,
    mmr: MMR | None,
    column: int | None,
    *,
    n_wanted: int,
    tokens: npt.NDArray[np.int64],
    tokens_fit: int | None,
) -> Any:
    """Choose again where some rows of a list lead: among them first, then among the others."""
    if "exact" not in pool.arrays:
        return found
    offsets, entries = found["chosen"]
    names = ("value", "relevance", "similarity", "nearest")
    counts, parts = [], []
    for query, (begin, end) in enumerate(zip(pool.offsets[:-1], pool.offsets[1:], strict=True)):
        if pool.arrays["exact"][begin:end].all() or not pool.arrays["exact"][begin:end].any():
            own = slice(int(offsets[query]), int(offsets[query + 1]))
            parts.append((entries[own], *(found[name][own] for name in names)))
        else:
            choice = _Choice(pool, piece, query, mmr, column)
            parts.append(choice.run(n_wanted, tokens, tokens_fit))
        counts.append(len(parts[-1][0]))
    kinds = (np.int64, np.float64, np.float64, np.float64, np.int64)
    joined = [
        np.concatenate([np.zeros(0, kind), *one]).astype(kind)
        for kind, one in zip(kinds, zip(*parts, strict=True), strict=True)
    ]
    chosen = (np.concatenate([[0], np.cumsum(counts)]), joined[0])
    return {"chosen": chosen, **dict(zip(names, joined[1:], strict=True))}


class _Choice:
    """The greedy choice from one list, by definition; few queries need it."""

    def __init__(
        self, pool: FusedLists, piece: Piece, query: int, mmr: MMR | None, column: int | None
    ) -> None:
        self._pool, self._piece, self._query, self._column = pool, piece, query, column
        self._begin, self._end = (int(at) for at in pool.offsets[query : query + 2])
        self._weight = 1.0 if mmr is None else mmr.relevance_weight
        scores: Floats = pool.score[self._begin : self._end]
        how = "raw" if mmr is None else mmr.relevance
        high, low = float(scores.max()), float(scores.min())
        self._relevance = [scaled_relevance(how, float(one), high, low) for one in scores]
        n = len(scores)
        self._nearest = [(0.0, -1)] * n  # similarity, and to which entry of the pool
        self._compared = [0] * n  # to how many of the chosen
        self._chosen: list[int] = []

    def run(
        self, n_wanted: int, tokens: npt.NDArray[np.int64], tokens_fit: int | None
    ) -> tuple[Any, ...]:
        """Return the chosen entries, and value, relevance, similarity and nearest of each."""
        leads = self._pool.arrays["exact"][self._begin : self._end]
        waiting = list(range(self._end - self._begin))
        values = []
        left = tokens_fit
        while waiting and len(self._chosen) < n_wanted:
            fitting = waiting[:1]  # the first of the list, whatever it costs
            if self._chosen:
                fitting = [at for at in waiting if left is None or tokens[self._begin + at] <= left]
                fitting = [at for at in fitting if leads[at]] or fitting
            if not fitting:
                break
            value, best = max((self._value(at), -at) for at in fitting)
            self._chosen.append(-best)
            waiting.remove(-best)
            values.append(value)
            if left is not None:
                left -= int(tokens[self._begin - best])
        near = [self._nearest[at] for at in self._chosen]
        return (
            np.array(self._chosen, np.int64) + self._begin,
            values,
            [self._relevance[at] for at in self._chosen],
            [similarity for similarity, _ in near],
            [nearest for _, nearest in near],
        )

    def _value(self, at: int) -> float:
        """Return an entry's value beside those that were chosen so far."""
        for chosen in self._chosen[self._compared[at] :]:
            cosine = self._cosine(chosen, at)
            if cosine > self._nearest[at][0]:
                self._nearest[at] = (cosine, self._begin + chosen)
        self._compared[at] = len(self._chosen)
        similarity = self._nearest[at][0]
        return _core.shaping.mmr_value(self._weight, self._relevance[at], similarity)

    def _cosine(self, one: int, other: int) -> float:
        if self._column is None:
            return 0.0
        rows = [
            (int(self._pool.arrays["segment"][at]), int(self._pool.arrays["row"][at]))
            for at in (self._begin + one, self._begin + other)
        ]
        return _core.shaping.row_cosine(self._piece.execution, self._column, self._query, *rows)
