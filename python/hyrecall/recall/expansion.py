"""Looks around the hits of a reply: neighbours in a graph, documents with the same tags."""

from __future__ import annotations

from collections.abc import Sequence

from hyrecall.ask.expansion import Expansion, SharedTags
from hyrecall.hits.around import Around, Neighbour, Related
from hyrecall.hits.hits import Hits
from hyrecall.recall.neighbours import find_neighbours
from hyrecall.recall.reach import Reaches
from hyrecall.recall.related import related

__all__ = ["expand"]


def expand(
    parts: Sequence[Expansion], hits: Hits, texts: Sequence[str | None], reaches: Reaches
) -> Around:
    """Look around the hits of a reply, within its scopes and snapshot."""

    context: Sequence[Sequence[tuple[Neighbour, ...]]] = [() for _ in hits]
    near: Sequence[Sequence[Related]] = [[] for _ in hits]
    for part in parts:
        if isinstance(part, SharedTags):
            near = related(hits, part.column, n=part.n)
            continue
        keys = [one.keys for one in hits]
        top = [one[: part.top] for one in keys]
        reach = reaches.of(part.graph, 0, len(hits))
        context = find_neighbours(reach, top, hits._plan.scope, list(texts), keys, part.n)
    return Around(context, near)
