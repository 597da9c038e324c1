"""The owner of a store: the process that has the writer's database and the index. Its upkeep is
plain data, which another process may send.
"""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, cast

import apsw

from hyrecall.base.progress import ProgressFunction
from hyrecall.base.turns import Turns, Waiting
from hyrecall.embed.guard import Guard
from hyrecall.errors import CorruptStoreError, HyrecallError
from hyrecall.memory.changes import Change, SetVectors
from hyrecall.memory.data.matches import DegradedReason
from hyrecall.memory.derived.backfill import FILLING, Filling
from hyrecall.memory.derived.derived_index import IndexChanges
from hyrecall.memory.derived.follower import INDEX, Background, Follower
from hyrecall.memory.derived.layout import IndexNotReadyError, Layout, OpenReport, told_unembedded
from hyrecall.memory.recall.call import FoundRows, IndexQuestion
from hyrecall.memory.recall.index_search import IndexSearch, JoinedCalls
from hyrecall.memory.sql.codec import to_micros
from hyrecall.memory.sql.connecting import DAMAGING, sqlite_named
from hyrecall.memory.sql.database import Database, Outcome
from hyrecall.memory.sql.doctor import DoctorCheck
from hyrecall.memory.sql.erasing import (
    check_write_id,
    erase,
    expired,
    find_reply,
    forget_old_replies,
    keep_reply,
    next_expiry,
)
from hyrecall.memory.sql.schema import meta
from hyrecall.memory.sql.writing import Selection

_log = logging.getLogger("hyrecall.memory")

Reply = TypeVar("Reply")

# ---- The interface of a store's owner, in this process or in another


class Task(ABC, Generic[Reply]):
    """Upkeep that only the owner can do. Subclasses are frozen dataclasses of plain data."""

    @abstractmethod
    def run(self, owner: Owner) -> Reply:
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


# ---- Commits changes that wait together in one transaction, with one sync of the disk ----

MOST_GATHERING = 0.005
"""Seconds that a leader waits at most for those who wrote with the last group."""

GATHERING_STEP = 0.0002


class _WaitingChange(Waiting):
    """A change that a thread waits for."""

    __slots__ = ("change", "fault", "group", "now", "reply", "write_id")

    def __init__(self, change: Change[Any], write_id: bytes | None, now: datetime | None) -> None:
        super().__init__()
        self.change, self.write_id, self.now = change, write_id, now
        self.group: _ChangeGroup | None = None
        self.reply: object = None
        self.fault: Exception | None = None

    @property
    def is_settled(self) -> bool:
        """Whether it is made or refused."""
        return self.group is not None and self.group.is_settled


class _ChangeGroup(Outcome):
    """The changes of one transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.members: Sequence[_WaitingChange] = ()
        self.fault: Exception | None = None
        self.changes: IndexChanges | None = None
        self.is_offered = False

    @property
    def is_settled(self) -> bool:
        """Whether its changes are on the disk, or were refused for good."""
        return self.is_committed or self.fault is not None


class _ApartError(Exception):
    """One change of a group made the group fail: the others are to be retried one by one."""


class GroupCommit(Turns[_WaitingChange]):
    """Commits changes, those that wait together in one transaction. Threads may share it."""

    # A change that is refused fails alone; if a commit fails, all of its group fails.

    def __init__(
        self,
        database: Database,
        follower: Follower,
        poke: Callable[[], None],
        clock: Callable[[], datetime],
    ) -> None:
        super().__init__()
        self._database = database
        self._follower = follower
        self._poke = poke
        self._clock = clock
        self._n_last = 1  # how many changes the last group had, with those that waited behind it
        self._last_seconds = 0.0  # how long that group took

    def write(
        self, change: Change[Reply], *, write_id: bytes | None = None, now: datetime | None = None
    ) -> Reply:
        """Commit a change, as :meth:`Keeper.write`."""
        self._database.check_may_write()
        mine = _WaitingChange(change, write_id, now)
        self._settle(mine, self._lead)
        return cast("Reply", _reply_of(mine))

    def _lead(self, mine: _WaitingChange) -> None:
        """Make the changes of all that wait."""
        group = _ChangeGroup()
        self._gather()
        began = time.monotonic()
        try:
            self._commit(group, None)
            self._last_seconds = time.monotonic() - began
            self._n_last = len(self._waiting)
        except _ApartError:
            members, group = group.members, _ChangeGroup()
            for one in members:
                self._commit_alone(one)
        except Exception as fault:
            # Without members, the transaction did not begin: others may fare better.
            _fail(group, group.members or (mine,), fault)
        for one in group.members:
            one.wake()

    def _gather(self) -> None:
        """Wait a little for threads that wrote together before: they come back one by one."""
        # A thread that writes alone never waits, and nobody waits longer than a quarter of a
        # commit.
        until = time.monotonic() + min(self._last_seconds / 4, MOST_GATHERING)
        while len(self._waiting) < self._n_last and time.monotonic() < until:
            time.sleep(GATHERING_STEP)

    def _commit_alone(self, one: _WaitingChange) -> None:
        group = _ChangeGroup()
        try:
            self._commit(group, one)
        except Exception as fault:
            _fail(group, (one,), fault)
        one.wake()

    def _commit(self, group: _ChangeGroup, alone: _WaitingChange | None) -> None:
        self._database.commit(lambda connection: self._make(connection, group, alone), group)
        if group.is_offered:
            self._follower.offer(group.changes)
            self._poke()

    def _make(
        self, connection: apsw.Connection, group: _ChangeGroup, alone: _WaitingChange | None
    ) -> None:
        """Make the changes of a group inside its transaction; only now it is known who waits."""
        waiting = list(self._waiting) if alone is None else [alone]
        members = [one for one in waiting if not one.is_settled]
        group.members = members
        for one in members:
            one.group, one.fault = group, None
        is_offered = any(one.change.is_offered for one in members)
        before = int(meta(connection, "sequence")) if is_offered else 0
        if len(members) == 1:
            members[0].reply = self._run(connection, members[0])
        else:
            for one in members:
                self._try(connection, one)
        if any(one.write_id is not None for one in members):
            forget_old_replies(connection)
        if is_offered and not all(one.fault is not None for one in members):
            try:
                group.changes = self._follower.project(connection, after=before)
            except Exception:
                if len(members) == 1:
                    raise
                raise _ApartError from None
            group.is_offered = True

    def _try(self, connection: apsw.Connection, one: _WaitingChange) -> None:
        """Make a change that is undone alone if it is refused."""
        connection.execute("SAVEPOINT member")
        try:
            with sqlite_named(self._database.name):
                one.reply = self._run(connection, one)
        except Exception as fault:
            if isinstance(fault.__cause__, DAMAGING) or not connection.in_transaction:
                raise _ApartError from None
            connection.execute("ROLLBACK TO member")
            one.fault = fault
        connection.execute("RELEASE member")

    def _run(self, connection: apsw.Connection, one: _WaitingChange) -> object:
        now = self._clock() if one.now is None else one.now
        if one.write_id is None:
            return one.change.run(connection, now)
        known = find_reply(connection, one.write_id)
        if known is not None:
            return one.change.reply_of(*known)
        reply = one.change.run(connection, now)
        keep_reply(connection, one.write_id, one.change.numbers(reply))
        return reply


def _fail(group: _ChangeGroup, members: Sequence[_WaitingChange], fault: Exception) -> None:
    group.members = members
    for one in members:
        one.group = group
    group.fault = fault


def _reply_of(one: _WaitingChange) -> object:
    """Return the reply to a settled change, or raise why it was refused."""
    group = one.group
    assert group is not None
    if not group.is_committed:
        assert group.fault is not None
        # Each thread raises an error of its own: a traceback grows where it is raised.
        raise group.fault if len(group.members) == 1 else _copied(group.fault)
    if one.fault is not None:
        raise one.fault
    return one.reply


def _copied(fault: Exception) -> Exception:
    made = copy.copy(fault)
    made.__cause__, made.__suppress_context__ = fault.__cause__, fault.__suppress_context__
    return made


# ---- The owner of a store: the process that has the writer's database and the index ----


class Owner:
    """Keeps a store in this process. Threads may share it."""

    # A handle that only reads has one too: its database refuses changes, and its index follows
    # those of the process that writes.

    def __init__(
        self,
        database: Database,
        layout: Layout,
        *,
        model: str | None,
        dim: int,
        clock: Callable[[], datetime],
        joining: JoinedCalls,
        snapshot_every: int = 10_000,
        device: str = "cpu",
        threads: int | None = None,
        progress: ProgressFunction | None = None,
        opens_soon: bool = False,
        guard: Guard | None = None,
        fills_at_once: bool = True,
    ) -> None:
        self.database, self.layout = database, layout
        folder = database.folder
        self.follower = Follower(
            database,
            None if folder is None else folder / INDEX,
            layout,
            model=model,
            dim=dim,
            may_save=not database.read_only,
            device=device,
            threads=threads,
        )
        self.opened: OpenReport | None = None
        if opens_soon:
            self.follower.open_soon()
        else:
            self.opened = self.follower.open(progress=progress, background=True)
        self.background = Background(self.follower, snapshot_every=snapshot_every)
        self._search = IndexSearch(self.follower, joining)
        self.filling: Filling | None = None
        if guard is not None and guard.off is None and not database.read_only:
            self.filling = Filling(
                database,
                guard,
                self.follower,
                lambda made: self.write(SetVectors(made)),
                self._take_dim,
                at_once=fills_at_once,
            )
        self.expiry = None if database.read_only else Expiry(self)
        self._group = GroupCommit(database, self.follower, self._follow, clock)
        self._follow()
        self.background.start()
        if opens_soon:  # the last owner may have ended between an erasure and its scrubbing
            self.background.until_done(SCRUB, partial(scrub, self))

    def write(
        self, change: Change[Reply], *, write_id: bytes | None = None, now: datetime | None = None
    ) -> Reply:
        """Commit a change, as :meth:`Keeper.write`."""
        if write_id is not None:
            check_write_id(write_id)
        return self._group.write(change, write_id=write_id, now=now)

    def search_index(self, question: IndexQuestion) -> FoundRows:
        """Rank rows, as :meth:`Keeper.search_index`."""
        return self._search(question)

    def run(self, task: Task[Reply]) -> Reply:
        """Do a task, as :meth:`Keeper.run`."""
        return task.run(self)

    def _follow(self) -> None:
        """Let the index follow a change, which may lack a vector."""
        self.background.poke()
        if self.filling is not None:
            self.background.until_done(FILLING, self.filling.due)
        if self.expiry is not None:
            self.background.until_done(EXPIRING, self.expiry.due)

    def _take_dim(self, dim: int) -> None:
        TakeVectors(self.follower.model, dim).run(self)

    def close(self) -> None:
        """Save the index and let go of everything. Closing twice is fine."""
        with ExitStack() as held:  # each is let go of, the last here first, whatever the others do
            held.callback(self.database.close)
            held.callback(self.follower.close)
            held.callback(self.background.close)
            if self.filling is not None:
                held.callback(self.filling.close)


# ---- The upkeep that only the owner of a store can do, as plain data ----

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

    def run(self, owner: Owner) -> int:
        """Erase, then scrub index and log."""
        write_id, is_gone = check_write_id(self.write_id), False
        try:
            gone = erase(owner.database, self.selection, write_id=write_id)
            is_gone = scrub(owner) and gone.wal_truncated
        finally:
            if not is_gone:  # interrupted, or a reader or the disk was in the way
                owner.background.until_done(SCRUB, partial(scrub, owner))
        return gone.n


def scrub(owner: Owner) -> bool:
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

    def __init__(self, owner: Owner) -> None:
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

    def run(self, owner: Owner) -> Compacted:
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

    def run(self, owner: Owner) -> bool:
        """Bring the index up to date and save it."""
        try:
            owner.follower.catch_up()
        except (IndexNotReadyError, HyrecallError) as fault:
            _log.warning("the index was not brought up to date: %s", type(fault).__name__)
        return owner.follower.snapshot()


@dataclass(frozen=True)
class Rebuild(Task[None]):
    """Build the index anew from the rows; raises ``IndexNotReadyError`` if that fails."""

    def run(self, owner: Owner) -> None:
        """Build it."""
        follower = owner.follower
        follower.relayout(owner.layout, model=follower.model, dim=follower.dim)


@dataclass(frozen=True)
class CatchUp(Task[None]):
    """Apply every committed change, however long it takes; raises ``IndexNotReadyError``."""

    def run(self, owner: Owner) -> None:
        """Apply them."""
        owner.follower.catch_up()


@dataclass(frozen=True)
class TellLayout(Task[Layout | None]):
    """Tell the layout of the index; None: its analyzer has a callable, which cannot be sent."""

    def run(self, owner: Owner) -> Layout | None:
        """Tell it."""
        return None if owner.layout.analyzer.has_callable else owner.layout


@dataclass(frozen=True)
class TakeVectors(Task[None]):
    """Let the index take vectors of a model and length, unless it takes these already."""

    # Raises ``IndexNotReadyError`` if it cannot be made anew.

    model: str | None
    dim: int

    def run(self, owner: Owner) -> None:
        """Build the index anew if it is of others."""
        follower = owner.follower
        if (follower.model, follower.dim) != (self.model, self.dim):
            follower.relayout(owner.layout, model=self.model, dim=self.dim)


@dataclass(frozen=True)
class Follow(Task[None]):
    """Let the index follow changes that were not offered to it."""

    def run(self, owner: Owner) -> None:
        """Wake the thread that follows."""
        owner.background.poke()


@dataclass(frozen=True)
class EmptyLog(Task[bool]):
    """Move the write-ahead log into the database; replies with whether the log is empty then."""

    def run(self, owner: Owner) -> bool:
        """Wait a moment for readers: the follower reads beside whoever asks."""
        return owner.database.checkpoint(wait=1.0)


@dataclass(frozen=True)
class AwaitIndex(Task[IndexState]):
    """Bring the index up to date; replies with its state after so many seconds at most."""

    budget: float

    def run(self, owner: Owner) -> IndexState:
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

    def run(self, owner: Owner) -> tuple[DoctorCheck, ...]:
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

    def run(self, owner: Owner) -> DoctorCheck:
        """Count those that have none, and say how far embedding them came."""
        return embeddings(owner)


def embeddings(owner: Owner) -> DoctorCheck:
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


def _index(owner: Owner) -> DoctorCheck:
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
