"""An explanation as text: every number of the score, in equations that a calculator can follow.

A line is its depth and its text. Numbers have six digits; ``x`` is times, ``^`` is to the power of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hyrecall.ask.scoring import DBSF, RRF, Fusion, Max, WeightedSum
from hyrecall.base.text_tables import TextLine, clean, wrap
from hyrecall.hits.confidence import Confidence
from hyrecall.stages.feedback import SecondLook
from hyrecall.stages.registry import kind_named
from hyrecall.stages.stage import Stage, Step
from hyrecall.stages.stage import operand as _p
from hyrecall.stages.stage import shown as _n
from hyrecall.text.bm25 import BM25

# ---- The parts of a hit's score as plain data ----


@dataclass(frozen=True)
class Term:
    """The part of a document's score that one term or phrase of a text query adds."""

    term: str
    multiplicity: float
    doc_freq: int
    term_freq: int
    idf: float
    weight: float
    impact: float


@dataclass(frozen=True)
class VectorPair:
    """The vector of a document that a vector of the query is nearest to, both from 0."""

    query_vector: int
    vector: int
    cosine: float


@dataclass(frozen=True)
class SharedTerm:
    """A term that a sparse vector shares with the query's, and its weights."""

    term: str
    query_weight: float
    weight: float


@dataclass(frozen=True)
class Scaling:
    """How a fusion scaled an arm's score before it weighed it."""

    how: str
    low: float
    high: float
    scaled: float


@dataclass(frozen=True)
class Component:
    """An arm's part of a hit's score."""

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
    pairs: tuple[VectorPair, ...] = ()
    shared: tuple[SharedTerm, ...] = ()
    evidence: Any = None


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
    confidence: Confidence | None = None
    reply_confidence: Confidence | None = None


# ---- An explanation as text: every number of the score, in equations that a calculator can follow


def fusion_text(fusion: Fusion | None) -> str:
    """Say in words how the arms' parts are joined."""
    match fusion:
        case None:
            return "the score of the only arm"
        case RRF():
            return f"RRF, rank constant {_n(fusion.rank_constant)}"
        case Max():
            return "largest part"
        case DBSF():
            return "DBSF"
        case WeightedSum():
            if fusion.balance is None:
                return "weighted sum"
            return f"weighted sum, balance {_n(fusion.balance)}"


def wrapped_text(made: Explained, width: int) -> str:
    """Return the lines of an explanation, those that are too long wrapped and indented."""
    lines = []
    for depth, text in explanation_lines(made):
        indent = 2 * depth
        first, *more = wrap(TextLine(text), width - indent, hang=2) or [TextLine("")]
        lines.append(" " * indent + first.text)
        lines += [" " * (indent + 2) + one.text for one in more]
    return "\n".join(lines)


def explanation_lines(made: Explained) -> list[tuple[int, str]]:
    """Return the lines of an explanation, each with its depth."""
    lines = _of_score(made)
    for what, one in (("hit", made.confidence), ("reply", made.reply_confidence)):
        if one is not None:
            first, *more = one.lines(f"confidence of the {what}")
            lines += [(1, first), *((2, line) for line in more)]
    return lines + [(1, f"degraded: {clean(reason)}") for reason in made.degraded]


def _of_score(made: Explained) -> list[tuple[int, str]]:
    if made.joined is None:
        return [(0, f"score {_n(made.score)}: {made.fusion}")]
    lines = [(0, f"score {_n(made.score)}")] if made.steps else []
    lines += [(0 if not made.steps else 1, one) for one in _joined(made)]
    lines += [
        (1, f"comes first: {arm} holds {clean(text)} whole") for arm, text in made.holds.items()
    ]
    lines += [(1, one) for one in _feedback(made.feedback)]
    for component in made.components:
        lines += _component(component)
    before = made.score if made.fused is None else made.fused
    for step in made.steps:
        lines += _step(step, before)
        before = step.score
    return lines


def _joined(made: Explained) -> list[str]:
    """Say how the parts were joined and, with ``normalize``, scaled."""
    assert made.joined is not None
    parts = [_p(one.contribution) for one in made.components]
    is_largest = made.fusion == fusion_text(Max())
    name = "fused" if made.steps or made.best is not None else "score"
    if is_largest:
        lines = [f"{name} {_n(made.joined)}: the largest of {', '.join(parts)}"]
    else:
        whole = f" = {' + '.join(parts)}" if len(parts) > 1 else ""
        lines = [f"{name} {_n(made.joined)}{whole}: {made.fusion}"]
    if made.best is None:
        return lines
    name, shown = (
        "normalized" if made.steps else "score",
        _n(made.score if made.fused is None else made.fused),
    )
    if made.best <= 0:
        return [f"{name} {shown}: the best score possible is {_n(made.best)}", *lines]
    cut = "" if 0 <= made.joined <= made.best else ", cut into [0, 1]"
    how = f"{_p(made.joined)} / {_n(made.best)}, the best score possible{cut}"
    return [f"{name} {shown} = {how}" if not cut else f"{name} {shown}: {how}", *lines]


# ---- what an arm adds ----


def _feedback(look: SecondLook | None) -> Iterator[str]:
    """Say what rows of a first answer added to the query."""
    if look is None:
        return
    yield f"Feedback heard {', '.join(clean(str(key)) for key in look.rows)}"
    if look.vectors:
        yield f"they moved the query of {', '.join(look.vectors)}"
    for arm, terms in look.terms.items():
        told = ", ".join(f"{clean(term)} x {_n(boost)}" for term, boost in terms.items())
        yield f"they added to {arm}: {told}"


def _component(one: Component) -> list[tuple[int, str]]:
    kind = "BM25 " if one.bm25 is not None else "cosine " if one.dot is not None else ""
    rank = "not in its list" if one.rank is None else f"rank {one.rank}"
    if one.score is None:
        return [(1, f"{one.arm}: no score, {rank}, adds {_n(one.contribution)}")]
    lines = [(1, f"{one.arm}: {kind}score {_n(one.score)}, {rank}, {_contribution(one)}")]
    if one.scaling is not None and one.scaling.how != "none":
        lines.append((2, _scaling(one.scaling, one.score)))
    if one.evidence is not None:
        lines.append((2, f"found by {clean(str(one.evidence))}"))
    if one.dot is not None:
        factors = [one.dot, one.inverse_norm or 0.0, one.inverse_query_norm or 0.0]
        what = "dot x 1 / |row| x 1 / |query|"
        lines.append((2, f"cosine {_n(one.score)} = {' x '.join(map(_p, factors))}: {what}"))
    if one.pairs:
        lines.append((2, f"{_n(one.score)}: the sum of {len(one.pairs)} greatest cosines"))
    for pair in one.pairs:
        met = f"query vector {pair.query_vector} met vector {pair.vector}"
        lines.append((3, f"{met}: cosine {_n(pair.cosine)} {_bar(pair.cosine)}"))
    if one.shared:
        lines.append((2, f"{_n(one.score)}: the sum of {len(one.shared)} products of weights"))
    most = max((term.query_weight * term.weight for term in one.shared), default=1.0)
    for term in sorted(one.shared, key=lambda term: -term.query_weight * term.weight):
        product = term.query_weight * term.weight
        weights = f"{_n(term.query_weight)} x {_n(term.weight)}"
        lines.append((3, f"{clean(term.term)}: {weights} = {_n(product)} {_bar(product / most)}"))
    return lines + (_lexical(one) if one.bm25 is not None else [])


def _bar(share: float) -> str:
    """Return a cosine, or a share of the most, as a bar of up to ten blocks."""
    return "#" * round(10 * max(share, 0.0))


def _contribution(one: Component) -> str:
    added = f"adds {_n(one.contribution)}"
    if one.weight is None:
        return added
    if one.rank_constant is not None:
        return added if one.rank is None else (
            f"{added} = {_n(one.weight)} / ({_n(one.rank_constant)} + {one.rank})"
        )  # fmt: skip
    return added if one.scaling is None else (
        f"{added} = {_n(one.weight)} x {_p(one.scaling.scaled)}"
    )  # fmt: skip


def _scaling(made: Scaling, score: float) -> str:
    spread = made.high if made.how == "dbsf" else made.high - made.low
    digits = 6 if spread > 1e-3 * max(abs(made.low), abs(made.high)) else 9
    low, high, given = _p(made.low, digits), _p(made.high, digits), _p(score, digits)
    match made.how:
        case "minmax" if made.high > made.low:
            how = f" = ({given} - {low}) / ({high} - {low}): min-max of the candidates"
        case "dbsf" if made.high > 0:
            how = f" = ({given} - ({low} - 3 x {high})) / (6 x {high}): mean, deviation"
        case "minmax" | "dbsf":
            how = f": all candidates score {_n(made.low)}"
        case "best" if made.high > 0 and score >= 0:
            how = f" = {_n(score)} / {high}, the candidates' best score"
        case "best":
            how = ": a score below 0, or none of the candidates above it"
        case "clip":
            how = ": the score cut into [0, 1]"
        case _:
            how = f" = (1 + {_p(score)}) / 2"
    return f"scaled {_n(made.scaled)}{how}"


def _lexical(one: Component) -> list[tuple[int, str]]:
    how = one.bm25
    assert how is not None
    assert how.k1 is not None
    variant, k1, b, delta = how.variant, _n(how.k1), _n(how.numbers[2]), _n(how.delta or 0.0)
    n_docs, length, mean = one.n_docs or 0, one.doc_length, one.mean_doc_length or 1.0
    constants = f"k1 {k1}, b {b}" + ("" if how.delta is None else f", delta {delta}")
    total = one.total_length or 0
    average = f" = {total} / {n_docs} documents" if total and n_docs else ""
    lines = [
        f"BM25 {variant}, {constants}; mean length {_n(mean)}{average}, this one {length}",
    ]
    norm = f"(1 - {b} + {b} x {length} / {_n(mean)})"
    if variant != "bm25l":
        norm = f"{k1} x {norm}"
    lines.append(f"length norm {_n(one.length_norm or 0.0)} = {norm}")
    lines.append(f"each term adds {_IMPACTS.get(variant, _IMPACT)}")
    held = [term for term in one.terms if term.term_freq]
    if len(held) > 1 and one.matches:
        lines.append(f"sum {_n(one.score or 0.0)} = {' + '.join(_p(t.impact) for t in held)}")
    if not one.matches:
        lines.append("score 0: not all that the query asks for is there")
    made = [(2, line) for line in lines]
    for term in held:
        made.append((2, f"{clean(term.term)}: {_impact(term, one)}"))
        made.append((3, _idf(term, variant, n_docs)))
    absent = [
        f"{clean(t.term)} (in {t.doc_freq} of {n_docs})" for t in one.terms if not t.term_freq
    ]
    return made + ([(2, f"not in this document: {', '.join(absent)}")] if absent else [])


_SATURATION = "tf / (tf + length norm)"
_IMPACT = f"idf x boost x (k1 + 1) x {_SATURATION}"
_IMPACTS = {
    "lucene": f"idf x boost x {_SATURATION}",
    "robertson": f"idf x boost x {_SATURATION}",
    "bm25+": f"{_IMPACT} + idf x boost x delta",
    "bm25l": "idf x boost x (k1 + 1) x tfd / (k1 + tfd), tfd = tf / length norm + delta",
}


def _impact(term: Term, one: Component) -> str:
    """Write out what a term adds, with the numbers of ``_IMPACTS`` in their order."""
    how, tf = one.bm25, term.term_freq
    assert how is not None
    k1, norm, delta = _n(how.k1 or 0.0), _n(one.length_norm or 0.0), _n(how.delta or 0.0)
    idf = f"{_p(term.idf)} x {_p(term.multiplicity)}"
    weight = idf if how.variant in ("lucene", "robertson") else f"{idf} x ({k1} + 1)"
    ratio = f"{tf} / ({tf} + {norm})"
    if how.variant == "bm25l":
        raised = f"{tf} / {norm} + {delta}"
        ratio = f"({raised}) / ({k1} + {raised})"
    shift = f" + {idf} x {delta}" if how.variant == "bm25+" else ""
    return f"adds {_n(term.impact)} = {weight} x {ratio}{shift}"


def _idf(term: Term, variant: str, n_docs: int) -> str:
    df, shown = term.doc_freq, f"idf {_n(term.idf)}"
    held = f"in {df} of {n_docs} documents"
    odds = f"({n_docs} - {df} + 0.5) / ({df} + 0.5)"
    match variant:
        case "fts5" if term.idf <= 1e-6:
            return f"{shown}: the least there is, {held}"
        case "lucene" | "okapi":
            inner = f"1 + {odds}"
        case "fts5" | "robertson":
            inner = odds
        case "atire":
            inner = f"{n_docs} / {df}"
        case "bm25+":
            inner = f"({n_docs} + 1) / {df}"
        case _:
            inner = f"({n_docs} + 1) / ({df} + 0.5)"
    return f"{shown} = ln({inner}): {held}"


# ---- how a stage changed it ----


def _step(step: Step, before: float) -> list[tuple[int, str]]:
    evidence = kind_named(step.stage.partition(" and ")[0])
    head, *more = getattr(evidence, "_told", Stage._told)(step.factors, before, step.score)
    for name, key in step.keys.items():
        more.append(f"{name.replace('_', ' ')} is row {clean(str(key))}")
    return [(1, f"{step.stage}: score {_n(step.score)}{head}"), *((2, one) for one in more)]


# ---- An explanation: a hit's score and its parts, which can be shown as text ----


@dataclass(frozen=True)
class Explanation(Explained):
    """A hit's score and all it was made of.

    Attributes
    ----------
    score : float
        Recomputed; equals the hit's.
    fusion : str
        How the components were joined.
    components : tuple of Component
        One per arm that ran, in the order of ``trace.arms``.
    steps : tuple of Step
        One per shaping stage, in the order they ran.
    holds : dict of str to str
        By text arm, what the document holds (an identifier, a quoted string or words), for which
        it comes before others whatever its score; empty where it does not.
    joined : float or None
        What the fusion made of the components; None for a row that filled the list.
    best : float or None
        With ``normalize``, the best score possible.
    fused : float or None
        The score that the stages start from: ``joined``, or its share of ``best``.
    feedback : SecondLook or None
        What :class:`hyrecall.Feedback` added to the query: ``rows`` (keys), ``vectors`` (arms whose
        query was moved), ``terms`` (by text arm, with their boosts).
    degraded : tuple of str
        Reasons why an arm or a stage of the query did not run, and so adds nothing to the score.
    confidence, reply_confidence : Confidence or None
        How sure it is that the hit is an answer, and that the reply holds one, signal by signal;
        None: nothing to judge by.

    Notes
    -----
    The formulas are those of docs/scoring.md; the bits are the hit's. As text, every number that a
    sum needs is shown with six digits, and each equation can be followed with a calculator.
    """

    def __str__(self) -> str:
        """Show every number that the score was made of, in lines of at most 80 characters."""
        return wrapped_text(self, 80)
