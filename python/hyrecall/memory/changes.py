"""The changes of a store as plain data: what is written, apart from who writes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, cast

import apsw
import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from hyrecall.base.progress import ProgressFunction
from hyrecall.errors import (
    CorruptStoreError,
    HyrecallError,
    NotFoundError,
    OptionError,
    StoreError,
    VersionConflictError,
    error,
)
from hyrecall.memory.data.types import Edge, Episode, Fact, checked
from hyrecall.memory.derived.backfill import CURSOR
from hyrecall.memory.faces.transfer import (
    ExportLine,
    Imported,
    LineError,
    Numbered,
    merge_agent,
    merge_edge,
    merge_feedback,
    merge_version,
    settle,
    why,
)
from hyrecall.memory.recall.audience import EVERYONE, AskedBy, audience, own_first
from hyrecall.memory.sql import edge_rows, reading, writing
from hyrecall.memory.sql.codec import Cell, cells_by_number, lookup_order
from hyrecall.memory.sql.edge_rows import Asker, add_feedback
from hyrecall.memory.sql.fact_rows import assert_fact, end_fact
from hyrecall.memory.sql.reading import episode_by_id, homes_of_rows
from hyrecall.memory.sql.store_sessions import Conversation, save_conversations
from hyrecall.memory.sql.writing import NewVersion, Selection, set_vectors, touch

# ---- What all changes have: they run in a transaction, and reply with what a retry can repeat ----

Numbers: TypeAlias = "bool | int | tuple[Numbers, ...] | None"
"""A reply without texts and ids: it is kept for a retry, also after what it tells of was erased."""

Reply = TypeVar("Reply")


class Change(ABC, Generic[Reply]):
    """A change of memories. Subclasses are frozen dataclasses of plain data."""

    # Everything that needs no database is done before: arguments are checked, texts are embedded.

    is_offered: ClassVar[bool] = True

    @abstractmethod
    def run(self, connection: apsw.Connection, now: datetime) -> Reply:
        """Make the change inside a transaction, which the caller rolls back after an error."""

    def numbers(self, reply: Reply) -> Numbers:
        """Return the part of a reply that is stored with the id of its write, for retries."""
        return cast("Numbers", reply)

    def reply_of(self, numbers: Numbers) -> Reply:
        """Return the reply again, from what was kept of it."""
        return cast("Reply", numbers)


class Write(Protocol):
    """Commits a change and returns its reply: a store's ``write``, or that of a test."""

    def __call__(self, change: Change[Reply], /) -> Reply: ...


# ---- Which memories a caller may change: those of its own cells ----


def own(connection: apsw.Connection, by: AskedBy) -> dict[int, Cell]:
    """Return a user's own cells, which alone it may write."""
    mine = audience(connection, replace(by, is_agent=False)).cells
    # Private before global, where both have an id; of several tables, by name.
    return dict(sorted(mine.items(), key=lambda one: lookup_order(*one)))


def owned(
    connection: apsw.Connection, by: AskedBy, key: str, if_version: int | None = None
) -> tuple[Cell, Episode]:
    """Return the cell of a user that has an id, and the episode, which must be this version."""
    for number, cell in own(connection, by).items():
        episode = episode_by_id(connection, number, key)
        if episode is None:
            continue
        if if_version not in (None, episode.version):
            wish = f"{episode.version}, which it is now"
            raise error(VersionConflictError, "if_version", wish, if_version)
        return cell, episode
    raise error(NotFoundError, "id", "a memory that is there", repr(key))


# ---- Changes of edges: connect memories, and remove a connection ----


@dataclass(frozen=True)
class AddEdge(Change[None]):
    """Keep an edge."""

    edge: Edge

    def run(self, connection: apsw.Connection, now: datetime) -> None:
        """Insert the edge and its participants."""
        edge_rows.link(connection, self.edge, now)


@dataclass(frozen=True)
class RemoveEdge(Change[bool]):
    """Remove an edge of a caller; replies with whether it was there."""

    by: AskedBy
    key: str
    reason: str | None = None

    def run(self, connection: apsw.Connection, now: datetime) -> bool:
        """Mark the edge as deleted in every cell that has it."""
        cells = own(connection, self.by).values()
        removed = [edge_rows.unlink(connection, cell, self.key, self.reason, now) for cell in cells]
        return any(removed)


# ---- Changes of episodes and facts: keep, change, replace, forget, pin ----

TEXT_FIELDS = frozenset({"input", "text"})
"""The fields of an episode that make its text."""

_HAS_VECTOR = "SELECT embedding IS NOT NULL FROM versions WHERE row = ?"

Vector = npt.NDArray[np.float32]


def changed_text(old: Episode, changes: Mapping[str, Any]) -> str:
    """Return the text that an episode has after an update."""
    texts = {name: changes.get(name, getattr(old, name)) for name in TEXT_FIELDS}
    return checked(Episode, texts).full_text


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
    if_version: int | None = None

    def run(self, connection: apsw.Connection, now: datetime) -> tuple[int, bool]:
        """Append the version."""
        cell, old = owned(connection, self.by, self.key, self.if_version)
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
    if_version: int | None = None

    def run(self, connection: apsw.Connection, now: datetime) -> int:
        """End the old one and append the new one."""
        cell, _ = owned(connection, self.by, self.key, self.if_version)
        return writing.supersede(connection, cell, self.key, self.new, self.reason, now).version


@dataclass(frozen=True, eq=False)
class UpdateMany(Change[int]):
    """Append a version with other fields to each of some memories; replies with their number."""

    homes: tuple[tuple[int, str], ...]
    changes: Mapping[str, Any]
    reason: str | None = None

    def run(self, connection: apsw.Connection, now: datetime) -> int:
        """Append the versions; all or none."""
        cells = cells_by_number(connection, {number for number, _ in self.homes})
        done = 0
        for number, key in self.homes:
            if number in cells and episode_by_id(connection, number, key) is not None:
                where = connection, cells[number], key
                writing.update(*where, self.changes, None, None, self.reason, now)
                done += 1
        return done


@dataclass(frozen=True)
class Forget(Change[int]):
    """Take memories out of recall; replies with their number."""

    selection: Selection
    reason: str | None = None
    by: AskedBy | None = None
    if_version: int | None = None

    def run(self, connection: apsw.Connection, now: datetime) -> int:
        """Append a tombstone to each."""
        if self.by is not None and self.if_version is not None:
            (key,) = self.selection.ids or ()
            owned(connection, self.by, key, self.if_version)
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


# ---- The change that keeps which memories helped with a query ----


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


# ---- The changes of an import: a page of lines, and the move of its memories to their tables ----

PAGE = 500
"""Lines of one transaction."""

_REPEATED = "refused; why is not known any more, import again to see it"


class ImportedLines(NamedTuple):
    """The reply to a page: how many lines were new or known, and what is wrong with the others."""

    # An error is the place of its line in the page, from 0, and a text.

    n_new: int
    n_known: int
    errors: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class ImportLines(Change[ImportedLines]):
    """Merge lines of an export into the store; one that cannot be kept changes nothing."""

    is_offered: ClassVar[bool] = False

    lines: tuple[ExportLine, ...]
    recorded_at: datetime

    def run(self, connection: apsw.Connection, now: datetime) -> ImportedLines:
        """Merge each line that has something."""
        del now
        counts = {True: 0, False: 0}
        errors = []
        for place, line in enumerate(self.lines):
            try:
                counts[_merge(connection, line, self.recorded_at)] += 1
            except (HyrecallError, ValidationError) as fault:
                # A damaged row concerns its own line alone; SQLite's faults are no StoreError
                # before the transaction ends.
                if isinstance(fault, StoreError) and not isinstance(fault, CorruptStoreError):
                    raise
                errors.append((place, why(fault)))
        return ImportedLines(counts[True], counts[False], tuple(errors))

    def numbers(self, reply: ImportedLines) -> Numbers:
        """Return the counts, and the places of the errors without their texts."""
        return reply.n_new, reply.n_known, tuple(place for place, _ in reply.errors)

    def reply_of(self, numbers: Numbers) -> ImportedLines:
        """Return the reply again; the texts of the errors are lost."""
        n_new, n_known, places = cast("tuple[int, int, tuple[int, ...]]", numbers)
        return ImportedLines(n_new, n_known, tuple((place, _REPEATED) for place in places))


@dataclass(frozen=True)
class SettleTables(Change[int]):
    """Move memories without a table to the table of their source; replies with how many moved."""

    is_offered: ClassVar[bool] = False

    def run(self, connection: apsw.Connection, now: datetime) -> int:
        """Move them, in a store with tables."""
        del now
        return settle(connection)


def import_lines(
    write: Write,
    lines: Iterable[Numbered],
    *,
    now: datetime,
    progress: ProgressFunction | None = None,
) -> Imported:
    """Merge lines into the store; existing memories stay as they are."""
    # Lines are kept in pages: what was imported before a crash stays, and importing the same file
    # again skips it. A line whose row in the store is damaged is an error that names the row.
    n_new = n_known = done = 0
    errors: list[LineError] = []
    left = iter(lines)
    while page := list(islice(left, PAGE)):
        merged = [line for _, line in page if isinstance(line, ExportLine) and line.format is None]
        reply = write(ImportLines(tuple(merged), now))
        n_new, n_known = n_new + reply.n_new, n_known + reply.n_known
        refused, place = dict(reply.errors), 0
        for at, line in page:
            if isinstance(line, LineError):
                errors.append(line)
            elif line.format is None:
                if place in refused:
                    errors.append(LineError(at, line.name, refused[place]))
                place += 1
        done += len(page)
        if progress is not None:
            progress(done, done)
    if n_new:
        write(SettleTables())
    return Imported(n_new, n_known, tuple(errors))


def _merge(connection: apsw.Connection, line: ExportLine, now: datetime) -> bool:
    if line.version is not None:
        return merge_version(connection, line.version)
    if line.edge is not None:
        return merge_edge(connection, line.edge, now)
    if line.agent is not None:
        return merge_agent(connection, line.agent)
    if line.feedback is not None:
        return merge_feedback(connection, line.feedback)
    wish = "a version, an edge, an agent or feedback"
    raise error(OptionError, "line", wish, "none of them")


# ---- The change of an agent's read policy ----


@dataclass(frozen=True)
class SetPolicy(Change[None]):
    """Set what an agent may read beside its own memories."""

    is_offered: ClassVar[bool] = False  # it changes no document

    org: str | None
    workspace: str | None
    agent: str
    policy: str
    policy_group: str | None = None

    def run(self, connection: apsw.Connection, now: datetime) -> None:
        """Insert or replace the entry of the agent."""
        del now
        reading.set_policy(
            connection, self.org, self.workspace, self.agent, self.policy, self.policy_group
        )


# ---- Changes that recalls make: counts of accesses, and documents of conversations ----


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
    """Store the documents that conversations have received."""

    is_offered: ClassVar[bool] = False

    met: tuple[Conversation, ...]

    def run(self, connection: apsw.Connection, now: datetime) -> None:
        """Replace their rows."""
        del now
        save_conversations(connection, self.met)


# ---- The change that a backfill makes: vectors of rows, and how far it came ----


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
