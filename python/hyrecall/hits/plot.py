"""A picture of one query's hits; needs the extra ``[plot]``."""

from __future__ import annotations

from typing import Any

from hyrecall.ask.scoring import Max
from hyrecall.errors import MissingExtraError, error
from hyrecall.hits.fused_score import contributions
from hyrecall.hits.reply import Reply

__all__ = ["plot_hits"]


def plot_hits(reply: Reply, query: int, ax: Any) -> Any:
    """Draw the hits of a query; see :meth:`hyrecall.Hits.plot`."""
    begin, end = reply.span(query)
    if ax is None:
        try:
            from matplotlib import pyplot
        except ImportError:
            wish = "matplotlib (pip install 'hyrecall[plot]')"
            raise error(MissingExtraError, "plot", wish, "no package matplotlib") from None
        _, ax = pyplot.subplots(figsize=(8.0, 1.2 + 0.3 * (end - begin)), layout="constrained")
    parts = [_parts(reply, query, at) for at in range(begin, end)]
    places = range(end - begin)
    # What is below 0 is stacked to the left, so a bar's two ends are its sums and never overlap.
    right, left = [0.0] * len(parts), [0.0] * len(parts)
    for at, arm in enumerate(reply.trace.arms):
        widths = [part[at] for part in parts]
        starts = [right[i] if widths[i] >= 0 else left[i] for i in places]
        ax.barh(places, widths, left=starts, label=arm)
        for i in places:
            side = right if widths[i] >= 0 else left
            side[i] += widths[i]
    _label(ax, reply, query)
    return ax


def _parts(reply: Reply, query: int, at: int) -> list[float]:
    """Return what each arm adds to the score: of a maximum, the largest alone."""
    parts = contributions(reply, query, at)
    if isinstance(reply.fusion, Max) and parts:
        largest = max(range(len(parts)), key=parts.__getitem__)
        parts = [part if at == largest else 0.0 for at, part in enumerate(parts)]
    return parts


def _label(ax: Any, reply: Reply, query: int) -> None:
    begin, end = reply.span(query)
    ranks = reply.arrays["rank"][begin:end].tolist()
    keys = reply.cached("row", reply.facts.schema.key)[begin:end]
    names = [f"{rank}  {key}" for rank, key in zip(ranks, keys, strict=True)]
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()  # the best on top
    score = "score" if reply.fusion is None else f"score ({type(reply.fusion).__name__})"
    ax.set_xlabel(f"{score}, normalised" if reply.normalize else score)
    ax.set_title(f"query {query}")
    if names:
        ax.legend(title="arm")
