"""Evidence around a hit by definition: the rows near it in its thread, the thread as one document,
its length.

A table's thread is the attribute ``kind`` and the place there ``number``, both null now and then.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
from oracle.documents import Call, Hit, Reply
from oracle.fusion import Dbsf, Fusion, Ranks, Rrf, Scores, Weighted, running_sum
from oracle.recall import DEFAULT_BM25, DEFAULT_DEPTH, DEFAULT_FUSION, Docs, Oracle
from oracle.scope import Cell, Value
from oracle.words import Leaf, Mask, Query, matched

Thread = tuple[Cell, Value]
LUCENE = Bm25()


@dataclass(frozen=True)
class Evidence:
    """The weights of the stage."""

    neighbours: tuple[float, ...] = (0.3, 0.15)
    thread: float = 0.25
    length: float = 0.4


def deep(call: Call) -> Call:
    """The same call with a depth that gives its page: with the stage an arm alone is no longer as
    deep as the limit asks.
    """
    most = call.limit + call.offset
    return replace(call, depth=max(DEFAULT_DEPTH if call.depth is None else call.depth, most))


class AroundOracle(Oracle):
    """The definition of a reply with evidence. One method for each decision, as in Oracle."""

    how = Evidence()

    # Threads

    def thread(self, doc: int) -> Thread | None:
        """What a row is part of; a thread lies within a cell."""
        value = self.rows[doc].attributes["kind"]
        return None if value is None else (self.rows[doc].cell, value)

    def place(self, doc: int) -> tuple[bool, int, int]:
        """What orders the rows of a thread: those without a place last, equal places by seq."""
        value = self.rows[doc].attributes["number"]
        return value is None, value or 0, doc

    def threads(self, docs: Sequence[int]) -> dict[Thread, list[int]]:
        """The rows of each thread, in their order."""
        out: dict[Thread, list[int]] = {}
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

    def constants(self, call: Call) -> Bm25:
        """With the stage the default fusion joins one arm alone, too."""
        named = call.bm25 or (self.bm25 if self.bm25 != LUCENE else None)
        return named or (DEFAULT_BM25 if call.fusion is None else LUCENE)

    def outside(
        self, fusion: Fusion, scores: Scores, ranks: Ranks, weights: Mapping[str, float], doc: int
    ) -> float:
        """The fused score of a row that no list has, scaled by the others' extremes and cut."""
        if isinstance(fusion, Rrf):
            return 0.0
        parts = []
        for arm, of_arm in scores.items():
            score = of_arm[doc]
            union = {d for listed in ranks.values() for d in listed}
            known = {d: s for d, s in of_arm.items() if s is not None and d in union and ranks[arm]}
            if not fusion.complete:
                known = {d: s for d, s in known.items() if d in ranks[arm]}
            worth = 0.0
            if score is not None and fusion.complete and known:
                worth = self.worth_outside(fusion, known, ranks[arm], score)
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

    # The reply

    def recall(self, call: Call, query: int) -> Reply:
        """The reply to one query of a call."""
        call = deep(call)
        allowed = self.authorised(call.scopes[query])
        visible = self.visible(allowed, call.filter(query))
        found = self.arm_scores(call, query, allowed, visible)
        fusion = call.fusion or DEFAULT_FUSION
        weights = self.weights(fusion, call)
        lists: dict[str, Docs] = {}
        for arm in weights.keys() & found.keys():
            scores, candidates = found[arm]
            if arm in call.min_score:
                candidates = candidates & self.clears(scores, call.min_score[arm])
            lists[arm] = self.cut(scores, candidates, self.depth(call))
        ranks = {
            arm: self.ranks(found[arm][0], lists[arm]) if arm in lists else {} for arm in weights
        }
        union = sorted({doc for listed in ranks.values() for doc in listed})
        threads = self.threads(self.speaking(allowed, visible))
        distances = range(1, len(self.how.neighbours) + 1)
        beside = {doc: [self.near(threads, doc, d) for d in distances] for doc in union}
        added = {near for lists_ in beside.values() for docs in lists_ for near in docs}
        pool = [*union, *sorted(added - set(union))]
        completed = {
            arm: {
                doc: self.component(arm, doc, found[arm][0], doc in ranks[arm])
                if arm in found
                else None
                for doc in pool
            }
            for arm in weights
        }
        inside = {arm: {doc: of_arm[doc] for doc in union} for arm, of_arm in completed.items()}
        shares: Mapping[str, float] = weights
        if isinstance(fusion, Weighted):
            shares = fusion.balanced(inside, ranks, weights, tuple(self.shape.dense))
        fused = dict(self.fused(fusion, inside, ranks, weights))
        for doc in pool[len(union) :]:
            fused[doc] = self.outside(fusion, completed, ranks, shares, doc) + 0.0
        unit = self.unit(fusion, inside, ranks, shares) if union else 0.0
        heard = self.heard_texts(call, query, ranks)
        addends = self.evidence(heard, query, allowed, visible, threads, union, pool, fused, unit)
        final = {
            doc: self.total(fused[doc], addends[doc])
            for doc in pool
            if doc in union or self.becomes_hit(doc, visible)
        }
        if call.min_fused is not None:
            final = {doc: score for doc, score in final.items() if score >= call.min_fused}
        order = sorted(final, key=lambda doc: (-final[doc], doc))
        return tuple(
            Hit(
                rank=1 + at,
                key=self.rows[doc].key,
                cell=self.rows[doc].cell,
                score=final[doc],
                arm_scores=tuple(
                    completed[arm][doc] if arm in completed else None for arm in self.shape.arms
                ),
                arm_ranks=tuple(
                    ranks[arm].get(doc) if arm in ranks else None for arm in self.shape.arms
                ),
            )
            for at, doc in enumerate(order)
            if call.offset <= at < call.offset + call.limit
        )

    def heard_texts(self, call: Call, query: int, ranks: Ranks) -> Call:
        """The call without the query's text of each arm that lists nothing, which adds nothing."""
        texts = {
            arm: tuple(
                None if at == query and not ranks.get(arm) else one for at, one in enumerate(given)
            )
            for arm, given in call.texts.items()
        }
        return replace(call, texts=texts)

    def evidence(
        self,
        call: Call,
        query: int,
        allowed: Mask,
        visible: Mask,
        threads: Mapping[Thread, list[int]],
        union: Sequence[int],
        pool: Sequence[int],
        fused: Mapping[int, float],
        unit: float,
    ) -> dict[int, list[float]]:
        """What is added to each score of the pool."""
        how = self.how
        out: dict[int, list[float]] = {doc: [] for doc in pool}
        for doc in pool:
            for distance, one in enumerate(how.neighbours, start=1):
                near = [n for n in self.near(threads, doc, distance) if n in fused]
                if near:
                    out[doc].append(one * max(0.0, *(fused[n] for n in near)))
        weights = self.weights(call.fusion or DEFAULT_FUSION, call)
        texts = {
            arm: call.texts[arm][query]
            for arm in self.shape.lexical
            if arm in weights and arm in call.texts and call.texts[arm][query] is not None
        }
        of_threads, of_lengths = {}, {}
        for arm, text in texts.items():
            counted = self.counted(arm, allowed, visible)
            constants = for_lengths(self.constants(call), self.lengths[arm][counted])
            scores = self.thread_scores(arm, text, threads, constants)
            mine = {
                doc: scores[thread]
                for doc in pool
                if (thread := self.thread(doc)) is not None and thread in scores
            }
            inside = [mine[doc] for doc in union if doc in mine]
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
        for of_arms, one in ((of_threads, how.thread), (of_lengths, how.length)):
            for doc in pool if one > 0 else ():
                speaking = [arm for arm in of_arms if doc in of_arms[arm]]
                parts = [weights[arm] * of_arms[arm][doc] for arm in speaking]
                total = running_sum([weights[arm] for arm in speaking])
                if total > 0:
                    mean = running_sum(sorted(parts, reverse=True)) / total
                    out[doc].append((one * unit) * mean)
        return out
