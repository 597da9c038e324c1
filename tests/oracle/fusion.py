"""Joining the arms' lists, straight from the definitions; everything in float64.

``scores`` maps an arm to {doc: completed score or None}, ``ranks`` maps it to {doc: rank from 1}
for its cut list, in its order; equal scores share a rank. All documents of the union are keys of
``scores``; only arms that ran are present.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Scores = Mapping[str, Mapping[int, float | None]]
Ranks = Mapping[str, Mapping[int, int]]
Contributions = dict[int, list[float]]


def union(ranks: Ranks) -> set[int]:
    """Every document that some arm lists."""
    return {doc for listed in ranks.values() for doc in listed}


@dataclass(frozen=True)
class Rrf:
    """Reciprocal rank fusion: Cormack, Clarke and Buettcher, SIGIR 2009."""

    weights: Mapping[str, float] | None = None
    alpha: float | None = None
    rank_constant: int = 60

    def contributions(
        self, scores: Scores, ranks: Ranks, weights: Mapping[str, float]
    ) -> Contributions:
        """weight / (rank_constant + rank) for every arm whose list has the document."""
        return {
            doc: [
                weights[arm] / (self.rank_constant + ranks[arm][doc])
                for arm in ranks
                if doc in ranks[arm]
            ]
            for doc in union(ranks)
        }


@dataclass(frozen=True)
class Weighted:
    """Weighted sum (or, with ``largest``, weighted maximum) of the completed scores."""

    weights: Mapping[str, float] | None = None
    normalize: str = "minmax"
    complete: bool = True
    largest: bool = False
    balance: float | None = None

    def contributions(
        self, scores: Scores, ranks: Ranks, weights: Mapping[str, float]
    ) -> Contributions:
        """weight x normalised score for every arm; a null component adds 0."""
        normalised = {arm: self.normalised(scores[arm], ranks[arm]) for arm in scores}
        return {
            doc: [weights[arm] * normalised[arm][doc] for arm in scores] for doc in union(ranks)
        }

    def normalised(
        self, scores: Mapping[int, float | None], listed: Mapping[int, int]
    ) -> dict[int, float]:
        """Scores of one arm brought to [0, 1] over the union; without completion, over the arm's
        own list. An arm that lists nothing says nothing of the others' documents.
        """
        known = {
            doc: score
            for doc, score in scores.items()
            if self.speaks(listed) and score is not None and (self.complete or doc in listed)
        }
        absent = dict.fromkeys(scores, 0.0)
        if self.normalize == "none" or not known:
            return absent | known
        low, high = min(known.values()), max(known.values())
        if low == high:
            return absent | dict.fromkeys(known, 1.0)
        return absent | {doc: (score - low) / (high - low) for doc, score in known.items()}

    def speaks(self, listed: Mapping[int, int]) -> bool:
        """Whether the scores of an arm with this list count."""
        return bool(listed)

    def rank_order(
        self, scores: Mapping[int, float | None], listed: Mapping[int, int]
    ) -> list[int]:
        """The arm's list by rank, then the completed others by (score descending, seq ascending):
        the order in which the moments are summed.
        """
        if not self.speaks(listed):
            return []
        others = [doc for doc, score in scores.items() if score is not None and doc not in listed]
        others.sort(key=lambda doc: (-scores[doc], doc))
        return [*sorted(listed, key=listed.__getitem__), *(others if self.complete else ())]

    def balanced(
        self,
        scores: Scores,
        ranks: Ranks,
        weights: Mapping[str, float],
        lexical: Sequence[str],
        dense: Sequence[str],
    ) -> dict[str, float]:
        """The weights of one query: dense arms share balance + mean lexical - mean dense of their
        scaled scores, cut into [0, 1], lexical arms the rest; other arms keep their own.
        """
        kinds = [[arm for arm in scores if arm in kind] for kind in (lexical, dense)]
        if self.balance is None or not all(kinds):
            return dict(weights)
        out, means = {}, []
        for arms in kinds:
            orders = {arm: self.rank_order(scores[arm], ranks[arm]) for arm in arms}
            total = running_sum([weights[arm] for arm in arms if orders[arm]])
            out |= {arm: weights[arm] / total if total else 0.0 for arm in arms}
            mean = 0.0
            for arm in (arm for arm in arms if orders[arm]):
                scaled = self.normalised(scores[arm], ranks[arm])
                values = [scaled[doc] for doc in orders[arm]]
                mean += out[arm] * (running_sum(values) / len(values))
            means.append(mean if total else None)
        share = self.share(means)
        made = {arm: out[arm] * (share if arm in dense else 1.0 - share) for arm in out}
        return {arm: made.get(arm, weight) for arm, weight in weights.items()}

    def share(self, means: Sequence[float | None]) -> float:
        """What the dense arms together weigh."""
        lexical, dense = means
        if dense is None:
            return 0.0
        if lexical is None:
            return 1.0
        return min(max((self.balance + lexical) - dense, 0.0), 1.0)


@dataclass(frozen=True)
class Dbsf(Weighted):
    """Distribution-based score fusion: Mazzeschi, 2023. The sum of scores in standard deviations,
    from 0 at three below the mean to 1 at three above, not clipped.
    """

    def normalised(
        self, scores: Mapping[int, float | None], listed: Mapping[int, int]
    ) -> dict[int, float]:
        """Scaled scores of one arm; documents are numbered by seq."""
        absent = dict.fromkeys(scores, 0.0)
        known = {doc: scores[doc] for doc in self.rank_order(scores, listed)}
        if not known:
            return absent
        mean, deviation = moments(list(known.values()))
        if deviation == 0:
            return absent | dict.fromkeys(known, 1.0)
        low = mean - 3.0 * deviation
        return absent | {doc: (score - low) / (6.0 * deviation) for doc, score in known.items()}


def moments(values: list[float]) -> tuple[float, float]:
    """Mean and standard deviation of the population, in two passes, in the order given."""
    mean = running_sum(values) / len(values)
    squares = [(value - mean) * (value - mean) for value in values]
    return mean, math.sqrt(running_sum(squares) / len(values))


def running_sum(values: list[float]) -> float:
    """The sum from left to right, a rounding each; ``sum`` compensates in later versions."""
    total = 0.0
    for value in values:
        total += value
    return total


Fusion = Rrf | Weighted


def alpha_weights(alpha: float, lexical: str, dense: str) -> dict[str, float]:
    """2a to the dense arm, 2(1 - a) to the lexical one."""
    return {lexical: 2.0 * (1.0 - alpha), dense: 2.0 * alpha}


def fuse(
    fusion: Fusion, scores: Scores, ranks: Ranks, weights: Mapping[str, float]
) -> dict[int, float]:
    """Fused score of every document of the union; its contributions are added largest first."""
    fused = {}
    for doc, parts in fusion.contributions(scores, ranks, weights).items():
        if isinstance(fusion, Weighted) and fusion.largest:
            fused[doc] = max(parts)
            continue
        fused[doc] = running_sum(sorted(parts, reverse=True))
    return fused
