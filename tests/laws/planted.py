"""Planted bugs: oracles, and lives of an index, with one decision made wrongly.

Each is a mistake that search engines have made. A law test that cannot tell one of its bugs from
the truth is no evidence, so every bug is run against the same cases as the law, and the difference
must be seen.
"""

import numpy as np
from numpy.typing import NDArray

from laws import planted_scoring
from oracle.arithmetic import F32, inverse_norms
from oracle.bm25 import Bm25
from oracle.documents import Above, Call, Hit, Reply, Row, Scope
from oracle.recall import Docs, Oracle
from oracle.scope import And, Equal, Not, Or, Predicate, Range
from oracle.words import Leaf, Mask, Query

# L1: scope


class TruthyScope(Oracle):
    """``if scope:``, so that the empty scope opens everything."""

    def authorised(self, cells: Scope) -> Mask:
        return super().authorised(cells) if cells else np.ones(len(self.rows), bool)


class DroppedMaskWord(Oracle):
    """The first word of the mask is lost: its documents are open to all."""

    def authorised(self, cells: Scope) -> Mask:
        return super().authorised(cells) | (np.arange(len(self.rows)) < 8)


class NullIsWildcard(Oracle):
    """A null in a cell matches anything."""

    def authorised(self, cells: Scope) -> Mask:
        widened = cells | {row.cell for row in self.rows if None in row.cell}
        return super().authorised(frozenset(widened))


class ScopeAfterCut(Oracle):
    """The lists are cut over the whole index, then the scope is applied: replies starve, and tell
    of others.
    """

    def arm_scores(
        self, call: Call, query: int, allowed: Mask, visible: Mask
    ) -> dict[str, tuple[F32, Mask]]:
        found = super().arm_scores(
            call, query, allowed, self.visible(np.ones(len(self.rows), bool), call.filter(query))
        )
        return {
            arm: (scores, self.among_first(scores, c, call) & visible)
            for arm, (scores, c) in found.items()
        }

    def among_first(self, scores: F32, candidates: Mask, call: Call) -> Mask:
        kept = np.zeros(len(self.rows), bool)
        kept[self.cut(scores, candidates, self.depth(call))] = True
        return kept


class FilterAfterCut(ScopeAfterCut):
    """The filter is applied to the lists, not inside the arms: replies starve."""

    def arm_scores(
        self, call: Call, query: int, allowed: Mask, visible: Mask
    ) -> dict[str, tuple[F32, Mask]]:
        found = Oracle.arm_scores(self, call, query, allowed, allowed)
        return {
            arm: (scores, self.among_first(scores, c, call) & visible)
            for arm, (scores, c) in found.items()
        }


class ThreeValuedNot(Oracle):
    """SQL's NOT: a null is neither in nor out."""

    def visible(self, allowed: Mask, predicate: Predicate | None) -> Mask:
        known = [_known(predicate, row) for row in self.rows]
        return super().visible(allowed, predicate) & np.array(known, bool)


def _known(predicate: Predicate | None, row: Row) -> bool:
    match predicate:
        case Not(inner):
            return (
                _known(inner, row)
                and row.attributes.get(getattr(inner, "column", ""), 0) is not None
            )
        case And(left, right) | Or(left, right):
            return _known(left, row) and _known(right, row)
    return True


class ExclusiveRange(Oracle):
    """The upper end of a range is left out."""

    def visible(self, allowed: Mask, predicate: Predicate | None) -> Mask:
        return super().visible(allowed, _exclusive(predicate))


def _exclusive(predicate: Predicate | None) -> Predicate | None:
    match predicate:
        case Range(column, _, high) if high is not None:
            return And(predicate, Not(Equal(column, high)))
        case Not(inner):
            return Not(_exclusive(inner))
        case And(left, right) | Or(left, right):
            return type(predicate)(_exclusive(left), _exclusive(right))
    return predicate


# L2: non-interference


class GlobalStatistics(Oracle):
    """N, doc_freq and mean length are those of the whole index."""

    def counted(self, arm: str, allowed: Mask, visible: Mask) -> Mask:
        return self.has_text(arm)


class GlobalMeanLength(Oracle):
    """N and doc_freq are the scope's, the mean length is the index's."""

    def mean_doc_length(self, arm: str, counted: Mask) -> float:
        return super().mean_doc_length(arm, self.has_text(arm))


class FilteredStatistics(Oracle):
    """The ad-hoc filter narrows the statistics too."""

    def counted(self, arm: str, allowed: Mask, visible: Mask) -> Mask:
        return visible & self.has_text(arm)


class NullTextCounts(Oracle):
    """A null text counts in N, with length 0."""

    def counted(self, arm: str, allowed: Mask, visible: Mask) -> Mask:
        return allowed


class EmptyTextSkipped(Oracle):
    """A text without tokens is taken for no text at all."""

    def counted(self, arm: str, allowed: Mask, visible: Mask) -> Mask:
        return allowed & (self.lengths[arm] > 0)


class SegmentIdf(Oracle):
    """Each half of the documents has its own statistics, as if it were a segment that knows no
    other.
    """

    def lexical(self, arm: str, query: Query, counted: Mask, bm25: Bm25) -> tuple[F32, Mask]:
        half = np.arange(len(self.rows)) < len(self.rows) // 2
        (first, matched), (second, _) = (
            super(SegmentIdf, self).lexical(arm, query, counted & side, bm25)
            for side in (half, ~half)
        )
        return np.where(half, first, second), matched


# L5: order


class PhysicalTies(Oracle):
    """Equal scores are in the order of the rows in memory: by cell first."""

    def ties(self) -> NDArray[np.int64]:
        order = sorted(range(len(self.rows)), key=lambda doc: repr(self.rows[doc].cell))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return rank


class LatestFirst(Oracle):
    """Equal scores put the latest document first."""

    def ties(self) -> NDArray[np.int64]:
        return -np.arange(len(self.rows))


class KeyTies(Oracle):
    """Equal scores are in the order of the keys."""

    def ties(self) -> NDArray[np.int64]:
        order = sorted(range(len(self.rows)), key=lambda doc: (self.rows[doc].key, doc))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return rank


# L6: depth and limit


class DepthIsLimit(Oracle):
    """Each arm hands on as many candidates as the reply may hold."""

    def depth(self, call: Call) -> int:
        return call.offset + call.limit


# L7: honest replies


class NullIsZero(Oracle):
    """A component that was not computed is said to be 0."""

    def recall(self, call: Call, query: int) -> Reply:
        return tuple(
            hit._replace(
                arm_scores=tuple(0.0 if score is None else score for score in hit.arm_scores)
            )
            for hit in super().recall(call, query)
        )


class NoCompletion(Oracle):
    """A component is known only where the arm's own list has the document."""

    def component(self, arm: str, doc: int, scores: F32, listed: bool) -> float | None:
        return super().component(arm, doc, scores, listed) if listed else None


class RankFromZero(Oracle):
    """Ranks start at 0."""

    first_rank = 0


class PaddedReply(Oracle):
    """Short replies are filled with documents that were not found."""

    def recall(self, call: Call, query: int) -> Reply:
        reply = super().recall(call, query)
        found = {(hit.cell, hit.key) for hit in reply}
        nothing = (None,) * len(self.shape.arms)
        rest = [
            row for row in self.rows if row.cell in call.scopes[query] and row.identity not in found
        ]
        first = call.offset + len(reply) + 1
        padding = [
            Hit(first + i, row.key, row.cell, 0.0, nothing, nothing) for i, row in enumerate(rest)
        ]
        return (*reply, *padding)[: call.limit]


class ZeroVectorRanks(Oracle):
    """A zero vector has cosine 0 instead of none."""

    def dense(self, arm: str, query: F32) -> F32:
        return np.nan_to_num(super().dense(arm, query))


class ExclusiveFloor(Oracle):
    """A floor cuts a score that equals it."""

    def clears(self, scores: F32, floor: float | Above) -> Mask:
        return super().clears(scores, floor if isinstance(floor, Above) else Above(floor))


class FloorInFloat64(Oracle):
    """A floor is not rounded to float32 before it is compared."""

    def clears(self, scores: F32, floor: float | Above) -> Mask:
        if isinstance(floor, Above):
            return scores.astype(np.float64) > floor.value
        return scores.astype(np.float64) >= floor


# L8: exact lists and exact bits


class LostTies(Oracle):
    """The cut compares with a threshold and loses its ties: the later of equal documents stay."""

    def cut(self, scores: F32, candidates: Mask, depth: int) -> Docs:
        kept = super().cut(scores, candidates, len(scores))
        if len(kept) <= depth:
            return kept
        threshold = scores[kept[depth - 1]]
        above = kept[scores[kept] > threshold]
        tied = kept[scores[kept] == threshold]
        return np.concatenate([above, tied[len(tied) - (depth - len(above)) :]])


class LowestOfTile(Oracle):
    """The last document of every tile is overlooked."""

    def cut(self, scores: F32, candidates: Mask, depth: int) -> Docs:
        seen = candidates & (np.arange(len(scores)) % 16 != 15)
        return super().cut(scores, seen, depth)


class RepeatsOnce(Oracle):
    """A repeated query word counts once."""

    def multiplicities(self, query: Query) -> list[tuple[Leaf, float]]:
        return [(leaf, min(count, 1.0)) for leaf, count in super().multiplicities(query)]


class QueryOrderSum(Oracle):
    """Impacts are summed in reverse: the same numbers, other roundings."""

    def multiplicities(self, query: Query) -> list[tuple[Leaf, float]]:
        return super().multiplicities(query)[::-1]


class LeftToRightDot(Oracle):
    """The dot product runs from left to right in one lane, without fma."""

    def dense(self, arm: str, query: F32) -> F32:
        rows = self.matrices[arm]
        total = np.zeros(len(rows), np.float32)
        for i in range(rows.shape[1]):
            total = total + rows[:, i] * query[i]
        inverse = inverse_norms(rows)
        found = np.clip(
            total * inverse * inverse_norms(query[None, :])[0], np.float32(-1), np.float32(1)
        )
        return np.where(inverse == 0, np.float32(np.nan), found + np.float32(0))


class UnclampedCosine(Oracle):
    """A cosine may exceed 1 by a rounding."""

    def dense(self, arm: str, query: F32) -> F32:
        found = super().dense(arm, query)
        return np.where(found == 1, np.nextafter(np.float32(1), np.float32(2)), found)


# The law whose test must see each of them.
LAWS: dict[str, tuple[type[Oracle], ...]] = {
    "L1": (
        TruthyScope,
        DroppedMaskWord,
        NullIsWildcard,
        ScopeAfterCut,
        FilterAfterCut,
        ThreeValuedNot,
        ExclusiveRange,
    ),
    "L2": (
        GlobalStatistics,
        GlobalMeanLength,
        FilteredStatistics,
        NullTextCounts,
        EmptyTextSkipped,
        SegmentIdf,
    ),
    "L5": (PhysicalTies, LatestFirst, KeyTies),
    "L7": (
        NullIsZero,
        NoCompletion,
        RankFromZero,
        PaddedReply,
        ZeroVectorRanks,
        ExclusiveFloor,
        FloorInFloat64,
    ),
    "L8": (
        DepthIsLimit,
        LostTies,
        LowestOfTile,
        RepeatsOnce,
        QueryOrderSum,
        LeftToRightDot,
        UnclampedCosine,
        *planted_scoring.BUGS,
    ),
}
