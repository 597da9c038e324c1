"""The owner of a store: the process that has the writer's database and the index."""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from typing import Any, TypeVar, cast

import apsw

from hyrecall.arm.newest import Newest
from hyrecall.base import threads
from hyrecall.base.progress import ProgressFunction
from hyrecall.embed.guard import OF_TEXT, Guard
from hyrecall.embed.protocol import EmbedFault, NoVectors
from hyrecall.errors import HyrecallError
from hyrecall.index import Index
from hyrecall.memory.changes import Change, SetVectors
from hyrecall.memory.data.types import Episode
from hyrecall.memory.derived.derived_index import IndexChanges
from hyrecall.memory.derived.follower import INDEX, Background, Follower
from hyrecall.memory.derived.layout import ARE_UNEMBEDDED as UNEMBEDDED
from hyrecall.memory.derived.layout import EVERYWHERE, IndexNotReadyError, Layout, OpenReport
from hyrecall.memory.keeping.tasks import EXPIRING, SCRUB, Expiry, TakeVectors, Task, scrub
from hyrecall.memory.recall.call import FoundRows, IndexQuestion
from hyrecall.memory.recall.index_search import IndexSearch, JoinedCalls
from hyrecall.memory.sql.codec import encode_vector, every_cell
from hyrecall.memory.sql.connecting import DAMAGING, sqlite_named
from hyrecall.memory.sql.database import Database, Outcome
from hyrecall.memory.sql.erasing import check_write_id, find_reply, forget_old_replies, keep_reply
from hyrecall.memory.sql.reading import episodes_of_rows
from hyrecall.memory.sql.schema import meta

# ---- Embeds by itself what has no usable vector, on a thread beside writers and searches ----

_log = logging.getLogger("hyrecall.memory")

FILLING = "embedding what has no vector"
"""What the background does until it is done."""

FIRST_SECONDS = 2.0  # after the opening: a handle that is open for a moment starts nothing
PAGE = 32  # memories of a call of the embedder, and of a transaction
PAGE_SECONDS = 60.0
LONGEST_REST = 1.0  # after a page, as long as it took: others use the model and the processor too
LONGEST_WAIT = 60.0  # between two tries of an embedder that fails


class Filling:
    """Embeds memories without a usable vector, the newest first, while there are any."""

    # What is left to do is what the store's rows say, so it goes on after an interruption. A text
    # that the embedder refuses is left alone until the store is opened again, or until ``reembed``.

    def __init__(
        self,
        database: Database,
        guard: Guard,
        follower: Follower,
        write: Callable[[SetVectors], int],
        take_dim: Callable[[int], None],
        *,
        at_once: bool = True,
    ) -> None:
        self._database, self._guard, self._follower = database, guard, follower
        self._write, self._take_dim = write, take_dim
        self._at_once = at_once
        self._wake = threading.Condition()
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._many: Guard | None = None
        self._refused: set[int] = set()
        self._written: set[int] = set()  # of the last page
        self._pid = os.getpid()
        self._n_embedded = 0
        self._trouble = ""
        self._n_tries = 0
        self._next = time.monotonic() + FIRST_SECONDS

    def due(self) -> bool:
        """Start the thread if there is something to do and it is time; return whether there is
        nothing more.
        """
        index = self._index()
        is_unused = not self._at_once and not self._guard.was_asked
        if (
            self._is_closed
            or is_unused
            or (index is not None and not _rows(index, 1, self._refused))
        ):
            return True
        is_running = self._thread is not None and self._thread.is_alive()
        if index is not None and not is_running and time.monotonic() >= self._next:
            try:
                self._thread = threads.start(self._run, name="hyrecall-embed", stop=self.stop)
            except RuntimeError as fault:
                _log.warning("there is no thread that embeds what has no vector: %s", fault)
                return True
        return False

    def told(self) -> str:
        """Say how far it came, and what stops it; no text, and nothing that an endpoint said."""
        told = [f"{self._n_embedded} embedded so far"] if self._n_embedded else []
        if self._refused:
            told.append(f"{len(self._refused)} refused by the embedder: reembed() names them")
        if self._trouble:
            left = max(self._next - time.monotonic(), 0.0)
            told.append(f"{self._trouble}; tried again in {left:.0f} s")
        return ", ".join(told)

    def stop(self) -> None:
        """Start no more work, and wake the thread, which a forked child does not have."""
        if self._pid != os.getpid():
            return
        with self._wake:
            self._is_closed = True
            many = self._many
            self._wake.notify_all()
        if many is not None:
            many.close()  # whoever waits for the embedder gives up

    def close(self) -> None:
        """Stop, and wait for the transaction at work. Closing twice is fine."""
        self.stop()
        thread = self._thread
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join()

    def _index(self) -> Index | None:
        """Return an up-to-date index for the embedder's model, or None."""
        if self._follower.model != self._guard.model:
            return None
        try:
            self._follower.catch_up()
            return self._follower.ready().index
        except (IndexNotReadyError, HyrecallError):
            return None

    def _run(self) -> None:
        many = self._guard.for_many()
        with self._wake:
            if self._is_closed:
                many.close()
                return
            self._many = many
        trouble = ""
        try:
            while not self._is_closed and not trouble and (index := self._index()) is not None:
                wanted = _rows(index, PAGE, self._refused)
                if not wanted:
                    break
                begun = time.monotonic()
                trouble = self._fill(many, wanted)
                with self._wake:
                    rest = min(time.monotonic() - begun, LONGEST_REST)
                    self._wake.wait_for(lambda: self._is_closed, rest)
        except Exception as fault:  # the store cannot be written, say; its message may hold a text
            trouble = type(fault).__name__
        finally:
            many.close()
        self._n_tries = self._n_tries + 1 if trouble else 0
        self._next = time.monotonic() + (
            min(2.0 ** (self._n_tries - 1), LONGEST_WAIT) if trouble else 0
        )
        if trouble and trouble != self._trouble and not self._is_closed:
            _log.warning("memories without a vector wait for the embedder: %s", trouble)
        self._trouble = trouble

    def _fill(self, many: Guard, wanted: list[int]) -> str:
        """Embed rows and write their vectors; return what is wrong with the embedder, or ""."""
        damaged: set[int] = set()
        with self._database.reading() as connection:
            episodes = episodes_of_rows(connection, wanted, every_cell(connection), damaged)
        self._refused |= set(wanted) - set(episodes)  # damaged, or changed meanwhile
        self._refused |= set(wanted) & self._written  # the index does not take what was made
        rows = [(row, one) for row, one in episodes.items() if one.full_text.strip()]
        if not rows:
            return ""
        vectors, why = many.embed_each(
            [one.full_text for _, one in rows], budget=PAGE_SECONDS, waits=True
        )
        self._guard.learn_from(many)
        if many.dim is not None and many.dim != self._follower.dim:
            self._take_dim(many.dim)
        model = self._guard.model
        assert model is not None
        made = tuple(
            (row, encode_vector(vector), model)
            for (row, _), vector, fault in zip(rows, vectors, why, strict=True)
            if fault is None
        )
        if made:
            self._n_embedded += self._write(SetVectors(made))
            self._written = {row for row, _, _ in made}
            self._n_tries = 0
        return self._judge(rows, why, has_any=bool(made))

    def _judge(
        self, rows: list[tuple[int, Episode]], why: list[NoVectors | None], *, has_any: bool
    ) -> str:
        """Leave refused rows alone; return a fault that is the embedder's."""
        for (row, _), fault in zip(rows, why, strict=True):
            if fault is None:
                continue
            if fault.fault is EmbedFault.REFUSED or (has_any and fault.fault in OF_TEXT):
                self._refused.add(row)
            else:
                return f"{fault.fault}: {fault.detail}" if fault.detail else str(fault.fault)
        return ""


def _rows(index: Index, most: int, without: set[int]) -> list[int]:
    """Return rows without a usable vector, the newest first."""
    hits: Any = index.recall(
        arms=Newest("updated_at"),
        scope=EVERYWHERE,
        filter=UNEMBEDDED,
        limit=most + len(without),
        columns=("row",),
    )
    found = hits.to_arrow().column("row").to_pylist()
    return [row for row in found if row not in without][:most]


# ---- Commits changes that wait together in one transaction, with one sync of the disk ----
# The threads that write are enough: one of those that wait leads, makes the changes of all of them
# and commits; the others wait for that. While the disk syncs, the next ones gather.
#
# An interrupt (Ctrl-C, an exception that another thread raises here) may end a leader anywhere.
# Nobody's change is lost or made twice then: who leads holds a lock that a ``with`` block releases,
# who waits knows its change to be made by one attribute of its group alone, and a wake-up that is
# missed is made up for by a look twenty times a second.

LOOK_SECONDS = 0.05
"""Between two looks of a thread that waits and was not woken."""

MOST_GATHERING = 0.005
"""Seconds that a leader waits at most for those who wrote with the last group."""

GATHERING_STEP = 0.0002

Reply = TypeVar("Reply")


class _WaitingChange:
    """A change that a thread waits for."""

    __slots__ = ("_woken", "change", "fault", "group", "now", "reply", "write_id")

    def __init__(self, change: Change[Any], write_id: bytes | None, now: datetime | None) -> None:
        self.change, self.write_id, self.now = change, write_id, now
        self.group: _ChangeGroup | None = None
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
        self._database = database
        self._follower = follower
        self._poke = poke
        self._clock = clock
        self._leads = threading.Lock()  # held by the thread that makes changes
        self._waiting: dict[_WaitingChange, None] = {}  # in the order in which they came
        self._n_last = 1  # how many changes the last group had, with those that waited behind it
        self._last_seconds = 0.0  # how long that group took

    def write(
        self, change: Change[Reply], *, write_id: bytes | None = None, now: datetime | None = None
    ) -> Reply:
        """Commit a change, as :meth:`hyrecall.memory.keeping.tasks.Keeper.write`."""
        self._database.check_may_write()
        mine = _WaitingChange(change, write_id, now)
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

    def _next(self) -> _WaitingChange | None:
        """Return the first of those that wait and are not settled."""
        return next((one for one in list(self._waiting) if not one.is_settled), None)

    def _wake_next(self) -> None:
        """Wake the thread that leads next, if one waits."""
        one = self._next()
        if one is not None:
            one.wake()

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
                database, guard, self.follower, self.write, self._take_dim, at_once=fills_at_once
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
        """Commit a change, as :meth:`hyrecall.memory.keeping.tasks.Keeper.write`."""
        if write_id is not None:
            check_write_id(write_id)
        return self._group.write(change, write_id=write_id, now=now)

    def search_index(self, question: IndexQuestion) -> FoundRows:
        """Rank rows, as :meth:`hyrecall.memory.keeping.tasks.Keeper.search_index`."""
        return self._search(question)

    def run(self, task: Task[Reply]) -> Reply:
        """Do a task, as :meth:`hyrecall.memory.keeping.tasks.Keeper.run`."""
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
