"""The parts of a hit's score as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hyrecall.hits.second_look import SecondLook
from hyrecall.text.bm25 import BM25

__all__ = ["Component", "Explained", "Scaling", "Step", "Term"]


@dataclass(frozen=True)
class Term:
    """What one leaf of a text query adds to a document.

    Attributes
    ----------
    term : str
        The term; a phrase in quotes, a prefix with ``*``.
    multiplicity : float
        Boost x occurrences in the query.
    doc_freq : int
        Documents of the scope that hold it.
    term_freq : int
        Occurrences in this document; 0: it adds nothing.
    idf, weight, impact : float
        impact = weight x term_freq / (term_freq + length_norm); ``bm25+`` and ``bm25l`` have their
        own, in docs/scoring.md.
    """

    term: str
    multiplicity: float
    doc_freq: int
    term_freq: int
    idf: float
    weight: float
    impact: float


@dataclass(frozen=True)
class Scaling:
    """How a fusion scaled an arm's score before it weighed it.

    Attributes
    ----------
    how : {"minmax", "best", "clip", "unit", "none", "dbsf"}
    low, high : float
        Least and largest score of the candidates in this arm; of ``dbsf`` their mean and their
        standard deviation.
    scaled : float
        The scaled score.
    """

    how: str
    low: float
    high: float
    scaled: float


@dataclass(frozen=True)
class Component:
    """An arm's part in a hit.

    Attributes
    ----------
    arm : str
    score : float or None
        None: the document has no text or vector, or the query none.
    rank : int or None
        From 1; None: outside the arm's list.
    contribution : float
        What the fusion adds for it (before the arms are summed or compared).
    weight : float or None
        The arm's weight in the fusion; None where one arm is asked, without a fusion.
    rank_constant : float or None
        Of ``RRF``: contribution = weight / (rank_constant + rank).
    scaling : Scaling or None
        Of the other fusions: contribution = weight x scaled score.
    n_docs, total_length, doc_length : int or None
        Of a lexical arm: statistics of the scope, and the document's length.
    bm25 : BM25 or None
        Of a lexical arm: the variant and its constants.
    mean_doc_length, length_norm : float or None
        Of a lexical arm: total_length / n_docs, and what stands for the length in each impact.
    matches : bool
        Of a lexical arm: whether the document has all that a typed query asks for; if not, its
        score is 0, whatever its terms add up to.
    terms : tuple of Term
        Of a lexical arm, in the order in which they are summed.
    dot, inverse_norm, inverse_query_norm : float or None
        Of a dense arm: cosine = (dot x inverse_norm) x inverse_query_norm.
    evidence : object
        Of an arm of ``arms=``: see :meth:`hyrecall.Hit.evidence`.
    """

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
    """What a shaping stage made of a hit's score.

    Attributes
    ----------
    stage : str
    score : float
        Recomputed, as the stage handed it on.
    factors : dict of str to float
        What it computed with.
    keys : dict of str to object
        Of ``Around``: the key of the row that spoke, by the name of its factor.
    """

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
