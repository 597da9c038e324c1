"""How each shaping stage changed a hit's score, recomputed to the last bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
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
from hyrecall.hits.explain_text import Step
from hyrecall.hits.reply import Reply
from hyrecall.recall.fused_lists import by_value, scaled_relevance
from hyrecall.recall.linear import sum_addends
from hyrecall.recall.plan import Plan
from hyrecall.recall.reach import Reaches
from hyrecall.recall.session_signals import phase_of, session_signals, signal_sums, vector_arm
from hyrecall.segments.segments import State


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

    def value(self, place: ListEntry, column: str) -> pa.Array:
        """Return the value of a document in a row column."""
        return self.state.segments[place.segment].column(column).slice(place.row, 1)


def explain_stages(
    recalled: CallAndReply,
    at: int,
    place: ListEntry,
    fused: float,
    fused_of: Callable[[ListEntry], float],
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
    recalled: CallAndReply,
    earlier: tuple[Stage, ...],
    at: int,
    place: ListEntry,
    fused_of: Callable[[ListEntry], float],
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


def _donor(recalled: CallAndReply, at: int, place: ListEntry) -> ListEntry:
    """Return the document that held the place first, whose score it kept."""
    arrays = recalled.reply.arrays
    n_arms = len(recalled.reply.ran)
    ranks = arrays["place_arm_ranks"].reshape(-1, n_arms)[at]
    scores = arrays["place_arm_scores"].reshape(-1, n_arms)[at]
    return ListEntry(
        place.query,
        int(arrays["place_segment"][at]),
        int(arrays["place_row"][at]),
        tuple(int(rank) or None for rank in ranks),
        tuple(None if math.isinf(score) else float(score) for score in scores),
    )


def _alone(
    recalled: CallAndReply, stage: Stage, place: ListEntry, score: float, factors: dict[str, float]
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
    recalled: CallAndReply,
    stage: SessionSignals,
    at: int,
    place: ListEntry,
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
        reach=lambda graph: Reaches(plan.graphs, plan.scope).of(graph, query, query + 1),
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
    recalled: CallAndReply,
    stage: MMR,
    at: int,
    place: ListEntry,
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
