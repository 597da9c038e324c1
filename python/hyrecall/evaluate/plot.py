"""Draws a study as bars of means with their intervals, as SVG or PNG."""

from __future__ import annotations

from pathlib import Path

from hyrecall.base.keywords import check_keywords
from hyrecall.errors import OptionError, error
from hyrecall.evaluate.ablate import Study
from hyrecall.evaluate.compare import bootstrap_interval
from hyrecall.evaluate.extras import needs_extra

__all__ = ["plot_format", "plot_study"]

_DOTS = 150  # per inch of a PNG


def plot_format(path: Path, argument: str = "plot") -> str:
    """Return the format of a picture by the suffix of its name."""
    ending = path.suffix.lower()
    if ending not in (".svg", ".png"):
        raise error(OptionError, argument, "a name that ends in .svg or .png", repr(path.name))
    return ending[1:]


@check_keywords
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
        The extra ``[eval]`` is not installed.
    """
    path = Path(path)
    kind = plot_format(path)
    with needs_extra():
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
            spans = [bootstrap_interval(values) for values in scores.values.values()]
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
