"""The parts of a hit's score as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hyrecall.hits.second_look import SecondLook
from hyrecall.text.bm25 import BM25

__all__ = ["Component", "Explained", "Scaling", "Step", "Term"]


@dataclass(frozen=True)
class Term:
    """What one leaf of a text query adds to a document."""

    term: str
    multiplicity: float
    doc_freq: int
    term_freq: int
    idf: float
    weight: float
    impact: float


@dataclass(frozen=True)
class Scaling:
    """How a fusion scaled an arm's score before it weighed it."""

    how: str
    low: float
    high: float
    scaled: float


@dataclass(frozen=True)
class Component:
    """An arm's part in a hit."""

    arm: str
    score: float | None
    rank: int | None
    contribution: float
    weight: float | None = None
    rank_constant: float | None = None
    scaling: Scaling | None = None
    n_docs: int | None = None
    total_length: int | None = None
    doc_length: int | None = None
    bm25: BM25 | None = None
    mean_doc_length: float | None = None
    length_norm: float | None = None
    matches: bool = True
    terms: tuple[Term, ...] = ()
    dot: float | None = None
    inverse_norm: float | None = None
    inverse_query_norm: float | None = None
    evidence: Any = None


@dataclass(frozen=True)
class Step:
    """What a shaping stage made of a hit's score."""

    stage: str
    score: float
    factors: dict[str, float]
    keys: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Explained:
    """The data of an :class:`hyrecall.Explanation`, which describes it."""

    score: float
    fusion: str
    components: tuple[Component, ...]
    steps: tuple[Step, ...] = ()
    holds: dict[str, str] = field(default_factory=dict)
    joined: float | None = None
    best: float | None = None
    fused: float | None = None
    feedback: SecondLook | None = None
    degraded: tuple[str, ...] = ()
