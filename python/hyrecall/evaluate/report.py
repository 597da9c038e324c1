"""Shows studies as tables for a screen, as plain data, or as a picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from hyrecall.base.arguments import check_objects, read_path
from hyrecall.base.text_tables import Column, Row, TextLine, clean, table_text, wrap
from hyrecall.base.text_tables import table as lines_of
from hyrecall.errors import OptionError, error
from hyrecall.evaluate.compare import Comparison, require_extra
from hyrecall.evaluate.confidence import LearntConfidence
from hyrecall.evaluate.learn import Learnt
from hyrecall.evaluate.run import Setting
from hyrecall.evaluate.tune import Study, Tuned

_SHOWN_TRIED = 10  # settings of a search in a table


@check_objects
def study_text(study: Study, *, width: int = 80) -> str:
    """Show each setting's means with their intervals, and how the first measure differs from the
    first setting's.

    Parameters
    ----------
    study : Study
    width : int, default 80
        Width of the screen in columns: columns that do not fit are shown beneath their row.
    """
    measures = list(study.scores[0].values)
    rows = [
        [scores.name, *(f"{scores.means[measure]:.4f}" for measure in measures)]
        for scores in study.scores
    ]
    n_queries = len(study.scores[0].queries)
    parts = [
        f"{study.dataset}: {n_queries:,} judged queries",
        table_text(["setting", *measures], rows, width=width),
        "95 % intervals",
        table_text(
            ["setting", *measures],
            [[one.name, *map(_span, one.intervals.values())] for one in study.scores],
            width=width,
        ),
    ]
    if study.comparisons:
        firsts = [comparisons[0] for comparisons in study.comparisons]
        rows = [
            [scores.name, *_difference(one)]
            for scores, one in zip(study.scores[1:], firsts, strict=True)
        ]
        headings = ["setting", "change", "95 % interval", "p"]
        parts += [
            f"{measures[0]}, against {study.scores[0].name}",
            table_text(headings, rows, width=width),
        ]
    return "\n\n".join(parts)


def winner_text(setting: Setting, by: str, code: str, *, width: int = 80) -> str:
    """Show the best setting, the measure that chose it, and Python code that uses it."""
    return "\n\n".join([_wrapped(width, f"best by {by}: {setting.name}"), code])


def _wrapped(width: int, text: str) -> str:
    return "\n".join(line.text for line in wrap(TextLine(text), width))


def _span(interval: tuple[float, float]) -> str:
    return "-".join(f"{end:.3f}".removeprefix("0") for end in interval)


def _difference(one: Comparison) -> list[str]:
    low, high = one.interval
    return [f"{one.difference:+.4f}", f"{low:+.4f} .. {high:+.4f}", _p(one.p_value)]


def _verdict(one: Comparison) -> str:
    change, interval, p = _difference(one)
    moved = f"{one.better} queries better, {one.worse} worse"
    return f"{one.measure}: {change} ({interval}), p {p}, {moved}"


def _p(value: float) -> str:
    return f"{value:.4f}" if value >= 0.0001 else "< 0.0001"


def study_to_dict(study: Study) -> dict[str, Any]:
    """Return a study as plain data: settings with their means, and all comparisons."""
    settings = [
        {**setting.to_dict(), "means": scores.means, "intervals": scores.intervals}
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


def checks_text(checks: Sequence[tuple[str, Comparison]], *, width: int = 80) -> str:
    """Show measures of settings beside their baseline."""
    headings = ["setting", "measure", "baseline", "now", "change", "p", "", "95 % interval"]
    rows = []
    for setting, one in checks:
        change, interval, p = _difference(one)
        means = [f"{one.before:.4f}", f"{one.after:.4f}"]
        verdict = "FELL" if one.has_fallen else "ok"
        rows.append([setting, one.measure, *means, change, p, verdict, interval])
    return table_text(headings, rows, width=width)


def differences_text(differences: pa.Table, *, width: int = 80) -> str:
    """Show a part of :func:`difference_table`."""
    columns = [Column("query"), *(Column(name, "right") for name in ("before", "after", "change"))]
    rows = []
    for row in differences.to_pylist():
        numbers = [f"{row['before']:.4f}", f"{row['after']:.4f}", f"{row['difference']:+.4f}"]
        text = clean(row["text"] or "")
        rows.append(Row([row["query"], *numbers], [TextLine(text)] if text else []))
    return "\n".join(line.text for line in lines_of(columns, rows, width=width))


def tuned_text(tuned: Tuned, *, width: int = 80) -> str:
    """Show the best settings that were tried, and the winner's results on the other half."""
    tried = [[one.name, f"{mean:.4f}"] for one, mean in tuned.tried[:_SHOWN_TRIED]]
    better = f"{tuned.winner.name} against {tuned.best_arm}, {_verdict(tuned.against_best_arm)}"
    searched = f"chosen on the even queries of {len(tuned.tried)} settings, the best ones:"
    return "\n\n".join(
        [
            searched,
            table_text(["setting", tuned.measure], tried, width=width),
            study_text(tuned.report, width=width),
            _wrapped(width, better),
        ]
    )


def tuned_to_dict(tuned: Tuned) -> dict[str, Any]:
    """Return a search as plain data."""
    return {
        "measure": tuned.measure,
        "winner": tuned.winner.to_dict(),
        "best_arm": tuned.best_arm,
        "against_best_arm": asdict(tuned.against_best_arm),
        "report": study_to_dict(tuned.report),
        "tried": [{"name": one.name, "mean": mean} for one, mean in tuned.tried],
    }


def learnt_text(learnt: Learnt, *, width: int = 80) -> str:
    """Show learnt weights, their results on the other half, and whether they are better."""
    weights = [[name, f"{weight:.4g}"] for name, weight in learnt.weights.items()]
    verdict = "better" if learnt.is_better else "not better (p < 0.05 is needed)"
    told = f"{learnt.setting.name} is {verdict} than {learnt.base.name}, "
    told += _verdict(learnt.against_base)
    return "\n\n".join(
        [
            _wrapped(
                width, f"learnt from {learnt.n_queries:,} even queries with a relevant candidate:"
            ),
            table_text(["feature", "weight"], weights, width=width),
            study_text(learnt.report, width=width),
            _wrapped(width, told),
        ]
    )


def learnt_to_dict(learnt: Learnt) -> dict[str, Any]:
    """Return what was learnt as plain data."""
    return {
        "measure": learnt.measure,
        "base": learnt.base.to_dict(),
        "weights": learnt.weights,
        "n_queries": learnt.n_queries,
        "is_better": learnt.is_better,
        "against_base": asdict(learnt.against_base),
        "report": study_to_dict(learnt.report),
        "recipe": json.loads(learnt.recipe.to_json()),
    }


def confidence_text(learnt: LearntConfidence, *, width: int = 80) -> str:
    """Show learnt coefficients, how good confidences were and are, and whether they are better."""
    given = learnt.recipe.confidence
    assert given is not None
    of_query, of_hit = dict(given.query), dict(given.hit)
    weights = [
        [name, *("" if name not in of else f"{of[name]:.4g}" for of in (of_query, of_hit))]
        for name in dict.fromkeys((*of_query, *of_hit))
    ]
    rows = [
        [name, f"{one.auroc:.4f}", f"{one.ece:.4f}", f"{one.squared_error:.4f}"]
        for name, one in ((f"by {learnt.before_by}", learnt.before), ("learnt", learnt.after))
    ]
    verdict = "better" if learnt.is_better else "not better (p < 0.05 is needed)"
    against = learnt.against_base  # of errors, which are better where they are lower
    lower = replace(against, better=against.worse, worse=against.better)
    told = f"learnt from {learnt.n_queries:,} even queries whose reply holds an answer:"
    return "\n\n".join(
        [
            _wrapped(width, told),
            table_text(["signal", "reply", "hit"], weights, width=width),
            f"{learnt.against_base.n_queries:,} odd queries",
            table_text(["confidence", "AUROC", "ECE", "squared error"], rows, width=width),
            _wrapped(width, f"learnt is {verdict}, {_verdict(lower)}"),
        ]
    )


def confidence_to_dict(learnt: LearntConfidence) -> dict[str, Any]:
    """Return learnt coefficients as plain data."""
    return {
        "base": learnt.base.to_dict(),
        "n_queries": learnt.n_queries,
        "is_better": learnt.is_better,
        "before_by": learnt.before_by,
        "before": asdict(learnt.before),
        "after": asdict(learnt.after),
        "against_base": asdict(learnt.against_base),
        "recipe": json.loads(learnt.recipe.to_json()),
    }


# ---- Draws a study as bars of means with their intervals, as SVG or PNG ----

_DOTS = 150  # per inch of a PNG


def plot_format(path: Path, argument: str = "plot") -> str:
    """Return the format of a picture by the suffix of its name."""
    ending = path.suffix.lower()
    if ending not in (".svg", ".png"):
        raise error(OptionError, argument, "a name that ends in .svg or .png", repr(path.name))
    return ending[1:]


@check_objects
def plot_study(study: Study, path: str | Path) -> None:
    """Draw each setting's means, with bootstrap 95 % intervals over the queries.

    The same study gives the same bytes with the same version of matplotlib.

    Parameters
    ----------
    study : Study
    path : path-like
        An ``.svg`` or ``.png`` file; an existing file is overwritten.

    Raises
    ------
    OptionError
        Another suffix.
    MissingExtraError
        The extra ``[evaluate]`` is not installed.
    """
    path = read_path(path)
    kind = plot_format(path)
    require_extra()
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    measures = list(study.scores[0].values)
    width = 0.8 / len(study.scores)
    # The salt makes ids in the file reproducible; the file has no date.
    with rc_context({"svg.hashsalt": "hyrecall", "font.family": "DejaVu Sans"}):
        n_bars = len(measures) * len(study.scores)
        figure = Figure(figsize=(2 + max(4, 0.35 * n_bars), 4), layout="constrained")
        (FigureCanvasSVG if kind == "svg" else FigureCanvasAgg)(figure)
        axes = figure.add_subplot()
        for at, scores in enumerate(study.scores):
            means = list(scores.means.values())
            spans = scores.intervals.values()
            # matplotlib refuses negative lengths, which a mean outside the percentiles would have.
            below = [max(mean - low, 0.0) for mean, (low, _) in zip(means, spans, strict=True)]
            above = [max(high - mean, 0.0) for mean, (_, high) in zip(means, spans, strict=True)]
            places = [row - 0.4 + width * (at + 0.5) for row in range(len(measures))]
            axes.bar(places, means, width, yerr=[below, above], capsize=2, label=scores.name)
        axes.set_xticks(range(len(measures)), measures)
        axes.set_ylim(0, 1)
        axes.set_ylabel("mean over queries")
        axes.set_title(f"{study.dataset}: {len(study.scores[0].queries):,} queries")
        axes.legend(fontsize="small")
        nothing = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(path, format=kind, dpi=_DOTS, metadata=nothing)
