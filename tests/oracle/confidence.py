"""The confidence of a reply and of its hits by definition: docs/confidence.md in plain Python."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oracle.bm25 import Bm25, impacts, length_norms, weight
from oracle.documents import Call
from oracle.recall import DEFAULT_BM25, Oracle, Search
from oracle.words import Mask, Words, word_tokens

CONSIDERED = 20
BEST = 5
Models = Mapping[str, Any]  # by name, coefficients of a query and of a hit


@dataclass
class Judged:
    """The confidence of one reply; None: nothing to judge by."""

    reply: float | None
    hits: list[float | None]


class Confidence:
    """How sure the replies of an oracle are, by given coefficients.

    ``family`` is that of the embedder of all vector arms, None for an unknown one. ``own`` are the
    coefficients of a recipe, of a query and of a hit.
    """

    how: Bm25 = DEFAULT_BM25

    def __init__(
        self,
        oracle: Oracle,
        models: Models,
        family: str | None,
        own: tuple[Mapping[str, float], Mapping[str, float]] | None = None,
    ) -> None:
        self.oracle, self.models, self.family, self.own = oracle, models, family, own

    def of(self, call: Call, query: int) -> Judged:
        """How sure the reply to a query is."""
        oracle = self.oracle
        search = oracle.search(call, query)
        page = [doc for doc, _ in oracle.ranked(search)][call.offset : call.offset + call.limit]
        arms = list(search.weights)
        texts = {arm: call.texts[arm][query] for arm in arms if arm in call.texts}
        shares = [self.shares(search, arm, text) for arm, text in texts.items() if text is not None]
        shares = [one for one in shares if one is not None]
        dense = self.dense(call, query, arms) if self.family is not None else []
        is_own = self.is_by_own(texts, self.dense(call, query, arms))
        if is_own:
            reads_texts, reads_vectors = self.reads
            texts, shares = (texts, shares) if reads_texts else ({}, [])
            dense = self.dense(call, query, arms) if reads_vectors else []
        if not (dense or any(text is not None for text in texts.values())):
            return Judged(None, [None] * len(page))
        model = self.family if dense else "words"
        by_package = self.models.get(f"{model} alone" if dense and not shares else model)
        of_query, of_hit = self.own if is_own else by_package
        deep = replace(call, depth=max(oracle.depth(call), CONSIDERED))
        ranks = oracle.search(deep, query).ranks
        lists = [ranks.get(arm, {}) for arm in (*texts, *dense)]
        docs = {doc for ranks in lists for doc in list(ranks)[:CONSIDERED]}
        if not docs:
            return Judged(0.0, [0.0] * len(page))

        def close(doc: int) -> tuple[float, float]:
            cosines = [oracle.dense(arm, call.vectors[arm][query])[doc] for arm in dense]
            return (
                max([0.0, *(float(one) for one in cosines if not np.isnan(one))]),
                max([0.0, *(float(one[doc]) for one in shares)]),
            )

        found = [close(doc) for doc in docs]
        ranked = sorted((one[bool(shares)] for one in found), reverse=True)
        signals = {
            "cosine": max(cosine for cosine, _ in found),
            "lead": ranked[0] - math.fsum(ranked[BEST:CONSIDERED]) / (CONSIDERED - BEST),
            "names": self.names(search, texts),
        }
        best = max(map(sum, found))
        logit = weigh(of_query, signals)
        hits = []
        for doc in page:
            cosine, share = close(doc)
            behind = max(best - cosine - share, 0.0)
            own = {"cosine": cosine, "words": share, "behind": behind, "query": logit}
            hits.append(probability(weigh(of_hit, own)))
        return Judged(probability(logit), hits)

    @property
    def reads(self) -> tuple[bool, bool]:
        """Whether a recipe's coefficients weigh a signal of texts, and one of vectors."""
        weighed = {name for of in self.own or () for name in of}
        return bool(weighed & {"names", "words"}), "cosine" in weighed

    def is_by_own(self, texts: Mapping[str, Any], dense: list[str]) -> bool:
        """Whether a query asks all that a recipe's coefficients weigh."""
        asked = any(text is not None for text in texts.values()), bool(dense)
        needed = zip(self.reads, asked, strict=True)
        return self.own is not None and all(has or not reads for reads, has in needed)

    def dense(self, call: Call, query: int, arms: list[str]) -> list[str]:
        """The vector arms that are asked."""
        asked = {arm: call.vectors[arm][query] for arm in arms if arm in call.vectors}
        return [arm for arm, vector in asked.items() if vector is not None and vector.any()]

    def counted(self, search: Search, arm: str) -> Mask:
        """The documents that the statistics speak of."""
        return self.oracle.counted(arm, search.allowed, search.visible)

    def shares(self, search: Search, arm: str, text: Any) -> list[float] | None:
        """The share of the greatest BM25 possible that each document has; None without a term."""
        oracle, counted = self.oracle, self.counted(search, arm)
        leaves = oracle.multiplicities(text)
        mean = oracle.mean_doc_length(arm, counted)
        norms = length_norms(self.how, oracle.lengths[arm], mean)
        worths, parts, held = [], [], {}
        for leaf, multiplicity in leaves:
            freqs = oracle.occurrences(arm, leaf)
            doc_freq = int(((freqs > 0) & counted).sum())
            worths.append(weight(self.how, int(counted.sum()), doc_freq, multiplicity))
            parts.append(impacts(self.how, worths[-1], np.float32(0), freqs, norms))
            held[leaf] = freqs > 0
        whole = math.fsum(worths)
        if whole <= 0:
            return None
        matched = oracle.matched(text, held, excludes=True) & np.ones(len(oracle.rows), bool)
        found = zip(matched, *parts, strict=True)
        return [math.fsum(own) / whole if ok else 0.0 for ok, *own in found]

    def names(self, search: Search, texts: Mapping[str, Any]) -> float:
        """The share of names and numbers that no authorised document holds in any arm."""
        lacking: dict[str, bool] = {}
        for arm, text in texts.items():
            if not isinstance(text, Words):
                continue
            held = {
                token
                for own, ok in zip(self.oracle.texts[arm], self.counted(search, arm), strict=True)
                if ok
                for one in own or ()
                for token in one
            }
            words = [one for one in text.text.split() if any(map(str.isalnum, one))]
            for place, word in enumerate(words):
                is_name = place and word[0].isupper()
                if is_name or any(one.isdigit() for one in word):
                    lacks = not set(word_tokens(word)) <= held
                    lacking[word] = lacking.get(word, True) and lacks
        return sum(lacking.values()) / len(lacking) if lacking else 0.0


def weigh(coefficients: Mapping[str, float], signals: Mapping[str, float]) -> float:
    """The logit."""
    return sum(weight * signals.get(name, 1.0) for name, weight in coefficients.items())


def probability(logit: float) -> float:
    """The logistic function."""
    return 1.0 / (1.0 + math.exp(-logit))
