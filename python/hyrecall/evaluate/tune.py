"""Searches for good settings on one half of the queries, and evaluates them on the other half."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hyrecall.ask.scoring import RRF, Max, WeightedSum
from hyrecall.base.arguments import check_objects
from hyrecall.errors import HyrecallError, OptionError, error
from hyrecall.evaluate.compare import (
    MEASURES,
    Comparison,
    Scores,
    compare,
    read_measure,
    read_measures,
)
from hyrecall.evaluate.data import Dataset
from hyrecall.evaluate.run import Indexes, Setting, read_setting, score_setting
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

# ---- Evaluates many settings on one set and compares each with the first ----


@dataclass(frozen=True, eq=False)
class Study:
    """The scores of several settings on one set.

    Attributes
    ----------
    dataset : str
    settings : tuple of Setting
    scores : tuple of Scores
        One per setting, over the same queries.
    comparisons : tuple of tuple of Comparison
        For each setting except the first: each measure compared with the first setting.
    """

    dataset: str
    settings: tuple[Setting, ...]
    scores: tuple[Scores, ...]
    comparisons: tuple[tuple[Comparison, ...], ...]

    @check_objects
    def best(self, measure: str) -> Setting:
        """Return the setting with the highest mean; the first of equal settings.

        Evaluate the chosen setting on other queries (:meth:`Dataset.split`).

        Parameters
        ----------
        measure : str
            A measure of the study.

        Raises
        ------
        OptionError
            Another measure.
        """
        name = read_measure(measure)
        measured = list(self.scores[0].means)
        if name not in measured:
            raise error(OptionError, "measure", f"one of {measured}", repr(measure))
        means = [scores.means[name] for scores in self.scores]
        return self.settings[means.index(max(means))]


@check_objects
def ablate(
    indexes: Indexes,
    dataset: Dataset,
    settings: Sequence[Setting],
    *,
    measures: str | Sequence[str] = MEASURES,
    tell: Callable[[str], None] = lambda _: None,
) -> Study:
    """Score settings and compare each with the first.

    Parameters
    ----------
    indexes : Indexes
    dataset : Dataset
    settings : sequence of Setting
        With different names, such as those of :func:`grid` or :func:`without_each`.
    measures : str or sequence of str
        As in :func:`score_run`.
    tell : callable, optional
        Called with each setting's name before it runs.

    Raises
    ------
    OptionError
        No setting, or two settings with the same name.
    HyrecallError
        From a recall; a note names the setting.

    Examples
    --------
    >>> import pyarrow as pa
    >>> corpus = pa.table({"id": ["a", "b"], "text": ["hot tea", "tea and more tea"]})
    >>> queries = pa.table({"id": ["q"], "text": ["hot tea"]})
    >>> data = Dataset("drinks", corpus, queries, {"q": {"a": 1}})
    >>> study = ablate(Indexes(data), data, [read_setting("bm25")], measures=["RR"])
    >>> study.scores[0].means
    {'RR': 1.0}
    """
    names = [setting.name for setting in settings]
    if not names or len(set(names)) < len(names):
        raise error(OptionError, "settings", "one or more settings with different names", names)
    scores = []
    for setting in settings:
        tell(setting.name)
        try:
            scores.append(score_setting(indexes, dataset, setting, measures=measures))
        except HyrecallError as fault:
            fault.add_note(f"in the setting {setting.name!r} of the set {dataset.name!r}")
            raise
    comparisons = tuple(compare(scores[0], one) for one in scores[1:])
    return Study(dataset.name, tuple(settings), tuple(scores), comparisons)


# ---- Searches for good settings on one half of the queries, and evaluates them on the other half

K1 = (0.6, 0.9, 1.2, 1.5, 2.0)
B = (0.2, 0.4, 0.6, 0.75, 0.9)
RANK_CONSTANTS = (10, 60)


@dataclass(frozen=True, eq=False)
class Tuned:
    """The result of a search, evaluated on queries that it did not use.

    Attributes
    ----------
    measure : str
        The measure that chose the winner.
    tried : tuple of (Setting, float)
        Every setting with its mean on the even queries, the best first.
    winner : Setting
    report : Study
        On the odd queries: the plain arms, the lexical arm with its best constants, the winner.
    against_best_arm : Comparison
        On the odd queries: the winner compared with the best single arm.
    best_arm : str
    """

    measure: str
    tried: tuple[tuple[Setting, float], ...]
    winner: Setting
    report: Study
    against_best_arm: Comparison
    best_arm: str


@check_objects
def tune(
    indexes: Indexes,
    dataset: Dataset,
    *,
    measure: str = "nDCG@10",
    measures: str | Sequence[str] = ("nDCG@10", "R@10", "R@100", "RR@10"),
    analyzer: Analyzer | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Tuned:
    """Search fusion, weights, k1 and b on the even queries; report on the odd ones.

    The search has three steps, each starting from the best result of the step before: k1 and b of
    the lexical arm alone; the kind of fusion with its weights (RRF by alpha, min-max sum and max by
    weight); k1 and b within that fusion. Of equal settings, the first one tried wins.

    Parameters
    ----------
    indexes : Indexes
    dataset : Dataset
        The whole set: both halves are taken from it. Without vectors, only k1 and b are searched.
    measure : str, default "nDCG@10"
        The measure that chooses the winner.
    measures : str or sequence of str
        Further measures to report.
    analyzer : Analyzer, optional
    tell : callable, optional
        Called with each setting's name before it runs.
    """
    even = dataset.split("even")
    chosen_by = read_measure(measure)
    tried: list[tuple[Setting, float]] = []

    def best_of(settings: Sequence[Setting]) -> Setting:
        seen = []
        for setting in settings:
            tell(setting.name)
            scores = score_setting(indexes, even, setting, measures=[chosen_by])
            seen.append((setting, scores.means[chosen_by]))
        tried.extend(seen)
        return max(seen, key=lambda pair: pair[1])[0]

    how: dict[str, Any] = {} if analyzer is None else {"analyzer": analyzer}
    names = ("bm25", "dense") if dataset.has_vectors else ("bm25",)
    arms = [replace(read_setting(name), **how) for name in names]
    lexical = best_of(_constants(arms[0]))
    winner = lexical
    if dataset.has_vectors:
        base = replace(read_setting("rrf"), **how)
        base = base.but(base.name, bm25=lexical.options["bm25"])
        fused = best_of(_all_fusions(base))
        winner = best_of(_constants(fused))
    named = read_measures(measures, first=[chosen_by])
    settings = {one.name: one for one in (*arms, lexical, winner)}
    odd = dataset.split("odd")
    report = ablate(indexes, odd, list(settings.values()), measures=named, tell=tell)
    by_name = {scores.name: scores for scores in report.scores}
    single = [by_name[one.name] for one in (*arms, lexical) if one.name != winner.name]
    best_arm = max(single, key=lambda scores: scores.means[chosen_by])
    (against,) = compare(best_arm, by_name[winner.name], measures=[chosen_by])
    ordered = sorted(tried, key=lambda pair: -pair[1])
    return Tuned(chosen_by, tuple(ordered), winner, report, against, best_arm.name)


def _constants(base: Setting) -> list[Setting]:
    """Return the base with every combination of k1 and b."""
    name = base.name.partition(" k1=")[0]
    return [base.but(f"{name} k1={k1:g} b={b:g}", bm25=BM25(k1=k1, b=b)) for k1 in K1 for b in B]


def _all_fusions(base: Setting) -> list[Setting]:
    """Return all fusions to try, without weights of 0, which would be single arms."""
    inner = [step / 10 for step in range(1, 10)]
    fusions: dict[str, RRF | WeightedSum | Max] = {
        f"rrf:{constant} alpha={alpha:g}": RRF(alpha=alpha, rank_constant=constant)
        for constant in RANK_CONSTANTS
        for alpha in inner
    }
    for name, kind in (("sum", WeightedSum), ("max", Max)):
        for weight in inner:
            weights = {"text": round(1 - weight, 9), "embedding": weight}
            fusions[f"{name} embedding={weight:g}"] = kind(weights)
    return [base.but(name, fusion=fusion) for name, fusion in fusions.items()]
