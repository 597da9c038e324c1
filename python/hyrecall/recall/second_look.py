"""Searches twice where a stage acts on queries: the first search, and the plan of the second."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hyrecall import _core
from hyrecall.hits.reply import only_queries
from hyrecall.segments.segments import gather_column
from hyrecall.stages.feedback import Feedback, SecondLook, asked_again, look, without_effect

if TYPE_CHECKING:
    from hyrecall.recall.arms import FoundDocs
    from hyrecall.recall.plan import Plan
    from hyrecall.segments.segments import IndexFacts, State


class SecondSearch(NamedTuple):
    """The plan of the second search of a batch, and what the first one found."""

    plan: Plan
    found: Mapping[int, dict[str, FoundDocs]]
    looks: Mapping[int, SecondLook]
    seconds: float | None


def look_twice(
    facts: IndexFacts,
    state: State,
    plan: Plan,
    feedback: Feedback,
    parts: Sequence[tuple[int, int]],
) -> SecondSearch:
    """Search with each part [begin, end) of a batch; put what the best rows add to its queries."""
    began = time.perf_counter()
    bases = plan.bases[plan.n_lexical :]
    dense = [arm for arm in bases if arm not in plan.extra]
    told = list(without_effect(feedback, plan.n_lexical, len(dense)))
    plan = plan._replace(notes={**plan.notes, **dict.fromkeys(told)})
    if len(told) == (feedback.dense > 0) + (feedback.terms > 0):
        return SecondSearch(plan, {}, {}, None)
    found: dict[int, dict[str, FoundDocs]] = {}
    looks = []
    for begin, end in parts:
        request = plan.request.slice(begin, end, feedback.rows)
        found[begin] = plan.complete(request, begin, is_first=True)
        execution = _core.Execution(state.snapshot, request)
        arrays, _ = execution.hits(execution.statistics())
        if plan.blank_queries:
            is_blank = np.isin(np.arange(begin, begin + request.n_queries), plan.blank_queries)
            arrays = only_queries(arrays, ~is_blank)
        rows = arrays["segment"], arrays["row"]
        keys = gather_column(state.segments, *rows, facts.schema.key)
        looks.append(look(feedback, execution, arrays, keys))
    again, added = asked_again(plan.request, looks, plan.arms, plan.arms[plan.n_lexical :])
    return SecondSearch(plan._replace(request=again), found, added, time.perf_counter() - began)
