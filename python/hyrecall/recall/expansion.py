"""Looks around the hits of a reply: neighbours in a graph, documents with the same tags."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from hyrecall.ask.expansion import Expansion, SharedTags
from hyrecall.ask.session import Session
from hyrecall.hits.around import Around, Neighbour, Related
from hyrecall.hits.reply import Reply
from hyrecall.recall.neighbours import find_neighbours
from hyrecall.recall.reach import Reaches

__all__ = ["FindRelated", "expand"]

FindRelated: TypeAlias = Callable[[Reply, SharedTags], Sequence[Sequence[Related]]]
"""Returns the documents near the hits of each query by their tags."""


def expand(
    parts: Sequence[Expansion],
    reply: Reply,
    scope: object,
    texts: Sequence[str | None],
    reaches: Reaches,
    related: FindRelated,
    sessions: Sequence[Session | None] = (),
) -> Around:
    """Look around the hits of a reply, within the scopes and the snapshot of the call."""
    # Neighbours that a query's conversation has received come before its other neighbours.
    n = reply.n_queries
    context: Sequence[Sequence[tuple[Neighbour, ...]]] = [()] * n
    near: Sequence[Sequence[Related]] = [[] for _ in range(n)]
    for part in parts:
        if isinstance(part, SharedTags):
            near = related(reply, part)
            continue
        named = reply.cached("row", reply.facts.schema.key)
        keys = [named[begin:end] for begin, end in pairwise(reply.offsets.tolist())]
        top = [one[: part.top] for one in keys]
        reach = reaches.of(part.graph, 0, n, top, 1)
        met = [one.accessed if one is not None else {} for one in sessions]
        if any(met):
            every = find_neighbours(reach, top, scope, list(texts), keys, None)
            context = [
                [_first_of(near, own)[: part.n] for near in beside]
                for own, beside in zip(met, every, strict=True)
            ]
        else:
            context = find_neighbours(reach, top, scope, list(texts), keys, part.n)
    return Around(context, near)


def _first_of(near: Sequence[Neighbour], met: Mapping[Any, object]) -> tuple[Neighbour, ...]:
    """Return neighbours with those that a conversation has received first."""
    return tuple(sorted(near, key=lambda one: one.key not in met))
