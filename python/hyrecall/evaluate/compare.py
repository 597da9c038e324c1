"""Compares two runs by paired significance tests over the queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.base.keywords import check_keywords
from hyrecall.errors import OptionError, error
from hyrecall.evaluate.extras import needs_extra
from hyrecall.evaluate.metrics import Scores

__all__ = [
    "Comparison",
    "bootstrap_interval",
    "compare",
    "difference_table",
    "randomisation_p",
    "student_p",
]

Values = npt.NDArray[np.float64]

N_RESAMPLES = 10_000
SEED = 20_260_101
_AT_ONCE = 256  # resamples in memory


@dataclass(frozen=True)
class Comparison:
    """A measure of two runs over the same queries.

    Attributes
    ----------
    measure : str
    before, after, difference : float
        The means, and their difference, after - before.
    interval : tuple of float
        95 % interval of the mean difference: percentiles of bootstrap means over queries.
    p_value : float
        Two-sided p of the paired randomisation test.
    p_student : float or None
        Two-sided p of the paired t-test, for reference; None with fewer than two queries.
    better, worse, n_queries : int
        Number of queries with a higher value after, with a lower value after, and in total.
    """

    measure: str
    before: float
    after: float
    difference: float
    interval: tuple[float, float]
    p_value: float
    p_student: float | None
    better: int
    worse: int
    n_queries: int


@check_keywords
def compare(
    before: Scores, after: Scores, *, measures: str | Sequence[str] | None = None, seed: int = SEED
) -> tuple[Comparison, ...]:
    """Compare two runs on the named measures, by default on all that both have.

    Parameters
    ----------
    before, after : Scores
        Over the same queries.
    measures : str or sequence of str, optional
        Names as in the scores.
    seed : int
        Seed of the resamples: the same scores and seed give the same p.

    Raises
    ------
    OptionError
        The queries differ, or a run lacks a measure.
    MissingExtraError
        The extra ``[eval]`` is not installed.
    """
    if before.queries != after.queries:
        wish = f"the {len(before.queries)} queries of {before.name!r}"
        raise error(OptionError, f"run {after.name!r}", wish, f"{len(after.queries)} other queries")
    named = [m for m in before.values if m in after.values] if measures is None else measures
    if isinstance(named, str):
        named = [named]
    made = []
    for measure in named:
        for one in (before, after):
            if measure not in one.values:
                wish = f"measures with {measure}"
                raise error(OptionError, f"run {one.name!r}", wish, list(one.values))
        differences = after.values[measure] - before.values[measure]
        made.append(
            Comparison(
                measure=measure,
                before=before.means[measure],
                after=after.means[measure],
                difference=float(differences.mean()) if len(differences) else 0.0,
                interval=bootstrap_interval(differences, seed=seed),
                p_value=randomisation_p(differences, seed=seed),
                p_student=student_p(differences),
                better=int((differences > 0).sum()),
                worse=int((differences < 0).sum()),
                n_queries=len(differences),
            )
        )
    return tuple(made)


def randomisation_p(
    differences: Values, *, n_resamples: int = N_RESAMPLES, seed: int = SEED
) -> float:
    """Return the two-sided p of the paired randomisation test.

    If the two runs were equally good, each query's difference could equally have the other sign. p
    is the share of sign flips whose mean difference is at least as far from 0 as the observed one.
    All flips are tried if there are at most ``n_resamples``. Otherwise ``n_resamples`` are drawn at
    random and the observed one is added, so that p is never 0.

    Parameters
    ----------
    differences : ndarray, shape (n_queries,), float64
    n_resamples : int, default 10000
    seed : int

    Notes
    -----
    Queries without a difference do not count. Source: Smucker, Allan, Carterette, "A comparison of
    statistical significance tests for information retrieval evaluation", CIKM 2007.

    Examples
    --------
    >>> randomisation_p(np.array([0.5, 0.25, 0.0, 0.125]))
    0.25
    """
    moved = differences[differences != 0]
    if not len(moved):
        return 1.0
    # Mathematically equal sums differ by rounding: one rounding per term.
    observed = abs(moved.sum()) - np.abs(moved).sum() * len(moved) * 2.0**-52
    exact = len(moved) < 63 and 2 ** len(moved) <= n_resamples
    flips = _all_flips(len(moved)) if exact else _drawn_flips(len(moved), n_resamples, seed)
    as_far = sum(int((np.abs(signs @ moved) >= observed).sum()) for signs in flips)
    return as_far / 2 ** len(moved) if exact else (as_far + 1) / (n_resamples + 1)


def _all_flips(n: int) -> Iterator[Values]:
    yield np.array(list(product((-1.0, 1.0), repeat=n)))


def _drawn_flips(n: int, n_resamples: int, seed: int) -> Iterator[Values]:
    random = np.random.default_rng(seed)
    for first in range(0, n_resamples, _AT_ONCE):
        rows = min(_AT_ONCE, n_resamples - first)
        yield np.where(random.integers(0, 2, (rows, n), np.int8), 1.0, -1.0)


def bootstrap_interval(
    differences: Values, *, n_resamples: int = N_RESAMPLES, seed: int = SEED
) -> tuple[float, float]:
    """Return the 95 % interval of a mean: percentiles of means over queries drawn with replacement.

    Parameters
    ----------
    differences : ndarray, shape (n_queries,), float64
    n_resamples : int, default 10000
    seed : int

    Returns
    -------
    tuple of float
        (0, 0) without queries.
    """
    if not len(differences):
        return 0.0, 0.0
    random = np.random.default_rng(seed)
    means = []
    for first in range(0, n_resamples, _AT_ONCE):
        shape = (min(_AT_ONCE, n_resamples - first), len(differences))
        means.append(differences[random.integers(0, len(differences), shape)].mean(axis=1))
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5])
    return float(low), float(high)


def student_p(differences: Values) -> float | None:
    """Return the two-sided p of the paired t-test; None with fewer than two queries.

    If all differences are equal, they have no variance: p is then 1 for a difference of 0,
    otherwise 0.
    """
    with needs_extra():
        from scipy import stats
    if len(differences) < 2:
        return None
    if np.ptp(differences) <= 1e-12 * np.abs(differences).max():
        return float(differences[0] == 0)
    return float(stats.ttest_1samp(differences, 0.0).pvalue)


@check_keywords
def difference_table(
    before: Scores, after: Scores, measure: str, queries: pa.Table | None = None
) -> pa.Table:
    """Return each query's values before and after a change, the largest difference first.

    Parameters
    ----------
    before, after : Scores
        Over the same queries.
    measure : str
    queries : pyarrow.Table, optional
        With ``id`` and ``text``, to include the texts in the result.

    Returns
    -------
    pyarrow.Table
        Columns ``query``, ``text``, ``before``, ``after``, ``difference``, a row for every query;
        equal differences are ordered by query id.
    """
    compare_queries = before.queries == after.queries
    if not compare_queries or measure not in before.values or measure not in after.values:
        wish = f"two runs over the same queries, with {measure}"
        raise error(OptionError, "measure", wish, f"{before.name!r} and {after.name!r}")
    texts: dict[str, Any] = {}
    if queries is not None:
        texts = dict(zip(queries["id"].to_pylist(), queries["text"].to_pylist(), strict=True))
    was, now = before.values[measure], after.values[measure]
    order = sorted(range(len(was)), key=lambda at: (-abs(now[at] - was[at]), before.queries[at]))
    names = [before.queries[at] for at in order]
    return pa.table(
        {
            "query": pa.array(names, pa.string()),
            "text": pa.array([texts.get(name) for name in names], pa.string()),
            "before": was[order],
            "after": now[order],
            "difference": (now - was)[order],
        }
    )
