"""Searches for good settings on one half of the queries, and evaluates them on the other half."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hyrecall.ask.scoring import Max
from hyrecall.base.keywords import check_keywords
from hyrecall.evaluate.ablate import Study, ablate, alpha_grid, weight_grid
from hyrecall.evaluate.compare import Comparison, compare
from hyrecall.evaluate.data import Dataset
from hyrecall.evaluate.metrics import read_measure, read_measures
from hyrecall.evaluate.run import Indexes, score_setting
from hyrecall.evaluate.settings import Setting, read_setting
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

__all__ = ["Tuned", "tune"]

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


@check_keywords
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
    arms = [replace(read_setting(name), **how) for name in ("bm25", "dense")]
    lexical = best_of(_constants(arms[0]))
    winner = lexical
    if dataset.has_vectors:
        base = replace(read_setting("rrf"), **how)
        base = base.but(base.name, bm25=lexical.options["bm25"])
        fused = best_of(_all_fusions(base))
        winner = best_of(_constants(fused))
    else:
        arms.pop()
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
    inner = tuple(step / 10 for step in range(1, 10))
    made: list[Setting] = []
    for constant in RANK_CONSTANTS:
        made += alpha_grid(inner, rank_constant=constant, base=base)
    made += weight_grid(inner, base=base)
    made += weight_grid(inner, kind=Max, base=base)
    return made
