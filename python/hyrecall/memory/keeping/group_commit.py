"""Commits changes that wait together in one transaction, with one sync of the disk.

The threads that write are enough: one of those that wait leads, makes the changes of all of them
and commits; the others wait for that. While the disk syncs, the next ones gather.

An interrupt (Ctrl-C, an exception that another thread raises here) may end a leader anywhere.
Nobody's change is lost or made twice then: who leads holds a lock that a ``with`` block releases,
who waits knows its change to be made by one attribute of its group alone, and a wake-up that is
missed is made up for by a look twenty times a second.
"""

from __future__ import annotations

import contextlib
import copy
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar, cast

import apsw

from hyrecall.memory.changes.change import Change
from hyrecall.memory.derived.derived_index import Changes
from hyrecall.memory.derived.follower import Follower
from hyrecall.memory.sql.applied_writes import find_reply, forget_old_replies, keep_reply
from hyrecall.memory.sql.database import Database, Outcome
from hyrecall.memory.sql.schema import meta
from hyrecall.memory.sql.sqlite_errors import DAMAGING, sqlite_named

__all__ = ["GroupCommit"]

LOOK_SECONDS = 0.05
"""Between two looks of a thread that waits and was not woken."""

MOST_GATHERING = 0.005
"""Seconds that a leader waits at most for those who wrote with the last group."""

GATHERING_STEP = 0.0002

Reply = TypeVar("Reply")


class _Waiting:
    """A change that a thread waits for."""

    __slots__ = ("_woken", "change", "fault", "group", "now", "reply", "write_id")

    def __init__(self, change: Change[Any], write_id: bytes | None, now: datetime | None) -> None:
        self.change, self.write_id, self.now = change, write_id, now
        self.group: _Group | None = None
        self.reply: object = None
        self.fault: Exception | None = None
        self._woken = threading.Lock()
        self._woken.acquire()

    @property
    def is_settled(self) -> bool:
        """Whether it is made or refused."""
        return self.group is not None and self.group.is_settled

    def wake(self) -> None:
        """Let its thread look."""
        with contextlib.suppress(RuntimeError):  # it was woken already
            self._woken.release()

    def wait(self) -> bool:
        """Wait to be woken for a while; return whether it was."""
        return self._woken.acquire(timeout=LOOK_SECONDS)


class _Group(Outcome):
    """The changes of one transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.members: Sequence[_Waiting] = ()
        self.fault: Exception | None = None
        self.changes: Changes | None = None
        self.is_offered = False

    @property
    def is_settled(self) -> bool:
        """Whether its changes are on the disk, or were refused for good."""
        return self.is_committed or self.fault is not None


class _ApartError(Exception):
    """The changes of a group must be made one by one: one of them took the others down."""


class GroupCommit:
    """Commits changes, those that wait together in one transaction. Threads may share it."""

    # A change that is refused fails alone; if a commit fails, all of its group fails.

    def __init__(
        self,
        database: Database,
        follower: Follower,
        poke: Callable[[], None],
        clock: Callable[[], datetime],
    ) -> None:
        """Wait for changes."""
        self._database = database
        self._follower = follower
        self._poke = poke
        self._clock = clock
        self._leads = threading.Lock()  # held by the thread that makes changes
        self._waiting: dict[_Waiting, None] = {}  # in the order in which they came
        self._n_last = 1  # how many changes the last group had, with those that waited behind it
        self._last_seconds = 0.0  # how long that group took

    def write(
        self, change: Change[Reply], *, write_id: bytes | None = None, now: datetime | None = None
    ) -> Reply:
        """Commit a change, as :meth:`hyrecall.memory.keeping.keeper.Keeper.write`."""
        self._database.check_may_write()
        mine = _Waiting(change, write_id, now)
        try:
            self._waiting[mine] = None
            while not mine.is_settled:
                # Who leads takes this one along, or wakes it to lead itself. Only the first goes to
                # the lock: others would stand there when their changes have long been made.
                if (self._leads.locked() or self._next() is not mine) and not mine.wait():
                    continue
                if mine.is_settled:
                    break
                with self._leads:
                    if not mine.is_settled:
                        self._lead(mine)
                self._wake_next()
        except BaseException:  # interrupted, perhaps when it was its turn to lead
            self._wake_next()
            raise
        finally:
            self._waiting.pop(mine, None)
        return cast("Reply", _reply_of(mine))

    def _next(self) -> _Waiting | None:
        """Return the first of those that wait and are not settled."""
        return next((one for one in list(self._waiting) if not one.is_settled), None)

    def _wake_next(self) -> None:
        """Wake the thread that leads next, if one waits."""
        one = self._next()
        if one is not None:
            one.wake()

    def _lead(self, mine: _Waiting) -> None:
        """Make the changes of all that wait."""
        group = _Group()
        self._gather()
        began = time.monotonic()
        try:
            self._commit(group, None)
            self._last_seconds = time.monotonic() - began
            self._n_last = len(self._waiting)
        except _ApartError:
            members, group = group.members, _Group()
            for one in members:
                self._commit_alone(one)
        except Exception as fault:
            # Without members, the transaction did not begin: others may fare better.
            _fail(group, group.members or (mine,), fault)
        for one in group.members:
            one.wake()

    def _gather(self) -> None:
        """Wait a little for threads that wrote together before: they come back one by one."""
        # A thread that writes alone never waits, and nobody waits longer than a quarter
        # of a commit.
        until = time.monotonic() + min(self._last_seconds / 4, MOST_GATHERING)
        while len(self._waiting) < self._n_last and time.monotonic() < until:
            time.sleep(GATHERING_STEP)

    def _commit_alone(self, one: _Waiting) -> None:
        group = _Group()
        try:
            self._commit(group, one)
        except Exception as fault:
            _fail(group, (one,), fault)
        one.wake()

    def _commit(self, group: _Group, alone: _Waiting | None) -> None:
        self._database.commit(lambda connection: self._make(connection, group, alone), group)
        if group.is_offered:
            self._follower.offer(group.changes)
            self._poke()

    def _make(self, connection: apsw.Connection, group: _Group, alone: _Waiting | None) -> None:
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

    def _try(self, connection: apsw.Connection, one: _Waiting) -> None:
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

    def _run(self, connection: apsw.Connection, one: _Waiting) -> object:
        now = self._clock() if one.now is None else one.now
        if one.write_id is None:
            return one.change.run(connection, now)
        known = find_reply(connection, one.write_id)
        if known is not None:
            return one.change.reply_of(*known)
        reply = one.change.run(connection, now)
        keep_reply(connection, one.write_id, one.change.numbers(reply))
        return reply


def _fail(group: _Group, members: Sequence[_Waiting], fault: Exception) -> None:
    group.members = members
    for one in members:
        one.group = group
    group.fault = fault


def _reply_of(one: _Waiting) -> object:
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
