"""Compares two runs by paired significance tests over the queries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.base.arguments import check_keywords, read_path
from hyrecall.base.disk import open_replacement
from hyrecall.base.malformed import MALFORMED
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.evaluate.metrics import Scores, needs_extra, read_measure

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


# ---- Compares a run with a stored baseline of values per query, and decides whether it got worse

GATE = ("R@5", "RR@10", "nDCG@10")
"""The measures that must not fall."""

_FORMAT = 1
_DIGITS = 6  # digits of values in the file; the run is rounded equally before the comparison
_FALL = 0.02  # a larger fall fails if the paired test has p < _P
_P = 0.01
_FAR = 0.04  # a larger fall always fails


@dataclass(frozen=True)
class Check:
    """One measure of a setting compared with its baseline.

    Attributes
    ----------
    setting : str
    comparison : Comparison
        From the baseline (``before``) to the run (``after``).
    """

    setting: str
    comparison: Comparison

    @property
    def failed(self) -> bool:
        """Whether the measure fell by more than 0.04, or by more than 0.02 with p < 0.01."""
        fall = round(-self.comparison.difference, 9)
        return fall > _FAR or (fall > _FALL and self.comparison.p_value < _P)


@check_keywords
def write_baseline(path: str | Path, dataset: str, scores: Sequence[Scores]) -> None:
    """Write the scores of settings per query to a file.

    Parameters
    ----------
    path : path-like
        A JSON file; an existing file is overwritten.
    dataset : str
        The name of the set.
    scores : sequence of Scores
        Scores over the same queries, with the measures of ``GATE``.

    Raises
    ------
    OptionError
        The queries differ, or a measure is missing.
    """
    for one in scores:
        missing = [measure for measure in GATE if measure not in one.values]
        if missing or one.queries != scores[0].queries:
            wish = f"the queries of {scores[0].name!r} and measures with {', '.join(GATE)}"
            raise error(OptionError, f"run {one.name!r}", wish, f"none of {missing or 'them'}")
    # A line for each measure, so that a change of one measure is one line in a diff.
    lines = [
        f" {json.dumps(one.name)}: {{\n"
        + ",\n".join(f"  {json.dumps(m)}: {_entry(one, m)}" for m in one.values)
        + "\n }"
        for one in scores
    ]
    head = {"format": _FORMAT, "dataset": dataset, "queries": list(scores[0].queries)}
    top = "".join(f"{json.dumps(k)}: {json.dumps(v)},\n" for k, v in head.items())
    text = "{" + top + '"settings": {\n' + ",\n".join(lines) + "\n}}\n"
    with open_replacement("path", read_path(path)) as out:
        out.write(text.encode())


def _entry(scores: Scores, measure: str) -> str:
    values = [round(float(value), _DIGITS) for value in scores.values[measure]]
    entry = {"mean": round(scores.means[measure], _DIGITS), "values": values}
    return json.dumps(entry, separators=(",", ":"))  # thousands of values: a sixth of the file


@check_keywords
def read_baseline(path: str | Path) -> dict[str, Scores]:
    """Read a baseline file; return the scores by setting.

    Raises
    ------
    DTypeError
        Not a file of :func:`write_baseline`; the message names it.
    """
    try:
        data = json.loads(read_path(path).read_text("utf-8"))
        if data["format"] != _FORMAT:
            raise ValueError(f"format {data['format']}")
        queries = tuple(map(str, data["queries"]))
        return {
            name: Scores(name, queries, {read_measure(m): _values(v) for m, v in given.items()})
            for name, given in data["settings"].items()
        }
    except MALFORMED as fault:
        wish = f"a baseline of format {_FORMAT}"
        raise error(DTypeError, str(path), wish, f"{type(fault).__name__}: {fault}") from fault


def _values(given: Mapping[str, Any]) -> Any:
    values = np.array(given["values"], np.float64)
    if not np.isfinite(values).all():
        raise ValueError("a value that is not finite")
    return values


@check_keywords
def check(scores: Scores, baseline: Mapping[str, Scores]) -> tuple[Check, ...]:
    """Compare a run with the baseline of the same name.

    Parameters
    ----------
    scores : Scores
        With the measures of ``GATE``.
    baseline : mapping of str to Scores
        As :func:`read_baseline` returns it.

    Returns
    -------
    tuple of Check
        One per measure of ``GATE``; the run fails if ``failed`` is True for one of them.

    Raises
    ------
    OptionError
        The baseline lacks the setting or a measure, or has other queries.

    Examples
    --------
    >>> half = np.full(100, 0.5)
    >>> before = Scores("bm25", tuple(map(str, range(100))), dict.fromkeys(GATE, half))
    >>> after = Scores("bm25", before.queries, dict.fromkeys(GATE, half - 0.05))
    >>> [one.failed for one in check(after, {"bm25": before})]
    [True, True, True]
    """
    if scores.name not in baseline:
        wish = f"a baseline with {scores.name!r}"
        raise error(OptionError, "baseline", wish, ", ".join(baseline) or "none")
    rounded = {measure: np.round(values, _DIGITS) for measure, values in scores.values.items()}
    now = Scores(scores.name, scores.queries, rounded)
    compared = compare(baseline[scores.name], now, measures=GATE)
    return tuple(Check(scores.name, one) for one in compared)
