"""Why a hit has its score: every term, rank and weight, recomputed to the last bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from hyrecall import _core
from hyrecall.hits.explain_text import (
    Component,
    Explanation,
    SharedTerm,
    Term,
    VectorPair,
    fusion_text,
)
from hyrecall.hits.fused_score import FusedScore, fuse
from hyrecall.hits.reply import QUERY_ARRAYS, Reply
from hyrecall.recall.plan import Plan
from hyrecall.recall.reach import Reaches
from hyrecall.recall.shaper import Shaper
from hyrecall.segments.segments import State
from hyrecall.stages.lists import FusedLists
from hyrecall.stages.stage import DONOR, Stage, Step


@dataclass(frozen=True)
class ListEntry:
    """A document in the arms' lists of a query."""

    query: int
    segment: int
    row: int
    ranks: tuple[int | None, ...]  # by arm that ran
    scores: tuple[float | None, ...]  # likewise; read of arms whose scores came with the request


class CallAndReply(NamedTuple):
    """The plan, the state and the reply of a call, for an explanation."""

    plan: Plan
    state: State
    reply: Reply

    def value(self, place: ListEntry, column: str) -> Any:
        """Return the value of a document in a row column."""
        return self.state.segments[place.segment].column(column).slice(place.row, 1)


def explain(recalled: CallAndReply, query: int, at: int) -> Explanation:
    """Recompute the score of a query's hit, which is the reply's number ``at``."""
    with _core.arithmetic.RoundToNearest():
        return _explain(recalled, query, at)


def _explain(recalled: CallAndReply, query: int, at: int) -> Explanation:
    plan, state, reply = recalled
    # The query alone, on the snapshot of the call: the same bits as in its batch.
    request = plan.request.slice(query, query + 1)
    execution = _core.Execution(state.snapshot, request)

    def fused(place: ListEntry) -> tuple[FusedScore, tuple[Component, ...]]:
        parts = {}
        for number in _arms_of(recalled, place):
            arm = plan.arms[number]
            if number < plan.n_lexical:
                scored = _lexical(recalled, place, number, execution)
            elif arm in plan.extra:  # its score came with the request
                scored = _given(recalled, place, number)
            else:
                scored = _dense(recalled, place, number, execution)
            parts[number] = {"arm": arm, "rank": place.ranks[number], **scored}
        made = fuse(reply, place.query, parts)
        return made, tuple(Component(**parts[one], **made.added[one]) for one in parts)

    arrays, degraded = reply.arrays, reply.trace.of_query(query).degraded
    if reply.is_fill(at):
        assert plan.fill is not None
        how = f"fill, by {plan.fill.column}"
        return Explanation(float(arrays["score"][at]), how, (), degraded=degraded)
    here = ListEntry(
        query,
        int(arrays["segment"][at]),
        int(arrays["row"][at]),
        tuple(reply.cached("rank", arm)[at] for arm in plan.arms),
        tuple(reply.cached("score", arm)[at] for arm in plan.arms),
    )
    made, components = fused(here)
    steps: tuple[Step, ...] = ()
    if plan.evidence is not None or plan.stages:
        steps = _steps(recalled, at, here, made.score, lambda one: fused(one)[0].score, execution)
    held = _holds(recalled, query, at)
    return Explanation(
        steps[-1].score if steps else made.score, fusion_text(plan.fusion), components, steps, held,
        joined=made.joined, best=made.best, fused=made.score, degraded=degraded,
    )  # fmt: skip


def _steps(
    recalled: CallAndReply,
    at: int,
    here: ListEntry,
    fused: float,
    fused_of: Callable[[ListEntry], float],
    execution: _core.Execution,
) -> tuple[Step, ...]:
    """Return a step per stage; ``fused_of`` is the fused score of any document of the query."""
    # ``execution`` is that of the query alone.
    plan, state, reply = recalled
    n_arms = len(reply.ran)
    arrays = {
        name: one[at : at + 1] for name, one in reply.arrays.items() if name not in QUERY_ARRAYS
    }
    for name in ("arm_scores", "arm_ranks"):
        arrays[name] = reply.arrays[name].reshape(-1, n_arms)[at : at + 1]
    hit = FusedLists(np.array([0, 1]), arrays)

    def donor_score(stage: Stage, hit: FusedLists) -> float:
        """Return the score of the document that held the place before a rerank."""
        of = {
            name.removeprefix(DONOR): one
            for name, one in hit.arrays.items()
            if name.startswith(DONOR)
        }
        ranks, scores = of["arm_ranks"].reshape(n_arms), of["arm_scores"].reshape(n_arms)
        donor = ListEntry(
            here.query,
            int(of["segment"][0]),
            int(of["row"][0]),
            tuple(int(rank) or None for rank in ranks),
            tuple(None if math.isinf(score) else float(score) for score in scores),
        )
        earlier = plan.stages[: plan.stages.index(stage)]
        steps = run(FusedLists(hit.offsets, of), fused_of(donor), earlier)
        return steps[-1].score if steps else fused_of(donor)

    def run(hit: FusedLists, score: float, stages: tuple[Stage, ...]) -> list[Step]:
        steps = []
        if plan.evidence is not None:
            steps.append(plan.evidence.explain(hit, score, call))
            score = steps[-1].score
        for stage in stages:
            score, factors = stage.explain(hit, score, call)
            steps.append(Step(stage.name, score, factors))
        return steps

    reaches = Reaches(plan.graphs, plan.scope)
    shaper = Shaper(reply.facts, state, plan, now=reply.now, reaches=reaches)
    call = replace(shaper.call(execution, here.query), donor_score=donor_score)
    return tuple(run(hit, fused, plan.stages))


def _holds(recalled: CallAndReply, query: int, at: int) -> dict[str, str]:
    """Return, by arm, what puts a hit ahead of others."""
    exact, arrays = recalled.plan.exact, recalled.reply.arrays
    if exact is None or not recalled.reply.is_exact(at):
        return {}
    return exact.held(query, int(arrays["segment"][at]), int(arrays["row"][at]))


def _arms_of(recalled: CallAndReply, place: ListEntry) -> list[int]:
    """Return the arms that may see a row: those of its table, and those without one."""
    plan = recalled.plan
    if plan.tables is None:
        return list(range(len(plan.arms)))
    values = recalled.value(place, plan.tables.column)
    return [at for at in range(len(plan.arms)) if plan.in_table(at, values)[0]]


def _given(recalled: CallAndReply, place: ListEntry, at: int) -> dict[str, Any]:
    arm, score = recalled.plan.arms[at], place.scores[at]
    found = None if score is None else recalled.plan.listed.get(arm)
    if found is None:
        return {"score": score, "evidence": None}
    evidence = found.evidence_of(place.query, place.segment, place.row)
    return {"score": score, "evidence": evidence}


def _lexical(
    recalled: CallAndReply, place: ListEntry, at: int, execution: _core.Execution
) -> dict[str, Any]:
    plan = recalled.plan
    segment, row, arm = place.segment, place.row, plan.bases[at]
    column = recalled.state.segments[segment].lexical[arm]
    doc_length = column.doc_length(row)
    leaves = execution.leaves(at, 0)
    if leaves is None or doc_length is None:
        return {"score": None}
    n_docs, total_length, squared_length, doc_freqs = execution.statistics().of(at, 0)
    freqs = execution.leaf_freqs(at, 0, segment, row)
    math = _core.arithmetic
    b = math.bm25_b(plan.bm25[arm].numbers, n_docs, total_length, squared_length)
    bm25 = replace(plan.bm25[arm], b=b)
    how = bm25.numbers
    mean = math.mean_doc_length(n_docs, total_length)
    norm = math.length_norm(how, doc_length, mean)
    terms = []
    score = 0.0
    for (label, multiplicity), doc_freq, freq in zip(leaves, doc_freqs, freqs, strict=True):
        if not multiplicity:  # of hr.Not: it scores nothing
            continue
        idf = math.idf(how[0], n_docs, doc_freq)
        weight = math.weight(how, idf, multiplicity)
        shift = math.shift(how, idf, multiplicity)
        impact = math.impact(how, weight, shift, float(freq), norm) if freq else 0.0
        if freq:
            score = math.add(score, impact)
        terms.append(Term(label, multiplicity, doc_freq, freq, idf, weight, impact))
    matches = execution.matches(at, 0, segment, row)
    excluded = execution.excludes(at, 0, segment, row)
    return {
        "score": score if matches else None if excluded else 0.0,
        "n_docs": n_docs,
        "total_length": total_length,
        "doc_length": doc_length,
        "bm25": bm25,
        "mean_doc_length": mean,
        "length_norm": norm,
        "matches": matches,
        "terms": tuple(terms),
    }


def _dense(
    recalled: CallAndReply, place: ListEntry, at: int, execution: _core.Execution
) -> dict[str, Any]:
    plan, row = recalled.plan, place.row
    column = recalled.state.segments[place.segment].dense[plan.bases[at]]
    if column.begins is not None:
        near = execution.vector_pairs(at - plan.n_lexical, 0, place.segment, row)
        pairs = tuple(VectorPair(*one) for one in near)
        return {"score": _core.arithmetic.max_sim([one.cosine for one in pairs]), "pairs": pairs}
    if column.dim == 0:
        met = execution.sparse_pairs(at - plan.n_lexical, 0, place.segment, row)
        shared = tuple(SharedTerm(str(term, "utf-8"), *weights) for term, *weights in met)
        weights = [one.query_weight for one in shared], [one.weight for one in shared]
        has_both = place.scores[at] is not None
        return {"score": _core.arithmetic.sparse(*weights) if has_both else None, "shared": shared}
    query = plan.request.query_vector(at - plan.n_lexical, place.query)[: column.dim]
    math = _core.arithmetic
    inverse_query_norm = math.inverse_norm(query) if len(query) else 0.0
    inverse_norm = float(column.inverse_norms[row])
    if inverse_norm == 0 or inverse_query_norm == 0:
        return {"score": None}
    kind = np.float32 if column.dtype == "float32" else np.uint16
    stored = column.row(row).view(kind).reshape(1, column.dim)
    dot = float(math.dots(query, stored, column.dtype)[0])
    return {
        "score": math.cosine(dot, inverse_norm, inverse_query_norm),
        "dot": dot,
        "inverse_norm": inverse_norm,
        "inverse_query_norm": inverse_query_norm,
    }
