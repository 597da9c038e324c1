"""Cuts a batch into slices that fit into memory, and finds the queries that are refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from hyrecall.errors import DTypeError, HyrecallError, OptionError, ScopeError, ShapeError
from hyrecall.segments.facts import IndexFacts

__all__ = ["MAX_QUERIES", "answered", "renumber", "slice_size"]

T_ = TypeVar("T_")

MAX_QUERIES = 4096
"""Largest number of queries in a slice: enough to keep all threads busy."""

_ARM_BYTES = 256  # upper estimate for a document in an arm's list during a batch
_WORK_BYTES = 96 << 20  # for the arms' lists of a slice
_SHARED_BYTES = 256 << 20  # the same over several shards, where each slice costs extra
_OF_A_QUERY = (DTypeError, OptionError, ScopeError, ShapeError)  # errors caused by a query


def slice_size(
    facts: IndexFacts, options: Mapping[str, Any], n_shards: int, most: int = MAX_QUERIES
) -> int:
    """Return the number of queries whose lists fit into the memory of a slice."""
    recipe = options.get("recipe")
    held = max(options.get("depth", 100), options.get("offset", 0) + options.get("limit", 10))
    held, n_more = (held, 0) if recipe is None else (max(held, recipe.depth), len(recipe.more))
    lists = n_shards * held * _ARM_BYTES * (len(facts.arms) + n_more)
    work = _WORK_BYTES if n_shards == 1 else _SHARED_BYTES
    return max(1, min(most, int(work // (lists + 4 * sum(facts.dims.values())))))


def answered(
    answer: Callable[[int, int], T_], first: int, n_queries: int
) -> Iterator[T_ | tuple[int, HyrecallError]]:
    """Answer a slice at once; if it is refused, answer each half, down to single queries."""
    # A reply does not depend on the other queries of its slice, so splitting does not change it.
    try:
        made = answer(first, n_queries)
    except _OF_A_QUERY as fault:
        if not n_queries:
            raise
        if n_queries == 1:
            yield first, fault
            return
    else:
        yield made
        return
    half = n_queries // 2
    yield from answered(answer, first, half)
    yield from answered(answer, first + half, n_queries - half)


def renumber(fault: HyrecallError, query: int) -> HyrecallError:
    """Replace the query number 0 in an error by the number in the file; return the error."""
    text = re.sub(r"\bquery 0\b", f"query {query}", str(fault), count=1)
    fault.args = (re.sub(r"^(\w+)\[0\]", rf"\1[{query}]", text),)
    return fault
