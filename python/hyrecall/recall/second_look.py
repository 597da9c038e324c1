"""The stage Feedback of a call: its first search, and the plan of the second."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.shaping import Feedback
from hyrecall.hits.around import AddedTerms, SecondLook, SecondLooks
from hyrecall.hits.reply import only_queries
from hyrecall.segments.segments import gather_column

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
    told = list(_without_effect(feedback, plan.n_lexical, len(dense)))
    plan = plan._replace(notes={**plan.notes, **dict.fromkeys(told)})
    if len(told) == (feedback.dense > 0) + (feedback.terms > 0):
        return SecondSearch(plan, {}, {}, None)
    found: dict[int, dict[str, FoundDocs]] = {}
    looks = []
    for begin, end in parts:
        request = plan.request.slice(begin, end, feedback.rows)
        found[begin] = plan.complete(request, begin, is_first=True)
        looks.append(_look(facts, state, plan, feedback, request, begin))
    vectors = [
        tuple(np.concatenate([one.vectors[at][part] for one in looks]) for part in range(3))
        for at in range(len(looks[0].vectors))
    ]
    terms = [_joined_terms([one.terms[at] for one in looks]) for at in range(len(looks[0].terms))]
    again = _core.shaping.asked_again(
        plan.request,
        [(values, present) for values, present, _ in vectors],
        [(one.offsets, one.terms, one.boosts.tolist()) for one in terms],
    )
    offsets = _joined_offsets([one.offsets for one in looks])
    named = zip(plan.arms[plan.n_lexical :], vectors, strict=False)
    made = SecondLooks(
        offsets,
        pa.concat_arrays([one.keys for one in looks]),
        {arm: moved.view(np.bool_) for arm, (_, _, moved) in named},
        dict(zip(plan.arms, terms, strict=False)),
    )
    return SecondSearch(plan._replace(request=again), found, made, time.perf_counter() - began)


class _Look(NamedTuple):
    """The terms and vectors that the first search of one part adds."""

    offsets: npt.NDArray[np.int64]
    keys: pa.Array
    vectors: list[tuple[npt.NDArray[Any], ...]]
    terms: list[tuple[npt.NDArray[np.int64], list[str], npt.NDArray[np.float64]]]


def _look(
    facts: IndexFacts,
    state: State,
    plan: Plan,
    feedback: Feedback,
    request: _core.BatchRequest,
    begin: int,
) -> _Look:
    """Search with one part; say what the best rows of each query add to it."""
    execution = _core.Execution(state.snapshot, request)
    arrays, _ = execution.hits(execution.statistics())
    if plan.blank_queries:
        is_blank = np.isin(np.arange(begin, begin + request.n_queries), plan.blank_queries)
        arrays = only_queries(arrays, ~is_blank)
    offsets, segment, row = arrays["offsets"], arrays["segment"], arrays["row"]
    vectors, terms = _core.shaping.second_look(
        execution, offsets, segment, row, dense=feedback.dense, n_terms=feedback.terms,
        lexical=feedback.lexical,
    )  # fmt: skip
    keys = gather_column(state.segments, segment, row, facts.schema.key)
    return _Look(offsets, keys, list(vectors), terms)


def _without_effect(feedback: Feedback, n_lexical: int, n_dense: int) -> Iterator[str]:
    """Say which parts of the stage have no effect."""
    if feedback.dense > 0 and not n_dense:
        yield "dense of Feedback: no effect, no vector arm runs"
    if feedback.terms > 0 and not n_lexical:
        yield "terms of Feedback: no effect, no text arm runs"


def _joined_offsets(parts: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """Return the offsets of parts that stand back to back."""
    return np.concatenate([[0], np.cumsum(np.concatenate([np.diff(one) for one in parts]))])


def _joined_terms(
    parts: Sequence[tuple[npt.NDArray[np.int64], list[str], npt.NDArray[np.float64]]],
) -> AddedTerms:
    """Put the terms of parts back to back."""
    return AddedTerms(
        _joined_offsets([offsets for offsets, _, _ in parts]),
        tuple(term for _, terms, _ in parts for term in terms),
        np.concatenate([boosts for _, _, boosts in parts]),
    )
