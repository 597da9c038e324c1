"""Confidence: the probability that a reply holds an answer, or that a hit is one, and its terms.

A logistic model of a few signals that are absolute: they compare a document with the query and not
with other documents. The signals come from :mod:`hyrecall.recall.confidence`, the coefficients from
``python -m bench.confidence DATA...`` (docs/confidence.md says what they were learnt on).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from hyrecall import _core
from hyrecall.stages.stage import operand, shown

_LOG2_E: Final = 1.4426950408889634

SIGNALS: Final = {
    "cosine": "the cosine, at least 0",
    "lead": "the best ahead of the 6th to 20th",
    "names": "names that the scope lacks",
    "words": "share of the greatest BM25",
    "behind": "behind the best document",
    "query": "logit of the reply",
}
"""What the models weigh; docs/confidence.md defines them."""


class Model(NamedTuple):
    """Coefficients by signal; ``base`` is the logit where all signals are 0."""

    query: Mapping[str, float]
    hit: Mapping[str, float]


# Learnt on 2026-11-30 by ``python -m bench.confidence --learn golden cranfield scifact locomo``: on
# questions of four sets (three for "minilm") with an answer in scope, those of other users, and
# those whose answers were taken away, 2 : 1 : 1. docs/confidence.md has the figures.
MODELS: Final[Mapping[str, Model]] = {
    "words": Model(
        query={"base": -1.85, "lead": 9.341, "names": -1.817},
        hit={"base": -2.171, "words": 2.743, "behind": -9.352, "query": 0.8073},
    ),
    "static": Model(
        query={"base": -2.712, "cosine": 2.998, "lead": 6.399, "names": -1.375},
        hit={"base": -2.358, "cosine": 0.4636, "words": 2.279, "behind": -5.414, "query": 0.7652},
    ),
    "static alone": Model(
        query={"base": -3.364, "cosine": 3.347, "lead": 6.938},
        hit={"base": -1.267, "behind": -12.58, "query": 1.138},
    ),
    "minilm": Model(
        query={"base": -4.158, "cosine": 5.098, "lead": 6.648, "names": -1.091},
        hit={"base": -3.914, "cosine": 2.802, "words": 2.52, "behind": -3.541, "query": 0.4705},
    ),
    "minilm alone": Model(
        query={"base": -4.774, "cosine": 5.885, "lead": 5.712},
        hit={"base": -1.328, "behind": -11.97, "query": 1.14},
    ),
}
"""By family of embedders and what was asked; "alone": vectors without words."""

OWN: Final = "recipe"
"""The name of a recipe's own coefficients."""

_MODELS_OF: Final = {"wordllama/": "static", "all-MiniLM-L6-v2": "minilm"}


def family_of(model: str) -> str | None:
    """Return the family of an embedder's model; None: no coefficients are known for it."""
    return next((family for name, family in _MODELS_OF.items() if model.startswith(name)), None)


@dataclass(frozen=True)
class Signal:
    """One signal of a confidence, with its coefficient: their product is part of the logit."""

    name: str
    value: float
    weight: float

    @property
    def product(self) -> float:
        """What the signal adds to the logit."""
        return self.value * self.weight


@dataclass(frozen=True)
class Confidence:
    """A probability and all it was made of.

    Attributes
    ----------
    value : float
        In [0, 1]: 1 / (1 + exp(-logit)), or 0 where no document was found.
    model : str
        Which coefficients: "words", "static" or "minilm"; with "alone", of vectors without words;
        "recipe": the recipe's own.
    logit : float
        The coefficient ``base`` and the products of the signals, added in their order.
    signals : tuple of Signal
        Empty where no document was found.
    """

    value: float
    model: str
    logit: float
    signals: tuple[Signal, ...]

    def lines(self, what: str) -> list[str]:
        """Return the confidence as text, a line for each signal."""
        if not self.signals:
            return [f"{what} {shown(self.value)}: no document was found"]
        parts = " + ".join(operand(one.product) for one in self.signals)
        how = f"1 / (1 + 2.71828^({shown(-self.logit)})), by {self.model}"
        lines = [f"{what} {shown(self.value)} = {how}", f"logit {shown(self.logit)} = {parts}"]
        for one in self.signals[1:]:
            how = f"{operand(one.weight)} x {operand(one.value)}"
            lines.append(f"{one.name}: adds {shown(one.product)} = {how}, {SIGNALS[one.name]}")
        return lines


@dataclass(frozen=True)
class Judged:
    """The confidence of a reply to a query and of each of its hits; None: nothing to judge by."""

    query: Confidence | None
    hits: tuple[Confidence | None, ...]
    is_asked: bool = True

    @property
    def values(self) -> tuple[float | None, tuple[float | None, ...]]:
        """The probabilities alone."""
        query, *hits = (None if one is None else one.value for one in (self.query, *self.hits))
        return query, tuple(hits)


NOTHING_FOUND: Final = 0.0
"""The confidence of a reply whose arms list no document."""


def confidence(
    model: str, coefficients: Mapping[str, float], values: Mapping[str, float]
) -> Confidence:
    """Weigh the signals of a query or of a hit."""
    signals = tuple(
        Signal(name, values.get(name, 1.0), weight) for name, weight in coefficients.items()
    )
    logit = 0.0
    for one in signals:
        logit += one.product
    return Confidence(_probability(logit), model, logit, signals)


def _probability(logit: float) -> float:
    """Return 1 / (1 + exp(-logit)), with the project's own powers of 2."""
    power = _core.shaping.exp2(-abs(logit) * _LOG2_E)
    return 1.0 / (1.0 + power) if logit >= 0 else power / (1.0 + power)
