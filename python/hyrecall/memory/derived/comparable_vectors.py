"""Tells whether cells have vectors that a query's vector can be compared with."""

from __future__ import annotations

from hyrecall.hits.hit import QueryHits
from hyrecall.hits.hits import reply_of
from hyrecall.memory.derived.projection import has_only_others_vectors
from hyrecall.memory.derived.readiness import Ready
from hyrecall.memory.sql.database import Database

__all__ = ["STALE", "ComparableVectors"]

STALE = "the vectors are of another model or length: reembed()"

MOST_KEPT = 256
"""Answers that are kept for the next call."""


class ComparableVectors:
    """Finds out whether the vectors of some cells are all of another model or length.

    Parameters
    ----------
    database : Database
    """

    def __init__(self, database: Database) -> None:
        """Know nothing yet."""
        self._database = database
        self._kept: dict[tuple[object, ...], bool] = {}

    def has_only_others(self, hits: QueryHits, ready: Ready, cells: tuple[int, ...]) -> bool:
        """Say whether documents of cells have vectors, but none that the index takes.

        Parameters
        ----------
        hits : QueryHits
            Of a query with a vector, alone in its reply; one with a cosine settles it.
        ready : Ready
        cells : tuple of int
        """
        if any(one is not None for one in reply_of(hits).cached("score", "embedding")):
            return False
        # To answer True every row is read, hence the cache.
        key = (ready.sequence, ready.model, ready.dim, cells)
        found = self._kept.get(key)
        if found is None:
            with self._database.reading() as connection:
                found = has_only_others_vectors(connection, cells, model=ready.model, dim=ready.dim)
            if len(self._kept) >= MOST_KEPT:
                self._kept = {}
            self._kept[key] = found
        return found
