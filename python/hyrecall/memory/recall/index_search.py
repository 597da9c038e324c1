"""Searches the index of a store: a question becomes the rows that it ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hyrecall.ask.expansion import Context
from hyrecall.ask.recipe import Recipe
from hyrecall.ask.scope import Scope
from hyrecall.embed.protocol import EmbedFault
from hyrecall.hits.explanation import Explanation
from hyrecall.hits.hit import QueryHits
from hyrecall.hits.hits import Hits, reply_of
from hyrecall.memory.data.degradation import Degradation, DegradedReason
from hyrecall.memory.derived.comparable_vectors import STALE, ComparableVectors
from hyrecall.memory.derived.follower import Follower
from hyrecall.memory.derived.readiness import BEHIND
from hyrecall.memory.recall.call import Hints
from hyrecall.memory.recall.question import FoundRows, Question
from hyrecall.memory.recall.recipe_options import hints_arm
from hyrecall.memory.sql.database import Database
from hyrecall.table.schema import STAGE_COLUMNS

__all__ = ["IndexSearch"]

GRAPH = "graph"  # what recipes call it
EDGES = "edges"  # the arm over edges' texts, as recipes call it


class IndexSearch:
    """Searches the index that a follower keeps. Threads may share it.

    Parameters
    ----------
    database : Database
    follower : Follower
    """

    def __init__(self, database: Database, follower: Follower) -> None:
        """Hold the follower."""
        self._follower = follower
        self._usable = ComparableVectors(database)

    def __call__(self, question: Question) -> FoundRows:
        """Rank the rows that a caller may see, as :meth:`Keeper.search_index`."""
        ready = self._follower.ready(budget=question.budget)
        reasons: list[Degradation] = []
        if ready.behind:
            reasons.append(Degradation(DegradedReason.INDEX_NOT_READY, BEHIND))
        vector = question.vector
        if vector is not None and len(vector) != ready.dim:
            told = f"{len(vector)}, expected {ready.dim}"
            reasons.append(Degradation.of_fault(EmbedFault.WRONG_SIZE, told))
            vector = None
        # Without a vector alpha has no effect, unless alpha itself excluded vectors.
        has_rank = vector is not None or question.ranks_words_alone
        recipe = question.recipe if has_rank else question.by_words
        names_graph = recipe != recipe.without_graphs()
        hits = ready.index.recall(
            text=[question.query] if question.query.strip() or vector is None else None,
            vectors=None if vector is None else vector[np.newaxis],
            scope=Scope([tuple(cell) for _, cell in question.cells]),
            filter=question.filter,
            limit=question.limit,
            offset=question.offset,
            recipe=recipe,
            session=question.session,
            candidates=_candidates(recipe, question.candidates),
            graphs={GRAPH: ready.graph} if names_graph else None,
            columns=("row",),
            now=question.now,
        )
        cells = tuple(number for number, _ in question.cells)
        if vector is not None and self._usable.has_only_others(hits, ready, cells):
            reasons.append(Degradation(DegradedReason.EMBED_STALE, STALE))
        reasons += [Degradation(DegradedReason.RERANK, note) for note in hits.trace.degraded]
        shows_edges = any(isinstance(one, Context) for one in question.recipe.expansion)
        return _found(hits, tuple(reasons), is_behind=ready.behind, shows_edges=shows_edges)


class _LocalHits:
    """Explains hits by the state of the index at the search, which lives as long as this."""

    def __init__(self, hits: QueryHits) -> None:
        """Hold the hits."""
        self.hits = hits

    def explain(self, place: int) -> Explanation:
        """Recompute the score of a hit."""
        return self.hits[place].explain()


def _candidates(recipe: Recipe, given: Hints | None) -> dict[str, list[Hints]] | None:
    """Return the caller's candidates under the name of the recipe's arm for them."""
    name = hints_arm(recipe)
    return None if name is None or given is None else {name: [given]}


def _found(
    hits: Hits, reasons: tuple[Degradation, ...], *, is_behind: bool, shows_edges: bool
) -> FoundRows:
    """Return the only query's hits as plain data."""
    one = hits[0]
    reply = reply_of(one)
    arrays, n_rows = reply.arrays, len(one)
    n_candidates = one.n_candidates
    tells_edges = shows_edges and EDGES in n_candidates
    around = reply.around
    near = () if around is None else around.context[0]
    return FoundRows(
        rows=tuple(reply.cached("row", "row")),
        scores=tuple(arrays["score"].tolist()),
        vector_scores=tuple(reply.cached("score", "embedding")),
        bm25_scores=tuple(reply.cached("score", "text")),
        stages={name: _plain(arrays[name]) for name in STAGE_COLUMNS if name in arrays},
        ranks={arm: tuple(reply.cached("rank", arm)) for arm in n_candidates},
        fills=_flags(arrays.get("from_fill"), n_rows),
        exact=_flags(arrays.get("exact"), n_rows),
        n_candidates=_tiers(hits, n_candidates),
        trace=hits.trace,
        phase=one.phase,
        related=tuple((tuple(near_by.cell), near_by.key) for near_by in one.related),
        context=_keys(near, n_rows),
        edges=tuple(hit.evidence(EDGES) for hit in one) if tells_edges else (),
        reasons=reasons,
        is_behind=is_behind,
        ranked=_LocalHits(one),
    )


def _plain(column: npt.NDArray[Any]) -> tuple[Any, ...]:
    """Return what a stage computed as Python values; NaN is None."""
    return tuple(None if value != value else value for value in column.tolist())  # noqa: PLR0124


def _flags(column: npt.NDArray[Any] | None, n: int) -> tuple[bool, ...]:
    return (False,) * n if column is None else tuple(column.astype(np.bool_).tolist())


def _tiers(hits: Hits, found: dict[str, int]) -> dict[str, int]:
    """Return the number of candidates of each arm, also of arms that another arm replaced."""
    has_tables = {name.rpartition(".")[2] for name in found if name not in hits.trace.arms}
    return {arm: 0 for arm in hits.trace.arms if arm not in has_tables} | found


def _keys(near: Sequence[Sequence[Any]], n: int) -> tuple[tuple[str, ...], ...]:
    """Return the ids of each row's neighbours; none if no row has one."""
    if not any(near):
        return ()
    shown = [tuple(one.key for one in context) for context in near[:n]]
    return (*shown, *((),) * (n - len(shown)))
