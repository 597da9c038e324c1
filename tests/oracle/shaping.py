"""The shaping stages from their definitions: lists of documents of one query, slow on purpose.

A document is a dict with its vector (float32 array or None) and whatever columns a stage reads, or
its number alone where what a stage reads is given by functions; a list holds (document, score) in
order. Cosines come from the checked dot.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from golden import exact
from hyrecall._core import arithmetic
from oracle.fusion import running_sum

Doc = Any  # Mapping[str, Any] | int
Ranked = list[tuple[Doc, float]]
Similar = Callable[[Doc, Doc], float]
Leads = Callable[[Doc], bool]
recency_factor = cache(exact.recency_factor)


def similarity(a: Doc, b: Doc) -> float:
    """Cosine of two documents, the first as query; 0 where one has no vector."""
    x, y = a["vector"], b["vector"]
    if x is None or y is None or not x.any() or not y.any():
        return 0.0
    dot = arithmetic.dots(x, y[None])[0]
    return float(arithmetic.cosine(dot, arithmetic.inverse_norm(y), arithmetic.inverse_norm(x)))


def by_score(ranked: Ranked, *, by_place: bool = False) -> Ranked:
    """Order by score; equal scores by insertion, or after a rerank by their places."""
    return sorted(ranked, key=lambda pair: (-pair[1], 0 if by_place else seq(pair[0])))


def seq(doc: Doc) -> int:
    """The insertion number of a document."""
    number: int = doc["seq"] if isinstance(doc, Mapping) else doc
    return number


def lead(ranked: Ranked, leads: Leads) -> Ranked:
    """Those that lead, then the others, both in the order they had."""
    return sorted(ranked, key=lambda pair: not leads(pair[0]))


def rerank(ranked: Ranked, score_of: Callable[[Doc], float | None], window: int) -> Ranked:
    """Share out the places of the scored documents of the window; a place keeps its score."""
    scored = [at for at, (doc, _) in enumerate(ranked[:window]) if score_of(doc) is not None]
    best_first = sorted(scored, key=lambda at: (-(score_of(ranked[at][0]) or 0.0), at))
    out = list(ranked)
    for place, taken_from in zip(scored, best_first, strict=True):
        out[place] = (ranked[taken_from][0], ranked[place][1])
    return out


def dedup(
    ranked: Ranked,
    threshold: float,
    *,
    unit: bool,
    preference: Callable[[Doc], int],
    similar: Similar = similarity,
) -> Ranked:
    """Keep one document of each cluster, in the order of the list."""
    limit = np.float32(2 * threshold - 1 if unit else threshold)
    clusters: list[list[int]] = []
    for at, (doc, _) in enumerate(ranked):
        for members in clusters:
            cosines = [similar(ranked[m][0], doc) for m in members]
            if any(c > limit for c in cosines):
                members.append(at)
                break
        else:
            clusters.append([at])
    kept = [min(members, key=lambda at: (preference(ranked[at][0]), at)) for members in clusters]
    return [ranked[at] for at in sorted(kept)]


def aged(ranked: Ranked, factor: Callable[[Doc], float], *, by_place: bool = False) -> Ranked:
    """Multiply scores by what age leaves of them."""
    if all(factor(doc) == 1.0 for doc, _ in ranked):
        return ranked
    return by_score([(doc, score * factor(doc)) for doc, score in ranked], by_place=by_place)


def composite(
    ranked: Ranked,
    signals: Callable[[Doc], tuple[float, float]],
    weights: Sequence[float],
    *,
    by_place: bool = False,
) -> Ranked:
    """Weighted mean of recency, importance and the score so far."""

    def mean(doc: Doc, score: float) -> float:
        parts = zip(weights, (*signals(doc), score), strict=True)
        weighted, total = running_sum([w * part for w, part in parts]), running_sum(list(weights))
        return weighted / total if total else 0.0

    return by_score([(doc, mean(doc, score)) for doc, score in ranked], by_place=by_place)


def choose(
    ranked: Ranked,
    n_wanted: int,
    *,
    weight: float = 1.0,
    relevance: str = "raw",
    budget: int | None = None,
    tokens: Callable[[Doc], int] = lambda doc: 0,
    use_vectors: bool = True,
    leads: Leads = lambda doc: False,
    similar: Similar = similarity,
) -> Ranked:
    """Choose greedily by maximal marginal relevance among those that fit, first of all among those
    that lead; the first of the list always.
    """
    scores = [score for _, score in ranked]
    high, low = max(scores, default=0.0), min(scores, default=0.0)

    def scaled(score: float) -> float:
        if relevance == "raw":
            return score
        if relevance == "max":
            return score / high if high > 0 else 0.0
        return (score - low) / (high - low) if high > low else 1.0

    left = list(range(len(ranked)))
    nearest = [0.0] * len(ranked)  # the largest similarity to a chosen one
    out: Ranked = []
    spent = 0
    while left and len(out) < n_wanted:
        values = {at: weight * scaled(scores[at]) - (1 - weight) * nearest[at] for at in left}
        fitting = [at for at in left if budget is None or spent + tokens(ranked[at][0]) <= budget]
        if not out:
            fitting = [0]
        if not fitting:
            break
        best = max(fitting, key=lambda at: (leads(ranked[at][0]), values[at], -at))
        left.remove(best)
        if use_vectors:
            for at in left:
                near = similar(ranked[best][0], ranked[at][0])
                nearest[at] = max(nearest[at], near)
        spent += tokens(ranked[best][0])
        out.append((ranked[best][0], values[best]))
    return out
