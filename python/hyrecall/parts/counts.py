"""The integers that BM25 counts for a request, of one index or summed over its shards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hyrecall import _core
from hyrecall.base.arguments import check_keywords
from hyrecall.errors import OptionError, ShapeError, error

_ARRAYS = ("numbers", "freq_ends", "freqs", "thread_ends", "thread_freqs")
N_NUMBERS = 6  # for each query in an arm; the last says why its text is not searched, or 0

Array = npt.NDArray[Any]


class Counts(NamedTuple):
    """The counts of one native request, for each lexical arm and each query in it."""

    queries: npt.NDArray[np.int64]
    arms: tuple[str, ...]
    arrays: Mapping[str, Array]

    @staticmethod
    def of(native: _core.Statistics, queries: npt.NDArray[np.int64], arms: Iterable[str]) -> Counts:
        """Make counts from those of the engine."""
        return Counts(queries, tuple(arms), native.arrays())

    def plus(self, other: Counts) -> Counts:
        """Return the sums of both counts, which must be of one request."""
        ends = ("freq_ends", "thread_ends")
        is_like = np.array_equal(self.queries, other.queries) and self.arms == other.arms
        if not is_like:
            raise error(ShapeError, "statistics", "those of one request", "others")
        reasons = np.maximum(self.refusals, other.refusals)
        own, others = (one.without(reasons > 0).arrays for one in (self, other))
        if not all(np.array_equal(own[name], others[name]) for name in ends):
            raise error(ShapeError, "statistics", "those of one request", "others")
        summed = {name: own[name] if name in ends else own[name] + others[name] for name in _ARRAYS}
        summed["numbers"].reshape(-1, N_NUMBERS)[:, -1] = reasons
        return Counts(self.queries, self.arms, summed)

    @property
    def refusals(self) -> Array:
        """Why the text of each query in each arm is not searched; 0: it is."""
        return self.arrays["numbers"].reshape(-1, N_NUMBERS)[:, -1]

    def reasons(self, queries: Array, arms: Sequence[str]) -> npt.NDArray[np.uint8]:
        """Return why texts are not searched, of these arms and queries; 0 where they are."""
        entries = self._entries(queries, arms)
        return np.ascontiguousarray(self.refusals[entries].astype(np.uint8))

    def without(self, refused: npt.NDArray[np.bool_]) -> Counts:
        """Return counts in which some entries have none."""
        if not refused.any():
            return self
        return self._replace(arrays=self._picked(np.arange(len(refused)), ~refused))

    def _entries(self, queries: Array, arms: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return where the counts of some queries in some arms are."""
        at = np.searchsorted(self.queries, queries)
        has_all = (at < len(self.queries)).all() and (self.queries[at] == queries).all()
        if not has_all or not set(arms) <= set(self.arms):
            raise error(ShapeError, "statistics", "those of all queries and arms", "fewer")
        own = np.array([self.arms.index(arm) for arm in arms], np.int64)
        return (own[:, None] * len(self.queries) + at[None, :]).reshape(-1)

    def native(
        self, queries: Array, arms: Sequence[str], asked: npt.NDArray[np.bool_] | None
    ) -> _core.Statistics:
        """Return the statistics of some queries and arms in the form that the engine takes."""
        # Queries that are not ``asked`` count as without a text.
        kept = None if asked is None else np.tile(asked, len(arms))
        made = self._picked(self._entries(queries, arms), kept)
        return _core.Statistics.from_arrays(made, len(arms), len(queries))

    def _picked(self, entries: Array, kept: npt.NDArray[np.bool_] | None) -> dict[str, Array]:
        """Return the arrays of some entries; those that are not kept have no counts."""
        if kept is None:
            kept = np.ones(len(entries), np.bool_)
        numbers = self.arrays["numbers"].reshape(-1, N_NUMBERS)[entries]
        made = {"numbers": np.where(kept[:, None], numbers, 0).reshape(-1)}
        for ends, values in (("freq_ends", "freqs"), ("thread_ends", "thread_freqs")):
            made[ends], made[values] = _rows(self.arrays[ends], self.arrays[values], entries, kept)
        return made


def _rows(ends: Array, values: Array, entries: Array, kept: Array) -> tuple[Array, Array]:
    """Return the values of some entries, concatenated; entries that are not kept have none."""
    begins = ends[:-1][entries]
    sizes = np.where(kept, np.diff(ends)[entries], 0)
    out = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    places = np.arange(out[-1]) - np.repeat(out[:-1], sizes) + np.repeat(begins, sizes)
    return out, np.ascontiguousarray(values[places])


@check_keywords
@dataclass(frozen=True, eq=False, repr=False)
class Statistics:
    """The integers that BM25 counts for a request: documents, lengths, document frequencies.

    :meth:`hyrecall.Index.statistics` returns those of one index, :meth:`sum` adds those of all
    shards. With the sums, scores equal those of a single index with all documents.

    Attributes
    ----------
    request : str
        The ``id`` of the request.
    index : str
        A hash of the schema, analyzers and types of the index; equal for shards of one index.
    versions : tuple of str
        The state of each shard that was counted, in the order of the sum.
    """

    request: str
    index: str
    versions: tuple[str, ...]
    sees_threads: npt.NDArray[np.bool_]
    runs: Mapping[str, Counts]

    @staticmethod
    def sum(parts: Sequence[Statistics]) -> Statistics:
        """Return the sum over the shards of an index.

        Parameters
        ----------
        parts : sequence of Statistics
            One for each shard, in any order.

        Raises
        ------
        OptionError
            No statistics, those of several requests, or of indexes with different schemas.
        """
        if not parts:
            raise error(OptionError, "parts", "the statistics of at least one shard", "none")
        first, *others = parts
        for one in others:
            check_alike(first, one)
            if set(one.runs) != set(first.runs):
                raise error(OptionError, "parts", "statistics of one request", "others")
        runs = dict(first.runs)
        sees = first.sees_threads
        for one in others:
            runs = {name: counts.plus(one.runs[name]) for name, counts in runs.items()}
            sees = _either(sees, one.sees_threads)
        versions = tuple(version for one in parts for version in one.versions)
        return Statistics(first.request, first.index, versions, sees, runs)

    def __repr__(self) -> str:
        return f"Statistics(of {len(self.versions)} shards)"


def check_alike(one: Any, other: Any) -> None:
    """Refuse statistics or parts that are not of one request and one index."""
    if one.request != other.request:
        raise error(OptionError, "parts", "those of one request", "those of several")
    if one.index != other.index:
        wish = "shards with the same schema, analyzers, BM25 constants, dimensions and types"
        raise error(OptionError, "parts", wish, "others")


def _either(one: Array, other: Array) -> Array:
    """Return the elementwise OR; an array of one entry stands for all queries."""
    both = np.broadcast_arrays(one, other)
    found = np.asarray(both[0] | both[1], np.bool_)
    return found[:1] if len(found) and (found == found[0]).all() else found
