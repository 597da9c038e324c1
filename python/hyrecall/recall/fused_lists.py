"""The lists of a batch while stages work on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.errors import DTypeError, error

if TYPE_CHECKING:
    from hyrecall.ask.shaping import MMR


Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FusedLists:
    """The lists of a batch back to back: query q has the entries offsets[q] to offsets[q + 1]."""

    # ``arrays`` holds an array per entry: segment, row, score, arm_scores, arm_ranks, and what the
    # stages found out.

    offsets: npt.NDArray[np.int64]
    arrays: dict[str, Array]

    def __len__(self) -> int:
        return len(self.arrays["row"])

    @property
    def score(self) -> Floats:
        """What the lists are ordered by."""
        return self.arrays["score"]

    @property
    def native(self) -> _core.shaping.FusedLists:
        """Return the pool as native stages take it."""
        a = self.arrays
        return _core.shaping.FusedLists(self.offsets, a["score"], a["segment"], a["row"])

    @property
    def query(self) -> npt.NDArray[np.int64]:
        """Each entry's query, from 0."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    @property
    def extremes(self) -> tuple[Floats, Floats]:
        """The highest and the lowest score of each entry's list."""
        begins = self.offsets[:-1][np.diff(self.offsets) > 0]
        counts = np.diff(self.offsets)[np.diff(self.offsets) > 0]
        high, low = (f.reduceat(self.score, begins) for f in (np.maximum, np.minimum))
        return np.repeat(high, counts), np.repeat(low, counts)

    @property
    def places(self) -> npt.NDArray[np.int64]:
        """Each entry's place in its list, from 0."""
        return np.arange(len(self)) - np.repeat(self.offsets[:-1], np.diff(self.offsets))

    def with_arrays(self, **arrays: Array) -> FusedLists:
        """Return the pool with arrays added or replaced."""
        return FusedLists(self.offsets, {**self.arrays, **arrays})

    def take(self, selected: tuple[Array, Array]) -> FusedLists:
        """Return the entries named by (offsets, entries), in that order."""
        offsets, entries = selected
        return FusedLists(
            offsets, {name: array.take(entries, axis=0) for name, array in self.arrays.items()}
        )

    def keep(self, mask: npt.NDArray[np.bool_]) -> FusedLists:
        """Return the entries of the mask, in their order."""
        kept = np.concatenate([[0], np.cumsum(mask)])
        return self.take((kept[self.offsets], np.flatnonzero(mask)))


@dataclass(frozen=True, eq=False)
class Piece:
    """Some of a call's queries: their execution, its request, and which query is the first."""

    execution: _core.Execution
    request: _core.BatchRequest
    first_query: int


NO_VALUE = (pa.ArrowException, OverflowError, TypeError, UnicodeEncodeError)


def by_value(
    values: pa.Array, pairs: Sequence[tuple[object, float]], default: float, column: str
) -> Floats:
    """Number the distinct values of a column, compared as the column's type."""
    out = np.full(len(values), default)
    for value, number in pairs:
        try:
            same = is_value(values, pa.scalar(value, values.type))
        except NO_VALUE as fault:
            wish = f"values of {values.type} as in {column!r}"
            raise error(DTypeError, "shaping", wish, repr(value)) from fault
        out[same] = number
    return out


def is_value(values: pa.Array, wanted: pa.Scalar) -> npt.NDArray[np.bool_]:
    """Say which values are equal to one of their type; null is equal to nothing."""
    import pyarrow.compute as pc

    if pa.types.is_float16(values.type):  # Arrow does not compare it
        values, wanted = values.cast(pa.float32()), wanted.cast(pa.float32())
    same = pc.equal(values, wanted).fill_null(False)
    return np.asarray(same.to_numpy(zero_copy_only=False))


def order_codes(
    values: pa.Array, *, descending: bool, prefer: Sequence[object] = ()
) -> npt.NDArray[np.int64]:
    """Number values by their order, equal ones alike; preferred ones come first, nulls last."""
    import pyarrow.compute as pc

    kind = values.type
    if pa.types.is_float16(kind):  # Arrow neither ranks nor finds it
        values = values.cast(pa.float32())
    if prefer:
        try:
            first = pa.array(list(prefer), kind).cast(values.type)
            place = pc.index_in(values, first)
        except NO_VALUE as fault:
            wish = f"values of {kind} to prefer, as in its column"
            raise error(DTypeError, "tie_break", wish, repr(prefer)) from fault
        return np.asarray(place.fill_null(len(prefer)).to_numpy(), np.int64)
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    order = "descending" if descending else "ascending"
    ranks = pc.rank(values, sort_keys=order, tiebreaker="min")
    return np.asarray(ranks.to_numpy(), np.int64)


def tie_ranks(codes: Sequence[Array], seqs: Array) -> npt.NDArray[np.int64]:
    """Number entries by (codes[0], codes[1], ..., seq): what decides between equal scores."""
    order = np.lexsort((seqs, *reversed(codes)))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


# ---- Rows that come before all others of a list, whatever their score: what stages do with them
# ``exact`` marks them in a pool; without it there are none.


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
