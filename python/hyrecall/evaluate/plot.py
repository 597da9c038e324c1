"""A study as a picture: bars of means with their intervals, as SVG."""

from __future__ import annotations

from pathlib import Path

from hyrecall.errors import OptionError, error
from hyrecall.evaluate.ablate import Study
from hyrecall.evaluate.compare import bootstrap_interval
from hyrecall.evaluate.extras import needs_extra
from hyrecall.keywords import check_keywords

__all__ = ["plot_study"]


@check_keywords
def plot_study(study: Study, path: str | Path) -> None:
    """Draw each setting's means, with bootstrap 95 % intervals over the queries.

    The same study gives the same bytes, with one version of matplotlib.

    Parameters
    ----------
    study : Study
    path : path-like
        An ``.svg`` file, written over.

    Raises
    ------
    OptionError
        Another ending.
    MissingExtraError
        The extra ``[eval]`` is not installed.
    """
    path = Path(path)
    if path.suffix.lower() != ".svg":
        raise error(OptionError, "plot", "a name that ends in .svg", repr(path.name))
    with needs_extra():
        from matplotlib import rc_context
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    measures = list(study.scores[0].values)
    width = 0.8 / len(study.scores)
    # Ids inside the file come from the salt, not from chance; the file names no day.
    with rc_context({"svg.hashsalt": "hyrecall", "font.family": "DejaVu Sans"}):
        n_bars = len(measures) * len(study.scores)
        figure = Figure(figsize=(2 + max(4, 0.35 * n_bars), 4), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        for at, scores in enumerate(study.scores):
            means = list(scores.means.values())
            spans = [bootstrap_interval(values) for values in scores.values.values()]
            # A mean outside the percentiles would be a negative length, which is refused.
            below = [max(mean - low, 0.0) for mean, (low, _) in zip(means, spans, strict=True)]
            above = [max(high - mean, 0.0) for mean, (_, high) in zip(means, spans, strict=True)]
            places = [row - 0.4 + width * (at + 0.5) for row in range(len(measures))]
            axes.bar(places, means, width, yerr=[below, above], capsize=2, label=scores.name)
        axes.set_xticks(range(len(measures)), measures)
        axes.set_ylim(0, 1)
        axes.set_ylabel("mean over queries")
        axes.set_title(f"{study.dataset}: {len(study.scores[0].queries):,} queries")
        axes.legend(fontsize="small")
        figure.savefig(path, format="svg", metadata={"Date": None})
