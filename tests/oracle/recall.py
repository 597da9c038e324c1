"""Recall by definition: every document is looked at, every list is sorted whole.

One method for each decision of the specification, so that a planted bug is a subclass with one
method changed.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic import F32, cosines
from oracle.bm25 import (
    LUCENE,
    Bm25,
    for_lengths,
    impacts,
    length_norms,
    mean_doc_length,
    shift,
    weight,
)
from oracle.documents import DEFAULT_DEPTH, Above, Call, Hit, Reply, Row, Scope, Shape
from oracle.fusion import Fusion, Ranks, Rrf, Scores, Weighted, alpha_weights, fuse
from oracle.scope import Predicate, passes
from oracle.words import Leaf, Mask, Query, Text, leaves, matched, most_frequent, word_tokens

Docs = NDArray[np.intp]

Ranked = list[tuple[int, float]]
DEFAULT_FUSION = Weighted(balance=0.85)
"""Of two or more arms."""
DEFAULT_BM25 = Bm25("lucene", 0.75, 0.25)
"""Beside the default fusion, where neither call nor index names another."""


@dataclass
class Search:
    """What was found for one query, until its hits are chosen."""

    call: Call
    query: int
    allowed: Mask  # by the scope
    visible: Mask  # of those, what passes the filter
    fusion: Fusion | None
    weights: dict[str, float]
    ranks: Ranks
    union: list[int]  # of the arms' lists
    leading: set[int]
    near: list[int] = field(default_factory=list)  # what joined the union for its rows
    scores: dict[str, dict[int, float | None]] = field(default_factory=dict)
    fused: dict[int, float] = field(default_factory=dict)
    addends: dict[int, dict[str, float]] = field(default_factory=dict)

    @property
    def inside(self) -> dict[str, dict[int, float | None]]:
        """The arms' scores of the union."""
        return {arm: {d: of_arm[d] for d in self.union} for arm, of_arm in self.scores.items()}


class Oracle:
    """The documents of one index in ``seq`` order, and the definition of a reply."""

    first_rank = 1
    most_expanded = 1024

    def __init__(self, shape: Shape, rows: Sequence[Row], bm25: Bm25 = LUCENE) -> None:
        self.shape = shape
        self.rows = rows
        self.bm25 = bm25
        self.texts = {
            arm: [self.text(row, columns) for row in rows] for arm, columns in shape.lexical.items()
        }
        self.lengths = {
            arm: np.array([self.length(arm, text) for text in texts], np.int64)
            for arm, texts in self.texts.items()
        }
        self.matrices = {
            arm: np.array(
                [np.zeros(dim) if (v := row.vectors[arm]) is None else v for row in rows],
                np.float32,
            ).reshape(len(rows), dim)
            for arm, dim in shape.dense.items()
            if arm not in shape.many
        }  # a missing vector is a zero vector, which counts as missing
        self._counted: dict[tuple[str, Leaf], NDArray[np.int64]] = {}
        self._cosines: dict[tuple[str, bytes], F32] = {}

    def text(self, row: Row, columns: tuple[str, ...]) -> Text | None:
        """The tokens of a row's text, a field for each column, empty where it is null; None where
        all are null.
        """
        values = [row.texts[column] for column in columns]
        if all(value is None for value in values):
            return None
        return tuple(word_tokens(value or "") for value in values)

    def length(self, arm: str, text: Text | None) -> int:
        """The tokens of a text, each as often as its column's weight says."""
        weights = self.shape.column_weights(arm)
        return 0 if text is None else sum(w * len(f) for w, f in zip(weights, text, strict=True))

    def count(self, arm: str, leaf: Leaf, text: Text | None) -> int:
        """How often a text holds a leaf, a column as often as its weight says."""
        return 0 if text is None else leaf.occurrences(text, self.shape.column_weights(arm))

    # What a query may see

    def authorised(self, cells: Scope) -> Mask:
        """Documents whose cell the scope names."""
        return np.array([row.cell in cells for row in self.rows], bool)

    def visible(self, allowed: Mask, predicate: Predicate | None) -> Mask:
        """Authorised documents that satisfy the filter."""
        return np.array(
            [
                ok and passes(predicate, row.attributes)
                for ok, row in zip(allowed, self.rows, strict=True)
            ],
            bool,
        )

    def counted(self, arm: str, allowed: Mask, visible: Mask) -> Mask:
        """Documents that the statistics speak of: authorised ones with a text, whatever the filter
        says.
        """
        return allowed & self.has_text(arm)

    def has_text(self, arm: str) -> Mask:
        """Documents with a text; one without a token counts, one that is null does not."""
        return np.array([text is not None for text in self.texts[arm]], bool)

    # Scores of an arm

    def mean_doc_length(self, arm: str, counted: Mask) -> float:
        """Mean length of the documents that the statistics speak of."""
        return mean_doc_length(int(counted.sum()), int(self.lengths[arm][counted].sum()))

    def occurrences(self, arm: str, leaf: Leaf) -> NDArray[np.int64]:
        """How often each document holds a leaf."""
        if (arm, leaf) not in self._counted:
            counts = [self.count(arm, leaf, text) for text in self.texts[arm]]
            self._counted[arm, leaf] = np.array(counts, np.int64)
        return self._counted[arm, leaf]

    def expanded(self, arm: str, leaf: Leaf, counted: Mask) -> dict[str, int]:
        """The terms for which a word stands, and the documents that hold each."""
        docs = [text for text, ok in zip(self.texts[arm], counted, strict=True) if ok]
        held = [{token for field in text or () for token in field} for text in docs]
        return Counter(token for own in held for token in own if leaf.means(0, token))

    def cut_leaf(
        self, arm: str, leaf: Leaf, counted: Mask, term_freqs: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """How often each document holds a leaf, of the most frequent terms where it has too many;
        its document frequency is still that of all.
        """
        terms = self.expanded(arm, leaf, counted) if leaf.expands else {}
        if len(terms) <= self.most_expanded:
            return term_freqs
        kept = most_frequent(terms, self.most_expanded)
        return np.array(
            [
                sum(token in kept for field in text or () for token in field)
                for text in self.texts[arm]
            ],
            np.int64,
        )

    def multiplicities(self, query: Query) -> list[tuple[Leaf, float]]:
        """Distinct leaves with boost x count, in the order in which their impacts are summed."""
        total: dict[Leaf, float] = {}
        for leaf, boost, count in leaves(query):
            total[leaf] = total.get(leaf, 0.0) + boost * count
        return sorted(total.items(), key=lambda item: item[0].order())

    def lexical(self, arm: str, query: Query, counted: Mask, bm25: Bm25) -> tuple[F32, Mask]:
        """BM25 score of every document, and which of them match; 0 for those that do not, NaN for
        those that a ``Not`` keeps out.
        """
        n_docs = int(counted.sum())
        bm25 = for_lengths(bm25, self.lengths[arm][counted])
        norms = length_norms(bm25, self.lengths[arm], self.mean_doc_length(arm, counted))
        scores = np.zeros(len(self.rows), np.float32)
        held: dict[Leaf, Mask] = {}
        for leaf, multiplicity in self.multiplicities(query):
            term_freqs = self.occurrences(arm, leaf)
            doc_freq = int(((term_freqs > 0) & counted).sum())
            term_freqs = self.cut_leaf(arm, leaf, counted, term_freqs)
            held[leaf] = term_freqs > 0
            if doc_freq > 0:
                counts = n_docs, doc_freq, multiplicity
                worth = weight(bm25, *counts), shift(bm25, *counts)
                scores = scores + impacts(bm25, *worth, term_freqs, norms)
        found = self.matched(query, held, excludes=True)
        without = self.matched(query, held, excludes=False)
        return np.where(found, scores, np.where(without, np.float32("nan"), np.float32(0))), found

    def matched(self, query: Query, held: Mapping[Leaf, Mask], *, excludes: bool) -> Mask:
        """Which documents match, with or without what the query excludes."""
        mask = matched(query, held.__getitem__, excludes=excludes)
        return mask & np.ones(len(self.rows), bool)

    def dense(self, arm: str, query: F32) -> F32:
        """Cosine of every document; NaN where it has no vector."""
        key = arm, query.tobytes()
        if key not in self._cosines:
            if arm in self.shape.sparse:
                self._cosines[key] = self.sparse(self.matrices[arm], query)
            elif arm in self.shape.many:
                bundles = [row.vectors[arm] for row in self.rows]
                scores = [self.max_sim(bundle, query) for bundle in bundles]
                self._cosines[key] = np.array(scores, np.float32)
            else:
                self._cosines[key] = cosines(self.matrices[arm], query)
        return self._cosines[key]

    def sparse(self, rows: F32, query: F32) -> F32:
        """The sum of the products of weights, in the order of the terms' bytes; NaN without any."""
        total = np.zeros(len(rows))
        for term in self.terms(query):
            total = total + float(query[term]) * rows[:, term].astype(np.float64)
        return np.where(rows.any(axis=1), total.astype(np.float32), np.float32("nan"))

    def terms(self, query: F32) -> list[int]:
        """The terms of a query in the order in which they are summed."""
        return sorted(map(int, np.flatnonzero(query)), key=str)

    def max_sim(self, vectors: F32 | None, query: F32) -> float:
        """The sum of the greatest cosine of each of the query's vectors; NaN without a vector."""
        if vectors is None or not vectors.any():
            return math.nan
        total = 0.0
        for one in query:
            if one.any():
                total = total + self.greatest(cosines(vectors, one))
        return total

    def greatest(self, found: F32) -> float:
        """The greatest cosine, past the vectors that count as missing."""
        return float(np.nanmax(found))

    # Lists

    def ties(self) -> NDArray[np.int64]:
        """What orders documents of equal score: their seq."""
        return np.arange(len(self.rows))

    def clears(self, scores: F32, floor: float | Above) -> Mask:
        """Scores at or above a floor, which is rounded to float32 once."""
        if isinstance(floor, Above):
            return scores > np.float32(floor.value)
        return scores >= np.float32(floor)

    def cut(self, scores: F32, candidates: Mask, depth: int) -> Docs:
        """The first ``depth`` candidates by (score descending, seq ascending)."""
        docs = np.flatnonzero(candidates)
        order = np.lexsort((self.ties()[docs], -scores[docs].astype(np.float64)))
        return docs[order][:depth]

    def depth(self, call: Call) -> int:
        """How many candidates an arm hands on."""
        depth = DEFAULT_DEPTH if call.depth is None else call.depth
        is_free = len(call.arms) == 1 and not (call.shaping or call.is_grouped)
        return max(depth, call.offset + call.limit) if is_free else depth

    def component(self, arm: str, doc: int, scores: F32, listed: bool) -> float | None:
        """The completed score of a document: set wherever it has a text or a vector."""
        has_text = arm in self.shape.dense or self.texts[arm][doc] is not None
        return float(scores[doc]) if has_text and not np.isnan(scores[doc]) else None

    def leading(
        self, call: Call, query: int, seen: tuple[Mask, Mask], ranks: Ranks
    ) -> tuple[set[int], set[int]]:
        """Documents that join the arms' lists, and those that come before all others; none, but
        where a recipe says so. ``seen``: what is authorised, and of it what passes the filter.
        """
        return set(), set()

    def ranks(self, scores: F32, listed: Docs) -> dict[int, int]:
        """The ranks of an arm's list, in its order: one more than how many of it score higher."""
        own = scores[listed]
        return {int(doc): self.first_rank + int((own > scores[doc]).sum()) for doc in listed}

    def shown_rank(
        self, call: Call, listed: Mapping[int, int], doc: int, *, leads: bool
    ) -> int | None:
        """The rank in an arm's list that a hit shows."""
        return listed.get(doc)

    def constants(self, call: Call) -> Bm25:
        """The BM25 of a call: its own, else the index's, else the default of what joins arms."""
        named = call.bm25 or (self.bm25 if self.bm25 != LUCENE else None)
        joins = call.fusion is None and self.fusion(call) is not None
        return named or (DEFAULT_BM25 if joins else LUCENE)

    # Fusion

    def fusion(self, call: Call) -> Fusion | None:
        """How the arms of a call are joined; one arm alone is not."""
        return call.fusion or (DEFAULT_FUSION if len(call.arms) > 1 else None)

    def weights(self, fusion: Fusion, call: Call) -> dict[str, float]:
        """Weight of every arm that the call runs; an arm of weight 0 is left out."""
        given = dict(fusion.weights or {})
        if isinstance(fusion, Rrf) and fusion.alpha is not None and len(call.arms) == 2:
            (lexical,), (dense,) = call.texts, call.vectors
            given = alpha_weights(fusion.alpha, lexical, dense)
        weights = {arm: given.get(arm, 1.0) for arm in call.arms}
        return {arm: weight for arm, weight in weights.items() if weight != 0.0}

    def fused(
        self, fusion: Fusion, scores: Scores, ranks: Ranks, weights: Mapping[str, float]
    ) -> dict[int, float]:
        """Fused score of every document of the union."""
        if isinstance(fusion, Weighted):
            kinds = tuple(self.shape.lexical), tuple(self.shape.dense)
            weights = fusion.balanced(scores, ranks, weights, *kinds)
        return fuse(fusion, scores, ranks, weights)

    def arm_scores(
        self, call: Call, query: int, allowed: Mask, visible: Mask
    ) -> dict[str, tuple[F32, Mask]]:
        """For every arm that runs for this query: a score for each document, and who is a
        candidate.
        """
        found = {}
        for arm, texts in call.texts.items():
            if texts[query] is not None:
                counted = self.counted(arm, allowed, visible)
                scores, matched = self.lexical(arm, texts[query], counted, self.constants(call))
                found[arm] = scores, matched & visible
        for arm, vectors in call.vectors.items():
            vector = vectors[query]
            if vector is not None and vector.any():
                scores = self.dense(arm, vector)
                found[arm] = scores, self.listed(arm, scores) & visible
        return found

    def listed(self, arm: str, scores: F32) -> Mask:
        """Documents with a vector; of sparse ones those that share a term with the query."""
        return scores > 0 if arm in self.shape.sparse else ~np.isnan(scores)

    def search(self, call: Call, query: int) -> Search:
        """What the arms find for one query, and its fused scores."""
        allowed = self.authorised(call.scopes[query])
        visible = self.visible(allowed, call.filter(query))
        found = self.arm_scores(call, query, allowed, visible)
        fusion = self.fusion(call)
        weights = dict.fromkeys(call.arms, 1.0) if fusion is None else self.weights(fusion, call)
        lists: dict[str, Docs] = {}
        for arm in weights.keys() & found.keys():
            scores, candidates = found[arm]
            if arm in call.min_score:
                candidates = candidates & self.clears(scores, call.min_score[arm])
            lists[arm] = self.cut(scores, candidates, self.depth(call))
        ranks = {
            arm: self.ranks(found[arm][0], lists[arm]) if arm in lists else {} for arm in weights
        }
        brought, leading = self.leading(call, query, (allowed, visible), ranks)
        union = sorted({doc for listed in ranks.values() for doc in listed} | brought)
        made = Search(call, query, allowed, visible, fusion, weights, ranks, union, leading)
        made.near = self.near_union(made)
        made.scores = {
            arm: {
                doc: self.component(arm, doc, found[arm][0], doc in ranks[arm])
                if arm in found
                else None
                for doc in (*union, *made.near)
            }
            for arm in weights
        }
        if fusion is None:
            made.fused = {
                doc: score
                for listed in made.inside.values()
                for doc, score in listed.items()
                if score is not None
            }
        else:
            if brought:  # as by an arm without weight
                ranks = ranks | {"": dict.fromkeys(sorted(brought), 1)}
                weights = weights | {"": 0.0}
            made.fused = dict(self.fused(fusion, made.inside, ranks, weights))
        return made

    # Behind the fusion

    def near_union(self, search: Search) -> list[int]:
        """Documents beside those of the lists that may be hits, or speak for hits."""
        return []

    def scored(self, search: Search) -> dict[int, float]:
        """The scores of those that may be hits."""
        return search.fused

    def ranked(self, search: Search) -> Ranked:
        """The documents with their scores, best first."""
        final, floor, ties = self.scored(search), search.call.min_fused, self.ties()
        if floor is not None:
            final = {doc: score for doc, score in final.items() if score >= floor}
        order = sorted(final, key=lambda doc: (doc not in search.leading, -final[doc], ties[doc]))
        return [(doc, final[doc]) for doc in order]

    def page(self, search: Search, ranked: Ranked) -> Reply:
        """The hits between offset and offset + limit."""
        call = search.call
        page = list(enumerate(ranked))[call.offset : call.offset + call.limit]
        return tuple(self.hit(search, self.first_rank + at, *one) for at, one in page)

    def hit(self, search: Search, rank: int, doc: int, score: float) -> Hit:
        """What a reply shows of a document."""
        leads, ranks, scores = doc in search.leading, search.ranks, search.scores
        return Hit(
            rank=rank,
            key=self.rows[doc].key,
            cell=self.rows[doc].cell,
            score=score,
            arm_scores=tuple(
                scores[arm][doc] if arm in scores else None for arm in self.shape.arms
            ),
            arm_ranks=tuple(
                self.shown_rank(search.call, ranks[arm], doc, leads=leads) if arm in ranks else None
                for arm in self.shape.arms
            ),
        )

    def recall(self, call: Call, query: int) -> Reply:
        """The reply to one query of a call."""
        search = self.search(call, query)
        return self.page(search, self.ranked(search))
