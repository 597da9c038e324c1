"""Why a hit has its score: every term, rank and weight, recomputed to the last bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.shaping import (
    MMR,
    Budget,
    Composite,
    Dedup,
    Gate,
    Linear,
    Provenance,
    Recency,
    Rerank,
    RerankBy,
    SessionSignals,
    Stage,
)
from hyrecall.ask.shaping.checks import read_duration
from hyrecall.base.times import age_seconds, importances
from hyrecall.hits.explain_text import Component, Explanation, Step, Term, fusion_text
from hyrecall.hits.fused_score import FusedScore, fuse
from hyrecall.hits.reply import Reply
from hyrecall.recall.evidence import Evidence
from hyrecall.recall.fused_lists import by_value, scaled_relevance
from hyrecall.recall.linear import sum_addends
from hyrecall.recall.plan import Plan
from hyrecall.recall.reach import Reaches
from hyrecall.recall.session_signals import phase_of, session_signals, signal_sums, vector_arm
from hyrecall.segments.segments import State

# ---- What each shaping stage made of a hit's score, recomputed to the last bit ----


@dataclass(frozen=True)
class Place:
    """A document of a query's lists."""

    query: int
    segment: int
    row: int
    ranks: tuple[int | None, ...]  # by arm that ran
    scores: tuple[float | None, ...]  # likewise; read of arms whose scores came with the request


class Recalled(NamedTuple):
    """A call and its reply, which are read again."""

    plan: Plan
    state: State
    reply: Reply

    def value(self, place: Place, column: str) -> pa.Array:
        """Return the value of a document in a row column."""
        return self.state.segments[place.segment].column(column).slice(place.row, 1)


def explain_stages(
    recalled: Recalled,
    at: int,
    place: Place,
    fused: float,
    fused_of: Callable[[Place], float],
    execution: _core.Execution,
) -> tuple[Step, ...]:
    """Return a step per stage; ``fused_of`` is the fused score of any document of the query."""
    # ``execution`` is that of the query alone.
    steps: list[Step] = []
    score = fused
    stages = recalled.plan.stages
    for number, stage in enumerate(stages):
        factors: dict[str, float] = {}
        match stage:
            case Rerank() | RerankBy():
                score = _donor_score(recalled, stages[:number], at, place, fused_of)
                given = float(recalled.reply.arrays["rerank_score"][at])
                if not math.isnan(given):
                    factors["rerank_score"] = given
            case Linear():
                addends = recalled.reply.arrays["linear_addends"][at]
                factors |= dict(zip(stage.names, addends.tolist(), strict=True))
                score = float(sum_addends(addends[None])[0])
            case MMR():
                score = _mmr(recalled, stage, at, place, score, factors, execution)
            case SessionSignals():
                score = _signals(recalled, stage, at, place, score, factors)
            case Dedup():
                factors["duplicates"] = float(recalled.reply.arrays["n_duplicates"][at])
            case Gate():
                factors["min_score"] = stage.min_score
            case Budget():
                if "token_estimate" in recalled.reply.arrays:
                    factors["tokens"] = float(recalled.reply.arrays["token_estimate"][at])
            case _:
                score = _alone(recalled, stage, place, score, factors)
        steps.append(Step(type(stage).__name__, score, factors))
    return tuple(steps)


def _donor_score(
    recalled: Recalled,
    earlier: tuple[Stage, ...],
    at: int,
    place: Place,
    fused_of: Callable[[Place], float],
) -> float:
    """Return the score of the document that held the place before the rerank."""
    donor = _donor(recalled, at, place)
    score = fused_of(donor)
    arrays = recalled.reply.arrays
    if (evidence := recalled.plan.evidence) is not None:
        score = evidence.step(arrays, at, score, prefix="place_")[0].score
    for stage in earlier:
        if isinstance(stage, Linear):
            score = float(sum_addends(arrays["place_linear_addends"][at][None])[0])
        else:
            score = _alone(recalled, stage, donor, score, {})
    return score


def _donor(recalled: Recalled, at: int, place: Place) -> Place:
    """Return the document that held the place first, whose score it kept."""
    arrays = recalled.reply.arrays
    n_arms = len(recalled.reply.ran)
    ranks = arrays["place_arm_ranks"].reshape(-1, n_arms)[at]
    scores = arrays["place_arm_scores"].reshape(-1, n_arms)[at]
    return Place(
        place.query,
        int(arrays["place_segment"][at]),
        int(arrays["place_row"][at]),
        tuple(int(rank) or None for rank in ranks),
        tuple(None if math.isinf(score) else float(score) for score in scores),
    )


def _alone(
    recalled: Recalled, stage: Stage, place: Place, score: float, factors: dict[str, float]
) -> float:
    """Score a document by a stage that looks at no other document."""
    native = _core.shaping
    if isinstance(stage, Provenance):
        values = recalled.value(place, stage.column)
        weight = float(by_value(values, stage.by_value, stage.default, stage.column)[0])
        factors["weight"] = weight
        return weight * score
    if isinstance(stage, Recency):
        age = age_seconds(recalled.value(place, stage.column), recalled.reply.now)
        half_life = read_duration("half_life", stage.half_life)
        if stage.by is not None:
            values = recalled.value(place, stage.by)
            half_life = float(by_value(values, stage.by_value, half_life, stage.by)[0])
        factor = float(native.recency_factors(age, half_life, stage.exponent)[0])
        factors |= {
            "age": float(age[0]), "half_life": half_life, "exponent": stage.exponent,
            "factor": factor,
        }  # fmt: skip
        return score * factor
    if isinstance(stage, Composite):
        age = age_seconds(recalled.value(place, stage.time), recalled.reply.now)
        half_life = read_duration("half_life", stage.half_life)
        recency = float(native.recency_factors(age, half_life, 1.0)[0])
        ratings = recalled.value(place, stage.rating)
        importance = float(importances(ratings, stage.default, stage.scale)[0])
        given: Any = native.composite_sums(
            stage.recency, recency, stage.importance, importance, stage.relevance, score
        )
        total = (stage.recency + stage.importance) + stage.relevance
        factors |= {
            "age": float(age[0]), "half_life": half_life, "recency": recency,
            "importance": importance, "relevance": score, "recency_weight": stage.recency,
            "importance_weight": stage.importance, "relevance_weight": stage.relevance,
            "raw": float(given),
        }  # fmt: skip
        return float(native.composite_means(given, total))
    return score


def _signals(
    recalled: Recalled,
    stage: SessionSignals,
    at: int,
    place: Place,
    score: float,
    factors: dict[str, float],
) -> float:
    plan = recalled.plan
    best = float(recalled.reply.arrays["general_best"][at])
    general = score / best if best > 0 else 0.0
    key = recalled.value(place, recalled.reply.facts.schema.key)
    query = place.query
    own = plan.sessions[query : query + 1]
    topical, session = session_signals(
        stage, recalled.reply.facts, own, np.array([0, 1]), key,
        reach=lambda graph, *near: Reaches(plan.graphs, plan.scope).of(
            graph, query, query + 1, *near
        ),
        now=recalled.reply.now,
    )  # fmt: skip
    phase = phase_of(stage, own[0])
    signals = (np.array([general]), topical, session)
    factors |= {
        "general": general, "topical": float(topical[0]), "session": float(session[0]),
        "general_weight": phase.general, "topical_weight": phase.topical,
        "session_weight": phase.session, "best": best,
    }  # fmt: skip
    return float(signal_sums([phase], [1], signals)[0])


def _mmr(
    recalled: Recalled,
    stage: MMR,
    at: int,
    place: Place,
    score: float,
    factors: dict[str, float],
    execution: _core.Execution,
) -> float:
    arrays = recalled.reply.arrays
    high, low = float(arrays["mmr_high"][at]), float(arrays["mmr_low"][at])
    relevance = scaled_relevance(stage.relevance, score, high, low)
    similarity = 0.0
    if arrays["mmr_has_nearest"][at]:
        column = recalled.reply.facts.vector_arms.index(vector_arm(recalled.reply.facts, stage))
        nearest = int(arrays["mmr_nearest_segment"][at]), int(arrays["mmr_nearest_row"][at])
        similarity = _core.shaping.row_cosine(
            execution, column, 0, nearest, (place.segment, place.row)
        )
    factors |= {"relevance_weight": stage.relevance_weight, "relevance": relevance}
    factors |= {} if stage.relevance == "raw" else {"high": high}
    factors |= {"low": low} if stage.relevance == "minmax" else {}
    factors["similarity"] = similarity
    return _core.shaping.mmr_value(stage.relevance_weight, relevance, similarity)


# ---- Why a hit has its score: every term, rank and weight, recomputed to the last bit ----


def explain(recalled: Recalled, query: int, at: int) -> Explanation:
    """Recompute the score of a query's hit, which is the reply's number ``at``."""
    with _core.arithmetic.RoundToNearest():
        return _explain(recalled, query, at)


def _explain(recalled: Recalled, query: int, at: int) -> Explanation:
    plan, state, reply = recalled
    # The query alone, on the snapshot of the call: the same bits as in its batch.
    request = plan.request.slice(query, query + 1)
    execution = _core.Execution(state.snapshot, request)

    def fused(place: Place) -> tuple[FusedScore, tuple[Component, ...]]:
        parts = {}
        for number in _arms_of(recalled, place):
            arm = plan.arms[number]
            if number < plan.n_lexical:
                scored = _lexical(recalled, place, number, execution)
            elif arm in plan.extra:  # its score came with the request
                scored = _given(recalled, place, number)
            else:
                scored = _dense(recalled, place, number)
            parts[number] = {"arm": arm, "rank": place.ranks[number], **scored}
        made = fuse(reply, place.query, parts)
        return made, tuple(Component(**parts[one], **made.added[one]) for one in parts)

    arrays, degraded = reply.arrays, reply.trace.of_query(query).degraded
    if reply.is_fill(at):
        assert plan.fill is not None
        how = f"fill, by {plan.fill.column}"
        return Explanation(float(arrays["score"][at]), how, (), degraded=degraded)
    here = Place(
        query,
        int(arrays["segment"][at]),
        int(arrays["row"][at]),
        tuple(reply.cached("rank", arm)[at] for arm in plan.arms),
        tuple(reply.cached("score", arm)[at] for arm in plan.arms),
    )
    made, components = fused(here)
    score = made.score
    steps: tuple[Step, ...] = ()
    if plan.evidence is not None:
        steps = (_evidence(recalled, plan.evidence, at, score),)
        score = steps[-1].score
    if plan.stages:
        steps += explain_stages(
            recalled, at, here, score, lambda place: fused(place)[0].score, execution
        )
        score = steps[-1].score
    held = _holds(recalled, query, at)
    return Explanation(
        score, fusion_text(plan.fusion), components, steps, held,
        joined=made.joined, best=made.best, fused=made.score, degraded=degraded,
    )  # fmt: skip


def _evidence(recalled: Recalled, evidence: Evidence, at: int, fused: float) -> Step:
    """Add what the rows around a hit and its prior say, and name the rows."""
    step, places = evidence.step(recalled.reply.arrays, at, fused)
    key = recalled.reply.facts.schema.key
    keys = {
        name: recalled.state.segments[segment].column(key)[row].as_py()
        for name, (segment, row) in places.items()
    }
    return replace(step, keys=keys)


def _holds(recalled: Recalled, query: int, at: int) -> dict[str, str]:
    """Return, by arm, what puts a hit ahead of others."""
    exact, arrays = recalled.plan.exact, recalled.reply.arrays
    if exact is None or not recalled.reply.is_exact(at):
        return {}
    return exact.held(query, int(arrays["segment"][at]), int(arrays["row"][at]))


def _arms_of(recalled: Recalled, place: Place) -> list[int]:
    """Return the arms that may see a row: those of its table, and those without one."""
    plan = recalled.plan
    if plan.tables is None:
        return list(range(len(plan.arms)))
    values = recalled.value(place, plan.tables.column)
    return [at for at in range(len(plan.arms)) if plan.in_table(at, values)[0]]


def _given(recalled: Recalled, place: Place, at: int) -> dict[str, Any]:
    arm, score = recalled.plan.arms[at], place.scores[at]
    found = None if score is None else recalled.plan.listed.get(arm)
    if found is None:
        return {"score": score, "evidence": None}
    evidence = found.evidence_of(place.query, place.segment, place.row)
    return {"score": score, "evidence": evidence}


def _lexical(
    recalled: Recalled, place: Place, at: int, execution: _core.Execution
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
        idf = math.idf(how[0], n_docs, doc_freq)
        weight = math.weight(how, idf, multiplicity)
        shift = math.shift(how, idf, multiplicity)
        impact = math.impact(how, weight, shift, float(freq), norm) if freq else 0.0
        if freq:
            score = math.add(score, impact)
        terms.append(Term(label, multiplicity, doc_freq, freq, idf, weight, impact))
    matches = execution.matches(at, 0, segment, row)
    return {
        "score": score if matches else 0.0,
        "n_docs": n_docs,
        "total_length": total_length,
        "doc_length": doc_length,
        "bm25": bm25,
        "mean_doc_length": mean,
        "length_norm": norm,
        "matches": matches,
        "terms": tuple(terms),
    }


def _dense(recalled: Recalled, place: Place, at: int) -> dict[str, Any]:
    plan, row = recalled.plan, place.row
    column = recalled.state.segments[place.segment].dense[plan.bases[at]]
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
