"""What recalls leave behind: accesses of memories, and what conversations met."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

import apsw

from hyrecall.memory.changes.change import Change
from hyrecall.memory.sql.reading import homes_of_rows
from hyrecall.memory.sql.store_sessions import Conversation, save_conversations
from hyrecall.memory.sql.writing import touch

__all__ = ["RecordConversations", "Touch"]


@dataclass(frozen=True)
class Touch(Change[int]):
    """Count an access of each memory that a recall gave; replies with the number of live ones."""

    is_offered: ClassVar[bool] = False

    rows: tuple[int, ...]
    at: datetime

    def run(self, connection: apsw.Connection, now: datetime) -> int:
        """Count the accesses."""
        del now
        return touch(connection, homes_of_rows(connection, self.rows), self.at)


@dataclass(frozen=True)
class RecordConversations(Change[None]):
    """Replace what conversations met."""

    is_offered: ClassVar[bool] = False

    met: tuple[Conversation, ...]

    def run(self, connection: apsw.Connection, now: datetime) -> None:
        """Replace their rows."""
        del now
        save_conversations(connection, self.met)
