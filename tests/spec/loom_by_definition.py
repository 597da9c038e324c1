"""How Loom 0.20 ranks a user's episodes, from its formulas: plain Python in float64."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from oracle.references import textbook
from spec.episodes import Matrix

Ranking = list[tuple[int, float]]


def lexical_ranking(texts: Sequence[str], query: str) -> Ranking:
    """(place, BM25) of the texts that match, best first; equal ones as they were stored."""
    scores = textbook("okapi", texts, query, 1.5, 0.75)
    return best_first([(at, score) for at, score in enumerate(scores) if score > 0])


def vector_ranking(rows: Matrix, query: Matrix) -> Ranking:
    """(place, cosine) of the rows with a positive cosine."""
    left, right = rows.astype(np.float64), query.astype(np.float64)
    cosines = left @ right / (np.linalg.norm(left, axis=1) * np.linalg.norm(right))
    return best_first([(at, float(c)) for at, c in enumerate(cosines) if c > 1e-12])


def best_first(scored: Ranking) -> Ranking:
    """By score; what differs by rounding alone is equal."""
    return sorted(scored, key=lambda one: -round(one[1], 9))


def voted(lexical: Ranking, vector: Ranking, alpha: float) -> Ranking:
    """Reciprocal ranks of whole lists: the favoured one counts more than once."""
    copies = {"lexical": int(alpha < 1), "vector": int(alpha > 0)}
    if 0 < alpha < 1 and abs(alpha - 0.5) > 0.05:
        more = max(1, round(abs(alpha - 0.5) * 8))
        copies["vector" if alpha > 0.5 else "lexical"] += more
    scores: dict[int, float] = {}
    for ranking, count in ((vector, copies["vector"]), (lexical, copies["lexical"])):
        for rank, (at, _) in enumerate(ranking, 1):
            scores[at] = scores.get(at, 0.0) + count / (60 + rank)
    return sorted(
        ((at, score) for at, score in scores.items() if score > 0), key=lambda one: -one[1]
    )


def overlap(found: Sequence[int], expected: Ranking, depth: int = 10) -> float:
    """Share of the first ``depth`` expected that were found; those that tie with the last of them
    are as good.
    """
    if not expected:
        return 1.0
    wanted = min(depth, len(expected))
    last = expected[wanted - 1][1]
    good = {at for at, score in expected if score > last or math.isclose(score, last, rel_tol=1e-9)}
    return len(good & set(found[:wanted])) / wanted


def assert_same_order(found: Sequence[int], expected: Ranking) -> None:
    """The same order wherever the expected scores differ."""
    score = dict(expected)
    got = [score[at] for at in found]
    assert all(a > b or math.isclose(a, b, rel_tol=1e-9) for a, b in pairwise(got))
