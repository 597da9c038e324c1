"""The arm of the documents that a call lists, as ``candidates=``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.arm.arm import ArmQueries, Batch, FoundDocs, SearchArm, from_entries, read_arm_name
from hyrecall.base.arguments import check_keywords
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.table.attributes import RowTypes, read_keys


@check_keywords
@dataclass(frozen=True)
class Listed(SearchArm):
    """An arm whose candidates the caller passes with each call, as ``candidates={name: ...}``.

    The value has one entry per query: a sequence of keys, best first, a mapping of keys to scores,
    or None. Without scores, the n-th key scores 1 / n. Keys that are missing or outside the query's
    scope are ignored; a key in several cells of the scope means all of its documents.

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

    _takes = "candidates"

    def _ask(self, facts: RowTypes, given: Sequence[object], n_queries: int) -> ListedKeys:
        keys: list[object] = []
        counts: list[int] = []
        scores: list[float] = []
        argument = f"candidates[{self.name!r}]"
        for at, one in enumerate(given):
            found, worth = _read_one(f"{argument}[{at}]", one)
            keys += found
            scores += worth
            counts.append(len(found))
        offsets: Any = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        read = read_keys(argument, keys, facts)
        return ListedKeys(offsets, keys=read, scores=np.array(scores, np.float32))

    def _search(self, batch: Batch, asked: ListedKeys) -> FoundDocs:
        counts = np.diff(asked.entries)
        query_of = np.repeat(np.arange(len(counts), dtype=np.uint32), counts)
        which, segment, row = batch.audience.locate(asked.keys, query_of)
        return from_entries(batch.n_queries, query_of[which], segment, row, asked.scores[which])


@dataclass(frozen=True, eq=False, kw_only=True)
class ListedKeys(ArmQueries):
    """Keys and scores that a call lists: query q has entries[q] to entries[q + 1] of them."""

    keys: pa.Array
    scores: npt.NDArray[np.float32]

    def part(self, begin: int, end: int) -> ListedKeys:
        """Return those of the queries [begin, end)."""
        offsets: Any = self.entries[begin : end + 1]
        own = slice(int(offsets[0]), int(offsets[-1]))
        return ListedKeys(offsets - offsets[0], keys=self.keys[own], scores=self.scores[own])


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
