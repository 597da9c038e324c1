"""What fills a list that found too little: the newest documents of the query's scope."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hyrecall import _core
from hyrecall.recall.arms.listed import newest_rows
from hyrecall.recall.fused_lists import Array, order_codes
from hyrecall.recall.plan import Plan
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.segments import State, document_numbers, gather_column, seqs_of

if TYPE_CHECKING:
    from hyrecall.ask.recipe_parts import TieBreak
    from hyrecall.recall.fused_lists import FusedLists

__all__ = ["fill_lists", "newest_in_order"]


def fill_lists(
    pool: FusedLists,
    facts: IndexFacts,
    state: State,
    plan: Plan,
    request: _core.BatchRequest,
    first_query: int,
    blank: Array,
    selected: Array,
    before: FusedLists,
) -> FusedLists:
    """Add the newest documents to lists below offset + limit, behind all others."""
    # Lists whose rows are grouped become as long as the depth, whatever part of them is asked for.
    # Documents of one time come in the order of the recipe's tie-break.
    # A query that says nothing gets them with score 1, any other with 0: it was asked and
    # they do not
    # match, which their score in a text arm says too. ``from_fill`` tells them from hits. Queries
    # that are not ``selected`` get none, and nothing of the list ``before`` the stages comes back.
    fill = plan.fill
    assert fill is not None
    pool = pool.with_arrays(from_fill=np.zeros(len(pool), np.bool_))
    wanted = plan.offset + plan.limit if plan.grouping is None else plan.depth
    counts = np.diff(pool.offsets)
    may = blank | (counts == 0) | (fill.when == "always")
    assert plan.has_query is not None
    has_query = plan.has_query[first_query : first_query + len(counts)]
    if fill.when == "one_arm":
        _, firsts = np.unique(plan.bases, return_index=True)  # arms of several tables count once
        may |= has_query[:, firsts].sum(axis=1) == 1
    need = np.where(may & selected, np.maximum(wanted - counts, 0), 0)
    if not need.any():
        return pool
    # Among the newest so many there are enough that were in no list.
    most = wanted + int(np.diff(before.offsets).max(initial=0))
    offsets, segment, row = newest_in_order(facts, state, request, fill.column, most, plan)
    query = np.repeat(np.arange(len(counts)), np.diff(offsets))
    held = np.repeat(np.arange(len(counts)), counts)
    found = np.repeat(np.arange(len(counts)), np.diff(before.offsets))
    others = ~np.isin(
        document_numbers(state.segments, query, segment, row),
        document_numbers(state.segments, found, before.arrays["segment"], before.arrays["row"]),
    )
    query, segment, row = query[others], segment[others], row[others]
    starts = np.concatenate([[0], np.cumsum(np.bincount(query, minlength=len(counts)))])[:-1]
    kept = np.arange(len(query)) - starts[query] < need[query]
    query, segment, row = query[kept], segment[kept], row[kept]
    added = {name: _missing(array, len(query)) for name, array in pool.arrays.items()}
    added |= {"segment": segment, "row": row, "from_fill": np.ones(len(query), np.bool_)}
    added["score"] = np.where(blank[query], 1.0, 0.0)
    for arm in range(plan.n_lexical):
        columns = [part.lexical[plan.bases[arm]] for part in state.segments]
        has_text = _core.rows.has_text(columns, segment, row).view(np.bool_)
        scored = has_text & ~blank[query] & has_query[query, arm]
        if plan.tables is not None:
            values = gather_column(state.segments, segment, row, plan.tables.column)
            scored &= plan.in_table(arm, values)
        added["arm_scores"][:, arm] = np.where(scored, 0.0, added["arm_scores"][:, arm])
    joined = {name: np.concatenate([pool.arrays[name], added[name]]) for name in added}
    order = np.argsort(np.concatenate([held, query]), kind="stable")
    sizes = counts + np.bincount(query, minlength=len(counts))
    return type(pool)(
        np.concatenate([[0], np.cumsum(sizes)]), {n: array[order] for n, array in joined.items()}
    )


def newest_in_order(
    facts: IndexFacts, state: State, request: _core.BatchRequest, column: str, n: int, plan: Plan
) -> tuple[Array, Array, Array]:
    """Return each query's n newest documents, those of one time in the order of the tie-break."""
    # Queries with the same scope and filter have the same ones, which are found once.
    if not plan.tie_break or n == 0:
        return newest_rows(facts, state, request, column, n)
    groups = _core.arms.Audience(state.snapshot, request).group_of
    _, firsts, group_of = np.unique(groups, return_index=True, return_inverse=True)
    found = [
        _newest_of_one(facts, state, request.slice(query, query + 1), column, n, plan)
        for query in firsts.tolist()
    ]
    sizes = np.array([len(row) for _, row in found], np.int64)[group_of]
    segment = np.concatenate([found[group][0] for group in group_of])
    row = np.concatenate([found[group][1] for group in group_of])
    return np.concatenate([[0], np.cumsum(sizes)]), segment, row


def _newest_of_one(
    facts: IndexFacts, state: State, request: _core.BatchRequest, column: str, n: int, plan: Plan
) -> tuple[Array, Array]:
    """Return (segment, row) of the n newest documents of a request's only query."""
    # All documents that share the time of the last one are looked at, however many they are.
    import pyarrow.compute as pc

    most = n + 1
    while True:
        _, segment, row = newest_rows(facts, state, request, column, most)
        times = order_codes(gather_column(state.segments, segment, row, column), descending=True)
        # A list that is cut within documents of one time lacks some that may come before others.
        if len(times) < most or times[n - 1] != times[-1]:
            break
        most *= 64
    keys: list[tuple[pa.Array, str]] = [(pa.array(times), "ascending")]
    for tie in plan.tie_break:
        values = gather_column(state.segments, segment, row, tie.column)
        keys.append(_sort_key(values, tie))
    keys.append((pa.array(seqs_of(state.segments, segment, row)), "ascending"))
    table = pa.table([values for values, _ in keys], [str(at) for at in range(len(keys))])
    by = [(str(at), order) for at, (_, order) in enumerate(keys)]
    chosen = pc.select_k_unstable(table, k=n, sort_keys=by).to_numpy()
    return segment[chosen], row[chosen]


def _sort_key(values: pa.Array, tie: TieBreak) -> tuple[pa.Array, str]:
    """Return what a tie-break sorts by: numbers where Arrow would not sort the values so."""
    kind = values.type
    is_plain = pa.types.is_large_string(kind) or pa.types.is_integer(kind)
    if is_plain and not tie.prefer and not values.null_count:
        return values, "descending" if tie.descending else "ascending"
    codes = order_codes(values, descending=tie.descending, prefer=tie.prefer)
    return pa.array(codes), "ascending"


def _missing(like: Array, n: int) -> Array:
    """Return n entries of an array's kind that say nothing: minus infinity is a null arm score."""
    shape = (n, *like.shape[1:])
    if like.dtype == np.float32:
        return np.full(shape, -np.inf, np.float32)
    if like.dtype == np.float64:
        return np.full(shape, np.nan)
    return np.zeros(shape, like.dtype)
