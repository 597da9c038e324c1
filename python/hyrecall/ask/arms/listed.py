"""Arms that need no query text: what the caller names, and what is newest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.arms.batch import Asked, Batch, Candidates, from_entries, read_arm_name
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, OptionError, ShapeError, error

if TYPE_CHECKING:
    from hyrecall.segments.facts import IndexFacts
    from hyrecall.segments.segments import State

__all__ = ["AskedKeys", "Listed", "Newest", "newest_rows", "read_keys"]


@check_keywords
@dataclass(frozen=True)
class Listed:
    """An arm whose candidates the caller gives with each call, as ``candidates={name: ...}``.

    Per query a sequence of keys, best first; or a mapping of keys to scores; or None. Without
    scores, the key in place n is worth 1 / n. A key that the query may not see, or that is not
    there, vanishes without a word; a key in several cells of the scope stands for all of them.

    Parameters
    ----------
    name : str
        The arm's name.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import hyrecall as hr
    >>> table = pa.table({"id": ["a", "b", "c"], "text": ["tea", "milk", "tea"]})
    >>> index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"))
    >>> hints = {"hints": [["b", "nowhere", "a"]]}
    >>> index.recall(arms=hr.arms.Listed("hints"), candidates=hints)[0].keys
    ['b', 'a']
    """

    name: str

    def __post_init__(self) -> None:
        """Check the name."""
        read_arm_name(self.name)

    def read(self, facts: IndexFacts, given: Sequence[object]) -> AskedKeys:
        """Check the keys and scores of each query."""
        keys: list[object] = []
        counts: list[int] = []
        scores: list[float] = []
        for at, one in enumerate(given):
            found, worth = _read_one(f"candidates[{self.name!r}][{at}]", one)
            keys += found
            scores += worth
            counts.append(len(found))
        offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        read = read_keys(f"candidates[{self.name!r}]", keys, facts)
        return AskedKeys(offsets, read, np.array(scores, np.float32))

    def candidates(self, batch: Batch, asked: AskedKeys) -> Candidates:
        """Find the keys of each query."""
        counts = np.diff(asked.offsets)
        query_of = np.repeat(np.arange(len(counts), dtype=np.uint32), counts)
        which, segment, row = batch.audience.locate(asked.keys, query_of)
        return from_entries(batch.n_queries, query_of[which], segment, row, asked.scores[which])


@dataclass(frozen=True, eq=False)
class AskedKeys:
    """Keys and scores that a call lists: query q has the entries offsets[q] to offsets[q + 1]."""

    offsets: npt.NDArray[np.int64]
    keys: pa.Array
    scores: npt.NDArray[np.float32]
    notes: tuple[str, ...] = ()

    def part(self, begin: int, end: int) -> AskedKeys:
        """Return those of the queries [begin, end)."""
        offsets = self.offsets[begin : end + 1]
        own = slice(int(offsets[0]), int(offsets[-1]))
        return AskedKeys(offsets - offsets[0], self.keys[own], self.scores[own])


def _read_one(argument: str, given: object) -> tuple[list[object], list[float]]:
    if given is None:
        return [], []
    if isinstance(given, Mapping):
        return list(given), [_score(argument, score) for score in given.values()]
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        wish = "a sequence of keys, {key: score}, or None"
        raise error(DTypeError, argument, wish, f"{type(given).__name__} {given!r}")
    keys = list(given)
    return keys, [_core.arms.place_score(place) for place in range(1, len(keys) + 1)]


def _score(argument: str, score: Any) -> float:
    is_number = isinstance(score, int | float | np.number) and not isinstance(score, bool)
    if not is_number or not abs(score) <= float(np.finfo(np.float32).max):
        raise error(OptionError, argument, "scores that float32 holds", repr(score))
    return float(score)


def read_keys(argument: str, keys: Sequence[Any], facts: IndexFacts) -> pa.Array:
    """Take keys of the index's kind as one Arrow array."""
    kind = facts.row_types[facts.schema.key]
    is_text = pa.types.is_large_string(kind)
    plain = [key.item() if isinstance(key, np.generic) else key for key in keys]
    for at, key in enumerate(plain):
        if not isinstance(key, str if is_text else int) or isinstance(key, bool):
            wish = f"{'str' if is_text else 'int64'} keys"
            raise error(DTypeError, argument, wish, f"{type(key).__name__} {key!r} at {at}")
    try:
        return pa.array(plain, kind)
    except (OverflowError, pa.ArrowInvalid, UnicodeEncodeError) as fault:
        raise error(OptionError, argument, "keys that the index can hold", fault) from None


@check_keywords
@dataclass(frozen=True)
class Newest:
    """The documents with the largest value of an attribute: the newest by a time column.

    The score is 1 / place among the distinct values (equal values share a place, then the lower
    seq comes first). A document without a value is not in the arm.

    Parameters
    ----------
    column : str
        An attribute column of numbers, dates or times.
    name : str, default "newest"
        The arm's name.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import hyrecall as hr
    >>> table = pa.table({"id": ["a", "b", "c"], "text": ["x", "y", "z"], "at": [3, None, 8]})
    >>> schema = hr.Schema(key="id", cell=None, text="text", attributes="at")
    >>> hr.Index.build(table, schema).recall(arms=hr.arms.Newest("at"))[0].keys
    ['c', 'a']
    """

    column: str
    name: str = field(default="newest", kw_only=True)

    def __post_init__(self) -> None:
        """Check the name."""
        read_arm_name(self.name)

    def read(self, facts: IndexFacts) -> Asked:
        """Check the column; the queries ask nothing more."""
        self._attribute(facts)
        return Asked(())

    def candidates(self, batch: Batch) -> Candidates:
        """Find the newest documents of each query."""
        found = batch.audience.newest(self._attribute(batch.facts), batch.depth, with_missing=False)
        return Candidates(*found)

    def _attribute(self, facts: IndexFacts) -> int:
        return ordered_attribute(f"{self.name}.column", self.column, facts)


def newest_rows(
    facts: IndexFacts, state: State, request: _core.Request, column: str, n: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Return each query's n newest documents: offsets, segment, row.

    What fills a reply that found too little: documents without a value come last, by seq, so that
    there are n wherever the query may see n.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise error(ShapeError, "n", "an int >= 0", repr(n))
    attribute = ordered_attribute("column", column, facts)
    audience = _core.arms.Audience(state.snapshot, request)
    offsets, segment, row, _ = audience.newest(attribute, n, with_missing=True)
    return offsets, segment, row


def ordered_attribute(argument: str, column: str, facts: IndexFacts) -> int:
    """Return the number of an attribute column of numbers, dates or times."""
    known = list(facts.schema.attributes)
    if column not in known:
        raise error(OptionError, argument, f"an attribute column of {known}", repr(column))
    kind = facts.row_types[column]
    types = pa.types
    tests = (types.is_integer, types.is_floating, types.is_temporal)
    if not any(test(kind) for test in tests):
        raise error(DTypeError, argument, "a column of numbers, dates or times", kind)
    return known.index(column)
