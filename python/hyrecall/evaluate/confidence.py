"""Learns how sure replies are: coefficients of a recipe, fitted to judged and unanswerable queries.

docs/confidence.md says what is asked, fitted and measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hyrecall.ask.filters import Filter
from hyrecall.ask.predicates import NoneOf
from hyrecall.ask.recipe import Coefficients, Dense, Lexical, Recipe
from hyrecall.base.arguments import as_items, check_objects
from hyrecall.base.options import text
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.evaluate.compare import (
    Comparison,
    Scores,
    best_grades,
    compare,
    counted_as,
    require_extra,
)
from hyrecall.evaluate.data import CELL, VECTOR, Dataset
from hyrecall.evaluate.learn import LEAST_QUERIES, SURE
from hyrecall.evaluate.run import Indexes, Setting, own_documents, read_setting, what_is_asked
from hyrecall.hits.confidence import OWN, Confidence, Model, confidence
from hyrecall.hits.hits import reply_of

Floats = npt.NDArray[np.float64]

LIMIT = 10
"""Hits that may hold an answer."""

SHARES = {"own": 0.5, "foreign": 0.25, "gone": 0.25}
"""The weight of what is asked: the set's queries, queries of others, which nothing answers, and the
set's queries with all answers filtered away."""

FOREIGN = 300
"""Queries that are asked of each other set."""

PENALTY = 1e-3
SIGNALS = {
    "both": (("cosine", "lead", "names"), ("cosine", "words", "behind", "query")),
    "words": (("lead", "names"), ("words", "behind", "query")),
    "vectors": (("cosine", "lead"), ("behind", "query")),
}
"""Of a reply and of a hit, by what is asked."""

PROBES = {
    arms: Coefficients(
        query=dict.fromkeys(("base", *query), 1.0), hit=dict.fromkeys(("base", *hit), 1.0)
    )
    for arms, (query, hit) in SIGNALS.items()
}
"""Coefficients by which every signal is told."""


@dataclass(frozen=True)
class Calibration:
    """How good confidences of replies are.

    Attributes
    ----------
    auroc : float
        Share of the pairs of a reply with and a reply without an answer in which the first has the
        higher confidence; ties count half.
    ece : float
        Expected calibration error over ten bins.
    squared_error : float
        The mean of (confidence - 1 or 0) squared.
    """

    auroc: float
    ece: float
    squared_error: float


@dataclass(frozen=True, eq=False)
class LearntConfidence:
    """A recipe with learnt coefficients of confidence, measured on queries that were not used.

    Attributes
    ----------
    base, setting : Setting
        What was asked, and the same with the coefficients in its recipe.
    n_queries : int
        Even queries whose reply holds an answer.
    before_by : str
        What judged before: "words", "static", "minilm", also with "alone", "recipe"; or "mean", the
        share of the even queries that were answered, where some replies had no confidence.
    before, after : Calibration
        Of the odd queries.
    against_base : Comparison
        The squared error of each odd query; a difference below 0 is better.
    """

    base: Setting
    setting: Setting
    n_queries: int
    before_by: str
    before: Calibration
    after: Calibration
    against_base: Comparison

    @property
    def recipe(self) -> Recipe:
        """The recipe with the learnt coefficients."""
        recipe: Recipe = self.setting.options["recipe"]
        return recipe

    @property
    def is_better(self) -> bool:
        """Whether the squared error of the odd queries is lower, with p < .05."""
        one = self.against_base
        return one.difference < 0 and one.p_value < SURE


@check_objects
def learn_confidence(
    indexes: Indexes,
    dataset: Dataset,
    *,
    base: Setting | None = None,
    foreign: Sequence[Dataset] = (),
    model: str | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> LearntConfidence:
    """Learn how sure replies are on the even queries, and compare on the odd ones.

    Parameters
    ----------
    indexes : Indexes
    dataset : Dataset
        The whole set: both halves are taken from it.
    base : Setting, optional
        A setting with a recipe; default: ``recipes.default``.
    foreign : sequence of Dataset, default ()
        Sets whose queries nothing in ``dataset`` answers. A set with tenants needs none: its
        queries are asked of the next tenant as well.
    model : str, optional
        The embedder of the set's vectors, such as "all-MiniLM-L6-v2", for the comparison with the
        package's coefficients.
    tell : callable, optional
        Called with what is done next.

    Raises
    ------
    OptionError
        A setting without a recipe or with a filter, fewer than 10 even queries whose reply holds an
        answer, no queries that nothing answers, or ``foreign`` with tenants.
    MissingExtraError
        The extra ``[evaluate]`` is not installed.
    """
    require_extra()
    if model is not None:
        text("model", model)
    start = read_setting("default") if base is None else base
    recipe = start.options.get("recipe")
    if not isinstance(recipe, Recipe) or "filter" in start.options:
        wish = "a setting with one recipe and no filter"
        raise error(OptionError, "base", wish, repr(start.name))
    arms = _arms(start, recipe)
    _check_foreign(dataset, foreign, arms)
    plain = recipe.replace(fill=None, on_empty="empty")
    base_setting = start.but(start.name, recipe=plain)
    probe = start.but(start.name, recipe=plain.replace(confidence=PROBES[arms]))
    tell("the even queries")
    even = [
        one
        for one in ask(indexes, dataset.split("even"), probe, [o.split("even") for o in foreign])
        if one.by == OWN
    ]
    n_queries = sum(one.holds for one in even)
    if n_queries < LEAST_QUERIES:
        wish = f"at least {LEAST_QUERIES} even queries whose reply holds an answer"
        raise error(OptionError, dataset.name, wish, n_queries)
    made = fit_models([even], arms)
    tell("the odd queries")
    odd = ask(indexes, dataset.split("odd"), probe, [one.split("odd") for one in foreign])
    first = ask(
        indexes, dataset.split("odd"), base_setting, [one.split("odd") for one in foreign], model
    )
    pairs = [pair for pair in zip(first, odd, strict=True) if pair[1].by == OWN]
    if not pairs:
        raise error(OptionError, dataset.name, "odd queries", "none that the signals judge")
    asked = [one for _, one in pairs]
    mean = float(weights_of(even) @ np.array([float(one.holds) for one in even]))
    before = np.array([one.value for one, _ in pairs], np.float64)  # None becomes nan
    before_by = max((one.by or "mean" for one, _ in pairs), key=lambda name: name == "mean")
    before = np.full(len(pairs), mean) if before_by == "mean" else before
    after = np.array([value_of(made, one) for one in asked])
    runs = (squared_errors("before", asked, before), squared_errors("after", asked, after))
    (against,) = compare(*runs, measures=[ERROR])
    learnt = Coefficients(query=made.query, hit=made.hit)
    setting = start.but(
        f"{start.name} learnt",
        recipe=recipe.replace(name=f"{recipe.name} learnt", confidence=learnt),
    )
    calibrations = (calibration(asked, before), calibration(asked, after))
    return LearntConfidence(start, setting, n_queries, before_by, *calibrations, against)


def _arms(setting: Setting, recipe: Recipe) -> str:
    """Say which of texts and vectors the recipe reads, and the setting passes: of SIGNALS."""
    kinds = {type(arm) for arm in recipe.arms}
    has_words = "text" in setting.arms and Lexical in kinds
    has_vectors = "vectors" in setting.arms and Dense in kinds
    if not (has_words or has_vectors):
        raise error(OptionError, "base", "a recipe that reads texts or vectors", repr(setting.name))
    return "both" if has_words and has_vectors else "words" if has_words else "vectors"


def _check_foreign(dataset: Dataset, foreign: Sequence[Dataset], arms: str) -> None:
    items = as_items(foreign)
    if items is None or not all(isinstance(one, Dataset) for one in items):
        raise error(DTypeError, "foreign", "a sequence of Dataset", repr(foreign))
    if dataset.has_cells and (foreign or len(_tenants(dataset)) < 2):
        wish = "none with two tenants or more" if foreign else "two tenants or more"
        raise error(OptionError, "foreign" if foreign else dataset.name, wish, len(foreign) or 1)
    if not (dataset.has_cells or foreign):
        raise error(OptionError, "foreign", "a set whose queries nothing here answers", "none")
    for one in foreign:
        if arms != "words" and VECTOR not in one.queries.column_names:
            wish = f"queries with a column {VECTOR!r}, as in the set"
            raise error(OptionError, "foreign", wish, one.queries.column_names)


def _tenants(dataset: Dataset) -> list[str]:
    return sorted(set(dataset.corpus[CELL].to_pylist()) | set(dataset.queries[CELL].to_pylist()))


# ---- Asks what has an answer, what has none, and what has none any more


@dataclass
class Asked:
    """One question that a set was asked: its signals, and whether the reply held an answer."""

    query: str
    group: str  # the tenant, or the query
    kind: str  # of SHARES
    holds: bool
    value: float | None
    by: str | None  # what judged
    signals: Mapping[str, float]  # empty: no document was found
    hits: Sequence[Mapping[str, float]]
    right: Sequence[bool]


def ask(
    indexes: Indexes,
    dataset: Dataset,
    setting: Setting,
    foreign: Sequence[Dataset] = (),
    model: str | None = None,
) -> list[Asked]:
    """Return how sure the replies to a set's queries are; ``model`` made its vectors."""
    classes = dataset.classes
    attributes = tuple(dict.fromkeys((*setting.attributes, "id")))  # filters read attributes
    index = indexes.get(replace(setting, attributes=attributes))
    models = {} if model is None else {VECTOR: model}
    out: list[Asked] = []

    def put(kind: str, ids: Sequence[str], answers: Sequence[set[str]], **asked: Any) -> None:
        options = {**setting.options, "limit": LIMIT}
        found = index.recall(**options, **asked) if ids else ()
        scopes = asked.get("scope") or ids
        for query, right, group, hits in zip(ids, answers, scopes, found, strict=True):
            judged = reply_of(hits).judged(hits.query, models)
            made = [
                (one, counted_as(hit.key, classes) in right)
                for hit, one in zip(hits, judged.hits, strict=True)
                if one is not None
            ]
            reply = judged.query
            value, by = (None, None) if reply is None else (reply.value, reply.model)
            holds = any(is_right for _, is_right in made)
            of_hits = [_values(one) for one, _ in made]
            out.append(
                Asked(
                    query, group, kind, holds, value, by,
                    _values(reply), of_hits, [is_right for _, is_right in made],
                )
            )  # fmt: skip

    ids = dataset.judged["id"].to_pylist()
    every = [best_grades(dataset.judgements[query], classes) for query in ids]
    answers = [{label for label, grade in one.items() if grade > 0} for one in every]
    themselves = own_documents(dataset)
    hidden = [{query} & themselves for query in ids]
    asked = what_is_asked(dataset, setting) if ids else {}
    put("own", ids, answers, filter=[_without(one) for one in hidden], **asked)
    members: dict[str, list[str]] = {}
    for document in dataset.corpus["id"].to_pylist():
        members.setdefault(counted_as(document, classes), []).append(document)
    gone = [
        one.union(*(members.get(label, ()) for label in answer))
        for one, answer in zip(hidden, answers, strict=True)
    ]
    nothing = [set[str]()] * len(ids)
    put("gone", ids, nothing, filter=[_without(one) for one in gone], **asked)
    if dataset.has_cells:
        tenants = _tenants(dataset)
        following = dict(zip(tenants, tenants[1:] + tenants[:1], strict=True))
        scope = [following[one] for one in asked.pop("scope", ())]
        put("foreign", ids, nothing, scope=scope, **asked)
    for other in foreign:
        some = replace(other, queries=other.judged.slice(0, FOREIGN))
        ids = some.judged["id"].to_pylist()
        asked = what_is_asked(some, setting) if ids else {}
        asked.pop("scope", None)
        named = [f"{other.name}: {query}" for query in ids]
        put("foreign", named, [set[str]()] * len(ids), **asked)
    return out


def _without(documents: set[str]) -> Filter | None:
    return Filter(id=NoneOf(sorted(documents))) if documents else None


def _values(one: Confidence | None) -> dict[str, float]:
    return {} if one is None else {signal.name: signal.value for signal in one.signals}


# ---- Fits the coefficients


def weights_of(asked: Sequence[Asked]) -> Floats:
    """Return the weight of each question: the kinds have their shares, a set has 1."""
    counts = {kind: sum(one.kind == kind for one in asked) for kind in SHARES}
    there = sum(share for kind, share in SHARES.items() if counts[kind])
    return np.array([SHARES[one.kind] / there / counts[one.kind] for one in asked])


def fit_models(sets: Sequence[Sequence[Asked]], arms: str) -> Model:
    """Return the models of a reply and of a hit, learnt on sets of equal importance."""
    weighed = [pair for part in sets for pair in zip(part, weights_of(part), strict=True)]
    pairs = [(one, weight) for one, weight in weighed if one.signals]
    of_query, of_hit = SIGNALS[arms]
    values = np.array([[one.signals[name] for name in of_query] for one, _ in pairs])
    held = np.array([float(one.holds) for one, _ in pairs])
    query = _rounded(of_query, _fit(values, held, np.array([weight for _, weight in pairs])))
    rows, right, weights = [], [], []
    for one, weight in pairs:
        logit = confidence(OWN, query, one.signals).logit
        for hit, is_right in zip(one.hits, one.right, strict=True):
            rows.append([{**hit, "query": logit}[name] for name in of_hit])
            right.append(float(is_right))
            weights.append(weight)
    hit = _rounded(of_hit, _fit(np.array(rows), np.array(right), np.array(weights)))
    return Model(query, hit)


def _fit(values: Floats, right: Floats, weights: Floats) -> Floats:
    """Return the coefficients of a logistic model, the base first, by Newton's method."""
    mean, spread = values.mean(axis=0), values.std(axis=0) + 1e-9
    rows = np.column_stack([np.ones(len(values)), (values - mean) / spread])
    held = np.diag([1e-9] + [PENALTY * weights.sum()] * values.shape[1])

    def loss(at: Floats) -> float:
        logits = rows @ at
        return float(weights @ (np.logaddexp(0.0, logits) - right * logits) + at @ held @ at / 2)

    found = np.zeros(rows.shape[1])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-rows @ found))
        slope = rows.T @ (weights * (chance - right)) + held @ found
        curve = (rows * (weights * chance * (1 - chance))[:, None]).T @ rows + held
        step = np.linalg.solve(curve, slope)
        while loss(found - step) > loss(found) + 1e-12:  # too far where answers are apart
            step /= 2
        found -= step
    raw = found[1:] / spread
    return np.concatenate([[found[0] - raw @ mean], raw])


def _rounded(names: Sequence[str], values: Floats) -> dict[str, float]:
    pairs = zip(("base", *names), values.tolist(), strict=True)
    return {name: float(f"{value:.4g}") for name, value in pairs}


def value_of(model: Model, one: Asked) -> float:
    """Return the confidence of a reply by a model."""
    return confidence(OWN, model.query, one.signals).value if one.signals else 0.0


def values_of_hits(model: Model, one: Asked) -> list[float]:
    """Return the confidence of each hit by a model."""
    logit = confidence(OWN, model.query, one.signals).logit if one.signals else 0.0
    return [confidence(OWN, model.hit, {**hit, "query": logit}).value for hit in one.hits]


# ---- Measures confidences

ERROR = "squared error"


def area(right: Sequence[float] | Floats, wrong: Sequence[float] | Floats) -> float:
    """Return the share of pairs in the right order (AUROC), ties half; nan without a pair."""
    if not len(right) or not len(wrong):
        return float("nan")
    ranked = np.sort(wrong)
    below = [np.searchsorted(ranked, right, side=side).mean() for side in ("left", "right")]
    return float(sum(below) / 2 / len(ranked))


def bins(values: Floats, right: Floats, weights: Floats) -> Iterator[tuple[float, float, float]]:
    """Return weight, mean confidence and share of right of each tenth of [0, 1]."""
    tenth = np.minimum((values * 10).astype(int), 9)
    for at in range(10):
        inside = tenth == at
        weight = weights[inside].sum()
        if weight:
            mean, share = (float(weights[inside] @ one[inside] / weight) for one in (values, right))
            yield float(weight / weights.sum()), mean, share


def calibration_error(values: Floats, right: Floats, weights: Floats) -> float:
    """Return the expected calibration error over ten bins."""
    return sum(weight * abs(mean - share) for weight, mean, share in bins(values, right, weights))


def calibration(asked: Sequence[Asked], values: Floats) -> Calibration:
    """Measure the confidences of replies."""
    held, weights = np.array([one.holds for one in asked]), weights_of(asked)
    right = held.astype(np.float64)
    return Calibration(
        area(values[held], values[~held]),
        calibration_error(values, right, weights),
        float(weights @ (values - right) ** 2),
    )


def squared_errors(name: str, asked: Sequence[Asked], values: Floats) -> Scores:
    """Return the squared error of each query: the questions that it was asked as are one."""
    weights = weights_of(asked)
    errors: dict[str, float] = {}
    for one, weight, value in zip(asked, weights.tolist(), values.tolist(), strict=True):
        errors[one.query] = errors.get(one.query, 0.0) + weight * (value - one.holds) ** 2
    queries = tuple(sorted(errors))
    mean = np.array([errors[query] * len(queries) for query in queries])
    return Scores(name, queries, {ERROR: mean})
