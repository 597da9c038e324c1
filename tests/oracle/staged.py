"""Recall with the stages behind the evidence, from Provenance to Gate, by definition.

A stage has the name and the options of the public one. What it does to a list is defined in
:mod:`oracle.shaping`; here stands what it reads of a document.
"""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from typing import Any

import numpy as np

from oracle import shaping
from oracle.around import AroundPart
from oracle.corpus import EPOCH
from oracle.fusion import running_sum
from oracle.recall import Ranked, Search

NOW = EPOCH + timedelta(microseconds=4)  # of every call: some documents are of the future
N_NAMESAKES = 3
BESIDE = re.compile(r"(\w+)_(before|after)_(\d)")
SHARED = re.compile(r"shared\((\w+)\)")
AGED = re.compile(r"recency\((\w+), (.*)s\)")


class StagedPart(AroundPart):
    """Recall with the stages. One method for each, and for each decision."""

    now = NOW

    def ranked(self, search: Search) -> Ranked:
        """The list after the stages."""
        ranked = super().ranked(search)
        self.by_place = False
        for stage in search.call.shaping:
            run = getattr(self, type(stage).__name__, None)
            if run is not None:
                ranked = run(search, stage, ranked)
        return ranked

    # What stages read

    def value(self, doc: int, column: str) -> Any:
        """A document's value in a column."""
        return self.rows[doc].attributes[column]

    def age(self, doc: int, column: str) -> float:
        """A document's age in seconds; 0 without a time."""
        time = self.value(doc, column)
        return 0.0 if time is None else (self.now - time).total_seconds()

    def similar(self, stage: Any, missing: float = 0.0) -> shaping.Similar:
        """The cosine of two documents, the first as query; ``missing`` without a vector."""

        @cache
        def row(one: int) -> list[float]:
            found = self.dense(stage.vector, self.matrices[stage.vector][one])
            return np.where(np.isnan(found), missing, found.astype(np.float64)).tolist()

        return lambda one, other: row(one)[other]

    def text_of(self, doc: int) -> str:
        """The text that a stage reads: that of the first arm."""
        (column, *_), *_ = self.shape.lexical.values()
        return self.rows[doc].texts[column] or ""

    # Stages

    def rescored(self, search: Search, ranked: Ranked) -> Ranked:
        """The list by its new scores; what leads stays in front."""
        ordered = shaping.by_score(ranked, by_place=self.by_place)
        return shaping.lead(ordered, search.leading.__contains__)

    def Provenance(self, search: Search, stage: Any, ranked: Ranked) -> Ranked:
        """Scores times what a value is worth."""
        worth = {d: self.weight(stage, self.value(d, stage.column)) for d, _ in ranked}
        made = [(doc, worth[doc] * score) for doc, score in ranked]
        before = dict(ranked)
        for doc, score in made:
            search.addends.setdefault(doc, {})["provenance"] = score - before[doc]
        return self.rescored(search, made)

    def weight(self, stage: Any, value: Any) -> float:
        """What a value is worth; null has the default."""
        return dict(stage.weights).get(value, stage.default)

    def Linear(self, search: Search, stage: Any, ranked: Ranked) -> Ranked:
        """A weighted sum of features, the largest product first."""
        docs = [doc for doc, _ in ranked]
        products = {doc: [] for doc in docs}
        for name, weight in stage.weights:
            for doc, value in self.feature(search, name, docs).items():
                products[doc].append(weight * value)
        made = [(doc, self.sum_of(products[doc]) + 0.0) for doc in docs]
        return self.rescored(search, made)

    def sum_of(self, products: list[float]) -> float:
        """The sum of a document's products."""
        return running_sum(sorted(products, reverse=True))

    def feature(self, search: Search, name: str, docs: list[int]) -> Mapping[int, float]:
        """One feature of each document."""
        arm, _, kind = name.rpartition("_")
        if name == "fused":
            values = search.fused
        elif name == "agreement":
            scaled = [self.scaled(search, arm, docs) for arm in self.hearing(search, docs)]
            values = {doc: min((one[doc] for one in scaled), default=0.0) for doc in docs}
        elif (beside := BESIDE.fullmatch(name)) is not None:
            steps = int(beside[3]) * (-1 if beside[2] == "before" else 1)
            values = self.beside_in_thread(self.scaled(search, beside[1], docs), docs, steps)
        elif (shared := SHARED.fullmatch(name)) is not None:
            values = {doc: self.namesake(search, shared[1], doc, docs) for doc in docs}
        elif (aged := AGED.fullmatch(name)) is not None:
            half_life, ages = float(aged[2]), {doc: self.age(doc, aged[1]) for doc in docs}
            values = {d: shaping.recency_factor(age, half_life, 1.0) for d, age in ages.items()}
        elif "=" in name:
            column, wanted = name.split("=")
            values = {doc: float(str(self.value(doc, column)) == wanted) for doc in docs}
        elif kind == "score":
            values = self.scaled(search, arm, docs)
        elif kind == "rank":
            values = {doc: 1.0 / rank for doc, rank in search.ranks.get(arm, {}).items()}
        else:
            values = {doc: addends.get(name, 0.0) for doc, addends in search.addends.items()}
        return {doc: values.get(doc, 0.0) for doc in docs}

    def hearing(self, search: Search, docs: list[int]) -> list[str]:
        """The arms whose lists have one of the documents."""
        return [arm for arm, listed in search.ranks.items() if not listed.keys().isdisjoint(docs)]

    def scaled(self, search: Search, arm: str, docs: list[int]) -> dict[int, float]:
        """An arm's scores, scaled over the documents to [0, 1]."""
        known: dict[int, float] = {}
        if arm in self.hearing(search, docs):
            of_arm = search.scores[arm]
            known = {doc: score for doc in docs if (score := of_arm[doc]) is not None}
        low, high = (f(known.values(), default=0.0) for f in (min, max))
        scale = {d: 1.0 if low == high else (s - low) / (high - low) for d, s in known.items()}
        return dict.fromkeys(docs, 0.0) | scale

    def beside_in_thread(
        self, scores: Mapping[int, float], docs: list[int], steps: int
    ) -> dict[int, float]:
        """The score of the candidate so many places behind each one in its thread."""
        out = dict.fromkeys(docs, 0.0)
        for rows in self.threads(docs).values():
            for at, doc in enumerate(rows):
                if 0 <= at + steps < len(rows):
                    out[doc] = scores[rows[at + steps]]
        return out

    def namesake(self, search: Search, column: str, doc: int, docs: list[int]) -> float:
        """The best product of fused score and share of common tags, of the best other rows."""

        def tags(one: int) -> set[Any]:
            given = self.value(one, column)
            return set(given if isinstance(given, list) else () if given is None else (given,))

        best = sorted(docs, key=lambda one: (-search.fused[one], one))
        others = [one for one in best if one != doc][:N_NAMESAKES]
        common = {one: len(tags(one) & tags(doc)) for one in others}
        products = [
            search.fused[one] * (n / len(tags(one) | tags(doc))) for one, n in common.items() if n
        ]
        return max(0.0, *products) if products else 0.0

    def Rerank(self, search: Search, stage: Any, ranked: Ranked) -> Ranked:
        """The window by the scores of one arm."""
        of_arm = search.scores[stage.vector]
        return self.reranked(search, stage, ranked, of_arm.__getitem__)

    def RerankBy(self, search: Search, stage: Any, ranked: Ranked) -> Ranked:
        """The window by a function of the query's words and the text."""
        self.by_place = True
        if all(texts[search.query] is None for texts in search.call.texts.values()):
            return ranked
        texts = [self.text_of(doc) for doc, _ in ranked[: stage.window]]
        found = dict(enumerate(stage.function("", texts)))
        docs = {doc: found.get(at) for at, (doc, _) in enumerate(ranked)}
        return self.reranked(search, stage, ranked, docs.__getitem__)

    def reranked(
        self, search: Search, stage: Any, ranked: Ranked, score: Callable[[int], float | None]
    ) -> Ranked:
        """Those that lead share out their own places, the others theirs; places keep scores."""
        self.by_place = True
        cut = sum(doc in search.leading for doc, _ in ranked)
        first = shaping.rerank(ranked[:cut], score, stage.window)
        return first + shaping.rerank(ranked[cut:], score, max(stage.window - cut, 0))

    def Dedup(self, search: Search, stage: Any, ranked: Ranked) -> Ranked:
        """One document of each cluster."""
        prefer = list(stage.prefer)

        def preference(doc: int) -> int:
            value = None if stage.keep is None else self.value(doc, stage.keep)
            place = prefer.index(value) if value in prefer else len(prefer)
            is_led = stage.keep is not None and doc not in search.leading
            return place + is_led * (len(prefer) + 1)

        similar = self.similar(stage, -np.inf)  # such documents stay alone
        unit = stage.scale == "unit"
        return shaping.dedup(
            ranked, stage.threshold, unit=unit, preference=preference, similar=similar
        )

    def Recency(self, search: Search, stage: Any, ranked: Ranked) -> Ranked:
        """Scores times what age leaves of them."""

        def factor(doc: int) -> float:
            half_life = stage.half_life
            if stage.by is not None:
                half_life = dict(stage.half_lives).get(self.value(doc, stage.by), half_life)
            return shaping.recency_factor(self.age(doc, stage.column), half_life, stage.exponent)

        aged = shaping.aged(ranked, factor, by_place=self.by_place)
        return shaping.lead(aged, search.leading.__contains__)

    def Composite(self, search: Search, stage: Any, ranked: Ranked) -> Ranked:
        """A weighted mean of recency, importance and score."""

        def signals(doc: int) -> tuple[float, float]:
            left = shaping.recency_factor(self.age(doc, stage.time), stage.half_life, 1.0)
            return left, self.importance(stage, self.value(doc, stage.rating))

        weights = stage.recency, stage.importance, stage.relevance
        mixed = shaping.composite(ranked, signals, weights, by_place=self.by_place)
        return shaping.lead(mixed, search.leading.__contains__)

    def importance(self, stage: Any, rating: float | None) -> float:
        """A rating as a share of the scale, in [0, 1]."""
        worth = (stage.default if rating is None else rating) / stage.scale
        return min(max(worth, 0.0), 1.0)

    def Budget(self, search: Search, stage: Any, ranked: Ranked) -> Ranked:
        """What fits; with MMR that chooses."""
        return ranked if search.call.stage("MMR") else self.chosen(search, stage, None, ranked)

    def MMR(self, search: Search, stage: Any, ranked: Ranked) -> Ranked:
        """A greedy choice, within the budget if there is one."""
        return self.chosen(search, search.call.stage("Budget"), stage, ranked)

    def chosen(self, search: Search, budget: Any, mmr: Any, ranked: Ranked) -> Ranked:
        """The choice of both."""
        options: dict[str, Any] = {"use_vectors": mmr is not None}
        if mmr is not None:
            options |= {"weight": mmr.relevance_weight, "relevance": mmr.relevance}
            options["similar"] = self.similar(mmr)
        if budget is not None and budget.tokens is not None and budget.tokens > 0:
            options["budget"] = budget.tokens
        elif mmr is None:
            return ranked
        leads = search.leading.__contains__
        return shaping.choose(ranked, len(ranked), tokens=self.tokens, leads=leads, **options)

    def tokens(self, doc: int) -> int:
        """A quarter of a text's letters, at least 1."""
        return max(1, -(-len(self.text_of(doc).strip()) // 4))

    def Gate(self, search: Search, stage: Any, ranked: Ranked) -> Ranked:
        """Those of the least score, or a better one."""
        return [(doc, score) for doc, score in ranked if score >= stage.min_score]
