"""The database of a store: one writer, many readers, SQLite's errors as errors of the store.

SQLite in WAL mode with synchronous=FULL: when :meth:`Database.transaction` ends, its changes
outlive a power cut. A reader sees the database as it was when its reading began.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import apsw

from hyrecall.base import disk
from hyrecall.base.forks import Birth, Use, leave_to_parent, renew_in_children
from hyrecall.base.version import __version__
from hyrecall.errors import CorruptStoreError, OptionError, StoreError, StoreNotFoundError, error
from hyrecall.memory.data.types import in_utc
from hyrecall.memory.sql.codec import to_micros
from hyrecall.memory.sql.connecting import (
    BUSY_MILLISECONDS,
    DAMAGING,
    DATABASE,
    LOG,
    OwnFiles,
    Shared,
    check_sqlite,
    connect,
    connect_in_memory,
    connect_to_read,
    disk_named,
    inherit,
    problems,
    raise_named,
    sqlite_named,
    tell_time,
)
from hyrecall.memory.sql.lock import LOCK, WriterLock, make_folder
from hyrecall.memory.sql.lost_changes import (
    Witness,
    check_is_there,
    check_is_whole,
    forget_losses,
    last_change,
    witnesses,
)
from hyrecall.memory.sql.schema import check_format, is_empty, meta, migrate

__all__ = ["DATABASE", "LOG", "Database", "Outcome"]

IDLE_READERS = 8

_SECONDS_FOR_A_LOOK = 0.1
"""So long a look at the files waits for a change to end."""


class Outcome:
    """The result of a transaction, also if its thread was interrupted."""

    def __init__(self) -> None:
        self.is_sent = False  # COMMIT was, or is about to be, asked for
        self.is_committed = False


class StoreClock:
    """The time of a store in microseconds; the store that opens a database says by which clock."""

    def __init__(self) -> None:
        self.now: Callable[[], datetime] = partial(datetime.now, UTC)

    def __call__(self) -> int:
        """Return the time."""
        return to_micros(in_utc(self.now()))


class Database:
    """The connections to a store's database. Make one with :meth:`open`; threads may share it."""

    # A forked child must not use its parent's; it is refused.

    def __init__(
        self, folder: Path, lock: WriterLock | None, vfs: str | None, *, is_writer: bool
    ) -> None:
        """Hold the lock; use :meth:`open`."""
        self._folder = folder
        self.read_only = not is_writer
        self.is_writer = is_writer
        self.was_clean = True
        self._name = str(folder)
        self._lock = lock
        self._vfs = vfs
        self._birth = Birth()
        self._writing = threading.Lock()
        self._writer: apsw.Connection | None = None
        self._pool = threading.Lock()
        self._idle: list[apsw.Connection] = []
        self._fixed: dict[apsw.Connection, Shared] = {}
        self._closed = False
        self._noted: Witness | None = None
        self._sequence: int | None = None  # of the last change, where every change is made here
        self._files = OwnFiles(folder)
        self.clock = StoreClock()
        renew_in_children(self)

    @property
    def name(self) -> str:
        """What errors call it."""
        return self._name

    @property
    def folder(self) -> Path | None:
        """The folder of the store, or None if the database is in memory."""
        return self._folder

    @property
    def is_here(self) -> bool:
        """Whether this process opened it, and not one that forked it."""
        return self._birth.is_here

    # ---- opening and closing ----

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        read_only: bool = False,
        wait: float = 0.0,
        accept_loss: bool = False,
        lock: WriterLock | None = None,
        beside_owner: bool = False,
        vfs: str | None = None,
    ) -> Database:
        """Open the database of a folder."""
        check_sqlite(apsw.sqlite_lib_version())
        with disk_named(str(folder)):
            if not read_only and not beside_owner and lock is None:
                make_folder(folder, {DATABASE, LOCK})
                lock = WriterLock.take(folder, wait=wait)
        self = cls(folder, lock, vfs, is_writer=not read_only)
        try:
            with sqlite_named(self._name), disk_named(self._name), Use():
                if beside_owner:
                    self._start_beside_owner()
                else:
                    self._start(folder, accept_loss=accept_loss)
        except BaseException:
            self.close()
            raise
        return self

    def _start(self, folder: Path, *, accept_loss: bool) -> None:
        """Check what is there; a writer brings it to the newest format."""
        path, log = folder / DATABASE, folder / LOG
        known = witnesses(folder)
        if not accept_loss:
            check_is_there(path, log, known)
        if self.read_only:
            if not path.is_file():
                raise error(StoreNotFoundError, self._name, f"a folder with {DATABASE}", "none")
            # Even a reader's connection deletes the log of an empty database.
            check_is_there(path, log, known, remedy="read_only=False")
        self.was_clean = not (log.exists() and log.stat().st_size)
        if not self.read_only:
            # SQLite gives its other files the mode of this one. If it is there, it is not opened:
            # closing it would free the locks that another handle of this process has on it.
            with contextlib.suppress(FileExistsError):
                how = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                os.close(os.open(path, how, 0o600))
            disk.sync_folder(folder)
        first = self._open_reader() if self.read_only else self._connect()
        try:
            # A database that is refused keeps its log.
            first.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            if not accept_loss and is_empty(first):
                check_is_whole(self._name, None, known)
            check_format(first, self._name, writing=not self.read_only)
            if not accept_loss and not is_empty(first):
                check_is_whole(self._name, last_change(first, self._name), known)
            self._files.note_place()
            if self.read_only:
                self._give_reader(first)
                return
            mode = first.pragma("journal_mode", "WAL")
            if mode != "wal":
                wish = "a file system on which SQLite can keep a write-ahead log"
                raise error(StoreError, self._name, wish, f"journal mode {mode}")
            migrate(first, now=datetime.now(UTC), made_by=f"hyrecall {__version__}")
            if not self.was_clean:
                found = problems(first, full=False)
                if found:
                    raise error(CorruptStoreError, self._name, "an undamaged database", found[0])
            if accept_loss:
                forget_losses(first, self._name, known)
            self._note(last_change(first, self._name))
            first.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
            self._files.note_lock()
            self._files.note_writer(first)
        except BaseException:
            self._fixed.pop(first, first).close()
            raise
        self._writer = first

    def _start_beside_owner(self) -> None:
        self.is_writer = False
        first = self._open_reader()
        try:
            check_format(first, self._name, writing=False)
            self._files.note_place()
        finally:
            self._give_reader(first)

    def promote(self, lock: WriterLock) -> None:
        """Write from now on: the process that did so is gone. Readings under way go on."""
        # The log needs no check: the machine went on, and who was acknowledged is in it.
        with self._writing, sqlite_named(self._name), disk_named(self._name), Use():
            self.check_usable()
            self.check_place()
            writer = self._connect()
            try:
                check_format(writer, self._name, writing=True)
                state = last_change(writer, self._name)
                check_is_whole(self._name, state, witnesses(self._folder))
                self._lock, self._noted = lock, None
                self._note(state)
                self._files.note_lock()
                self._files.note_writer(writer)
            except BaseException:
                self._lock = None
                writer.close(True)
                raise
            self._writer, self.is_writer = writer, True

    def demote(self) -> None:
        """Write no more and release the lock, after a :meth:`promote` that led to nothing."""
        with self._writing, Use():
            self.is_writer, self._sequence = False, None
            writer, self._writer = self._writer, None
            lock, self._lock = self._lock, None
            if writer is not None:
                with contextlib.suppress(apsw.Error):
                    writer.close()
            if lock is not None:
                lock.release()

    def _note(self, state: Witness) -> None:
        """Write the last change of the database into LOCK."""
        if self._lock is not None and state != self._noted:
            self._lock.put_note(state.to_note())
            self._noted = state

    def _open_reader(self) -> apsw.Connection:
        self.check_place()
        reader, shared = connect_to_read(self._folder, vfs=self._vfs, may_lock=self.read_only)
        if shared is not None:
            self._fixed[reader] = shared
        return tell_time(reader, self.clock)

    def _connect(self) -> apsw.Connection:
        return tell_time(connect(self._folder, writing=True, vfs=self._vfs), self.clock)

    def close(self) -> None:
        """Close every connection and let another writer in. Closing twice is fine."""
        # Readings under way end first, each when its thread is done.
        if not self._birth.is_here:
            return  # the connections are the parent's
        with self._writing, Use(), contextlib.ExitStack() as held:
            if self._lock is not None:
                held.callback(self._lock.release)
            with self._pool:
                self._closed = True
                open_here, self._idle = self._idle, []
            # The last connection copies the log to the database and removes it by its name, both of
            # which may be another store's by now.
            keeps_log = bool(self._files.moved())
            if self._writer is not None:
                with contextlib.suppress(apsw.Error, StoreError):
                    keeps_log = keeps_log or bool(self._changed(self._writer))
                open_here.append(self._writer)
                self._writer = None
            for connection in open_here:
                with contextlib.suppress(apsw.Error):  # what was committed is safe either way
                    if keeps_log:
                        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                    connection.close()

    # ---- using ----

    @contextmanager
    def transaction(self) -> Iterator[apsw.Connection]:
        """Change the database: all of it or nothing. Threads take turns; blocks do not nest."""
        # When the block ends without an error its changes are on the disk.
        with self._writing, sqlite_named(self._name), Use():
            writer = self._ready_writer()
            try:
                self._begin(writer)
                yield writer
                state = self._before_commit(writer)
                self._sequence = None
                writer.execute("COMMIT")
                self._sequence = state.sequence
                self._note(state)
                self._files.note_content(writer)
            except BaseException as fault:
                self._give_up(writer, fault)
                raise

    def commit(self, work: Callable[[apsw.Connection], object], outcome: Outcome) -> None:
        """Run a function in a transaction, as :meth:`transaction` does, and tell what became of
        it.
        """
        # An interrupt at whatever point leaves ``outcome`` right: whether the changes are on the
        # disk decides whether somebody makes them again.
        with self._writing, sqlite_named(self._name), Use():
            writer = self._ready_writer()
            try:
                self._begin(writer)
                work(writer)
                state = self._before_commit(writer)
                outcome.is_sent = True
                self._sequence = None
                writer.execute("COMMIT")
                outcome.is_committed = True
                self._sequence = state.sequence
                self._note(state)
                self._files.note_content(writer)
            except BaseException as fault:
                if outcome.is_sent and not outcome.is_committed:  # interrupted beside the COMMIT
                    is_open = writer.in_transaction
                    outcome.is_committed = not is_open and not _is_sqlite_fault(fault)
                self._give_up(writer, fault)
                raise

    def _begin(self, writer: apsw.Connection) -> None:
        self._check_content(writer)
        writer.execute("BEGIN IMMEDIATE")

    def _check_content(self, writer: apsw.Connection) -> None:
        self._files.refuse(self._name, self._changed(writer))

    def _changed(self, writer: apsw.Connection) -> str:
        return self._files.changed(writer, lambda: self._is_older(writer))

    def _is_older(self, writer: apsw.Connection) -> bool:
        """Return whether the database lacks a change that this writer has committed."""
        noted, state = self._noted, last_change(writer, self._name)
        return noted is not None and (
            state.store_id != noted.store_id or state.sequence < noted.sequence
        )

    def _before_commit(self, writer: apsw.Connection) -> Witness:
        """Return the last change; refuse a commit that would go to files that are elsewhere."""
        self._birth.check(self._name)  # the block may have forked
        state = last_change(writer, self._name)
        self.check_place()
        return state

    def check_place(self) -> None:
        """Refuse to go on if the names of the store's files lead elsewhere."""
        self._files.refuse(self._name, self._files.moved())

    def problem_of_files(self) -> str:
        """Say which file was moved, removed, replaced or overwritten; empty: none."""
        if found := self._files.moved():
            return found
        if not self.is_writer or not self._writing.acquire(timeout=_SECONDS_FOR_A_LOOK):
            return ""  # a change that takes long looks itself
        try:
            with sqlite_named(self._name), Use():
                return self._changed(self._ready_writer())
        except StoreError as fault:
            return str(fault)
        finally:
            self._writing.release()

    def _give_up(self, writer: apsw.Connection, fault: BaseException) -> None:
        """End a transaction that failed, and the connection if nobody knows what it believes."""
        if not self._birth.is_here:
            return  # the transaction is the parent's
        _end(writer)
        if isinstance(fault, DAMAGING) or not isinstance(fault, Exception):
            self._drop_writer(writer)  # an interrupt may have left a statement unfinished
        elif getattr(fault, "errno", None) != errno.ESTALE:
            self._files.note_content(writer)  # what was undone may be in the log

    def _drop_writer(self, writer: apsw.Connection) -> None:
        self._files.forget_writer()
        self._writer = None
        writer.close(True)

    def check_may_write(self) -> None:
        """Refuse a thread that could not begin a transaction now."""
        self.check_usable()
        if self.read_only:
            raise error(OptionError, self._name, "a store opened for writing", "read_only=True")

    def reading(self) -> DatabaseReading:
        """Read the database as it is at the first statement of the block, whatever is written."""
        return DatabaseReading(self)

    def sequence(self) -> int:
        """Return the number of the last change that is committed, by whatever process."""
        known = self._sequence
        if known is not None and self.is_writer:
            if self._closed or self._birth.pid != os.getpid():
                self.check_usable()
            return known
        with self.reading() as connection:
            return int(meta(connection, "sequence"))

    def problems(self, *, full: bool) -> list[str]:
        """Look for damage and return what was found."""
        with self.reading() as connection:
            return problems(connection, full=full)

    def checkpoint(self, *, wait: float = 5.0) -> bool:
        """Move the write-ahead log into the database and empty its file."""
        until = time.monotonic() + wait
        while True:
            with self._writing, sqlite_named(self._name), Use():
                writer = self._ready_writer()
                self.check_place()
                self._check_content(writer)
                with contextlib.suppress(apsw.BusyError):
                    writer.set_busy_timeout(0)
                    try:
                        writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                    finally:
                        writer.set_busy_timeout(BUSY_MILLISECONDS)
                        self._files.note_content(writer)
                    return True
            if time.monotonic() >= until:
                return False
            time.sleep(0.02)

    def vacuum(self) -> None:
        """Write the database anew without the room that nothing uses any more; readers read on."""
        # The file is shorter after the next :meth:`checkpoint`.
        with self._writing, sqlite_named(self._name), Use():
            writer = self._ready_writer()
            self._check_content(writer)
            self.check_place()
            try:
                writer.pragma("temp_store", "FILE")  # as large as the database
                writer.execute("VACUUM")
                writer.pragma("temp_store", "MEMORY")
                self._files.note_content(writer)
            except BaseException:
                self._drop_writer(writer)
                raise

    def size(self) -> int:
        """Return the bytes of the database and of its write-ahead log."""
        paths = (self._folder / name for name in (DATABASE, LOG))
        return sum(path.stat().st_size for path in paths if path.exists())

    def check_usable(self) -> None:
        """Refuse a thread that could not use the database now."""
        self._birth.check(self._name)
        if self._closed:
            raise error(OptionError, self._name, "an open store", "a closed one")

    def _ready_writer(self) -> apsw.Connection:
        self.check_may_write()
        if not self.is_writer:
            raise error(StoreError, self._name, "the process that owns the store", "another one")
        if self._writer is None:
            self.check_place()
            writer = self._connect()
            if self._is_older(writer):
                writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                writer.close(True)
                self._files.refuse(self._name, "a database that lacks changes")
            self._files.note_writer(writer)
            self._writer = writer
        return self._writer

    def _give_reader(self, reader: apsw.Connection) -> None:
        with self._pool:
            is_kept = not self._closed and len(self._idle) < IDLE_READERS
            if is_kept and reader not in self._fixed:
                self._idle.append(reader)
                return
        self._drop_reader(reader)

    def _drop_reader(self, reader: apsw.Connection) -> None:
        shared = self._fixed.pop(reader, None)
        if shared is None:
            reader.close(True)
        else:
            shared.close()

    def renew(self) -> None:
        """Let go of the parent's connections, in a forked child."""
        inherited, self._idle = self._idle, []
        if self._writer is not None:
            inherited = [*inherited, self._writer]
            self._writer = None
        inherit(self._folder, inherited)


class DatabaseReading(Use):
    """A reading of a database: a ``with`` block that gets a connection."""

    # A class, because generators would make a search call ten times as many functions.

    __slots__ = ("_database", "_reader")

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reader: apsw.Connection | None = None

    def __enter__(self) -> apsw.Connection:  # type: ignore[override]
        database = self._database
        try:
            Use.__enter__(self)
            if database._closed or database._birth.pid != os.getpid():
                database.check_usable()
            with database._pool:
                if database._idle:
                    self._reader = database._idle.pop()
            if self._reader is None:
                self._reader = database._open_reader()
            self._reader.execute("BEGIN")
        except BaseException as fault:
            self.__exit__(type(fault), fault, fault.__traceback__)
            raise
        return self._reader

    def __exit__(self, *raised: object) -> None:
        database, reader, fault = self._database, self._reader, raised[1]
        try:
            if reader is None:
                pass
            elif database._birth.pid != os.getpid():  # the block has forked
                leave_to_parent(reader)
            else:
                _end(reader)
                if reader.txn_state() == apsw.SQLITE_TXN_NONE:
                    database._give_reader(reader)
                else:  # a statement that was left unfinished keeps the state that it reads
                    database._drop_reader(reader)
        except BaseException as new:
            raise_named(new, database._name)
            raise
        finally:
            Use.__exit__(self)
        if isinstance(fault, BaseException):
            raise_named(fault, database._name)


def _is_sqlite_fault(fault: BaseException | None) -> bool:
    """Return whether an error of SQLite was raised, also if another interrupted its handling."""
    while fault is not None and not isinstance(fault, apsw.Error):
        fault = fault.__context__
    return fault is not None


def _end(connection: apsw.Connection) -> None:
    """End a transaction, unless SQLite has ended it already."""
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except apsw.Error:
        pass


# ---- A database in the memory of this process, for a store that ends with its handle ----

IN_MEMORY = ":memory:"
"""The path of a store in memory, as SQLite spells it."""

PATIENCE = 0.05
"""Seconds that a reading lets a waiting change go first. Without them, readers that overlap would
keep a writer out for ever; without an end, a reading could wait for a change that waits for it."""

_numbers = itertools.count(1)


class MemoryDatabase(Database):
    """The connections to a database in memory. Make one with :meth:`make`; threads may share it."""

    # It has no folder, no lock and no log. It is gone when it is closed and its readings have
    # ended.

    def __init__(self) -> None:
        """Hold nothing yet; use :meth:`make`."""
        super().__init__(Path(IN_MEMORY), None, None, is_writer=True)
        self._file = f"/hyrecall-{next(_numbers)}"
        self._turns = _ReadersOrWriter()
        self._keeper: apsw.Connection | None = None

    @property
    def folder(self) -> None:
        """None: there is no folder."""
        return

    @classmethod
    def make(cls) -> MemoryDatabase:
        """Make an empty database with a store's tables."""
        check_sqlite(apsw.sqlite_lib_version())
        self = cls()
        with sqlite_named(self._name):
            # Open as long as the store is: the writer's connection is replaced after a fault.
            self._keeper = self._connect()
            migrate(self._keeper, now=datetime.now(UTC), made_by=f"hyrecall {__version__}")
        return self

    def _connect(self) -> apsw.Connection:
        return tell_time(connect_in_memory(self._file, writing=True), self.clock)

    def _open_reader(self) -> apsw.Connection:
        return tell_time(connect_in_memory(self._file, writing=False), self.clock)

    def close(self) -> None:
        """Close every connection. Closing twice is fine."""
        super().close()
        if not self._birth.is_here:
            return
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.close()

    @contextmanager
    def transaction(self) -> Iterator[apsw.Connection]:
        """Change the database when no reading is under way: all of it or nothing."""
        self.check_usable()
        with self._turns.changing(), super().transaction() as connection:
            yield connection

    def commit(self, work: Callable[[apsw.Connection], object], outcome: Outcome) -> None:
        """Run a function in a transaction when no reading is under way."""
        self.check_usable()
        with self._turns.changing():
            super().commit(work, outcome)

    def check_may_write(self) -> None:
        """Refuse a thread that is reading: a change would wait for it."""
        super().check_may_write()
        self._turns.check_may_change()

    def reading(self) -> DatabaseReading:
        """Read the database when no change is under way."""
        return _ReadingInTurn(self)

    def checkpoint(self, *, wait: float = 5.0) -> bool:
        """Return True: there is no log that could hold anything."""
        del wait
        return True

    def vacuum(self) -> None:
        """Write the database anew without unused pages, when no reading is under way."""
        self.check_usable()
        with self._turns.changing(), self._writing, sqlite_named(self._name):
            self._ready_writer().execute("VACUUM")

    def size(self) -> int:
        """Return the bytes that the pages take."""
        with self.reading() as connection:
            return int(connection.pragma("page_count")) * int(connection.pragma("page_size"))


class _ReadingInTurn(DatabaseReading):
    """A reading of a database in memory, which no change meets."""

    __slots__ = ()
    _database: MemoryDatabase

    def __enter__(self) -> apsw.Connection:  # type: ignore[override]
        database = self._database
        if database._closed or database._birth.pid != os.getpid():
            database.check_usable()
        try:
            database._turns.begin(self)
            return DatabaseReading.__enter__(self)
        except BaseException:
            database._turns.end(self)
            raise

    def __exit__(self, *raised: object) -> None:
        try:
            DatabaseReading.__exit__(self, *raised)
        finally:
            self._database._turns.end(self)


class _ReadersOrWriter:
    """Any number of readings, or one change."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._turn = threading.Condition(self._lock)
        self._readers: dict[object, int] = {}  # a reading -> its thread
        self._changer: int | None = None
        self._n_waiting = 0

    def begin(self, reading: object) -> None:
        """Wait for a change that is under way, and count a reading of this thread."""
        me = threading.get_ident()
        with self._lock:
            if self._changer == me:
                raise _nested("a reading after the change")
            # A reading inside another must not wait for itself.
            if (self._n_waiting or self._changer) and me not in self._readers.values():
                self._turn.wait_for(lambda: not (self._n_waiting or self._changer), PATIENCE)
                self._turn.wait_for(lambda: not self._changer)
            self._readers[reading] = me

    def end(self, reading: object) -> None:
        """End a reading, perhaps in another thread, or again after an interrupt."""
        with self._lock:
            self._readers.pop(reading, None)
            if self._n_waiting and not self._readers:
                self._turn.notify_all()

    def check_may_change(self) -> None:
        with self._lock:
            if threading.get_ident() in self._readers.values():
                raise _nested("a change after the reading that it is in")

    @contextmanager
    def changing(self) -> Iterator[None]:
        me = threading.get_ident()
        with self._turn:
            if me in self._readers.values() or self._changer == me:
                raise _nested("a change after the reading or change that it is in")
            self._n_waiting += 1
            try:
                self._turn.wait_for(lambda: not (self._readers or self._changer))
                self._changer = me
            finally:
                self._n_waiting -= 1
                self._turn.notify_all()
        try:
            yield
        finally:
            with self._turn:
                self._changer = None
                self._turn.notify_all()


def _nested(wish: str) -> StoreError:
    return error(StoreError, IN_MEMORY, wish, "one inside it, in the same thread")
