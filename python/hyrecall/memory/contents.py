"""What hits name, read from the store: episodes by the rows that were ranked, and their context."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import apsw

from hyrecall.hit import QueryHits
from hyrecall.hits import Hits
from hyrecall.memory.audience import Audience
from hyrecall.memory.cells import Cell
from hyrecall.memory.edge_rows import edge_by_id
from hyrecall.memory.matches import Found, Matches
from hyrecall.memory.reading import episode_by_id, episodes_of_rows
from hyrecall.memory.types import Degradation, Edge, Episode, EpisodeMatch

__all__ = ["matches_of"]


def matches_of(
    connection: apsw.Connection,
    hits: Hits,
    seen: Audience,
    now: datetime,
    reasons: tuple[Degradation, ...],
    damaged: set[int],
) -> Matches:
    """Load what the hits name; one that is not live any more, or damaged, is left out."""
    table = hits.to_arrow().to_pylist()
    named = [hit["row"] for hit in table]
    episodes = episodes_of_rows(connection, named, tuple(seen.cells), damaged)
    places = tuple(at for at, hit in enumerate(table) if hit["row"] in episodes)
    kept = [table[at] for at in places]
    matches = [
        EpisodeMatch(
            episode=episodes[hit["row"]],
            score=hit["score"],
            vector_score=hit["embedding_score"],
            bm25_score=hit["text_score"],
            rerank_score=hit.get("rerank_score"),
        )
        for hit in kept
    ]
    one = hits[0]
    found = Found(
        reasons=tuple(dict.fromkeys(reasons)),
        now=now,
        origins=tuple(hit.get("origin", "hit") for hit in kept),
        trace=hits.trace,
        related=_related(connection, one, seen, damaged),
        **_around(connection, one, seen, places, damaged),
        phase=one.phase,
        scopes=seen.readings,
        faults=seen.faults,
        rows=tuple(hit["row"] for hit in kept),
    )
    return Matches(matches, found, hits=one, places=places)


def _related(
    connection: apsw.Connection, hits: QueryHits, seen: Audience, damaged: set[int]
) -> tuple[Episode, ...]:
    numbers = {cell: number for number, cell in seen.cells.items()}
    found = []
    for one in hits.related:
        number = numbers.get(Cell(*one.cell))
        if number is not None:
            found.append(episode_by_id(connection, number, one.key, damaged))
    return _there(found)


def _around(
    connection: apsw.Connection,
    hits: QueryHits,
    seen: Audience,
    places: Iterable[int],
    damaged: set[int],
) -> dict[str, Any]:
    """Give the hits' neighbours in the graph, and the edges between."""
    near = [hits[at].context for at in places]
    if not any(near):
        return {}
    keys = dict.fromkeys(one.key for context in near for one in context)
    known = {
        key: _there(episode_by_id(connection, number, key, damaged) for number in seen.cells)
        for key in keys
    }
    names = dict.fromkeys(one.edge for context in near for one in context)
    edges: list[Edge] = []
    for name in names:
        found = (edge_by_id(connection, number, name) for number in seen.cells)
        edges += [edge for edge in found if edge is not None]
    context = tuple(
        tuple(episode for one in context for episode in known[one.key]) for context in near
    )
    return {"context": context, "edges": tuple(edges)}


def _there(found: Iterable[Episode | None]) -> tuple[Episode, ...]:
    return tuple(one for one in found if one is not None)
