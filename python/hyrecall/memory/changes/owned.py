"""Which memories a caller may change: those of its own cells."""

from __future__ import annotations

from dataclasses import replace

import apsw

from hyrecall.errors import NotFoundError, error
from hyrecall.memory.data.types import Episode
from hyrecall.memory.recall.audience import AskedBy, audience
from hyrecall.memory.sql.cells import Cell, lookup_order
from hyrecall.memory.sql.reading import episode_by_id

__all__ = ["own", "owned"]


def own(connection: apsw.Connection, by: AskedBy) -> dict[int, Cell]:
    """Return a user's own cells, which alone it may write."""
    mine = audience(connection, replace(by, is_agent=False)).cells
    # Private before global, where both have an id; of several tables, by name.
    return dict(sorted(mine.items(), key=lambda one: lookup_order(*one)))


def owned(connection: apsw.Connection, by: AskedBy, key: str) -> tuple[Cell, Episode]:
    """Return the cell of a user that has an id, and the episode."""
    for number, cell in own(connection, by).items():
        episode = episode_by_id(connection, number, key)
        if episode is not None:
            return cell, episode
    raise error(NotFoundError, "id", "a memory that is there", repr(key))
