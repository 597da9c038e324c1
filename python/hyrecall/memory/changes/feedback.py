"""The change that keeps which memories helped with a query."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

import apsw

from hyrecall.errors import NotFoundError, OptionError, error
from hyrecall.memory.changes.change import Change
from hyrecall.memory.recall.audience import EVERYONE, AskedBy, audience, own_first
from hyrecall.memory.sql.feedback_rows import Asker, add_feedback
from hyrecall.memory.sql.reading import episode_by_id

__all__ = ["GiveFeedback", "asker"]


@dataclass(frozen=True)
class GiveFeedback(Change[int]):
    """Keep which memories helped a caller; replies with how many are new for the query."""

    is_offered: ClassVar[bool] = False

    by: AskedBy
    query: str
    used: tuple[str, ...]
    at: datetime

    def run(self, connection: apsw.Connection, now: datetime) -> int:
        """Find each memory where the caller would read it, and insert the rows."""
        del now
        cells = own_first(audience(connection, self.by).cells, self.by)
        found = []
        for at, key in enumerate(self.used):
            home = next((n for n, _ in cells if episode_by_id(connection, n, key)), None)
            if home is None:
                wish = "a memory that is there"
                raise error(NotFoundError, f"used[{at}]", wish, repr(key))
            found.append((home, key))
        return add_feedback(connection, asker(self.by), self.query, found, self.at)


def asker(by: AskedBy) -> Asker:
    """Return a caller as the rows of feedback name it."""
    if by.user is EVERYONE:
        raise error(OptionError, "user_id", "a user, or None for the anonymous one", "EVERYONE")
    return by.org, by.workspace, by.user
