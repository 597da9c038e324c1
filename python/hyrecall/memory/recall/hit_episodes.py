"""Reads the episodes of hits from the store, by the rows that were ranked, and their context."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import apsw

from hyrecall._core.arithmetic import unit_scale
from hyrecall.hits.hit import QueryHits
from hyrecall.hits.hits import Hits
from hyrecall.memory.data.degradation import Degradation
from hyrecall.memory.data.matches import Found, Matches
from hyrecall.memory.data.types import Edge, Episode, EpisodeMatch, MatchParts
from hyrecall.memory.recall.audience import Audience
from hyrecall.memory.sql.cells import Cell, cell_of
from hyrecall.memory.sql.edge_rows import edges_between
from hyrecall.memory.sql.reading import episode_by_id, episodes_of_rows

__all__ = ["matches_of"]

EDGES = "edges"  # the arm over edges' texts, as recipes call it


def matches_of(
    connection: apsw.Connection,
    hits: Hits,
    seen: Audience,
    now: datetime,
    reasons: tuple[Degradation, ...],
    damaged: set[int],
    *,
    with_edges: bool,
) -> Matches:
    """Read the episodes of hits; leaves out those that are damaged or no longer live."""
    table = hits.to_arrow().to_pylist()
    named = [hit["row"] for hit in table]
    episodes = episodes_of_rows(connection, named, tuple(seen.cells), damaged)
    places = tuple(at for at, hit in enumerate(table) if hit["row"] in episodes)
    kept = [table[at] for at in places]
    one = hits[0]
    context = _context(connection, one, seen, places, damaged)
    matches = [
        EpisodeMatch(
            episode=episodes[hit["row"]],
            score=hit["score"],
            vector_score=hit["embedding_score"],
            bm25_score=hit["text_score"],
            rerank_score=hit.get("rerank_score"),
            parts=_parts(hit, one, at, context),
            is_fill=hit.get("origin") == "fill",
            is_exact=one[places[at]].is_exact,
        )
        for at, hit in enumerate(kept)
    ]
    found = Found(
        reasons=tuple(dict.fromkeys(reasons)),
        now=now,
        origins=tuple(hit.get("origin", "hit") for hit in kept),
        trace=hits.trace,
        related=_related(connection, one, seen, damaged),
        context=context,
        edges=_edges(connection, one, places, matches, context, seen) if with_edges else (),
        phase=one.phase,
        tiers=_tiers(hits, one),
        scopes=seen.readings,
        faults=seen.faults,
        rows=tuple(hit["row"] for hit in kept),
    )
    return Matches(matches, found, hits=one, places=places)


def _tiers(hits: Hits, one: QueryHits) -> dict[str, int]:
    """Return the number of candidates of each arm, also of arms that another arm replaced."""
    found = one.n_candidates
    has_tables = {name.rpartition(".")[2] for name in found if name not in hits.trace.arms}
    return {arm: 0 for arm in hits.trace.arms if arm not in has_tables} | found


# Parts of a match, and the columns of hits that hold them.
_COLUMNS = {
    "provenance": "provenance_weight",
    "importance": "importance_score",
    "relevance": "relevance_score",
    "composite": "composite_raw",
    "general": "general_score",
    "topical": "topical_score",
    "session": "session_score",
    "tokens": "token_estimate",
}


def _parts(
    hit: dict[str, Any], of: QueryHits, at: int, context: tuple[tuple[Episode, ...], ...]
) -> MatchParts:
    ranks = {arm: of[at].arm_rank(arm) for arm in of.n_candidates}
    cosine = hit["embedding_score"]
    return MatchParts(
        similarity=None if cosine is None else unit_scale(cosine),
        **{name: hit.get(column) for name, column in _COLUMNS.items()},
        fused=hit.get("fused_score", hit["score"]),  # without stages they are one
        recency=hit.get("recency_score", hit.get("recency_factor")),
        phase=None if of.phase is None else of.phase.name,
        tiers={arm: rank for arm, rank in ranks.items() if rank is not None},
        related=tuple(one.id for one in context[at]) if context else (),
    )


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


def _context(
    connection: apsw.Connection,
    hits: QueryHits,
    seen: Audience,
    places: Iterable[int],
    damaged: set[int],
) -> tuple[tuple[Episode, ...], ...]:
    """Return each hit's neighbours in the graph."""
    near = [hits[at].context for at in places]
    if not any(near):
        return ()
    keys = dict.fromkeys(one.key for context in near for one in context)
    known = {
        key: _there(episode_by_id(connection, number, key, damaged) for number in seen.cells)
        for key in keys
    }
    return tuple(
        tuple(episode for one in context for episode in known[one.key]) for context in near
    )


def _edges(
    connection: apsw.Connection,
    hits: QueryHits,
    places: Iterable[int],
    matches: list[EpisodeMatch],
    context: tuple[tuple[Episode, ...], ...],
    seen: Audience,
) -> tuple[Edge, ...]:
    """Return the edges between matches and context; edges whose own text was found come first."""
    numbers = {cell: number for number, cell in seen.cells.items()}
    shown = [one.episode for one in matches] + [one for near in context for one in near]
    homes = ((numbers.get(cell_of(one)._replace(source=None)), one.id) for one in shown)
    nodes = [(number, key) for number, key in homes if number is not None]
    found = edges_between(connection, tuple(dict.fromkeys(nodes)))
    arms = [arm for arm in hits.n_candidates if arm == EDGES]
    named = dict.fromkeys(hits[at].evidence(arm) for arm in arms for at in places)
    order = {key: place for place, key in enumerate(named)}
    return tuple(sorted(found, key=lambda edge: order.get(edge.id, len(order))))


def _there(found: Iterable[Episode | None]) -> tuple[Episode, ...]:
    return tuple(one for one in found if one is not None)
