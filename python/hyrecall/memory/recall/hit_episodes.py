"""Reads the episodes of ranked rows from the store, and their context."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from itertools import chain

import apsw

from hyrecall._core.arithmetic import unit_scale
from hyrecall.ask.expansion import Context
from hyrecall.memory.data.construct import construct
from hyrecall.memory.data.degradation import Degradation
from hyrecall.memory.data.match_origin import Origin
from hyrecall.memory.data.matches import Found, Matches
from hyrecall.memory.data.types import Edge, Episode, EpisodeMatch, MatchParts
from hyrecall.memory.recall.audience import Audience
from hyrecall.memory.recall.question import FoundRows
from hyrecall.memory.sql.cells import Cell, cell_of
from hyrecall.memory.sql.edge_rows import edges_between
from hyrecall.memory.sql.fact_rows import facts_of_rows, memories_that_hold
from hyrecall.memory.sql.reading import episodes_by_id, episodes_of_rows

__all__ = ["ends_of", "matches_of"]


def matches_of(
    connection: apsw.Connection,
    ranked: FoundRows,
    wanted: Sequence[int],
    seen: Audience,
    now: datetime,
    reasons: tuple[Degradation, ...],
    damaged: set[int],
    *,
    context: Context | None,
    holds_at: datetime | None,
) -> Matches:
    """Read the episodes of ranked rows at some places."""
    # Those that are damaged or no longer live are left out.
    rows = [ranked.rows[at] for at in wanted]
    episodes = episodes_of_rows(connection, rows, seen.cells, damaged, shown=True)
    ends = ends_of(connection, rows, tuple(seen.cells))
    places = tuple([at for at in wanted if ranked.rows[at] in episodes])
    beside = [ranked.context[at] for at in places] if ranked.context else []
    keys = dict.fromkeys(chain(*beside))
    homes: Collection[tuple[int, str]] = [(cell, key) for key in keys for cell in seen.cells]
    if context is not None and holds_at is not None:
        held = memories_that_hold(connection, keys, tuple(seen.cells), holds_at)
        homes = [one for one in homes if one in held]
        keys = dict.fromkeys(key for _, key in homes)
        beside = [tuple([key for key in near if key in keys][: context.n]) for near in beside]
    near = _context(connection, beside, homes, damaged)
    parts = _parts(ranked, places, near)
    nothing = (None,) * len(ranked.rows)
    reranked = ranked.stages.get("rerank_score", nothing)
    matches = [
        construct(
            EpisodeMatch,
            {
                "episode": episodes[ranked.rows[at]],
                "score": ranked.scores[at],
                "vector_score": ranked.vector_scores[at],
                "bm25_score": ranked.bm25_scores[at],
                "rerank_score": reranked[at],
                "parts": part,
                "is_fill": ranked.fills[at],
                "is_exact": ranked.exact[at],
                "valid_to": ends.get(ranked.rows[at]),
            },
            {"_origin": Origin(ranked.ranked, at)},
        )
        for at, part in zip(places, parts, strict=True)
    ]
    found = Found(
        reasons=tuple(dict.fromkeys(reasons)),
        now=now,
        origins=tuple(["fill" if ranked.fills[at] else "hit" for at in places]),
        trace=ranked.trace,
        related=_related(connection, ranked, seen, damaged),
        context=near,
        around=_around(connection, ranked, seen, places),
        edges=() if context is None else _edges(connection, ranked, places, matches, near, seen),
        phase=ranked.phase,
        tiers=dict(ranked.n_candidates),
        scopes=seen.readings,
        faults=seen.faults,
        rows=tuple([ranked.rows[at] for at in places]),
    )
    return Matches(matches, found, hits=ranked.ranked, places=places)


def ends_of(
    connection: apsw.Connection, rows: Sequence[int], cells: Collection[int]
) -> dict[int, datetime | None]:
    """Return when the facts among some rows end."""
    facts = facts_of_rows(connection, rows, cells) if rows else {}
    return {row: fact.valid_to for row, fact in facts.items()}


def _parts(
    ranked: FoundRows, places: Sequence[int], context: Sequence[Sequence[Episode]]
) -> list[MatchParts]:
    """Return what the scores of the rows at some places are made of."""
    nothing = (None,) * len(ranked.rows)
    stage = ranked.stages.get
    tiers: list[dict[str, int]] = [{} for _ in ranked.rows]
    for arm, ranks in ranked.ranks.items():
        for own, rank in zip(tiers, ranks, strict=True):
            if rank is not None:
                own[arm] = rank
    related: list[tuple[str, ...]] = [()] * len(ranked.rows)
    for at, near in zip(places, context, strict=False):  # nothing of no row, if none has any
        related[at] = tuple(one.id for one in near)
    columns = {
        "similarity": [None if one is None else unit_scale(one) for one in ranked.vector_scores],
        "fused": stage("fused_score", ranked.scores),  # the same without stages
        "provenance": stage("provenance_weight", nothing),
        "recency": stage("recency_score", stage("recency_factor", nothing)),
        "importance": stage("importance_score", nothing),
        "relevance": stage("relevance_score", nothing),
        "composite": stage("composite_raw", nothing),
        "general": stage("general_score", nothing),
        "topical": stage("topical_score", nothing),
        "session": stage("session_score", nothing),
        "phase": nothing if ranked.phase is None else (ranked.phase.name,) * len(nothing),
        "tokens": stage("token_estimate", nothing),
        "tiers": tiers,
        "related": related,
    }
    rows = list(zip(*columns.values(), strict=True))
    return [construct(MatchParts, dict(zip(columns, rows[at], strict=True))) for at in places]


def _related(
    connection: apsw.Connection, ranked: FoundRows, seen: Audience, damaged: set[int]
) -> tuple[Episode, ...]:
    numbers = {cell: number for number, cell in seen.cells.items()}
    homes = ((numbers.get(Cell(*cell)), key) for cell, key in ranked.related)  # type: ignore[arg-type]
    wanted = [(number, key) for number, key in homes if number is not None]
    found = episodes_by_id(connection, wanted, damaged)
    return tuple(found[one] for one in wanted if one in found)


def _context(
    connection: apsw.Connection,
    beside: Sequence[Sequence[str]],
    homes: Iterable[tuple[int, str]],
    damaged: set[int],
) -> tuple[tuple[Episode, ...], ...]:
    """Return the episodes of ids in the cells that the caller may see them in."""
    keys = dict.fromkeys(chain.from_iterable(beside))
    if not keys:
        return ()
    wanted = [home for home in homes if home[1] in keys]
    found = episodes_by_id(connection, wanted, damaged)
    known: dict[str, list[Episode]] = {key: [] for key in keys}
    for home in wanted:
        if home in found:
            known[home[1]].append(found[home])
    return tuple(tuple(episode for key in context for episode in known[key]) for context in beside)


def _around(
    connection: apsw.Connection, ranked: FoundRows, seen: Audience, places: Sequence[int]
) -> tuple[tuple[Episode, ...], ...]:
    """Return the episodes around the rows at some places; damaged ones are left out."""
    if not ranked.around:
        return ()
    wanted = tuple(dict.fromkeys(chain.from_iterable(ranked.around[at] for at in places)))
    known = episodes_of_rows(connection, wanted, seen.cells, set(), shown=True)
    return tuple(tuple(known[row] for row in ranked.around[at] if row in known) for at in places)


def _edges(
    connection: apsw.Connection,
    ranked: FoundRows,
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
    named = dict.fromkeys(ranked.edges[at] for at in places) if ranked.edges else {}
    order = {key: place for place, key in enumerate(named)}
    return tuple(sorted(found, key=lambda edge: order.get(edge.id, len(order))))
