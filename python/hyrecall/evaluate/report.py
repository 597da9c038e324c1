"""What a person or a program reads of a study: a table of plain text, or plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from hyrecall.evaluate.ablate import Study
from hyrecall.evaluate.baseline import Check
from hyrecall.evaluate.compare import Comparison
from hyrecall.evaluate.tune import Tuned

__all__ = [
    "checks_text",
    "differences_text",
    "study_text",
    "study_to_dict",
    "table",
    "tuned_text",
    "tuned_to_dict",
]

_SHOWN_TEXT = 60  # characters of a query in a table
_SHOWN_TRIED = 10  # settings of a search in a table


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out rows in columns, as Markdown that is also readable as it stands.

    Examples
    --------
    >>> print(table(["setting", "AP"], [["bm25", "0.5"], ["dense", "0.25"]]))
    | setting |   AP |
    | ------- | ---: |
    | bm25    |  0.5 |
    | dense   | 0.25 |
    """
    shown = [[cell.replace("|", "/") for cell in row] for row in (headings, *rows)]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [shown[0], rule, *shown[1:]]
    return "\n".join(
        "| "
        + " | ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        + " |"
        for line in lines
    )


def study_text(study: Study) -> str:
    """Show each setting's means, and the first measure's difference to the first setting."""
    measures = list(study.scores[0].values)
    headings = ["setting", *measures]
    compared = bool(study.comparisons)
    if compared:
        headings += [f"{measures[0]} less {study.scores[0].name}", "95 % interval", "p"]
    rows = []
    for at, scores in enumerate(study.scores):
        row = [scores.name, *(f"{scores.means[measure]:.4f}" for measure in measures)]
        if compared:
            row += _difference(study.comparisons[at - 1][0]) if at else ["", "", ""]
        rows.append(row)
    n_queries = len(study.scores[0].queries)
    return f"{study.dataset}: {n_queries:,} judged queries\n\n{table(headings, rows)}"


def _difference(one: Comparison) -> list[str]:
    low, high = one.interval
    return [f"{one.difference:+.4f}", f"{low:+.4f} .. {high:+.4f}", _p(one.p_value)]


def _p(value: float) -> str:
    return f"{value:.4f}" if value >= 0.0001 else "< 0.0001"


def study_to_dict(study: Study) -> dict[str, Any]:
    """Give a study as plain data: settings with their means, and all comparisons."""
    settings = [
        {**setting.to_dict(), "means": scores.means}
        for setting, scores in zip(study.settings, study.scores, strict=True)
    ]
    compared = [
        {"setting": scores.name, "against": study.scores[0].name, **asdict(one)}
        for scores, comparisons in zip(study.scores[1:], study.comparisons, strict=True)
        for one in comparisons
    ]
    return {
        "dataset": study.dataset,
        "n_queries": len(study.scores[0].queries),
        "settings": settings,
        "comparisons": compared,
    }


def checks_text(checks: Sequence[Check]) -> str:
    """Show settings beside their baseline."""
    headings = ["setting", "measure", "baseline", "now", "difference", "95 % interval", "p", ""]
    rows = []
    for check in checks:
        one = check.comparison
        means = [f"{one.before:.4f}", f"{one.after:.4f}"]
        verdict = "FELL" if check.failed else "ok"
        rows.append([check.setting, one.measure, *means, *_difference(one), verdict])
    return table(headings, rows)


def differences_text(differences: pa.Table, limit: int) -> str:
    """Show the first rows of :func:`difference_table`."""
    rows = []
    for row in differences.slice(0, limit).to_pylist():
        text = " ".join((row["text"] or "").split())
        short = text if len(text) <= _SHOWN_TEXT else text[: _SHOWN_TEXT - 3] + "..."
        numbers = [f"{row['before']:.4f}", f"{row['after']:.4f}", f"{row['difference']:+.4f}"]
        rows.append([f"{row['query']}: {short}", *numbers])
    return table(["query", "before", "after", "difference"], rows)


def tuned_text(tuned: Tuned) -> str:
    """Show what was chosen, what it is worth on the other half, and the best that were tried."""
    tried = [[one.name, f"{mean:.4f}"] for one, mean in tuned.tried[:_SHOWN_TRIED]]
    one = tuned.against_best_arm
    low, high = one.interval
    better = (
        f"{tuned.winner.name} against {tuned.best_arm}, {one.measure}: {one.difference:+.4f} "
        f"({low:+.4f} .. {high:+.4f}), p {_p(one.p_value)}, "
        f"{one.better} queries better, {one.worse} worse"
    )
    searched = f"chosen on the even queries of {len(tuned.tried)} settings, the best ones:"
    return "\n\n".join(
        [searched, table(["setting", tuned.measure], tried), study_text(tuned.report), better]
    )


def tuned_to_dict(tuned: Tuned) -> dict[str, Any]:
    """Give a search as plain data."""
    return {
        "measure": tuned.measure,
        "winner": tuned.winner.to_dict(),
        "best_arm": tuned.best_arm,
        "against_best_arm": asdict(tuned.against_best_arm),
        "report": study_to_dict(tuned.report),
        "tried": [{"name": one.name, "mean": mean} for one, mean in tuned.tried],
    }
