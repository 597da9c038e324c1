"""The fused lists of a batch while stages work on them, and the values that order them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.base.arguments import check_keywords
from hyrecall.errors import DTypeError, error

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


@check_keywords
@dataclass(frozen=True, eq=False)
class FusedLists:
    """The lists of a batch back to back: query q has the entries offsets[q] to offsets[q + 1].

    Attributes
    ----------
    offsets : ndarray, shape (n_queries + 1,), int64
    arrays : dict of str to ndarray
        A value per entry: ``segment`` and ``row`` say which document it is, ``score`` is what the
        lists are ordered by, ``fused_score`` what it was before all stages, ``tie_rank`` decides
        between equal scores, ``arm_scores`` and ``arm_ranks`` have a column per arm that ran (minus
        infinity and 0: none). Stages add what they found out, under names of their own.

    Examples
    --------
    >>> import numpy as np
    >>> lists = FusedLists(np.array([0, 2, 3]), {"row": np.arange(3), "score": np.ones(3)})
    >>> lists.keep(np.array([True, False, True])).offsets.tolist()
    [0, 1, 2]
    """

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
        """Return the lists with arrays added or replaced.

        Parameters
        ----------
        **arrays : ndarray
            A value per entry.

        Returns
        -------
        FusedLists
        """
        return FusedLists(self.offsets, {**self.arrays, **arrays})

    def take(self, selected: tuple[Array, Array]) -> FusedLists:
        """Return some entries in a given order.

        Parameters
        ----------
        selected : tuple of ndarray
            The offsets of the new lists, and the numbers of their entries.

        Returns
        -------
        FusedLists
        """
        offsets, entries = selected
        return FusedLists(
            offsets, {name: array.take(entries, axis=0) for name, array in self.arrays.items()}
        )

    def keep(self, mask: npt.NDArray[np.bool_]) -> FusedLists:
        """Return the entries of a mask, in their order.

        Parameters
        ----------
        mask : ndarray of bool

        Returns
        -------
        FusedLists
        """
        kept = np.concatenate([[0], np.cumsum(mask)])
        return self.take((kept[self.offsets], np.flatnonzero(mask)))


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
