"""A picture of one query's hits; needs the extra ``[plot]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hyrecall.ask.scoring import Max
from hyrecall.errors import MissingExtraError, error
from hyrecall.recall.explain import contributions

if TYPE_CHECKING:
    from hyrecall.hits.hits import Hits, QueryHits

__all__ = ["plot_hits"]


def plot_hits(hits: Hits, query: int, ax: Any) -> Any:
    """Draw the hits of a query; see :meth:`hyrecall.Hits.plot`."""
    if ax is None:
        try:
            from matplotlib import pyplot
        except ImportError:
            wish = "matplotlib (pip install 'hyrecall[plot]')"
            raise error(MissingExtraError, "plot", wish, "no package matplotlib") from None
        _, ax = pyplot.subplots(figsize=(8.0, 1.2 + 0.3 * len(hits[query])), layout="constrained")
    shown = hits[query]
    parts = [_parts(hits, hit) for hit in shown]
    places = range(len(shown))
    # What is below 0 is stacked to the left, so a bar's two ends are its sums and never overlap.
    right, left = [0.0] * len(shown), [0.0] * len(shown)
    for at, arm in enumerate(hits.trace.arms):
        widths = [part[at] for part in parts]
        starts = [right[i] if widths[i] >= 0 else left[i] for i in places]
        ax.barh(places, widths, left=starts, label=arm)
        for i in places:
            side = right if widths[i] >= 0 else left
            side[i] += widths[i]
    _label(ax, shown)
    return ax


def _parts(hits: Hits, hit: Any) -> list[float]:
    """What each arm adds to the score: of a maximum, the largest alone."""
    parts = contributions(hits, hit)
    if isinstance(hits._plan.fusion, Max) and parts:
        largest = max(range(len(parts)), key=parts.__getitem__)
        parts = [part if at == largest else 0.0 for at, part in enumerate(parts)]
    return parts


def _label(ax: Any, shown: QueryHits) -> None:
    ax.set_yticks(range(len(shown)), [f"{hit.rank}  {hit.key}" for hit in shown])
    ax.invert_yaxis()  # the best on top
    fusion = shown._hits._plan.fusion
    score = "score" if fusion is None else f"score ({type(fusion).__name__})"
    ax.set_xlabel(f"{score}, normalised" if shown._hits._plan.normalize else score)
    ax.set_title(f"query {shown.query}")
    if len(shown):
        ax.legend(title="arm")
