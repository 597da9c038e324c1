"""How a fusion joins the scores and ranks of a hit, recomputed from its reply, and as a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hyrecall import _core
from hyrecall.ask.scoring import DBSF, RRF, Fusion, Max, WeightedSum
from hyrecall.errors import MissingExtraError, error
from hyrecall.hits.explain_text import Scaling
from hyrecall.hits.reply import Reply


@dataclass(frozen=True)
class FusedScore:
    """What the fusion made of a document."""

    score: float
    joined: float
    best: float | None
    added: dict[int, dict[str, Any]]


def contributions(reply: Reply, query: int, at: int) -> list[float]:
    """Return what each arm adds to a hit's score, in the order of ``trace.arms``."""
    # With ``normalize`` they are divided by the best score possible, so that they still add up.
    known = {
        place: {"score": reply.cached("score", arm)[at], "rank": reply.cached("rank", arm)[at]}
        for place, arm in enumerate(reply.ran)
    }
    added = fuse(reply, query, known).added
    best = float(_scales(reply, query)[-1]) if reply.normalize else 1.0
    sums = dict.fromkeys(reply.bases, 0.0)  # a row lies in one table
    for place, base in enumerate(reply.bases):
        sums[base] += added[place]["contribution"] / best if best > 0 else 0.0
    return list(sums.values())


def fuse(reply: Reply, query: int, parts: dict[int, dict[str, Any]]) -> FusedScore:
    """Join the components as csrc/engine/fusion does; the pool's scales came with the reply."""
    # ``parts`` has the score and the rank in each arm, by the arm's place among those that ran.
    math = _core.arithmetic
    fusion = reply.fusion
    scales = _scales(reply, query)
    sizes = reply.arrays["list_sizes"].reshape(reply.n_queries, len(reply.ran))[query]
    within = "neighbour_evidence" in reply.arrays  # rows outside the pool may be hits
    added: dict[int, dict[str, Any]] = {}
    present = []
    for at, part in parts.items():
        weight = float(scales[2 * len(reply.ran) + at])
        score, rank = part["score"], part["rank"]
        how: dict[str, Any] = {} if fusion is None else {"weight": weight}
        if fusion is None:
            value = score
        elif isinstance(fusion, RRF):
            how["rank_constant"] = fusion.rank_constant
            value = None if rank is None else math.rrf_term(weight, fusion.rank_constant, rank)
        elif score is None or not sizes[at] or (rank is None and not fusion.complete):
            value = None  # an arm that lists nothing for the query adds nothing
        else:
            numbers = float(scales[2 * at]), float(scales[2 * at + 1])
            how["scaling"] = _scaling(fusion, reply.bases[at], score, numbers, within=within)
            value = weight * how["scaling"].scaled
        added[at] = {"contribution": 0.0 if value is None else value, **how}
        if value is not None:
            present.append(value)
    if isinstance(fusion, Max):
        total = max(present, default=0.0)
        total = total if len(present) == len(parts) else max(total, 0.0)
    else:
        total = 0.0
        for value in sorted(present, reverse=True):
            total += value
    total += 0.0
    if not reply.normalize:
        return FusedScore(total, total, None, added)
    best = float(scales[-1])
    shown = min(max(total / best, 0.0), 1.0) if best > 0 else 0.0
    return FusedScore(shown, total, best, added)


def _scaling(
    fusion: Fusion, arm: str, score: float, numbers: tuple[float, float], *, within: bool
) -> Scaling:
    """Scale a score as the fusion did; ``within``: cut, as that of a row outside the pool."""
    if isinstance(fusion, DBSF):
        scaled = _core.arithmetic.dbsf_scale(score, *numbers)
        if within and numbers[1] == 0 and score < numbers[0]:
            scaled = 0.0
        return Scaling("dbsf", *numbers, scaled)
    assert isinstance(fusion, WeightedSum | Max)
    scale = fusion.scale_of(arm)
    scaled = _scaled(scale, score, *numbers)
    if within and scale in ("minmax", "best"):
        is_below = scale == "minmax" and score < numbers[0]
        scaled = 0.0 if is_below else min(scaled, 1.0)
    return Scaling(scale, *numbers, scaled)


def _scaled(scale: str, score: float, low: float, high: float) -> float:
    """Scale a score as the fusion did."""
    math = _core.arithmetic
    if scale == "minmax":
        return math.minmax_scale(score, low, high)
    if scale == "best":
        return math.best_scale(score, high)
    one = {"clip": math.clip_scale, "unit": math.unit_scale}.get(scale)
    return score if one is None else one(score)


def _scales(reply: Reply, query: int) -> Any:
    return reply.arrays["scales"].reshape(reply.n_queries, len(reply.ran) * 3 + 1)[query]


# ---- A picture of one query's hits; needs the extra ``[plot]`` ----


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
