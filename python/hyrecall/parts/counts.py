"""The integers that BM25 counts for a request, of one index or summed over its shards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hyrecall import _core
from hyrecall.base.arguments import check_keywords, set_fields
from hyrecall.errors import OptionError, ShapeError, error
from hyrecall.parts.frames import pack, reading, unpack

# ---- Checks arrays that came from another process, before their sizes are used for allocations

Kinds = Mapping[str, Any]
"""The dtype of each array, by its name."""


def check_arrays(argument: str, arrays: Mapping[str, Any], kinds: Kinds) -> None:
    """Refuse missing arrays and wrong dtypes or dimensions; further arrays are allowed."""
    for name, kind in kinds.items():
        array = arrays.get(name)
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype != kind:
            got = "none" if array is None else str(getattr(array, "dtype", type(array).__name__))
            raise error(OptionError, argument, f"{name} of {np.dtype(kind)}", got)


def are_ends(ends: np.ndarray, n_lists: int, n_entries: int) -> bool:
    """Whether an array has valid end offsets of ``n_lists`` lists in ``n_entries`` entries."""
    if n_lists < 0 or len(ends) != n_lists + 1 or ends[0] != 0 or ends[-1] != n_entries:
        return False
    return bool((ends[1:] >= ends[:-1]).all())


# ---- The integers that BM25 counts for a request, of one index or summed over its shards ----

KIND = "hyrecall statistics"

_COUNTS = ("numbers", "freqs", "thread_freqs")
MOST_COUNT = 2**62
_ARRAYS = ("numbers", "freq_ends", "freqs", "thread_ends", "thread_freqs")
_KINDS = dict.fromkeys((*_ARRAYS, "queries"), np.int64)
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

    def check(self) -> None:
        """Refuse arrays that do not fit together; they may come from another process."""
        queries, arrays = self.queries, self.arrays
        check_arrays("statistics", {**arrays, "queries": queries}, _KINDS)
        n = len(queries) * len(self.arms)
        fits = len(arrays["numbers"]) == n * N_NUMBERS and self.refusals.max(initial=0) <= 3
        fits &= bool((np.diff(queries) > 0).all())
        fits &= are_ends(arrays["freq_ends"], n, len(arrays["freqs"]))
        fits &= are_ends(arrays["thread_ends"], n, len(arrays["thread_freqs"]))
        if not fits or len(set(self.arms)) < len(self.arms):
            raise error(OptionError, "statistics", "arrays that fit each other", "others")
        for name in _COUNTS:
            if not ((arrays[name] >= 0) & (arrays[name] < MOST_COUNT)).all():
                raise error(OptionError, "statistics", f"{name} in [0, 2^62)", "others")

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
        both = Counts(self.queries, self.arms, summed)
        both.check()  # of counts below 2^62, no sum has wrapped
        return both

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

    def picked(self, queries: Array, arms: Sequence[str]) -> dict[str, Array]:
        """Return the arrays of some queries in some arms."""
        return self._picked(self._entries(queries, arms), None)

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
    _bytes: bytes | None = field(init=False, default=None)  # made once for all shards

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

    def to_bytes(self) -> bytes:
        """Return the statistics as bytes for another process: Arrow and JSON, with a checksum."""
        if self._bytes is None:
            set_fields(self, _bytes=self._packed())
        assert self._bytes is not None
        return self._bytes

    def _packed(self) -> bytes:
        arrays: dict[str, Array] = {"sees_threads": self.sees_threads.view(np.uint8)}
        runs = []
        for at, (name, counts) in enumerate(self.runs.items()):
            runs.append([name, list(counts.arms)])
            arrays[f"{at}.queries"] = counts.queries
            arrays |= {f"{at}.{part}": counts.arrays[part] for part in _ARRAYS}
        versions = list(self.versions)
        header = {
            "request": self.request, "index": self.index, "versions": versions, "runs": runs,
        }  # fmt: skip
        return pack(KIND, header, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> Statistics:
        """Make statistics from the bytes of :meth:`to_bytes`.

        Raises
        ------
        OptionError
            The bytes are not statistics, of another version, or damaged.
        DTypeError
            Not bytes.
        """
        header, arrays = unpack(KIND, data)
        with reading("the bytes of statistics"):
            runs = {}
            for at, (name, arms) in enumerate(header["runs"]):
                own = {part: arrays[f"{at}.{part}"] for part in _ARRAYS}
                counts = Counts(arrays[f"{at}.queries"], tuple(map(str, arms)), own)
                counts.check()
                runs[str(name)] = counts
            check_arrays("data", arrays, {"sees_threads": np.uint8})
            if (arrays["sees_threads"] > 1).any() or not len(arrays["sees_threads"]):
                raise ValueError("not bools")
            return cls(
                str(header["request"]), str(header["index"]), tuple(map(str, header["versions"])),
                arrays["sees_threads"].view(np.bool_), runs,
            )  # fmt: skip

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
