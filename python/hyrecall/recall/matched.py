"""The rows that queries match, whatever limits, floors and stages leave out."""

from __future__ import annotations

from hyrecall import _core
from hyrecall.recall.plan import Plan
from hyrecall.segments.segments import State


def matches(plan: Plan, state: State, begin: int, end: int) -> _core.Matches:
    """Find the rows that the queries [begin, end) of a plan match."""
    part = plan.request.slice(begin, end)
    if part.n_arms < len(plan.arms):  # the batch ran in parts, which have the other arms
        for arm, found in plan.listed.items():
            own = found.part(begin, end)
            part.add_listed(arm, own.offsets, own.segment, own.row, own.score, None)
    with state.reading():
        state.check_texts(part)
        return _core.Matches(state.snapshot, part)


def totals(plan: Plan, state: State, begin: int, end: int, most: int) -> list[int]:
    """Count the rows that the queries [begin, end) of a plan match, so many queries at a time."""
    counts: list[int] = []
    for first in range(begin, end, most):
        last = min(first + most, end)
        found = matches(plan, state, first, last).counts().tolist()
        counts += [n if is_asked(plan, first + at) else 0 for at, n in enumerate(found)]
    return counts


def is_asked(plan: Plan, query: int) -> bool:
    """Say whether a plan answers a query."""
    is_selected = plan.selected is None or bool(plan.selected[query])
    return is_selected and query not in plan.blank_queries
