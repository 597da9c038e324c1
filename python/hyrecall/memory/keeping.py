"""The owner of a store: the process that has the writer's database and the index."""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Concatenate, Final, Literal, ParamSpec, Protocol, TypeAlias, TypeVar, cast

import apsw

from hyrecall.base.progress import ProgressFunction
from hyrecall.embed.guard import Guard
from hyrecall.errors import CorruptStoreError, HyrecallError, OptionError, error
from hyrecall.hits.confidence import Judged
from hyrecall.hits.dropped import Dropped
from hyrecall.hits.explain_text import Explanation
from hyrecall.memory.changes import Change, SetVectors
from hyrecall.memory.data.matches import DegradedReason
from hyrecall.memory.derived.backfill import FILLING, Filling
from hyrecall.memory.derived.derived_index import IndexChanges
from hyrecall.memory.derived.follower import INDEX, Background, Follower
from hyrecall.memory.derived.layout import IndexNotReadyError, Layout, OpenReport, told_unembedded
from hyrecall.memory.recall.call import FoundRows, IndexQuestion
from hyrecall.memory.recall.index_search import IndexSearch, JoinedCalls
from hyrecall.memory.recall.turns import Turns, Waiting
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

P_ = ParamSpec("P_")
Reply = TypeVar("Reply")

# ---- The interface of a store's owner, in this process or in another


TASKS: Final[dict[str, Callable[..., Any]]] = {}
"""The upkeep that another process may ask the owner for, by name."""


def task(method: Callable[P_, Reply]) -> Callable[P_, Reply]:
    """Let other processes ask for a method of :class:`Owner`; its arguments are plain data."""
    TASKS[method.__name__] = method
    return method


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

    def run(
        self, do: Callable[Concatenate[Owner, P_], Reply], *given: P_.args, **named: P_.kwargs
    ) -> Reply:
        """Call a method of the owner that is one of :data:`TASKS`."""
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


SEARCH_AGAIN = "the store has changed since the search: search again"


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
        if found and not owner.scrub():
            owner.background.until_done(SCRUB, owner.scrub)
        return n


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
                lambda dim: self.take_vectors(self.follower.model, dim),
                at_once=fills_at_once,
            )
        self.expiry = None if database.read_only else Expiry(self)
        self._group = GroupCommit(database, self.follower, self._follow, clock)
        self._follow()
        self.background.start()
        if opens_soon:  # the last owner may have ended between an erasure and its scrubbing
            self.background.until_done(SCRUB, self.scrub)

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

    def run(
        self, do: Callable[Concatenate[Owner, P_], Reply], *given: P_.args, **named: P_.kwargs
    ) -> Reply:
        """Do upkeep, as :meth:`Keeper.run`."""
        return do(self, *given, **named)

    def _follow(self) -> None:
        """Let the index follow a change, which may lack a vector."""
        self.background.poke()
        if self.filling is not None:
            self.background.until_done(FILLING, self.filling.due)
        if self.expiry is not None:
            self.background.until_done(EXPIRING, self.expiry.due)

    # ---- upkeep ----

    @task
    def erase(self, selection: Selection, write_id: bytes) -> int:
        """Remove every byte of memories, from the database and the index; return their number."""
        # What cannot be removed yet, because a reader or the disk is in the way, is removed later.
        # The reply is kept by the id of the write, so that a retry gets the first one.
        write_id, is_gone = check_write_id(write_id), False
        try:
            gone = erase(self.database, selection, write_id=write_id)
            is_gone = self.scrub() and gone.wal_truncated
        finally:
            if not is_gone:  # interrupted, or a reader or the disk was in the way
                self.background.until_done(SCRUB, self.scrub)
        return gone.n

    def scrub(self) -> bool:
        """Remove erased rows from the index and the log; return whether all are gone."""
        # A fault is logged, not raised: the erasure is committed, and this can be called again.
        try:
            with contextlib.suppress(IndexNotReadyError):  # then nothing of an index is there
                self.follower.reconcile()
            return self.database.checkpoint(wait=0.0)
        except HyrecallError as fault:
            _log.warning("bytes of what was erased are left: %s", type(fault).__name__)
            return False

    @task
    def compact(self) -> Compacted:
        """Write the database anew without unused room, and empty the log."""
        database = self.database
        before = database.size()
        Expiry(self).erase()
        database.vacuum()
        is_empty = database.checkpoint()
        if not is_empty:
            self.background.until_done(CHECKPOINT, partial(database.checkpoint, wait=0.0))
        return Compacted(before, database.size(), is_empty)

    @task
    def empty_log(self) -> bool:
        """Move the write-ahead log into the database; return whether the log is empty then."""
        # It waits a moment for readers: the follower reads beside whoever asks.
        return self.database.checkpoint(wait=1.0)

    @task
    def follow(self) -> None:
        """Let the index follow changes that were not offered to it."""
        self.background.poke()

    @task
    def catch_up(self) -> None:
        """Apply every committed change, however long it takes; raises ``IndexNotReadyError``."""
        self.follower.catch_up()

    @task
    def snapshot(self) -> bool:
        """Save the index with every committed change; return whether something was saved."""
        try:
            self.follower.catch_up()
        except (IndexNotReadyError, HyrecallError) as fault:
            _log.warning("the index was not brought up to date: %s", type(fault).__name__)
        return self.follower.snapshot()

    @task
    def rebuild(self) -> None:
        """Build the index anew from the rows; raises ``IndexNotReadyError`` if that fails."""
        follower = self.follower
        follower.relayout(self.layout, model=follower.model, dim=follower.dim)

    @task
    def take_vectors(self, model: str | None, dim: int) -> None:
        """Let the index take vectors of a model and length, unless it takes these already."""
        # Raises ``IndexNotReadyError`` if it cannot be made anew.
        if (self.follower.model, self.follower.dim) != (model, dim):
            self.follower.relayout(self.layout, model=model, dim=dim)

    @task
    def tell_layout(self) -> Layout | None:
        """Tell the layout of the index; None: its analyzer has a callable, which cannot be sent."""
        return None if self.layout.analyzer.has_callable else self.layout

    @task
    def await_index(self, budget: float) -> IndexState:
        """Bring the index up to date; return its state after so many seconds at most."""
        if self.database.problem_of_files():
            return "unavailable"
        try:
            return "behind" if self.follower.ready(budget=budget).behind else "ready"
        except IndexNotReadyError as fault:
            is_none = fault.reason == DegradedReason.INDEX_UNAVAILABLE
            return "unavailable" if is_none else "not_ready"

    @task
    def check_index(self, full: bool) -> tuple[DoctorCheck, ...]:
        """Bring the index up to date and return checks for the report of ``doctor``."""
        found = self.database.problem_of_files()
        files = DoctorCheck("files", not found, f"not what was opened: {found}" if found else "")
        if found:  # what stands in them says nothing
            return (files,)
        of_index = self._check_state()
        is_left = self.follower.may_hold_erased(full=full)
        told = "what was erased may be in the saved index: hyrecall doctor --repair"
        told += ", or hyrecall pull for a replica"
        erased = DoctorCheck("erased", not is_left, told if is_left else "")
        return files, of_index, erased, self.check_embeddings()

    def _check_state(self) -> DoctorCheck:
        try:
            self.follower.catch_up()
            report = self.follower.report()
        except IndexNotReadyError as fault:
            return DoctorCheck("index", False, str(fault))
        except HyrecallError as fault:
            return DoctorCheck("index", False, type(fault).__name__)
        behind, failed = report.get("behind"), report.get("failed")
        told = f"it could not be made: {failed}" if failed else ""
        told = told or json.dumps(report, default=str)
        return DoctorCheck("index", not failed and not behind, told)

    @task
    def check_embeddings(self) -> DoctorCheck:
        """Check the vectors of all memories: not ok while one has none, if there is an embedder."""
        counts = None if self.follower.model is None else self.follower.unembedded()
        if counts is None or not counts[0]:
            return DoctorCheck("embeddings", True)
        if self.filling is not None:
            told = self.filling.told()
        elif self.database.read_only:
            told = "open for reading only"
        else:
            told = "the process that owns the store has no embedder"
        told = "; ".join(filter(None, (told_unembedded(*counts), told)))
        return DoctorCheck("embeddings", False, told)

    @task
    def explain_row(
        self, question: IndexQuestion, place: int, row: int, score: float
    ) -> Explanation:
        """Ask a question again and explain one of its rows, if it still has the same score."""
        found = self.search_index(question)
        is_there = 0 <= place < len(found.rows)
        is_same = is_there and (found.rows[place], found.scores[place]) == (row, score)
        if not is_same or found.ranked is None:
            wish = "a match whose score is still the same"
            raise error(OptionError, "match", wish, "another", SEARCH_AGAIN)
        return found.ranked.explain(place)

    @task
    def explain_dropped(
        self, question: IndexQuestion, rows: tuple[int, ...], scores: tuple[float, ...], most: int
    ) -> Dropped:
        """Ask a question again and say what was left out, if it still finds the same rows."""
        found = self.search_index(question)
        is_same = (found.rows, found.scores) == (rows, scores)
        if found.ranked is None or not is_same:
            wish = "matches that are still found with the same scores"
            raise error(OptionError, "matches", wish, "others", SEARCH_AGAIN)
        return found.ranked.explain_dropped(most)

    @task
    def judge_rows(
        self, question: IndexQuestion, rows: tuple[int, ...], scores: tuple[float, ...]
    ) -> Judged:
        """Ask a question again and say how sure the reply is, if it still finds the same rows."""
        found = self.search_index(question)
        is_same = (found.rows, found.scores) == (rows, scores)
        if found.ranked is None or not is_same:
            wish = "matches that are still found with the same scores"
            raise error(OptionError, "matches", wish, "others", SEARCH_AGAIN)
        return found.ranked.judge()

    def close(self) -> None:
        """Save the index and let go of everything. Closing twice is fine."""
        with ExitStack() as held:  # each is let go of, the last here first, whatever the others do
            held.callback(self.database.close)
            held.callback(self.follower.close)
            held.callback(self.background.close)
            if self.filling is not None:
                held.callback(self.filling.close)
