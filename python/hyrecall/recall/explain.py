"""Why a hit has its score: every term, rank and weight, recomputed to the last bit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from hyrecall import _core
from hyrecall.ask.scoring import DBSF, RRF, Max
from hyrecall.hits.explain_text import fusion_text
from hyrecall.hits.explanation import Explanation
from hyrecall.hits.explanation_parts import Component, Scaling, Step, Term

if TYPE_CHECKING:
    from hyrecall.hits.hits import Hit, Hits

__all__ = ["Place", "contributions", "explain"]


@dataclass(frozen=True)
class Place:
    """A document of a query's lists."""

    query: int
    segment: int
    row: int
    ranks: tuple[int | None, ...]  # by arm that ran
    scores: tuple[float | None, ...]  # likewise; read of arms whose scores came with the request
    evidence: dict[str, Any] = field(default_factory=dict)


def explain(hits: Hits, hit: Hit) -> Explanation:
    """Recompute a hit's score."""
    with _core.arithmetic.RoundToNearest():
        return _explain(hits, hit)


def _explain(hits: Hits, hit: Hit) -> Explanation:
    plan, state = hits._plan, hits._state
    # The query alone, on the snapshot of the call: the same bits as in its batch.
    request = plan.request.slice(hit.query, hit.query + 1)
    execution = _core.Execution(state.snapshot, request)

    def fused(place: Place) -> tuple[_Joined, tuple[Component, ...]]:
        parts = {}
        for at in _arms_of(hits, place):
            arm = plan.arms[at]
            if at < plan.n_lexical:
                scored = _lexical(hits, place, at, execution)
            elif arm in plan.extra:  # its score came with the request
                scored = {"score": place.scores[at], "evidence": place.evidence.get(arm)}
            else:
                scored = _dense(hits, place, at)
            parts[at] = {"arm": arm, "rank": place.ranks[at], **scored}
        made = _fuse(hits, place.query, parts)
        return made, tuple(Component(**parts[at], **made.added[at]) for at in parts)

    arrays = hits._arrays
    if "from_fill" in arrays and arrays["from_fill"][hit._at]:
        assert plan.fill is not None
        return Explanation(hit.score, f"fill, by {plan.fill.column}", ())
    here = Place(
        hit.query,
        int(arrays["segment"][hit._at]),
        int(arrays["row"][hit._at]),
        tuple(hit.arm_rank(arm) for arm in plan.arms),
        tuple(hit.arm_score(arm) for arm in plan.arms),
        {arm: hit.evidence(arm) for arm in plan.arms if arm in plan.extra},
    )
    made, components = fused(here)
    score = made.score
    steps: tuple[Step, ...] = ()
    if plan.stages:
        from hyrecall.recall.explain_stages import explain_stages

        steps = explain_stages(
            hits, hit._at, here, score, lambda place: fused(place)[0].score, execution
        )
        score = steps[-1].score
    held = _holds(hits, hit.query, hit._at)
    return Explanation(
        score, fusion_text(plan.fusion), components, steps, held,
        joined=made.joined, best=made.best, fused=made.score,
    )  # fmt: skip


@dataclass(frozen=True)
class _Joined:
    """What the fusion made of a document: its score, and by the arm's place what it added."""

    score: float
    joined: float
    best: float | None
    added: dict[int, dict[str, Any]]


def _holds(hits: Hits, query: int, at: int) -> dict[str, str]:
    """Give, by arm, what puts a hit ahead of others."""
    exact, arrays = hits._plan.exact, hits._arrays
    if exact is None or "exact" not in arrays or not arrays["exact"][at]:
        return {}
    return exact.held(query, int(arrays["segment"][at]), int(arrays["row"][at]))


def contributions(hits: Hits, hit: Hit) -> list[float]:
    """Return what each arm adds to a hit's score, in the order of ``trace.arms``.

    With ``normalize`` in its unit, so that they still add up.
    """
    plan = hits._plan
    known = {
        at: {"score": hit.arm_score(arm), "rank": hit.arm_rank(arm)}
        for at, arm in enumerate(plan.arms)
    }
    added = _fuse(hits, hit.query, known).added
    best = float(_scales(hits, hit.query)[-1]) if plan.normalize else 1.0
    sums = dict.fromkeys(plan.bases, 0.0)  # a row lies in one table
    for at, base in enumerate(plan.bases):
        sums[base] += added[at]["contribution"] / best if best > 0 else 0.0
    return list(sums.values())


def _arms_of(hits: Hits, place: Place) -> list[int]:
    """Return the arms that may see a row: those of its table, and those without one."""
    plan = hits._plan
    if plan.tables is None:
        return list(range(len(plan.arms)))
    values = hits._state.segments[place.segment].column(plan.tables.column).slice(place.row, 1)
    return [at for at in range(len(plan.arms)) if plan.in_table(at, values)[0]]


def _lexical(hits: Hits, place: Place, at: int, execution: _core.Execution) -> dict[str, Any]:
    plan = hits._plan
    segment, row, arm = place.segment, place.row, plan.bases[at]
    column = hits._state.segments[segment].lexical[arm]
    doc_length = column.doc_length(row)
    leaves = execution.leaves(at, 0)
    if leaves is None or doc_length is None:
        return {"score": None}
    n_docs, total_length, doc_freqs = execution.statistics().of(at, 0)
    freqs = execution.leaf_freqs(at, 0, segment, row)
    how = plan.bm25[arm].numbers
    math = _core.arithmetic
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
        "bm25": plan.bm25[arm],
        "mean_doc_length": mean,
        "length_norm": norm,
        "matches": matches,
        "terms": tuple(terms),
    }


def _dense(hits: Hits, place: Place, at: int) -> dict[str, Any]:
    row = place.row
    column = hits._state.segments[place.segment].dense[hits._plan.bases[at]]
    query = hits._plan.request.query_vector(at - hits._plan.n_lexical, place.query)[: column.dim]
    math = _core.arithmetic
    inverse_query_norm = math.inverse_norm(query) if len(query) else 0.0
    inverse_norm = float(column.inverse_norms[row])
    if inverse_norm == 0 or inverse_query_norm == 0:
        return {"score": None}
    kind = np.float32 if column.dtype == "float32" else np.uint16
    stored = column.rows.view(kind).reshape(-1, column.dim)[row : row + 1]
    dot = float(math.dots(query, stored, column.dtype)[0])
    return {
        "score": math.cosine(dot, inverse_norm, inverse_query_norm),
        "dot": dot,
        "inverse_norm": inverse_norm,
        "inverse_query_norm": inverse_query_norm,
    }


def _fuse(hits: Hits, query: int, parts: dict[int, dict[str, Any]]) -> _Joined:
    """Join the components as csrc/engine/fusion does; the pool's scales came with the hits.

    ``parts`` are by the arm's place.
    """
    plan = hits._plan
    math = _core.arithmetic
    fusion = plan.fusion
    scales = _scales(hits, query)
    added: dict[int, dict[str, Any]] = {}
    present = []
    for at, part in parts.items():
        weight = float(scales[2 * len(plan.arms) + at])
        score, rank = part["score"], part["rank"]
        how: dict[str, Any] = {} if fusion is None else {"weight": weight}
        if fusion is None:
            value = score
        elif isinstance(fusion, RRF):
            how["rank_constant"] = fusion.rank_constant
            value = None if rank is None else math.rrf_term(weight, fusion.rank_constant, rank)
        elif score is None or (rank is None and not fusion.complete):
            value = None
        else:
            numbers = float(scales[2 * at]), float(scales[2 * at + 1])
            if isinstance(fusion, DBSF):
                how["scaling"] = Scaling("dbsf", *numbers, math.dbsf_scale(score, *numbers))
            else:
                scale = fusion.scale_of(plan.bases[at])
                how["scaling"] = Scaling(scale, *numbers, _scaled(scale, score, *numbers))
            value = weight * how["scaling"].scaled
        added[at] = {"contribution": 0.0 if value is None else value, **how}
        if value is not None:
            present.append(value)
    if isinstance(fusion, Max):
        total = max(present, default=0.0)
        total = total if len(present) == len(parts) else max(total, 0.0)
    else:
        total = 0.0
        for value in sorted(present, reverse=True):
            total += value
    total += 0.0
    if not plan.normalize:
        return _Joined(total, total, None, added)
    best = float(scales[-1])
    shown = min(max(total / best, 0.0), 1.0) if best > 0 else 0.0
    return _Joined(shown, total, best, added)


def _scaled(scale: str, score: float, low: float, high: float) -> float:
    """Scale a score as the fusion did."""
    math = _core.arithmetic
    if scale == "minmax":
        return math.minmax_scale(score, low, high)
    if scale == "best":
        return math.best_scale(score, high)
    one = {"clip": math.clip_scale, "unit": math.unit_scale}.get(scale)
    return score if one is None else one(score)


def _scales(hits: Hits, query: int) -> Any:
    return hits._arrays["scales"].reshape(len(hits), len(hits._plan.arms) * 3 + 1)[query]
