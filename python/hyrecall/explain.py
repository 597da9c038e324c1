"""Why a hit has its score: every term, rank and weight, recomputed to the last bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hyrecall import _core
from hyrecall.scoring import BM25, RRF, Max

if TYPE_CHECKING:
    from hyrecall.hits import Hit, Hits

__all__ = ["Component", "Explanation", "Term", "explain"]


@dataclass(frozen=True)
class Term:
    """What one leaf of a text query adds to a document.

    Attributes
    ----------
    term : str
        The term; a phrase in quotes, a prefix with ``*``.
    multiplicity : float
        Boost x occurrences in the query.
    doc_freq : int
        Documents of the scope that hold it.
    term_freq : int
        Occurrences in this document; 0: it adds nothing.
    idf, weight, impact : float
        impact = weight x term_freq / (term_freq + length_norm).
    """

    term: str
    multiplicity: float
    doc_freq: int
    term_freq: int
    idf: float
    weight: float
    impact: float


@dataclass(frozen=True)
class Component:
    """An arm's part in a hit.

    Attributes
    ----------
    arm : str
    score : float or None
        None: the document has no text or vector, or the query none.
    rank : int or None
        From 1; None: outside the arm's list.
    contribution : float
        What the fusion adds for it (before the arms are summed or compared).
    n_docs, total_length, doc_length : int or None
        Of a lexical arm: statistics of the scope, and the document's length.
    terms : tuple of Term
        Of a lexical arm, in the order in which they are summed.
    dot, inverse_norm, inverse_query_norm : float or None
        Of a dense arm: cosine = (dot x inverse_norm) x inverse_query_norm.
    evidence : object
        Of an arm of ``arms=``: see :meth:`hyrecall.Hit.evidence`.
    """

    arm: str
    score: float | None
    rank: int | None
    contribution: float
    n_docs: int | None = None
    total_length: int | None = None
    doc_length: int | None = None
    terms: tuple[Term, ...] = ()
    dot: float | None = None
    inverse_norm: float | None = None
    inverse_query_norm: float | None = None
    evidence: Any = None


@dataclass(frozen=True)
class Explanation:
    """A hit's score and all it was made of.

    Attributes
    ----------
    score : float
        Recomputed; equals the hit's.
    fusion : str
        How the components were joined.
    components : tuple of Component
        One per arm that ran, in the order of ``trace.arms``.

    Notes
    -----
    The formulas are those of docs/scoring.md; the bits are the hit's.
    """

    score: float
    fusion: str
    components: tuple[Component, ...]

    def __str__(self) -> str:
        """Show it as a few lines."""
        lines = [f"score {self.score!r} = {self.fusion}"]
        for c in self.components:
            rank = "not in its list" if c.rank is None else f"rank {c.rank}"
            lines.append(f"  {c.arm}: score {c.score!r}, {rank}, adds {c.contribution!r}")
            lines += [
                f"    {t.term}: tf {t.term_freq}, df {t.doc_freq} of {c.n_docs}, idf {t.idf:.4f}, "
                f"adds {t.impact:.4f}"
                for t in c.terms
                if t.term_freq
            ]
        return "\n".join(lines)


def explain(hits: Hits, hit: Hit) -> Explanation:
    """Recompute a hit's score."""
    with _core.arithmetic.RoundToNearest():
        return _explain(hits, hit)


def _explain(hits: Hits, hit: Hit) -> Explanation:
    plan = hits._plan
    parts: list[dict[str, Any]] = []
    # The query alone, on the snapshot of the call: the same bits as in its batch.
    request = plan.request.slice(hit.query, hit.query + 1)
    execution = _core.Execution(hits._state.snapshot, request)
    for at, arm in enumerate(plan.arms):
        if at < plan.n_lexical:
            scored = _lexical(hits, hit, at, arm, execution)
        elif arm in plan.extra:  # its score came with the request
            scored = {"score": hit.arm_score(arm), "evidence": hit.evidence(arm)}
        else:
            scored = _dense(hits, hit, at, arm)
        parts.append({"arm": arm, "rank": hit.arm_rank(arm), **scored})
    score, contributions = _fuse(hits, hit, parts)
    components = tuple(
        Component(contribution=contribution, **part)
        for part, contribution in zip(parts, contributions, strict=True)
    )
    return Explanation(
        score, "the arm's score" if plan.fusion is None else repr(plan.fusion), components
    )


def _lexical(hits: Hits, hit: Hit, at: int, arm: str, execution: _core.Execution) -> dict[str, Any]:
    plan = hits._plan
    segment, row = _place(hits, hit)
    column = hits._state.segments[segment].lexical[arm]
    doc_length = column.doc_length(row)
    leaves = execution.leaves(at, 0)
    if leaves is None or doc_length is None:
        return {"score": None}
    n_docs, total_length, doc_freqs = execution.statistics().of(at, 0)
    freqs = execution.leaf_freqs(at, 0, segment, row)
    how: BM25 = plan.bm25[arm]
    assert how.k1 is not None
    math = _core.arithmetic
    norm = math.length_norm(how.k1, how.b, doc_length, math.mean_doc_length(n_docs, total_length))
    terms = []
    score = 0.0
    for (label, multiplicity), doc_freq, freq in zip(leaves, doc_freqs, freqs, strict=True):
        idf = math.idf(how.variant, n_docs, doc_freq)
        weight = math.weight(how.variant, how.k1, how.b, idf, multiplicity)
        impact = math.impact(weight, float(freq), norm) if freq else 0.0
        if freq:
            score = math.add(score, impact)
        terms.append(Term(label, multiplicity, doc_freq, freq, idf, weight, impact))
    if not execution.matches(at, 0, segment, row):
        score = 0.0
    return {
        "score": score,
        "n_docs": n_docs,
        "total_length": total_length,
        "doc_length": doc_length,
        "terms": tuple(terms),
    }


def _dense(hits: Hits, hit: Hit, at: int, arm: str) -> dict[str, Any]:
    segment, row = _place(hits, hit)
    column = hits._state.segments[segment].dense[arm]
    query = hits._plan.request.query_vector(at - hits._plan.n_lexical, hit.query)[: column.dim]
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


def _place(hits: Hits, hit: Hit) -> tuple[int, int]:
    return int(hits._arrays["segment"][hit._at]), int(hits._arrays["row"][hit._at])


def _fuse(hits: Hits, hit: Hit, parts: list[dict[str, Any]]) -> tuple[float, list[float]]:
    """Join the components as csrc/engine/fusion.cpp does; the pool's scales came with the hits."""
    plan = hits._plan
    math = _core.arithmetic
    fusion = plan.fusion
    scales = hits._arrays["scales"].reshape(len(hits), len(plan.arms) * 2 + 1)[hit.query]
    contributions = []
    present = []
    for at, part in enumerate(parts):
        weight = plan.weights[at]
        score, rank = part["score"], part["rank"]
        if fusion is None:
            value = score
        elif isinstance(fusion, RRF):
            value = None if rank is None else math.rrf_term(weight, fusion.rank_constant, rank)
        elif score is None or (rank is None and not fusion.complete):
            value = None
        else:
            low, high = scales[2 * at], scales[2 * at + 1]
            scaled = math.minmax_scale(score, low, high) if fusion.normalize == "minmax" else score
            value = weight * scaled
        contributions.append(0.0 if value is None else value)
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
    if plan.normalize:
        best = float(scales[-1])
        total = min(max(total / best, 0.0), 1.0) if best > 0 else 0.0
    return total, contributions
