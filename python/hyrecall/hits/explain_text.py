"""An explanation as text: every number of the score, in equations that a calculator can follow.

A line is its depth and its text. Numbers have six digits; ``x`` is times, ``^`` is to the power of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hyrecall.ask.scoring import DBSF, RRF, Fusion, Max, WeightedSum
from hyrecall.base.text_tables import TextLine, clean, wrap
from hyrecall.hits.around import SecondLook
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
    evidence: Any = None


@dataclass(frozen=True)
class Step:
    """How a shaping stage changed a hit's score."""

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


# ---- An explanation as text: every number of the score, in equations that a calculator can follow

_DAY = 86_400.0  # seconds


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
    return _of_score(made) + [(1, f"degraded: {clean(reason)}") for reason in made.degraded]


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


def _n(number: float, digits: int = 6) -> str:
    """Show a number with so many digits."""
    return f"{number + 0.0:.{digits}g}"


def _p(number: float, digits: int = 6) -> str:
    """Show a number as part of an equation: a negative one in parentheses."""
    shown = _n(number, digits)
    return f"({shown})" if shown.startswith("-") else shown


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
    return lines + (_lexical(one) if one.bm25 is not None else [])


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
    write = _STAGES.get(step.stage, _unchanged)
    head, *more = write(step.factors, before, step.score)
    for name, key in step.keys.items():
        more.append(f"{name.replace('_', ' ')} is row {clean(str(key))}")
    return [(1, f"{step.stage}: score {_n(step.score)}{head}"), *((2, one) for one in more)]


_Factors = dict[str, float]


def _unchanged(factors: _Factors, before: float, after: float) -> list[str]:
    told = ", ".join(f"{name.replace('_', ' ')} {_n(value)}" for name, value in factors.items())
    return [f" as before{': ' if told else ''}{told}"]


def _provenance(factors: _Factors, before: float, after: float) -> list[str]:
    return [f" = {_p(before)} x {_p(factors['weight'])}, the weight of its source"]


def _around(factors: _Factors, before: float, after: float) -> list[str]:
    if not factors:
        return [" as before: nothing in its thread changes it"]
    names = ", ".join(name.replace("_", " ") for name in factors)
    return [f" = {_p(before)} + {' + '.join(map(_p, factors.values()))}: {names}"]


def _rerank(factors: _Factors, before: float, after: float) -> list[str]:
    given = factors.get("rerank_score")
    told = "not reranked" if given is None else f"reranked by {_n(given)}"
    return [f", which belongs to its place: {told}"]


def _decay(name: str, factors: _Factors) -> str:
    """Write out how an age became a factor."""
    age, half_life, power = factors["age"], factors["half_life"], factors.get("exponent", 1.0)
    unit, per = ("days", _DAY) if half_life >= _DAY else ("seconds", 1.0)
    factor = factors["factor" if "factor" in factors else "recency"]
    if not age > 0:  # or it is NaN
        return f"{name} {_n(factor)}: no time, or none that is past"
    ages = f"{_n(age / per)} / {_n(half_life / per)}"
    exponent = ages if power == 1 else f"{_n(power)} x {ages}"
    return f"{name} {_n(factor)} = 0.5 ^ ({exponent}): age / half-life in {unit}"


def _recency(factors: _Factors, before: float, after: float) -> list[str]:
    return [f" = {_p(before)} x {_n(factors['factor'])}", _decay("factor", factors)]


def _weighted(factors: _Factors, names: tuple[str, ...]) -> str:
    return " + ".join(f"{_n(factors[f'{one}_weight'])} x {_p(factors[one])}" for one in names)


def _composite(factors: _Factors, before: float, after: float) -> list[str]:
    names = ("recency", "importance", "relevance")
    weights = [factors[f"{name}_weight"] for name in names]
    if not sum(weights):
        return [": all weights are 0"]
    total = " + ".join(map(_n, weights))
    return [
        f" = ({_weighted(factors, names)}) / ({total}): weights x recency, importance, relevance",
        _decay("recency", factors),
    ]


def _signals(factors: _Factors, before: float, after: float) -> list[str]:
    names = ("general", "topical", "session")
    general = f"general {_n(factors['general'])}"
    best = factors["best"]
    how = f" = {_p(before)} / {_n(best)}, the best score" if best > 0 else ": no score is above 0"
    return [f" = {_weighted(factors, names)}: weights x {', '.join(names)}", general + how]


def _mmr(factors: _Factors, before: float, after: float) -> list[str]:
    weight, relevance = _n(factors["relevance_weight"]), factors["relevance"]
    similarity, high, low = factors["similarity"], factors.get("high"), factors.get("low")
    lines = [
        f" = {weight} x {_p(relevance)} - (1 - {weight}) x {_p(similarity)}: relevance, "
        "likeness to a hit above"
    ]
    shown = f"relevance {_n(relevance)}"
    if high is not None and low is not None and high > low:
        given, least, most = (_p(one, 9) for one in (before, low, high))
        lines.append(f"{shown} = ({given} - {least}) / ({most} - {least}): min-max of the list")
    elif high is not None and low is None and high > 0:
        lines.append(f"{shown} = {_p(before)} / {_n(high)}, the list's best score")
    return lines


def _linear(factors: _Factors, before: float, after: float) -> list[str]:
    return [f" = {' + '.join(map(_p, factors.values()))}: {', '.join(factors)}"]


_STAGES: dict[str, Callable[[_Factors, float, float], list[str]]] = {
    "Around": _around,
    "Prior": _around,
    "Around and Prior": _around,
    "Linear": _linear,
    "Provenance": _provenance,
    "Rerank": _rerank,
    "RerankBy": _rerank,
    "Recency": _recency,
    "Composite": _composite,
    "SessionSignals": _signals,
    "MMR": _mmr,
}


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

    Notes
    -----
    The formulas are those of docs/scoring.md; the bits are the hit's. As text, every number that a
    sum needs is shown with six digits, and each equation can be followed with a calculator.
    """

    def __str__(self) -> str:
        """Show every number that the score was made of, in lines of at most 80 characters."""
        return wrapped_text(self, 80)
