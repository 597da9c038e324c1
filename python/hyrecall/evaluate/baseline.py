"""Compares a run with a stored baseline of values per query, and decides whether it got worse."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hyrecall.base.arguments import read_path
from hyrecall.base.keywords import check_keywords
from hyrecall.base.malformed import MALFORMED
from hyrecall.base.output_files import open_replacement
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.evaluate.compare import Comparison, compare
from hyrecall.evaluate.metrics import Scores, read_measure

__all__ = ["GATE", "Check", "check", "read_baseline", "write_baseline"]

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
