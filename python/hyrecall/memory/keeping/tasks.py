"""The upkeep that only the owner of a store can do, as plain data."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar

from hyrecall.errors import CorruptStoreError, HyrecallError
from hyrecall.memory.changes import Change
from hyrecall.memory.data.matches import DegradedReason
from hyrecall.memory.derived.follower import Background, Follower
from hyrecall.memory.derived.layout import IndexNotReadyError, Layout, told_unembedded
from hyrecall.memory.recall.call import FoundRows, IndexQuestion
from hyrecall.memory.sql.codec import to_micros
from hyrecall.memory.sql.database import Database
from hyrecall.memory.sql.doctor import DoctorCheck
from hyrecall.memory.sql.erasing import check_write_id, erase, expired, next_expiry
from hyrecall.memory.sql.writing import Selection

# ---- The interface of a store's owner, in this process or in another

Reply = TypeVar("Reply")


class Tells(Protocol):
    """Background work that reports its progress."""

    def told(self) -> str:
        """Say it, without a text of anybody's."""
        ...


class Parts(Protocol):
    """The parts of an owner that its tasks use."""

    database: Database
    follower: Follower
    background: Background
    layout: Layout

    @property
    def filling(self) -> Tells | None:
        """What embeds by itself; None: this process cannot."""
        ...

    def search_index(self, question: IndexQuestion) -> FoundRows:
        """Rank rows, as :meth:`Keeper.search_index`."""
        ...


class Task(ABC, Generic[Reply]):
    """Upkeep that only the owner can do. Subclasses are frozen dataclasses of plain data."""

    @abstractmethod
    def run(self, owner: Parts) -> Reply:
        """Do it in the owner's process."""


class Keeper(Protocol):
    """Commits changes, searches the index and does upkeep. Threads may share it."""

    def write(
        self, change: Change[Reply], *, write_id: bytes | None = None, now: datetime | None = None
    ) -> Reply:
        """Commit a change: it is on the disk when this returns."""
        ...

    def search_index(self, question: IndexQuestion) -> FoundRows:
        """Rank the rows that a caller may see."""
        ...

    def run(self, task: Task[Reply]) -> Reply:
        """Do a task of the owner."""
        ...

    def close(self) -> None:
        """Let go of everything. Closing twice is fine."""
        ...


# ---- The upkeep that only the owner of a store can do, as plain data ----

_log = logging.getLogger("hyrecall.memory")

SCRUB, CHECKPOINT = "removing erased rows", "emptying the log"
EXPIRING = "erasing what has expired"
"""What the background does until it is done."""

EXPIRY_SECONDS = 60.0
"""Between two times that expired memories are erased; nobody finds them meanwhile."""

IndexState: TypeAlias = Literal["ready", "behind", "not_ready", "unavailable"]


@dataclass(frozen=True)
class Compacted:
    """The result of a compaction."""

    bytes_before: int
    bytes_after: int
    wal_truncated: bool


@dataclass(frozen=True)
class Erase(Task[int]):
    """Remove every byte of memories, from the database and the index; replies with their number."""

    # What cannot be removed yet, because a reader or the disk is in the way, is removed later. The
    # reply is kept by the id of the write, so that a retry gets the first one.

    selection: Selection
    write_id: bytes

    def run(self, owner: Parts) -> int:
        """Erase, then scrub index and log."""
        write_id, is_gone = check_write_id(self.write_id), False
        try:
            gone = erase(owner.database, self.selection, write_id=write_id)
            is_gone = scrub(owner) and gone.wal_truncated
        finally:
            if not is_gone:  # interrupted, or a reader or the disk was in the way
                owner.background.until_done(SCRUB, partial(scrub, owner))
        return gone.n


def scrub(owner: Parts) -> bool:
    """Remove erased rows from the index and the log; return whether all are gone."""
    # A fault is logged, not raised: the erasure is committed, and this can be called again.
    try:
        with contextlib.suppress(IndexNotReadyError):  # then nothing of an index is there
            owner.follower.reconcile()
        return owner.database.checkpoint(wait=0.0)
    except HyrecallError as fault:
        _log.warning("bytes of what was erased are left: %s", type(fault).__name__)
        return False


class Expiry:
    """Erases memories that have expired, a while after they did."""

    def __init__(self, owner: Parts) -> None:
        self._owner = owner
        self._not_before = -math.inf

    def due(self) -> bool:
        """Erase what has expired, where it is time; return whether nothing is left that will."""
        database = self._owner.database
        with database.reading() as connection:
            soonest = next_expiry(connection)
        if soonest is None:
            return True
        began = time.monotonic()
        if to_micros(soonest) <= database.clock() and began >= self._not_before:
            try:
                self.erase()
            finally:  # each time costs the whole index: so it takes a twentieth of the time at most
                took = time.monotonic() - began
                self._not_before = time.monotonic() + max(EXPIRY_SECONDS, 20 * took)
        return False

    def erase(self) -> int:
        """Erase what has expired; return how many memories."""
        owner = self._owner
        with owner.database.reading() as connection:
            found = expired(connection)
        n = 0
        for one in found:
            try:
                n += erase(owner.database, one).n
            except (
                CorruptStoreError
            ) as fault:  # doctor(full=True) names it; others' go all the same
                _log.warning("a user's expired memories are left: %s", type(fault).__name__)
        if found and not scrub(owner):
            owner.background.until_done(SCRUB, partial(scrub, owner))
        return n


@dataclass(frozen=True)
class Compact(Task[Compacted]):
    """Write the database anew without unused room."""

    def run(self, owner: Parts) -> Compacted:
        """Write it, and empty the log."""
        database = owner.database
        before = database.size()
        Expiry(owner).erase()
        database.vacuum()
        is_empty = database.checkpoint()
        if not is_empty:
            owner.background.until_done(CHECKPOINT, partial(database.checkpoint, wait=0.0))
        return Compacted(before, database.size(), is_empty)


@dataclass(frozen=True)
class Snapshot(Task[bool]):
    """Save the index with every committed change; replies with whether something was saved."""

    def run(self, owner: Parts) -> bool:
        """Bring the index up to date and save it."""
        try:
            owner.follower.catch_up()
        except (IndexNotReadyError, HyrecallError) as fault:
            _log.warning("the index was not brought up to date: %s", type(fault).__name__)
        return owner.follower.snapshot()


@dataclass(frozen=True)
class Rebuild(Task[None]):
    """Build the index anew from the rows; raises ``IndexNotReadyError`` if that fails."""

    def run(self, owner: Parts) -> None:
        """Build it."""
        follower = owner.follower
        follower.relayout(owner.layout, model=follower.model, dim=follower.dim)


@dataclass(frozen=True)
class CatchUp(Task[None]):
    """Apply every committed change, however long it takes; raises ``IndexNotReadyError``."""

    def run(self, owner: Parts) -> None:
        """Apply them."""
        owner.follower.catch_up()


@dataclass(frozen=True)
class TellLayout(Task[Layout | None]):
    """Tell the layout of the index; None: its analyzer has a callable, which cannot be sent."""

    def run(self, owner: Parts) -> Layout | None:
        """Tell it."""
        return None if owner.layout.analyzer.has_callable else owner.layout


@dataclass(frozen=True)
class TakeVectors(Task[None]):
    """Let the index take vectors of a model and length, unless it takes these already."""

    # Raises ``IndexNotReadyError`` if it cannot be made anew.

    model: str | None
    dim: int

    def run(self, owner: Parts) -> None:
        """Build the index anew if it is of others."""
        follower = owner.follower
        if (follower.model, follower.dim) != (self.model, self.dim):
            follower.relayout(owner.layout, model=self.model, dim=self.dim)


@dataclass(frozen=True)
class Follow(Task[None]):
    """Let the index follow changes that were not offered to it."""

    def run(self, owner: Parts) -> None:
        """Wake the thread that follows."""
        owner.background.poke()


@dataclass(frozen=True)
class EmptyLog(Task[bool]):
    """Move the write-ahead log into the database; replies with whether the log is empty then."""

    def run(self, owner: Parts) -> bool:
        """Wait a moment for readers: the follower reads beside whoever asks."""
        return owner.database.checkpoint(wait=1.0)


@dataclass(frozen=True)
class AwaitIndex(Task[IndexState]):
    """Bring the index up to date; replies with its state after so many seconds at most."""

    budget: float

    def run(self, owner: Parts) -> IndexState:
        """Wait for changes that another thread is applying, or apply them."""
        if owner.database.problem_of_files():
            return "unavailable"
        try:
            return "behind" if owner.follower.ready(budget=self.budget).behind else "ready"
        except IndexNotReadyError as fault:
            is_none = fault.reason == DegradedReason.INDEX_UNAVAILABLE
            return "unavailable" if is_none else "not_ready"


@dataclass(frozen=True)
class CheckIndex(Task[tuple[DoctorCheck, ...]]):
    """Check the index; replies with checks for the report of ``doctor``."""

    full: bool

    def run(self, owner: Parts) -> tuple[DoctorCheck, ...]:
        """Bring the index up to date and report on it."""
        found = owner.database.problem_of_files()
        files = DoctorCheck("files", not found, f"not what was opened: {found}" if found else "")
        if found:  # what stands in them says nothing
            return (files,)
        of_index = _index(owner)
        is_left = owner.follower.may_hold_erased(full=self.full)
        told = "what was erased may be in the saved index: hyrecall doctor --repair"
        told += ", or hyrecall pull for a replica"
        erased = DoctorCheck("erased", not is_left, told if is_left else "")
        return files, of_index, erased, embeddings(owner)


@dataclass(frozen=True)
class CheckEmbeddings(Task[DoctorCheck]):
    """Check whether every memory has a vector that a query's can be compared with."""

    def run(self, owner: Parts) -> DoctorCheck:
        """Count those that have none, and say how far embedding them came."""
        return embeddings(owner)


def embeddings(owner: Parts) -> DoctorCheck:
    """Check the vectors of all memories: not ok while one has none, if there is an embedder."""
    counts = None if owner.follower.model is None else owner.follower.unembedded()
    if counts is None or not counts[0]:
        return DoctorCheck("embeddings", True)
    filling = owner.filling
    if filling is not None:
        told = filling.told()
    elif owner.database.read_only:
        told = "open for reading only"
    else:
        told = "the process that owns the store has no embedder"
    return DoctorCheck(
        "embeddings", False, "; ".join(filter(None, (told_unembedded(*counts), told)))
    )


def _index(owner: Parts) -> DoctorCheck:
    try:
        owner.follower.catch_up()
        report = owner.follower.report()
    except IndexNotReadyError as fault:
        return DoctorCheck("index", False, str(fault))
    except HyrecallError as fault:
        return DoctorCheck("index", False, type(fault).__name__)
    behind, failed = report.get("behind"), report.get("failed")
    told = f"it could not be made: {failed}" if failed else ""
    return DoctorCheck("index", not failed and not behind, told or json.dumps(report, default=str))
