"""Native shaping stages, which run on the fused lists of a batch."""

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from hyrecall._core import AttributeColumn, BatchRequest, Execution

_Floats = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]
_Selected = tuple[_Ints, _Ints]

class FusedLists:
    """The candidates of a batch: query q has the entries [offsets[q], offsets[q + 1])."""

    def __init__(
        self,
        offsets: _Ints,
        scores: _Floats,
        segment: npt.NDArray[np.uint32],
        row: npt.NDArray[np.uint32],
    ) -> None: ...

class _Deduped(TypedDict):
    kept: _Selected
    duplicates: _Ints
    kept_for: _Ints

class _Diversified(TypedDict):
    chosen: _Selected
    value: _Floats
    relevance: _Floats
    similarity: _Floats
    nearest: _Ints

def order(lists: FusedLists, ties: Sequence[_Ints], threads: int) -> _Selected:
    """Return (offsets, entries) ordered by (score desc, ties asc, place asc)."""

def dedup(
    lists: FusedLists,
    execution: Execution,
    column: int,
    threshold: float,
    unit: bool,
    preference: _Ints,
) -> _Deduped: ...
def diversify(
    lists: FusedLists,
    execution: Execution,
    column: int | None,
    relevance_weight: float,
    relevance: str,
    n_wanted: int,
    tokens: _Ints,
    budgets: _Ints,
) -> _Diversified: ...

class LinearRules:
    """The features of a Linear, and their weights."""

    def __init__(
        self,
        terms: Sequence[tuple[int, int, int, int, float, AttributeColumn | None, float]],
        arms: Sequence[Sequence[int]],
    ) -> None:
        """terms: (kind, at, steps, tick, half-life, value, weight) each; arms: their columns."""

def weigh(
    rules: LinearRules,
    offsets: _Ints,
    scores: npt.NDArray[np.float32],
    ranks: npt.NDArray[np.int32],
    fused: _Floats,
    ties: _Ints,
    given: _Floats,
    columns: Sequence[AttributeColumn],
    stands: tuple[npt.NDArray[np.uint32], _Ints, _Ints] | None,
    now: int,
    threads: int,
) -> tuple[_Floats, _Floats]:
    """Return weight x feature of each entry, [n_entries, n_terms], and the sums."""

def sum_addends(addends: Sequence[float]) -> float:
    """Return the sum of an entry's products, the largest first."""

def age_seconds(time: _Ints, tick: int, now: int) -> _Floats: ...
def exp2(x: float) -> float:
    """Return 2^x for x <= 0."""

def recency_factors(
    age: _Floats | float, half_life: _Floats | float, exponent: float
) -> _Floats: ...
def composite_sums(
    recency_weight: _Floats | float,
    recency: _Floats | float,
    importance_weight: _Floats | float,
    importance: _Floats | float,
    relevance_weight: _Floats | float,
    relevance: _Floats | float,
) -> _Floats: ...
def composite_means(sum: _Floats | float, total_weight: float) -> _Floats: ...  # noqa: A002
def mmr_value(relevance_weight: float, relevance: float, similarity: float) -> float: ...
def row_cosine(
    execution: Execution,
    column: int,
    query: int,
    one: tuple[int, int],
    other: tuple[int, int],
) -> float:
    """Return the cosine of two rows (segment, row) that a query may see; 0 without a vector."""

def second_look(
    execution: Execution,
    offsets: npt.NDArray[np.int64],
    segment: npt.NDArray[np.uint32],
    row: npt.NDArray[np.uint32],
    *,
    dense: float,
    n_terms: int,
    lexical: float,
) -> tuple[
    list[tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8], npt.NDArray[np.uint8]]],
    list[tuple[npt.NDArray[np.int64], list[str], npt.NDArray[np.float64]]],
]:
    """What the best rows of each query add to it: by dense arm, by lexical arm."""

def asked_again(
    request: BatchRequest,
    vectors: Sequence[tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8]]],
    terms: Sequence[tuple[npt.NDArray[np.int64], Sequence[str], Sequence[float]]],
) -> BatchRequest:
    """The request with what second_look() added to its queries."""
