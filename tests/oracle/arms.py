"""Recall with arms beside text and vectors, by definition; an arm has the name and the options of
the public one.

A document that such an arm does not list has no score of it.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from oracle.arithmetic import F32
from oracle.documents import Call, Hit
from oracle.recall import Oracle, Search
from oracle.words import Mask, word_tokens

Found = tuple[F32, Mask]


class ArmsPart(Oracle):
    """Recall with the arms. One method for each, and for each decision."""

    def arm_scores(self, call: Call, query: int, allowed: Mask, visible: Mask) -> dict[str, Found]:
        found = super().arm_scores(call, query, allowed, visible)
        for arm in call.more:
            given = call.inputs[arm.name][query] if arm.name in call.inputs else ""
            if given is not None:
                scores = getattr(self, type(arm).__name__)(arm, given, allowed, visible)
                listed = np.array([score is not None for score in scores], bool)
                values = np.array([score or 0.0 for score in scores], np.float32)
                found[arm.name] = values, listed & visible
        return found

    def component(self, arm: str, doc: int, scores: F32, listed: bool) -> float | None:
        """The score of a document; of these arms only where they list it."""
        if arm in self.shape.arms:
            return super().component(arm, doc, scores, listed)
        return float(scores[doc]) if listed else None

    def hit(self, search: Search, rank: int, doc: int, score: float) -> Hit:
        """A hit, with the scores and the ranks of these arms behind the others."""
        made = super().hit(search, rank, doc, score)
        names = [arm.name for arm in search.call.more]
        scores = tuple(search.scores.get(name, {}).get(doc) for name in names)
        ranks = tuple(search.ranks.get(name, {}).get(doc) for name in names)
        return made._replace(arm_scores=made.arm_scores + scores, arm_ranks=made.arm_ranks + ranks)

    def Newest(self, arm: Any, given: str, allowed: Mask, visible: Mask) -> list[float | None]:
        """1 / n for the n-th largest distinct value of what the query may see."""
        values = [row.attributes[arm.column] for row in self.rows]
        seen = self.compared(allowed, visible)
        order = sorted({values[doc] for doc in seen if values[doc] is not None}, reverse=True)
        places = {value: at for at, value in enumerate(order, start=1)}
        return [1.0 / places[value] if value in places else None for value in values]

    def compared(self, allowed: Mask, visible: Mask) -> Iterable[int]:
        """The documents whose values are numbered."""
        return np.flatnonzero(visible).tolist()

    def Listed(
        self, arm: Any, given: Sequence[Any], allowed: Mask, visible: Mask
    ) -> list[float | None]:
        """1 / n for the n-th key, in every cell that has it."""
        places = {key: at for at, key in reversed(list(enumerate(given, start=1)))}
        return [1.0 / places[row.key] if row.key in places else None for row in self.rows]

    def Regex(self, arm: Any, given: str, allowed: Mask, visible: Mask) -> list[float | None]:
        """1 / n for the n-th column, if it is the first that matches."""
        pattern = re.compile(given, re.IGNORECASE)

        def score(texts: Any) -> float | None:
            held = [
                texts[column] is not None and pattern.search(texts[column])
                for column in arm.columns
            ]
            return next((1.0 / n for n, found in enumerate(held, start=1) if found), None)

        return [score(row.texts) for row in self.rows]

    def Tags(self, arm: Any, given: str, allowed: Mask, visible: Mask) -> list[float | None]:
        """base x 0.5^hops from the tags that the query names, all counted in the scope."""
        tags = [set(row.attributes[arm.column] or ()) for row in self.rows]
        counted = [tags[doc] for doc in self.counted_tags(allowed, visible)]
        words = set(word_tokens(given))
        named = {tag for own in counted for tag in own if words & set(word_tokens(tag))}
        most = max((sum(tag in own for own in counted) for tag in named), default=0)
        base = min(0.5 + 0.5 * (most / max(most, 5)), 0.9)
        hops = dict.fromkeys(named, 0)
        for hop in range(1, arm.depth + 1):
            near = {tag for own in counted if own & hops.keys() for tag in own}
            hops |= dict.fromkeys(near - hops.keys(), hop)
        found = [[hops[tag] for tag in own if tag in hops] for own in tags]
        return [base * 0.5 ** min(one) if one else None for one in found]

    def counted_tags(self, allowed: Mask, visible: Mask) -> Iterable[int]:
        """The documents whose tags are counted."""
        return np.flatnonzero(allowed).tolist()
