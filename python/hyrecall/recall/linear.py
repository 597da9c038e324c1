"""Features of the hits of a batch, and their weighted sums: the stage Linear."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.shaping import Prior, Provenance
from hyrecall.ask.shaping.linear import Feature, Linear
from hyrecall.base.times import age_seconds
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.recall.arms import tag_attribute
from hyrecall.recall.fused_lists import is_value, order_codes
from hyrecall.segments.segments import gather_column, seqs_of

if TYPE_CHECKING:
    from hyrecall.recall.fused_lists import FusedLists
    from hyrecall.recall.plan import Plan
    from hyrecall.segments.segments import IndexFacts, State
    from hyrecall.table.schema import Schema


# ---- Features that other candidates of its query give a row: common tags, scores beside it ----

Floats = npt.NDArray[np.float64]

N_NAMESAKES = 3
"""Candidates whose tags are compared with those of each row."""


def best_namesake(pool: FusedLists, tags: pa.Array) -> Floats:
    """Return the best product of fused score and common tags with one of the best other rows."""
    owner, tag, n_tags = _tags(tags)
    n_own = np.bincount(owner, minlength=len(pool))
    fused, query = pool.arrays["fused_score"], pool.query
    place = np.empty(len(pool), np.int64)
    place[np.lexsort((pool.arrays["tie_rank"], -fused, query))] = pool.places
    best = np.zeros(len(pool))
    for at in range(N_NAMESAKES + 1):
        is_head = place == at
        # The last one is heard by the rows that are among the best themselves.
        hears = ~is_head & ((at < N_NAMESAKES) | (place < N_NAMESAKES))
        head = np.zeros(len(pool.offsets) - 1, np.int64)
        head[query[is_head]] = np.flatnonzero(is_head)
        of_heads = is_head[owner]
        known = query[owner[of_heads]] * n_tags + tag[of_heads]
        is_common = np.isin(query[owner] * n_tags + tag, known)
        common = np.bincount(owner, is_common, minlength=len(pool))
        heard = hears & (common > 0)
        other = head[query[heard]]
        either = n_own[heard] + n_own[other] - common[heard]
        best[heard] = np.maximum(best[heard], fused[other] * (common[heard] / either))
    return best


def _tags(column: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Return each pair of a row and its tag once, and how many tags there are."""
    import pyarrow.compute as pc

    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    rows = pc.list_parent_indices(column) if is_list else pa.array(np.arange(len(column)))
    flat = (pc.list_flatten(column) if is_list else column).dictionary_encode()
    n_tags = max(len(flat.dictionary), 1)
    is_tag = flat.is_valid()
    row = rows.filter(is_tag).to_numpy().astype(np.int64)
    tag = flat.indices.filter(is_tag).to_numpy().astype(np.int64)
    row, tag = np.divmod(np.unique(row * n_tags + tag), n_tags)
    return row, tag, n_tags


class Threads:
    """The candidates of each query by thread, each thread in its order."""

    def __init__(self, pool: FusedLists, schema: Schema, state: State) -> None:
        assert schema.thread is not None
        segment, row = pool.arrays["segment"], pool.arrays["row"]

        def column(name: str) -> pa.Array:
            return gather_column(state.segments, segment, row, name)

        encoded = [
            column(name).dictionary_encode(null_encoding="encode").indices.to_numpy()
            for name in (*schema.cell_columns, schema.thread)
        ]
        by = [seqs_of(state.segments, segment, row)]
        if schema.place is not None:
            by.append(order_codes(column(schema.place), descending=False))
        same = (pool.query, *encoded)
        self._order = np.lexsort((*by, *same))
        begins = np.zeros(len(pool), np.bool_)
        for codes in same:
            ordered = codes[self._order]
            begins[1:] |= ordered[1:] != ordered[:-1]
        self._thread = np.cumsum(begins)
        is_none = column(schema.thread).is_null().to_numpy(zero_copy_only=False)
        self._is_none = is_none[self._order]
        self._found: dict[int, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = {}

    def beside(self, values: Floats, steps: int) -> Floats:
        """Return the value of the candidate so many places behind each row; 0 if there is none."""
        rows, others = self._pairs(steps)
        out = np.zeros(len(values))
        out[rows] = values[others]
        return out

    def _pairs(self, steps: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the rows that have a candidate so many places behind them, and these."""
        if steps not in self._found:
            n = len(self._order)
            at = np.arange(max(0, -steps), max(0, min(n, n - steps)))
            at = at[(self._thread[at] == self._thread[at + steps]) & ~self._is_none[at]]
            self._found[steps] = self._order[at], self._order[at + steps]
        return self._found[steps]


# ---- Features of the hits of a batch, and their weighted sums: the stage Linear ----


def check_linear(facts: IndexFacts, plan: Plan, stage: Linear) -> None:
    """Check that an index and a plan have what the features read; before anything is computed."""
    has_prior = plan.evidence is not None and plan.evidence.prior is not None
    has_provenance = any(isinstance(one, Provenance) for one in plan.stages)
    for kind, is_there in ((Prior, has_prior), (Provenance, has_provenance)):
        told = kind.__name__.lower()
        if is_there and told not in stage.names:
            wish = f"a weight for {told!r} in Linear, which replaces the score"
            raise error(OptionError, kind.__name__, wish, "none")
        if told in stage.names and not is_there:
            argument = f"Linear.weights[{told!r}]"
            raise error(OptionError, argument, f"{kind.__name__} among the stages", "none")
    arms = (*facts.text_arms, *facts.vector_arms, *plan.extra)
    known = facts.schema.row_columns
    for name, feature in zip(stage.names, stage.features, strict=True):
        argument = f"Linear.weights[{name!r}]"
        if feature.kind in ("score", "rank", "beside") and feature.of not in (*arms, *plan.arms):
            raise error(OptionError, argument, f"an arm of {list(arms)}", repr(feature.of))
        if feature.kind == "beside" or (feature.kind == "evidence" and feature.of != "prior"):
            _check_evidence(argument, feature.of, facts, plan)
        if feature.kind in ("value", "age") and feature.of not in known:
            raise error(OptionError, argument, f"a column of {list(known)}", repr(feature.of))
        if feature.kind == "value":
            _value_of(argument, feature, facts.row_types[feature.of])
        if feature.kind == "shared":
            tag_attribute(argument, feature.of, facts)
        if feature.kind == "age":
            kind = facts.row_types[feature.of]
            if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
                got = f"{feature.of!r} of {kind}"
                raise error(DTypeError, argument, "a timestamp or date column", got)


def _check_evidence(argument: str, part: str, facts: IndexFacts, plan: Plan) -> None:
    if facts.schema.thread is None:  # Around of a recipe has no effect there
        raise error(OptionError, argument, "a schema with thread=", "one without")
    if plan.evidence is None or plan.evidence.around is None:
        raise error(OptionError, argument, "Around among the stages", "none")
    n_distances = plan.evidence.n_distances
    if part.startswith("neighbour_") and int(part[-1]) > n_distances:
        wish = f"one of the {n_distances} neighbours of Around"
        raise error(OptionError, argument, wish, repr(part))


def _value_of(argument: str, feature: Feature, kind: pa.DataType) -> pa.Scalar:
    """Return the value that a feature names, in its column's type."""
    try:
        return pa.scalar(feature.value).cast(kind)
    except (pa.ArrowException, UnicodeEncodeError):
        raise error(DTypeError, argument, f"a value of {kind}", repr(feature.value)) from None


def with_linear(
    stage: Linear,
    pool: FusedLists,
    plan: Plan,
    state: State,
    schema: Schema,
    now: datetime,
) -> FusedLists:
    """Return the lists with new scores and their addends, still in their order."""
    addends = _addends(stage, pool, plan, state, schema, now)
    return pool.with_arrays(linear_addends=addends, score=sum_addends(addends))


def _addends(
    stage: Linear,
    pool: FusedLists,
    plan: Plan,
    state: State,
    schema: Schema,
    now: datetime,
) -> Floats:
    """Return weight x feature of every entry: [n_entries, n_features]."""

    def column(name: str) -> pa.Array:
        return gather_column(state.segments, pool.arrays["segment"], pool.arrays["row"], name)

    @cache
    def score(arm: str) -> Floats:
        return _best(scaled, plan.places(arm))

    out = np.zeros((len(pool), len(stage.names)))
    scaled = _scaled_scores(pool)
    threads: Threads | None = None
    for at, (feature, (name, weight)) in enumerate(zip(stage.features, stage.weights, strict=True)):
        match feature.kind:
            case "fused":
                values = pool.arrays["fused_score"]
            case "agreement":
                values = _agreement(scaled, pool, plan)
            case "score":
                values = score(feature.of)
            case "beside":
                threads = threads or Threads(pool, schema, state)
                values = threads.beside(score(feature.of), feature.steps)
            case "rank":
                ranks = pool.arrays["arm_ranks"]
                inverse = np.where(ranks > 0, 1.0 / np.maximum(ranks, 1), 0.0)
                values = _best(inverse, plan.places(feature.of))
            case "evidence":
                values = np.nan_to_num(pool.arrays[_array_of(feature.of)], nan=0.0)
            case "provenance":
                values = pool.arrays["provenance_change"]
            case "shared":
                values = best_namesake(pool, column(feature.of))
            case "value":
                given = column(feature.of)
                wanted = _value_of(f"Linear.weights[{name!r}]", feature, given.type)
                values = is_value(given, wanted).astype(np.float64)
            case "age":
                age = age_seconds(column(feature.of), now)
                values = _core.shaping.recency_factors(age, feature.half_life, 1.0)
        out[:, at] = weight * values
    return out


def _array_of(part: str) -> str:
    """Return the array of a reply that has a part of Around."""
    if part.startswith("neighbour_"):
        return f"near_{int(part[-1]) - 1}_addend"
    return f"{part}_evidence"


def _best(values: Floats, places: list[int]) -> Floats:
    """Return the best of an arm's values; it has one for each table, or none if it did not run."""
    return values[:, places].max(axis=1) if places else np.zeros(len(values))


def _agreement(scaled: Floats, pool: FusedLists, plan: Plan) -> Floats:
    """Return the least of each row's scaled scores, over the arms that list a row of its query."""
    # Which arms ran for other queries of the batch, and in how many tables, makes no difference.
    least = np.full(len(pool), np.inf)
    query, known = pool.query, pool.arrays["arm_ranks"] > 0
    for arm in dict.fromkeys(plan.bases):
        places = plan.places(arm)
        heard = np.isin(query, query[known[:, places].any(axis=1)])
        least[heard] = np.minimum(least, _best(scaled, places))[heard]
    return np.where(np.isfinite(least), least, 0.0)


def _scaled_scores(pool: FusedLists) -> Floats:
    """Scale each arm's scores to [0, 1] over the candidates of a query; 0 where there is none."""
    # If all scores of a query are equal, they are 1. An arm that lists none of them has no scores.
    scores = pool.arrays["arm_scores"].astype(np.float64)
    counts = np.diff(pool.offsets)
    begins = pool.offsets[:-1][counts > 0]
    if not len(begins):
        return np.zeros_like(scores)
    lists = np.logical_or.reduceat(pool.arrays["arm_ranks"] > 0, begins)
    missing = ~(np.isfinite(scores) & np.repeat(lists, counts[counts > 0], axis=0))
    lows, highs = (
        np.repeat(f.reduceat(np.where(missing, empty, scores), begins), counts[counts > 0], axis=0)
        for f, empty in ((np.minimum, np.inf), (np.maximum, -np.inf))
    )
    spread = highs - lows
    flat = ~(spread > 0)  # equal scores, or none
    with np.errstate(invalid="ignore"):
        scaled = np.where(flat, 1.0, (scores - lows) / np.where(flat, 1.0, spread))
    return np.where(missing, 0.0, scaled)


def sum_addends(addends: Floats) -> Floats:
    """Add up the addends of each entry, the largest first."""
    total = np.zeros(len(addends))
    for column in -np.sort(-addends, axis=1).T:
        total = total + column
    return total + 0.0  # no -0
