"""Changes of episodes and facts: keep, change, replace, forget, pin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import apsw
import numpy as np
import numpy.typing as npt

from hyrecall.memory.changes.change import Change
from hyrecall.memory.changes.owned import owned
from hyrecall.memory.data.given_fields import checked
from hyrecall.memory.data.types import Episode, Fact
from hyrecall.memory.recall.audience import AskedBy
from hyrecall.memory.sql import writing
from hyrecall.memory.sql.fact_rows import assert_fact, end_fact
from hyrecall.memory.sql.selection import Selection
from hyrecall.memory.sql.writing import NewVersion

__all__ = [
    "TEXT_FIELDS",
    "EndFact",
    "Forget",
    "Pin",
    "Remember",
    "RememberFact",
    "Supersede",
    "Update",
    "changed_text",
]

TEXT_FIELDS = frozenset({"input", "output"})
"""The fields of an episode that make its text."""

_HAS_VECTOR = "SELECT embedding IS NOT NULL FROM versions WHERE row = ?"

Vector = npt.NDArray[np.float32]


def changed_text(old: Episode, changes: Mapping[str, Any]) -> str:
    """Return the text that an episode has after an update."""
    texts = {name: changes.get(name, getattr(old, name)) for name in TEXT_FIELDS}
    return checked(Episode, texts).text


@dataclass(frozen=True, eq=False)
class Remember(Change[tuple[int, ...]]):
    """Keep new episodes, all or none; replies with their versions."""

    new: tuple[NewVersion, ...]

    def run(self, connection: apsw.Connection, now: datetime) -> tuple[int, ...]:
        """Append the first version of each, or the next one of an id that was deleted."""
        return tuple(one.version for one in writing.remember(connection, self.new, now))


@dataclass(frozen=True, eq=False)
class RememberFact(Change[tuple[int, int, bool]]):
    """Keep a fact, and end the interval of the fact that it follows."""

    # Replies with the row of the version that says it, its number, and whether it has a vector.

    fact: Fact
    vector: Vector | None = None
    model: str | None = None

    def run(self, connection: apsw.Connection, now: datetime) -> tuple[int, int, bool]:
        """Append the version of the fact."""
        one = assert_fact(connection, self.fact, self.vector, self.model, now)
        return one.row, one.version, bool(connection.execute(_HAS_VECTOR, (one.row,)).get)


@dataclass(frozen=True)
class EndFact(Change[tuple[int, bool]]):
    """Set when a fact of a caller ends; replies with its version and whether that has a vector."""

    # ``end``: None is where the next fact begins, or never; at the latest at ``latest``.

    by: AskedBy
    key: str
    end: datetime | None
    latest: datetime | None = None
    reason: str | None = None

    def run(self, connection: apsw.Connection, now: datetime) -> tuple[int, bool]:
        """Append a version that ends then."""
        cell, _ = owned(connection, self.by, self.key)
        times = self.end, self.latest
        one = end_fact(connection, cell, self.key, *times, self.reason, now)
        return one.version, bool(connection.execute(_HAS_VECTOR, (one.row,)).get)


@dataclass(frozen=True, eq=False)
class Update(Change[tuple[int, bool]]):
    """Append a version with other fields; replies with its number and whether it has a vector."""

    by: AskedBy
    key: str
    changes: Mapping[str, Any]
    text: str = ""
    vector: Vector | None = None
    model: str | None = None
    reason: str | None = None

    def run(self, connection: apsw.Connection, now: datetime) -> tuple[int, bool]:
        """Append the version."""
        cell, old = owned(connection, self.by, self.key)
        vector, model = self.vector, self.model
        if vector is not None and changed_text(old, self.changes) != self.text:
            vector = model = None
        one = writing.update(
            connection, cell, self.key, self.changes, vector, model, self.reason, now
        )
        return one.version, bool(connection.execute(_HAS_VECTOR, (one.row,)).get)


@dataclass(frozen=True, eq=False)
class Supersede(Change[int]):
    """Replace an old episode of a caller by a new one; replies with the version of the new one."""

    by: AskedBy
    key: str
    new: NewVersion
    reason: str | None = None

    def run(self, connection: apsw.Connection, now: datetime) -> int:
        """End the old one and append the new one."""
        cell, _ = owned(connection, self.by, self.key)
        return writing.supersede(connection, cell, self.key, self.new, self.reason, now).version


@dataclass(frozen=True)
class Forget(Change[int]):
    """Take memories out of recall; replies with their number."""

    selection: Selection
    reason: str | None = None

    def run(self, connection: apsw.Connection, now: datetime) -> int:
        """Append a tombstone to each."""
        return writing.forget(connection, self.selection, self.reason, now)


@dataclass(frozen=True)
class Pin(Change[None]):
    """Pin or unpin an episode of a caller."""

    by: AskedBy
    key: str
    pinned: bool

    def run(self, connection: apsw.Connection, now: datetime) -> None:
        """Set the pin of its document."""
        del now
        cell, _ = owned(connection, self.by, self.key)
        writing.pin(connection, cell, self.key, self.pinned)
