"""What each stage leaves out, and why, from the definitions of the stages; slow on purpose.

A list holds (document, score) in order, as in :mod:`oracle.shaping`.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from oracle.shaping import Doc, Ranked, similarity


class Drop(NamedTuple):
    """A document that was left out; documents are named by their ids."""

    place: int
    key: object
    reason: str
    value: float
    bound: float | None
    kept: object = None
    via: object = None


def duplicates(
    ranked: Ranked, threshold: float, *, unit: bool, preference: Callable[[Doc], int]
) -> list[Drop]:
    """Who stays for each document that ``oracle.shaping.dedup`` leaves out."""
    cosine_limit = np.float32(2 * threshold - 1 if unit else threshold)

    def cosine(a: int, b: int) -> float:
        return similarity(ranked[min(a, b)][0], ranked[max(a, b)][0])

    clusters: list[list[int]] = []
    for at in range(len(ranked)):
        near = [c for c in clusters if any(cosine(one, at) > cosine_limit for one in c)]
        if near:
            near[0].append(at)
        else:
            clusters.append([at])
    out = []
    for members in clusters:
        kept = min(members, key=lambda at: (preference(ranked[at][0]), at))
        for at in members:
            if at == kept:
                continue
            found, via = cosine(kept, at), None
            if not found > cosine_limit:
                others = [one for one in members if one != at]
                found = max(cosine(one, at) for one in others)
                via = next(one for one in others if cosine(one, at) == found)
            value = (1 + found) / 2 if unit else found
            bound = (1 + float(cosine_limit)) / 2 if unit else float(cosine_limit)
            by = None if via is None else ranked[via][0]["id"]
            doc, stays = ranked[at][0], ranked[kept][0]
            out.append(Drop(at + 1, doc["id"], "duplicate", value, bound, stays["id"], by))
    return sorted(out)


def budget_drops(
    ranked: Ranked, n_wanted: int, budget: int, tokens: Callable[[Doc], int]
) -> list[Drop]:
    """Walk down the list: the first always fits, another if enough tokens are left."""
    out, left, kept = [], budget, 0
    last: float | None = None
    waiting: list[int] = []
    for at, (doc, score) in enumerate(ranked):
        if kept == n_wanted:
            waiting.append(at)
        elif kept == 0 or tokens(doc) <= left:
            kept, left, last = kept + 1, left - tokens(doc), score
        else:
            out.append(Drop(at + 1, doc["id"], "budget", tokens(doc), left))
    return out + [beyond(ranked, at, last) for at in waiting]


def mmr_drops(
    ranked: Ranked,
    n_wanted: int,
    *,
    weight: float,
    relevance: str,
    budget: int | None,
    tokens: Callable[[Doc], int],
) -> list[Drop]:
    """Choose greedily; note when each document no longer fits, and its value at the last choice."""
    scores = [score for _, score in ranked]
    high, low = max(scores, default=0.0), min(scores, default=0.0)

    def scaled(score: float) -> float:
        if relevance == "raw":
            return score
        if relevance == "max":
            return score / high if high > 0 else 0.0
        return (score - low) / (high - low) if high > low else 1.0

    def value(at: int, chosen: list[int]) -> float:
        near = [similarity(ranked[one][0], ranked[at][0]) for one in chosen]
        return weight * scaled(scores[at]) - (1 - weight) * max([0.0, *near])

    chosen: list[int] = []
    waiting = list(range(len(ranked)))
    unfit: dict[int, int] = {}
    values: dict[int, float] = {}
    left = budget
    while waiting and len(chosen) < n_wanted:
        if chosen and left is not None:
            unfit |= {at: left for at in waiting if tokens(ranked[at][0]) > left}
            waiting = [at for at in waiting if at not in unfit]
            if not waiting:
                break
        values = {at: value(at, chosen) for at in waiting}
        best = max(waiting, key=lambda at: (values[at], -at)) if chosen else waiting[0]
        chosen.append(best)
        waiting.remove(best)
        left = None if left is None else left - tokens(ranked[best][0])
    out = [
        Drop(at + 1, ranked[at][0]["id"], "budget", tokens(ranked[at][0]), had)
        for at, had in unfit.items()
    ]
    if not n_wanted:
        values = {at: value(at, []) for at in waiting}
    bound = values[chosen[-1]] if len(chosen) > 1 else None
    out += [Drop(at + 1, ranked[at][0]["id"], "limit", values[at], bound) for at in waiting]
    return sorted(out)


def floor_drops(ranked: Ranked, floor: float) -> list[Drop]:
    """Those whose score is below the floor."""
    return [
        Drop(at, doc["id"], "floor", score, floor)
        for at, (doc, score) in enumerate(ranked, 1)
        if score < floor
    ]


def page_drops(ranked: Ranked, offset: int, limit: int) -> list[Drop]:
    """Those before the offset, and those after offset + limit."""
    page = ranked[offset : offset + limit]
    last = page[-1][1] if page else None
    earlier = [
        Drop(at, doc["id"], "offset", score, None)
        for at, (doc, score) in enumerate(ranked[:offset], 1)
    ]
    return earlier + [beyond(ranked, at, last) for at in range(offset + limit, len(ranked))]


def beyond(ranked: Ranked, at: int, last: float | None) -> Drop:
    """A document that comes after the last that stays."""
    doc, score = ranked[at]
    return Drop(at + 1, doc["id"], "limit", score, last)
