"""A second look by definition: the best rows of a first answer add to the query of a second one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from golden.make import natural_log
from oracle import words
from oracle.arithmetic import F32, inverse_norms
from oracle.bm25 import idf
from oracle.documents import Call
from oracle.fusion import running_sum
from oracle.recall import Oracle, Search
from oracle.words import Boost, Leaf, Mask, Query, Words

Value = TypeVar("Value")
LEAST_BOOST = 2.0**-20
LEAST_NORM = 2.0**-20
MOST_LOOKED_UP = 256


class FeedbackPart(Oracle):
    """Recall with the stage Feedback. One method for each decision, as in Oracle."""

    how: Any  # the stage

    def heard(self, call: Call, query: int) -> list[int]:
        """The best rows of the first answer, which ends with the fusion."""
        same = {"fusion": self.fusion(call), "bm25": self.constants(call)}
        search = super().search(replace(call, shaping=(self.how,), **same), query)
        search.leading = set()  # rows that hold it are there, but not in front
        return [doc for doc, _ in self.ranked(search)[: self.how.rows]]

    # Vectors

    def moved(self, arm: str, vector: F32, rows: Sequence[int]) -> F32:
        """The unit query, moved towards the mean of its rows' unit vectors."""
        norms = inverse_norms(self.matrices[arm])
        rows = [row for row in rows if norms[row] != 0]
        own = inverse_norms(vector[None, :])[0]
        if not rows or own == 0 or self.how.dense == 0:
            return vector
        total = np.zeros(len(vector))
        for row in self.summed(rows):
            total = total + self.matrices[arm][row].astype(np.float64) * float(norms[row])
        unit = vector.astype(np.float64) * float(own)
        made = (unit + self.how.dense * (total / self.counted_rows(rows))).astype(np.float32)
        left = inverse_norms(made[None, :])[0]
        return vector if left == 0 or 1.0 / left < LEAST_NORM else made

    def summed(self, rows: Sequence[int]) -> Sequence[int]:
        """The order in which rows are added up: the best first."""
        return rows

    def counted_rows(self, rows: Sequence[int]) -> float:
        """What a sum over rows is divided by."""
        return float(len(rows))

    # Terms

    def added(
        self, arm: str, text: Words, rows: Sequence[int], counted: Mask, call: Call
    ) -> list[tuple[str, float]]:
        """The terms that the rows add, with their boosts, the most telling first."""
        n_own = sum(multiplicity for _, multiplicity in self.multiplicities(text))
        if n_own == 0:
            return []
        rows = [row for row in rows if self.texts[arm][row] is not None]
        shares = self.shares(arm, rows)
        looked_up = sorted(shares, key=lambda term: (-shares[term], term.encode()))[:MOST_LOOKED_UP]
        worth: dict[str, float] = {}
        bm25 = replace(self.constants(call), log=natural_log)
        for term in looked_up:
            doc_freq = self.doc_freq(arm, term, counted)
            if doc_freq < self.least_docs:
                continue
            value = idf(bm25, int(counted.sum()), doc_freq)
            value = (shares[term] / self.counted_rows(rows)) * value
            if value > 0:
                worth[term] = value
        chosen = sorted(worth, key=lambda term: (-worth[term], term.encode()))[: self.how.terms]
        total = running_sum([worth[term] for term in chosen])
        boosts = {t: (self.how.lexical * n_own) * (worth[t] / total) for t in chosen}
        return [(term, boost) for term, boost in boosts.items() if boost >= LEAST_BOOST]

    least_docs = 2

    def shares(self, arm: str, rows: Sequence[int]) -> dict[str, float]:
        """Each term's share of the rows' tokens, summed over the rows."""
        out: dict[str, float] = {}
        for row in self.summed(rows):
            text = self.texts[arm][row]
            for term in {token for field in text or () for token in field}:
                count = self.count(arm, Leaf("term", (term,)), text)
                out[term] = out.get(term, 0.0) + count / self.lengths[arm][row]
        return out

    def doc_freq(self, arm: str, term: str, counted: Mask) -> int:
        """Documents that hold a term, of those that the statistics speak of."""
        return int(((self.occurrences(arm, Leaf("term", (term,))) > 0) & counted).sum())

    # The reply

    def second(self, call: Call, query: int) -> Call:
        """The call whose query has what the best rows add."""
        rows = self.heard(call, query)
        allowed = self.authorised(call.scopes[query])
        visible = self.visible(allowed, call.filter(query))
        texts, vectors = dict(call.texts), dict(call.vectors)
        for arm, given in call.texts.items():
            text = given[query]
            if isinstance(text, Words):
                counted = self.counted(arm, allowed, visible)
                more = self.added(arm, text, rows, counted, call)
                texts[arm] = put(given, query, with_terms(text, more))
        for arm, queries in call.vectors.items():
            vector = queries[query]
            if vector is not None:
                vectors[arm] = put(queries, query, self.moved(arm, vector, rows))
        return replace(call, texts=texts, vectors=vectors)

    def search(self, call: Call, query: int) -> Search:
        """What the second look finds."""
        if (how := call.stage("Feedback")) is not None:
            self.how = how
            call = self.second(call, query)
        return super().search(call, query)


def with_terms(text: Words, more: Sequence[tuple[str, float]]) -> Query:
    """A text with terms beside its words."""
    return words.Any((text, *(Boost(Words(term), boost) for term, boost in more))) if more else text


def put(given: Sequence[Value], at: int, value: Value) -> tuple[Value, ...]:
    """The same values with another one in one place."""
    return (*given[:at], value, *given[at + 1 :])
