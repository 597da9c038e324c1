"""What a shard is told with a request: answers that the caller found outside of the shard.

Some arms read more than the documents of one shard, such as the edges of a graph. The caller of the
shards finds these answers once, and each shard gets those of its own queries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.ask.recipe_data import to_data
from hyrecall.errors import OptionError, error
from hyrecall.parts.checks import are_ends, check_arrays
from hyrecall.parts.frames import pack_table, unpack_table

__all__ = ["Told", "ToldLists", "pack_told", "question_of", "told_to", "unpack_told"]


@dataclass(frozen=True, eq=False)
class ToldLists:
    """A list of rows for each query; queries that ask the same may share one."""

    offsets: npt.NDArray[np.int64]
    rows: pa.Table
    number: npt.NDArray[np.int64]

    @staticmethod
    def of(n_queries: int, query: npt.NDArray[Any], rows: pa.Table) -> ToldLists:
        """Make lists of rows that are ordered by ``query``, one for each query."""
        offsets = np.searchsorted(query, np.arange(n_queries + 1)).astype(np.int64)
        return ToldLists(offsets, rows, np.arange(n_queries, dtype=np.int64))

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return len(self.number)

    @property
    def own_sizes(self) -> npt.NDArray[np.int64]:
        """The number of rows of each query, which share no list: rows are ordered by query."""
        sizes = np.diff(self.offsets)
        if not np.array_equal(self.number, np.arange(len(sizes))):
            raise error(OptionError, "request", "a list of answers for each query", "shared ones")
        return sizes

    @property
    def query(self) -> npt.NDArray[np.int64]:
        """The query of each row; raises as :attr:`own_sizes`."""
        return np.repeat(np.arange(self.n_queries), self.own_sizes)

    def list_of(self, query: int) -> pa.Table:
        """Return the rows of one query."""
        at = int(self.number[query])
        begin, end = int(self.offsets[at]), int(self.offsets[at + 1])
        return self.rows.slice(begin, end - begin)

    def of_queries(self, queries: npt.NDArray[np.int64]) -> ToldLists:
        """Return the lists of some queries, in the order given, without rows of others."""
        _, first, number = np.unique(self.number[queries], return_index=True, return_inverse=True)
        order = np.argsort(first)  # a list's number is the place of its first query
        lists = self.number[queries][first[order]]
        sizes = np.diff(self.offsets)[lists]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        begins = self.offsets[:-1][lists]
        places = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - begins, sizes)
        rows = self.rows.take(pa.array(places)).combine_chunks()
        return ToldLists(offsets, rows, np.argsort(order)[number].astype(np.int64, copy=False))


Told: TypeAlias = Mapping[str, ToldLists]
"""The answers to each question of a request, by :func:`question_of`."""


def question_of(arm: object, *more: object) -> str:
    """Return the name of what an arm asks; arms with equal settings ask the same."""
    # The arm must be plain data: it has the name of a graph, not the graph.
    return json.dumps([to_data(arm), *more], sort_keys=True)


def told_to(told: Told | None, question: str, n_queries: int | None = None) -> ToldLists:
    """Return the answers to a question of a request."""
    found = None if told is None else told.get(question)
    if found is None:
        raise error(OptionError, "request", f"answers to {question}", "none")
    if n_queries not in (None, found.n_queries):
        wish = f"answers to {question} for {n_queries} queries"
        raise error(OptionError, "request", wish, f"those of {found.n_queries} queries")
    return found


def pack_told(told: Told) -> dict[str, npt.NDArray[Any] | bytes]:
    """Return the arrays of a packed request that have the answers, in the order of ``told``."""
    arrays: dict[str, npt.NDArray[Any] | bytes] = {}
    for at, lists in enumerate(told.values()):
        arrays[f"told.{at}.offsets"] = lists.offsets
        arrays[f"told.{at}.number"] = lists.number
        arrays[f"told.{at}.rows"] = pack_table(lists.rows)
    return arrays


def unpack_told(questions: Sequence[Any], arrays: Mapping[str, Any]) -> dict[str, ToldLists]:
    """Return the answers that :func:`pack_told` packed, checked."""
    named = [f"told.{at}.{one}" for at in range(len(questions)) for one in ("offsets", "number")]
    check_arrays("data", arrays, dict.fromkeys(named, np.int64))
    out = {}
    for at, question in enumerate(questions):
        offsets, rows = arrays[f"told.{at}.offsets"], unpack_table(arrays[f"told.{at}.rows"])
        if not len(offsets) or not are_ends(offsets, len(offsets) - 1, rows.num_rows):
            raise error(OptionError, "data", "offsets that fit their rows", "others")
        number = arrays[f"told.{at}.number"]
        if not ((number >= 0) & (number < len(offsets) - 1)).all():
            raise error(OptionError, "data", "numbers of lists", "others")
        out[str(question)] = ToldLists(offsets, rows, number)
    return out
