"""Evidence around a hit by definition: the rows near it in its thread, the thread as one document,
its length; and what a row's value in a column adds beside it.

A table's thread is the attribute ``kind`` and the place there ``number``, both null now and then.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from golden.make import natural_log
from oracle.bm25 import (
    Bm25,
    for_lengths,
    impacts,
    length_norms,
    length_share,
    mean_doc_length,
    shift,
    weight,
)
from oracle.documents import Call
from oracle.fusion import Dbsf, Fusion, Ranks, Rrf, Scores, Weighted, running_sum
from oracle.recall import DEFAULT_FUSION, Oracle, Search
from oracle.scope import Cell, Value
from oracle.words import Leaf, Mask, Query, matched

Thread = tuple[Cell, Value]
Threads = dict[Thread, list[int]]


@dataclass(frozen=True)
class Around:
    """The weights of the stage."""

    neighbours: tuple[float, ...] = (0.3, 0.15)
    thread: float = 0.25
    length: float = 0.4


SILENT = Around((), 0.0, 0.0)  # where a prior is alone


class AroundPart(Oracle):
    """Recall with the stages Around and Prior. One method for each decision, as in Oracle."""

    # Threads

    def thread(self, doc: int) -> Thread | None:
        """What a row is part of; a thread lies within a cell."""
        value = self.rows[doc].attributes["kind"]
        return None if value is None else (self.rows[doc].cell, value)

    def place(self, doc: int) -> tuple[bool, int, int]:
        """What orders the rows of a thread: those without a place last, equal places by seq."""
        value = self.rows[doc].attributes["number"]
        return value is None, value or 0, doc

    def threads(self, docs: Sequence[int]) -> Threads:
        """The rows of each thread, in their order."""
        out: Threads = {}
        for doc in sorted(docs, key=self.place):
            thread = self.thread(doc)
            if thread is not None:
                out.setdefault(thread, []).append(doc)
        return out

    def speaking(self, allowed: Mask, visible: Mask) -> list[int]:
        """Rows that may give evidence: all of the scope, whatever the filter says."""
        return np.flatnonzero(allowed).tolist()

    def near(self, threads: Mapping[Thread, list[int]], doc: int, distance: int) -> list[int]:
        """The rows so many places before and behind a row in its thread."""
        thread = self.thread(doc)
        if thread is None or doc not in threads.get(thread, []):
            return []
        rows = threads[thread]
        at = rows.index(doc)
        return [rows[n] for n in (at - distance, at + distance) if 0 <= n < len(rows)]

    def becomes_hit(self, doc: int, visible: Mask) -> bool:
        """Whether a row around a candidate may be a hit, too."""
        return bool(visible[doc])

    # The thread as one document

    def thread_statistics(self, arm: str, threads: Mapping[Thread, list[int]]) -> list[Thread]:
        """The threads that the statistics speak of: those of the scope with a text."""
        held = self.has_text(arm)
        return [thread for thread, docs in threads.items() if held[docs].any()]

    def thread_scores(
        self, arm: str, query: Query, threads: Mapping[Thread, list[int]], bm25: Bm25
    ) -> dict[Thread, float]:
        """BM25 of every thread with a text."""
        known = self.thread_statistics(arm, threads)
        if not known:
            return {}
        docs = [threads.get(thread, []) for thread in known]
        lengths = np.array([self.lengths[arm][rows].sum() for rows in docs], np.int64)
        n = len(known)
        norms = length_norms(bm25, lengths, mean_doc_length(n, int(lengths.sum())))
        scores = np.zeros(n, np.float32)
        held: dict[Leaf, Mask] = {}
        for leaf, multiplicity in self.multiplicities(query):
            occurrences = self.occurrences(arm, leaf)
            freqs = np.array([occurrences[rows].sum() for rows in docs], np.int64)
            held[leaf] = freqs > 0
            doc_freq = int(held[leaf].sum())
            if doc_freq > 0:
                counts = n, doc_freq, multiplicity
                worth = weight(bm25, *counts), shift(bm25, *counts)
                scores = scores + impacts(bm25, *worth, freqs, norms)
        found = matched(query, held.__getitem__) & np.ones(n, bool)
        values = np.where(found, scores, np.float32(0))
        return {thread: float(value) for thread, value in zip(known, values, strict=True)}

    # The length

    def length_share(self, arm: str, counted: Mask) -> float:
        """How much lengths say in the scope."""
        return length_share(self.lengths[arm][counted])

    def length_worth(self, arm: str, doc: int) -> float:
        """ln(1 + tokens) / 5, at most 1."""
        return min(natural_log(1.0 + float(self.lengths[arm][doc])) / 5.0, 1.0)

    # Fusion

    def fusion(self, call: Call) -> Fusion | None:
        """With a stage the default fusion joins one arm alone, too."""
        joins = call.stage("Around") or call.stage("Prior")
        return super().fusion(call) or (DEFAULT_FUSION if joins else None)

    def outside(self, search: Search, weights: Mapping[str, float], doc: int) -> float:
        """The fused score of a row that no list has, scaled by the others' extremes and cut."""
        fusion = search.fusion
        if isinstance(fusion, Rrf):
            return 0.0
        parts = []
        for arm, of_arm in search.inside.items():
            score, listed = search.scores[arm][doc], search.ranks[arm]
            known = {d: s for d, s in of_arm.items() if s is not None and listed}
            if not fusion.complete:
                known = {d: s for d, s in known.items() if d in listed}
            worth = 0.0
            if score is not None and fusion.complete and known:
                worth = self.worth_outside(fusion, known, listed, score)
            parts.append(weights[arm] * worth)
        return max(parts) if fusion.largest else running_sum(sorted(parts, reverse=True))

    def worth_outside(
        self, fusion: Weighted, known: dict[int, float], listed: Mapping[int, int], score: float
    ) -> float:
        """A score as the scaling of the pool sees it."""
        if isinstance(fusion, Dbsf):
            values = [known[doc] for doc in fusion.rank_order(known, listed)]
            mean = running_sum(values) / len(values)
            squares = running_sum([(value - mean) * (value - mean) for value in values])
            deviation = math.sqrt(squares / len(values))
            if deviation == 0:
                return 0.0 if score < mean else 1.0
            return (score - (mean - 3.0 * deviation)) / (6.0 * deviation)
        if fusion.normalize == "none":
            return score
        low, high = min(known.values()), max(known.values())
        if score < low:
            return 0.0
        return 1.0 if low == high else min((score - low) / (high - low), 1.0)

    def unit(
        self, fusion: Fusion, scores: Scores, ranks: Ranks, weights: Mapping[str, float]
    ) -> float:
        """The best possible fused score."""
        parts = []
        for arm in scores:
            if isinstance(fusion, Rrf):
                parts.append(weights[arm] / (fusion.rank_constant + 1) if ranks[arm] else 0.0)
                continue
            known = {d: s for d, s in scores[arm].items() if s is not None and ranks[arm]}
            if not fusion.complete:
                known = {d: s for d, s in known.items() if d in ranks[arm]}
            best = 0.0
            if known:
                top = max(known, key=known.__getitem__)
                best = max(fusion.normalised(scores[arm], ranks[arm])[top], 0.0)
            parts.append(weights[arm] * best)
        if isinstance(fusion, Weighted) and fusion.largest:
            return max(parts)
        return running_sum(sorted(parts, reverse=True))

    def total(self, fused: float, addends: Sequence[float]) -> float:
        """A score and its evidence, added largest first."""
        return running_sum(sorted([fused, *addends], reverse=True)) + 0.0

    # What is added

    def near_union(self, search: Search) -> list[int]:
        """Rows beside those of the lists."""
        around = search.call.stage("Around")
        if around is None or search.fusion is None:
            return []
        threads = self.threads(self.speaking(search.allowed, search.visible))
        distances = range(1, len(around.neighbours) + 1)
        beside = {n for doc in search.union for d in distances for n in self.near(threads, doc, d)}
        return sorted(beside - set(search.union))

    def scored(self, search: Search) -> dict[int, float]:
        """The fused scores and what is added to them."""
        around, prior = search.call.stage("Around"), search.call.stage("Prior")
        if around is None and prior is None:
            return super().scored(search)
        fusion, ranks, fused = search.fusion, search.ranks, search.fused
        assert fusion is not None
        shares: Mapping[str, float] = search.weights
        if isinstance(fusion, Weighted):
            kinds = tuple(self.shape.lexical), tuple(self.shape.dense)
            shares = fusion.balanced(search.inside, ranks, search.weights, *kinds)
        for doc in search.near:
            fused[doc] = self.outside(search, shares, doc) + 0.0
        unit = self.unit(fusion, search.inside, ranks, shares) if search.union else 0.0
        search.addends = self.addends(search, around or SILENT, fused, unit)
        if prior is not None:
            for doc, addends in search.addends.items():
                addends["prior"] = self.prior_unit(unit) * self.worth(prior, doc)
        return {
            doc: self.total(fused[doc], list(addends.values()))
            for doc, addends in search.addends.items()
            if doc in search.union or self.becomes_hit(doc, search.visible)
        }

    def prior_unit(self, unit: float) -> float:
        """What the numbers of a prior are shares of."""
        return unit

    def worth(self, prior: object, doc: int) -> float:
        """What a row's value adds; another value, or none, adds 0."""
        return dict(prior.values).get(self.rows[doc].attributes[prior.column], 0.0)

    def heard_texts(self, search: Search) -> dict[str, Query]:
        """The query's text of each arm that lists something; another arm adds nothing."""
        texts = {arm: search.call.texts[arm][search.query] for arm in search.call.texts}
        heard = [arm for arm in self.shape.lexical if search.ranks.get(arm)]
        return {arm: text for arm in heard if (text := texts[arm]) is not None}

    def addends(
        self, search: Search, how: Around, fused: Mapping[int, float], unit: float
    ) -> dict[int, dict[str, float]]:
        """What is added to each score, by its name."""
        pool = [*search.union, *search.near]
        threads = self.threads(self.speaking(search.allowed, search.visible))
        out: dict[int, dict[str, float]] = {doc: {} for doc in pool}
        for doc in pool:
            for distance, one in enumerate(how.neighbours, start=1):
                near = [n for n in self.near(threads, doc, distance) if n in fused]
                if near:
                    out[doc][f"neighbour_{distance}"] = one * max(0.0, *(fused[n] for n in near))
        of_threads, of_lengths = {}, {}
        for arm, text in self.heard_texts(search).items():
            counted = self.counted(arm, search.allowed, search.visible)
            constants = for_lengths(self.constants(search.call), self.lengths[arm][counted])
            scores = self.thread_scores(arm, text, threads, constants)
            mine = {
                doc: scores[thread]
                for doc in pool
                if (thread := self.thread(doc)) is not None and thread in scores
            }
            inside = [mine[doc] for doc in search.union if doc in mine]
            low, high = (min(inside), max(inside)) if inside else (0.0, 0.0)
            of_threads[arm] = {
                doc: 1.0 if low == high else (value - low) / (high - low)
                for doc, value in mine.items()
            }
            share = self.length_share(arm, counted)
            of_lengths[arm] = {
                doc: share * self.length_worth(arm, doc)
                for doc in pool
                if self.texts[arm][doc] is not None
            }
        for name, of_arms in (("thread", of_threads), ("length", of_lengths)):
            one = getattr(how, name)
            for doc in pool if one > 0 else ():
                speaking = [arm for arm in of_arms if doc in of_arms[arm]]
                parts = [search.weights[arm] * of_arms[arm][doc] for arm in speaking]
                total = running_sum([search.weights[arm] for arm in speaking])
                if total > 0:
                    mean = running_sum(sorted(parts, reverse=True)) / total
                    out[doc][name] = (one * unit) * mean
        return out
