"""Searches of the arms that need no text: what a call lists, and what is newest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.arms.listed import Listed, Newest
from hyrecall.errors import DTypeError, OptionError, ShapeError, error
from hyrecall.hits.trace import Notes
from hyrecall.recall.arms.batch import ArmQueries, Batch, FoundDocs, from_entries
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.segments import State

__all__ = [
    "ListedKeys",
    "newest_rows",
    "ordered_attribute",
    "read_keys",
    "read_listed",
    "read_newest",
    "search_listed",
    "search_newest",
]


def read_listed(arm: Listed, facts: IndexFacts, given: Sequence[object]) -> ListedKeys:
    """Check the keys and scores of each query."""
    keys: list[object] = []
    counts: list[int] = []
    scores: list[float] = []
    for at, one in enumerate(given):
        found, worth = _read_one(f"candidates[{arm.name!r}][{at}]", one)
        keys += found
        scores += worth
        counts.append(len(found))
    offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    read = read_keys(f"candidates[{arm.name!r}]", keys, facts)
    return ListedKeys(offsets, read, np.array(scores, np.float32))


def search_listed(batch: Batch, asked: ListedKeys) -> FoundDocs:
    """Find the keys of each query."""
    counts = np.diff(asked.offsets)
    query_of = np.repeat(np.arange(len(counts), dtype=np.uint32), counts)
    which, segment, row = batch.audience.locate(asked.keys, query_of)
    return from_entries(batch.n_queries, query_of[which], segment, row, asked.scores[which])


@dataclass(frozen=True, eq=False)
class ListedKeys:
    """Keys and scores that a call lists: query q has the entries offsets[q] to offsets[q + 1]."""

    offsets: npt.NDArray[np.int64]
    keys: pa.Array
    scores: npt.NDArray[np.float32]
    notes: Notes = field(default_factory=dict)

    def part(self, begin: int, end: int) -> ListedKeys:
        """Return those of the queries [begin, end)."""
        offsets = self.offsets[begin : end + 1]
        own = slice(int(offsets[0]), int(offsets[-1]))
        return ListedKeys(offsets - offsets[0], self.keys[own], self.scores[own])


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


def read_newest(arm: Newest, facts: IndexFacts) -> ArmQueries:
    """Check the column; the queries ask nothing more."""
    _newest_attribute(arm, facts)
    return ArmQueries(())


def search_newest(arm: Newest, batch: Batch) -> FoundDocs:
    """Find the newest documents of each query."""
    found = batch.audience.newest(
        _newest_attribute(arm, batch.facts), batch.depth, with_missing=False
    )
    return FoundDocs(*found)


def _newest_attribute(arm: Newest, facts: IndexFacts) -> int:
    return ordered_attribute(f"{arm.name}.column", arm.column, facts)


def newest_rows(
    facts: IndexFacts, state: State, request: _core.BatchRequest, column: str, n: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Return each query's n newest documents: offsets, segment, row."""
    # What fills a reply that found too little: documents without a value come last, by seq, so that
    # there are n wherever the query may see n.
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
