"""The change that a backfill makes: vectors of rows, and how far it came."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

import apsw

from hyrecall.memory.changes.change import Change
from hyrecall.memory.derived.backfill import CURSOR
from hyrecall.memory.sql.writing import set_vectors

__all__ = ["SetVectors"]


@dataclass(frozen=True)
class SetVectors(Change[int]):
    """Write the vectors of a page of rows; replies with how many of these are still live."""

    is_offered: ClassVar[bool] = False

    rows: tuple[tuple[int, bytes, str], ...]
    note: str | None = None
    is_last: bool = False

    def run(self, connection: apsw.Connection, now: datetime) -> int:
        """Write vectors and note."""
        del now
        n_set = set_vectors(connection, self.rows)
        if self.note is not None:
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (CURSOR, self.note))
        if self.is_last:
            connection.execute("DELETE FROM meta WHERE name = ?", (CURSOR,))
        return n_set
