"""Planted bugs of BM25's variants, of fusions and of their default: what others compute instead."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from oracle.arithmetic import F32
from oracle.bm25 import Bm25, for_lengths, shift
from oracle.documents import Call
from oracle.fusion import Dbsf, Fusion, Ranks, Rrf, Scores, Weighted, moments
from oracle.recall import DEFAULT_BM25, Docs, Oracle
from oracle.words import Mask, Query


class MatchIsPositive(Oracle):
    """A document is listed where its score is above 0, so Robertson's negative ones are lost."""

    def lexical(self, arm: str, query: Query, counted: Mask, bm25: Bm25) -> tuple[F32, Mask]:
        scores, found = super().lexical(arm, query, counted, bm25)
        return scores, found & (scores > 0)


class FlooredRobertson(Oracle):
    """Robertson's idf is not let below 0."""

    def lexical(self, arm: str, query: Query, counted: Mask, bm25: Bm25) -> tuple[F32, Mask]:
        if bm25.variant == "robertson":
            bm25 = replace(bm25, log=lambda x: max(math.log(x), 0.0))
        return super().lexical(arm, query, counted, bm25)


class AbsentTermsCount(Oracle):
    """BM25+ grants its delta to the terms that a document does not hold, too."""

    def lexical(self, arm: str, query: Query, counted: Mask, bm25: Bm25) -> tuple[F32, Mask]:
        scores, found = super().lexical(arm, query, counted, bm25)
        for leaf, multiplicity in self.multiplicities(query):
            held = self.occurrences(arm, leaf) > 0
            doc_freq = int((held & counted).sum())
            if doc_freq > 0:
                grant = shift(bm25, int(counted.sum()), doc_freq, multiplicity)
                scores = np.where(held | ~found, scores, scores + grant)
        return scores, found


class DeltaForgotten(Oracle):
    """BM25+ and BM25L grant nothing."""

    def lexical(self, arm: str, query: Query, counted: Mask, bm25: Bm25) -> tuple[F32, Mask]:
        if bm25.delta is not None:
            bm25 = replace(bm25, delta=0.0)
        return super().lexical(arm, query, counted, bm25)


class LengthsOfAll(Oracle):
    """The lengths of every document of the index say which b holds."""

    def lexical(self, arm: str, query: Query, counted: Mask, bm25: Bm25) -> tuple[F32, Mask]:
        bm25 = for_lengths(bm25, self.lengths[arm][self.has_text(arm)])
        return super().lexical(arm, query, counted, bm25)


class OneB(Oracle):
    """Lengths say nothing of b."""

    def lexical(self, arm: str, query: Query, counted: Mask, bm25: Bm25) -> tuple[F32, Mask]:
        return super().lexical(arm, query, counted, replace(bm25, b_mixed=None))


class _OtherDbsf(Oracle):
    """Distribution-based fusion with another definition in its place."""

    kind: type[Dbsf]

    def fused(
        self, fusion: Fusion, scores: Scores, ranks: Ranks, weights: Mapping[str, float]
    ) -> dict[int, float]:
        if isinstance(fusion, Dbsf):
            fusion = self.kind(weights=fusion.weights, complete=fusion.complete)
        return super().fused(fusion, scores, ranks, weights)


class ClippedDbsf(_OtherDbsf):
    """Scores beyond three deviations are clipped to 0 and 1, and tie there."""

    class kind(Dbsf):  # noqa: N801
        def normalised(
            self, scores: Mapping[int, float | None], listed: Mapping[int, int]
        ) -> dict[int, float]:
            found = super().normalised(scores, listed)
            return {doc: min(max(score, 0.0), 1.0) for doc, score in found.items()}


class SampleDeviation(_OtherDbsf):
    """The deviation is a sample's: it divides by n - 1."""

    class kind(Dbsf):  # noqa: N801
        def normalised(
            self, scores: Mapping[int, float | None], listed: Mapping[int, int]
        ) -> dict[int, float]:
            found = super().normalised(scores, listed)
            order = self.rank_order(scores, listed)
            if len(order) < 2 or len({scores[doc] for doc in order}) == 1:
                return found
            mean, deviation = moments([scores[doc] for doc in order])
            deviation *= math.sqrt(len(order) / (len(order) - 1))
            low = mean - 3.0 * deviation
            return found | {doc: (scores[doc] - low) / (6.0 * deviation) for doc in order}


class PoolOrderMoments(_OtherDbsf):
    """The moments are summed in the order of the pool, by seq: other roundings."""

    class kind(Dbsf):  # noqa: N801
        def rank_order(
            self, scores: Mapping[int, float | None], listed: Mapping[int, int]
        ) -> list[int]:
            return sorted(super().rank_order(scores, listed))


class ListMoments(_OtherDbsf):
    """The moments are those of the arm's own list, though the union is completed."""

    class kind(Dbsf):  # noqa: N801
        def rank_order(
            self, scores: Mapping[int, float | None], listed: Mapping[int, int]
        ) -> list[int]:
            return sorted(listed, key=listed.__getitem__)


class _OtherWeighted(Oracle):
    """A balanced sum with another definition in its place."""

    kind: type[Weighted]

    def fused(
        self, fusion: Fusion, scores: Scores, ranks: Ranks, weights: Mapping[str, float]
    ) -> dict[int, float]:
        if type(fusion) is Weighted and fusion.balance is not None:
            fusion = self.kind(fusion.weights, fusion.normalize, balance=fusion.balance,
                               complete=fusion.complete)  # fmt: skip
        return super().fused(fusion, scores, ranks, weights)


class BalanceTurnedRound(_OtherWeighted):
    """The arm that tells little apart counts more."""

    class kind(Weighted):  # noqa: N801
        def share(self, means: Sequence[float | None]) -> float:
            if None in means:
                return super().share(means)
            lexical, dense = means
            return super().share((dense, lexical))


class BalanceOfLists(_OtherWeighted):
    """The means are those of each arm's own list, though the union is completed."""

    class kind(Weighted):  # noqa: N801
        def rank_order(
            self, scores: Mapping[int, float | None], listed: Mapping[int, int]
        ) -> list[int]:
            return sorted(listed, key=listed.__getitem__)


class BalanceUncut(_OtherWeighted):
    """A share may lie below 0 or above 1."""

    class kind(Weighted):  # noqa: N801
        def share(self, means: Sequence[float | None]) -> float:
            if None in means:
                return super().share(means)
            return (self.balance + means[0]) - means[1]


class EmptyListsSpeak(Oracle):
    """The completed scores of an arm count though it lists nothing, so it weighs in full."""

    def fused(
        self, fusion: Fusion, scores: Scores, ranks: Ranks, weights: Mapping[str, float]
    ) -> dict[int, float]:
        if isinstance(fusion, Weighted):
            loud = type("Loud", (type(fusion),), {"speaks": lambda _fusion, _listed: True})
            fusion = loud(**vars(fusion))
        return super().fused(fusion, scores, ranks, weights)


class RanksByPlace(Oracle):
    """Documents of equal score have ranks of their own, by the order in which they were written."""

    def ranks(self, scores: F32, listed: Docs) -> dict[int, int]:
        return {int(doc): self.first_rank + at for at, doc in enumerate(listed)}


class RanksJoinByDefault(Oracle):
    """Several arms are joined by their ranks where the call names no fusion."""

    def fusion(self, call: Call) -> Fusion | None:
        return call.fusion or (Rrf() if len(call.arms) > 1 else None)


class OneSetOfConstants(Oracle):
    """Arms that are joined by default keep the BM25 constants of an arm alone."""

    def constants(self, call: Call) -> Bm25:
        return call.bm25 or self.bm25


class ConstantsForAnArmAlone(Oracle):
    """An arm alone has the BM25 constants of arms that are joined by default."""

    def constants(self, call: Call) -> Bm25:
        return call.bm25 or (DEFAULT_BM25 if call.fusion is None else self.bm25)


BUGS: tuple[type[Oracle], ...] = (
    MatchIsPositive,
    FlooredRobertson,
    AbsentTermsCount,
    DeltaForgotten,
    LengthsOfAll,
    OneB,
    ClippedDbsf,
    SampleDeviation,
    PoolOrderMoments,
    ListMoments,
    BalanceTurnedRound,
    BalanceOfLists,
    BalanceUncut,
    EmptyListsSpeak,
    RanksByPlace,
    RanksJoinByDefault,
    OneSetOfConstants,
    ConstantsForAnArmAlone,
)
