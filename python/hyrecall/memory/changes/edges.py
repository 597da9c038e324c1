"""Changes of edges: connect memories, and remove a connection."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import apsw

from hyrecall.memory.changes.change import Change
from hyrecall.memory.changes.owned import own
from hyrecall.memory.data.types import Edge
from hyrecall.memory.recall.audience import AskedBy
from hyrecall.memory.sql import edge_rows

__all__ = ["Link", "Unlink"]


@dataclass(frozen=True)
class Link(Change[None]):
    """Keep an edge."""

    edge: Edge

    def run(self, connection: apsw.Connection, now: datetime) -> None:
        """Insert the edge and its participants."""
        edge_rows.link(connection, self.edge, now)


@dataclass(frozen=True)
class Unlink(Change[bool]):
    """Remove an edge of a caller; replies with whether it was there."""

    by: AskedBy
    key: str
    reason: str | None = None

    def run(self, connection: apsw.Connection, now: datetime) -> bool:
        """Mark the edge as deleted in every cell that has it."""
        cells = own(connection, self.by).values()
        removed = [edge_rows.unlink(connection, cell, self.key, self.reason, now) for cell in cells]
        return any(removed)
