"""The lists of a batch while stages work on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.errors import DTypeError, error

__all__ = [
    "Array",
    "Floats",
    "FusedLists",
    "Piece",
    "by_value",
    "is_value",
    "order_codes",
    "tie_ranks",
]

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
        """Return the number of entries."""
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
