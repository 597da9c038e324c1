"""Evaluates many settings on one set and compares each with the first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hyrecall.ask.scoring import RRF, Max, WeightedSum
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import HyrecallError, OptionError, error
from hyrecall.evaluate.compare import Comparison, compare
from hyrecall.evaluate.data import Dataset
from hyrecall.evaluate.metrics import MEASURES, Scores, read_measure
from hyrecall.evaluate.run import Indexes, score_setting
from hyrecall.evaluate.settings import Setting, grid, read_setting

__all__ = [
    "Study",
    "ablate",
    "alpha_grid",
    "depth_grid",
    "rank_constant_grid",
    "weight_grid",
]

_TENTHS = tuple(step / 10 for step in range(11))


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

    def best(self, measure: str) -> Setting:
        """Return the setting with the highest mean; the first of equal settings.

        Evaluate the chosen setting on other queries (:meth:`Dataset.split`).

        Parameters
        ----------
        measure : str
            A measure of the study, in any form that :func:`read_measure` accepts.

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


@check_keywords
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
        From :func:`score_setting`; a note names the setting.

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


def _labels(values: Sequence[float]) -> Mapping[str, Any]:
    return {f"{value:g}": value for value in values}


def _fusions(kind: str, fusions: Mapping[str, Any], base: Setting | None) -> tuple[Setting, ...]:
    base = base or read_setting("rrf")
    return tuple(base.but(f"{kind} {label}", fusion=fusion) for label, fusion in fusions.items())


def alpha_grid(
    alphas: Sequence[float] = _TENTHS, *, rank_constant: float = 60, base: Setting | None = None
) -> tuple[Setting, ...]:
    """Return settings with reciprocal rank fusion, one for each alpha."""
    fusions = {
        f"alpha={label}": RRF(alpha=alpha, rank_constant=rank_constant)
        for label, alpha in _labels(alphas).items()
    }
    return _fusions(f"rrf:{rank_constant:g}", fusions, base)


def rank_constant_grid(
    constants: Sequence[float] = (1, 5, 10, 20, 60, 100), *, base: Setting | None = None
) -> tuple[Setting, ...]:
    """Return settings with reciprocal rank fusion, one for each rank constant."""
    fusions = {label: RRF(rank_constant=one) for label, one in _labels(constants).items()}
    return _fusions("rrf", {f"rank_constant={label}": one for label, one in fusions.items()}, base)


def weight_grid(
    weights: Sequence[float] = _TENTHS,
    *,
    kind: type[WeightedSum] | type[Max] = WeightedSum,
    base: Setting | None = None,
) -> tuple[Setting, ...]:
    """Return settings that fuse min-max scores, one for each weight of the dense arm.

    The lexical arm has 1 - weight. At 0 and 1, one arm is left out.
    """
    fusions = {
        f"embedding={label}": kind({"text": round(1 - weight, 9), "embedding": weight})
        for label, weight in _labels(weights).items()
    }
    return _fusions("sum" if kind is WeightedSum else "max", fusions, base)


def depth_grid(
    base: Setting, depths: Sequence[int] = (10, 20, 50, 100, 200, 500, 1000)
) -> tuple[Setting, ...]:
    """Return a setting with several depths."""
    return grid(base, depth=_labels(depths))
