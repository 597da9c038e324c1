"""Planted bugs of the stage Feedback: its oracle, with one decision made wrongly."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from oracle.arithmetic import F32
from oracle.documents import Call
from oracle.feedback import FeedbackOracle
from oracle.words import Leaf, Mask, Query, Words, leaves


class AnyCell(FeedbackOracle):
    """Rows of other cells are heard."""

    def heard(self, call: Call, query: int) -> list[int]:
        everywhere = frozenset(row.cell for row in self.rows)
        return super().heard(replace(call, scopes=(everywhere,) * len(call.scopes)), query)


class OneMore(FeedbackOracle):
    """One row more than the stage says is heard."""

    def heard(self, call: Call, query: int) -> list[int]:
        how, self.how = self.how, replace(self.how, rows=self.how.rows + 1)
        found = super().heard(call, query)
        self.how = how
        return found


class Filtered(FeedbackOracle):
    """Rows that the filter keeps out are heard."""

    def heard(self, call: Call, query: int) -> list[int]:
        return super().heard(replace(call, filters=None), query)


class Unfloored(FeedbackOracle):
    """Rows below the floors are heard."""

    def heard(self, call: Call, query: int) -> list[int]:
        return super().heard(replace(call, min_score={}, min_fused=None), query)


class WorstFirst(FeedbackOracle):
    """Rows are added up from the last one on."""

    def summed(self, rows: Sequence[int]) -> Sequence[int]:
        return rows[::-1]


class ByInsertion(FeedbackOracle):
    """Rows are added up in the order of insertion."""

    def summed(self, rows: Sequence[int]) -> Sequence[int]:
        return sorted(rows)


class FixedCount(FeedbackOracle):
    """Sums are divided by the number that the stage says, however many rows there are."""

    def counted_rows(self, rows: Sequence[int]) -> float:
        return float(self.how.rows)


class RawQuery(FeedbackOracle):
    """The query is added as it was given, not as a unit vector."""

    def moved(self, arm: str, vector: F32, rows: Sequence[int]) -> F32:
        made = super().moved(arm, vector, rows)
        if made is vector:
            return vector
        unit = super().moved(arm, vector, [])
        own = np.float32(1.0) / np.sqrt((vector.astype(np.float64) ** 2).sum())
        return (made + unit - (unit * own).astype(np.float32)).astype(np.float32)


class WholeIndex(FeedbackOracle):
    """Document frequencies are those of the whole index."""

    def added(
        self, arm: str, text: Words, rows: Sequence[int], counted: Mask, call: Call
    ) -> list[tuple[str, float]]:
        return super().added(arm, text, rows, self.has_text(arm), call)


class OfTheFilter(FeedbackOracle):
    """Document frequencies are those of rows that pass the filter."""

    def second(self, call: Call, query: int) -> Call:
        self.narrow = self.visible(self.authorised(call.scopes[query]), call.filter(query))
        return super().second(call, query)

    def doc_freq(self, arm: str, term: str, counted: Mask) -> int:
        return super().doc_freq(arm, term, counted & self.narrow)


class LonelyTerms(FeedbackOracle):
    """Terms join that no other row holds."""

    least_docs = 1


class NewTermsOnly(FeedbackOracle):
    """Terms of the query itself get no boost."""

    def shares(self, arm: str, rows: Sequence[int]) -> dict[str, float]:
        return {t: s for t, s in super().shares(arm, rows).items() if t not in self.own}

    own: frozenset[str] = frozenset()

    def added(
        self, arm: str, text: Words, rows: Sequence[int], counted: Mask, call: Call
    ) -> list[tuple[str, float]]:
        self.own = frozenset(leaf.words[0] for leaf, _, _ in leaves(text))
        return super().added(arm, text, rows, counted, call)


class CountedOnce(FeedbackOracle):
    """A term's share is that of distinct terms: how often a row holds it does not count."""

    def shares(self, arm: str, rows: Sequence[int]) -> dict[str, float]:
        out: dict[str, float] = {}
        for row in rows:
            tokens = {token for field in self.texts[arm][row] or () for token in field}
            for term in tokens:
                out[term] = out.get(term, 0.0) + 1.0 / self.lengths[arm][row]
        return out


class QueryLengthIgnored(FeedbackOracle):
    """The boosts together are the same for every query."""

    def multiplicities(self, query: Query) -> list[tuple[Leaf, float]]:
        found = super().multiplicities(query)
        return found[:1] if isinstance(query, Words) and self.is_counting else found

    is_counting = False

    def added(
        self, arm: str, text: Words, rows: Sequence[int], counted: Mask, call: Call
    ) -> list[tuple[str, float]]:
        self.is_counting = True
        found = super().added(arm, text, rows, counted, call)
        self.is_counting = False
        return found


PLANTED = (
    AnyCell, OneMore, Filtered, Unfloored, FixedCount, RawQuery,
    WholeIndex, OfTheFilter, LonelyTerms, NewTermsOnly, CountedOnce, QueryLengthIgnored,
)  # fmt: skip
