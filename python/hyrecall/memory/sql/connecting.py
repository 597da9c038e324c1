"""Opens connections to a store's database, all with the same settings."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import apsw

from hyrecall.base.forks import leave_to_parent, uses
from hyrecall.errors import (
    CorruptStoreError,
    HyrecallError,
    OptionError,
    StoreError,
    WriterBusyError,
    error,
)
from hyrecall.memory.sql.lock import LOCK, ReaderLock
from hyrecall.memory.sql.schema import NOW

# ---- Raises SQLite's errors as errors of the store, and refuses versions of SQLite that lose data

LARGEST_VALUE = 256 * 2**20
"""Bytes of one row: of a memory's texts and metadata together, or of its vector."""

_FAULTS: tuple[tuple[type[apsw.Error], type[StoreError], int, str], ...] = (
    (apsw.FullError, StoreError, errno.ENOSPC, "room on the disk"),
    (apsw.ReadOnlyError, StoreError, errno.EROFS, "a disk and files that can be written"),
    (apsw.PermissionsError, StoreError, errno.EACCES, "files that may be read and written"),
    (apsw.CantOpenError, StoreError, errno.EACCES, "files that can be opened"),
    (apsw.CorruptError, CorruptStoreError, errno.EIO, "an undamaged database"),
    (apsw.NotADBError, CorruptStoreError, errno.EIO, "an SQLite database"),
    (apsw.IOError, StoreError, errno.EIO, "a disk without faults"),
)
_WISHES = {
    errno.ENOSPC: "room on the disk",
    errno.EDQUOT: "room in this user's quota of the disk",
    errno.EFBIG: "room for a larger file",
    errno.EROFS: "a disk that can be written",
    errno.EACCES: "permission to read and write the store's files",
    errno.EPERM: "permission to read and write the store's files",
    errno.EMFILE: "room for another open file in this process",
    errno.ENFILE: "room for another open file on this machine",
}
DAMAGING = tuple(kind for kind, *_ in _FAULTS)
"""After one of these nobody knows what a connection still believes."""


def sqlite_version() -> str:
    """Return the version of the SQLite that stores use, which is apsw's own."""
    return str(apsw.sqlite_lib_version())


def check_sqlite(version: str) -> None:
    """Refuse an SQLite that may damage a database in WAL mode."""
    # Up to 3.51.2 a checkpoint beside a writer could, but for the mended 3.50.7 and 3.44.6.
    found = tuple(int(part) for part in version.split("."))
    mended = ((3, 44, 6), (3, 50, 7))
    if found >= (3, 51, 3) or any(found[:2] == m[:2] and found >= m for m in mended):
        return
    raise error(OptionError, "apsw", "one with SQLite 3.51.3 or later", f"SQLite {version}")


@contextmanager
def sqlite_named(path: str) -> Iterator[None]:
    """Raise SQLite's errors as errors of the store."""
    try:
        yield
    except BaseException as fault:
        raise_named(fault, path)
        raise


def raise_named(fault: BaseException, path: str) -> None:
    """Raise an error of SQLite as one of the store; do nothing with another."""
    if isinstance(fault, apsw.BusyError):
        raise error(WriterBusyError, path, "a database that is not busy", fault) from fault
    if isinstance(fault, UnicodeDecodeError):  # readers that expect damage have found it before
        raise error(CorruptStoreError, path, "texts in UTF-8", "other bytes") from fault
    if isinstance(fault, apsw.TooBigError):
        wish = f"at most {LARGEST_VALUE:,} bytes of texts and metadata"
        raise error(OptionError, "memory", wish, "more") from fault
    if isinstance(fault, apsw.SQLError):
        # The statement is from this package, so the schema must be damaged.
        made = error(CorruptStoreError, path, "the tables of a store", fault)
        raise _with_code(made, errno.EIO) from fault
    if isinstance(fault, DAMAGING):
        kind, code, wish = next(
            (made, code, wish) for kind, made, code, wish in _FAULTS if isinstance(fault, kind)
        )
        refused = _not_allowed(path) if code in (errno.EROFS, errno.EACCES) else None
        raise _with_code(error(kind, path, *(refused or (wish, fault))), code) from fault


@contextmanager
def disk_named(path: str) -> Iterator[None]:
    """Raise the disk's errors as errors of the store."""
    try:
        yield
    except HyrecallError:
        raise
    except OSError as fault:
        made = error(StoreError, path, *_told(fault, path))
        raise _with_code(made, fault.errno) from fault


def _told(fault: OSError, path: str) -> tuple[str, str]:
    """Return what was expected and what was there, where a call of the system failed."""
    got = fault.strerror or str(fault)
    where = path if fault.filename is None else os.fsdecode(fault.filename)
    if fault.errno in (errno.EACCES, errno.EPERM, errno.EROFS) and (told := _not_allowed(where)):
        return told
    if fault.errno in (errno.ENOENT, errno.ENOTDIR):
        return f"the file {where}", got
    return _WISHES.get(fault.errno or 0, "a disk without faults"), got


def _not_allowed(path: str) -> tuple[str, str] | None:
    """Return which file or folder this user may not use, or None if all may be."""
    place = next(one for one in (Path(path), *Path(path).parents) if os.path.lexists(one))
    inside = [place / name for name in ("memory.db", "LOCK") if os.path.exists(place / name)]
    for one in (place, *inside):
        what = "folder" if os.path.isdir(one) else "file"
        if not os.access(one, os.R_OK | (os.X_OK if what == "folder" else 0)):
            return f"permission to read the {what} {one}", "none"
        if not os.access(one, os.W_OK):
            if os.statvfs(one).f_flag & os.ST_RDONLY:
                return f"a disk that can be written at {one}", "a read-only one"
            return f"permission to write the {what} {one}", "none"
    return None


def _with_code(made: StoreError, code: int | None) -> StoreError:
    made.errno = code
    return made


def problems(connection: apsw.Connection, *, full: bool) -> list[str]:
    """Look for damage in a database; ``full``: in its indexes and foreign keys too."""
    check = "integrity_check" if full else "quick_check"
    try:
        found = [str(one) for (one,) in connection.execute(f"PRAGMA {check}(20)")]
    except apsw.CorruptError as fault:  # some damage ends the look
        return [str(fault)]
    found = [one for one in found if one != "ok"]
    if full and not found:  # a broken table cannot be walked along its foreign keys
        broken = connection.execute("PRAGMA foreign_key_check")
        found += [f"row {row} of {table} has no {parent}" for table, row, parent, _ in broken]
    return found


# ---- Opens connections to a store's database, all with the same settings ----

DATABASE = "memory.db"
LOG = f"{DATABASE}-wal"
SHARED_MEMORY = f"{DATABASE}-shm"

BUSY_MILLISECONDS = 5_000

SECONDS_FOR_A_WRITER = 1.0
"""So long a reader that cannot read beside a writer waits for it to open or close the store."""

_PAUSE = 0.01  # seconds between two tries

MOST_IN_MEMORY = 2**40
"""Bytes of a database in memory; SQLite's own limit is 2**30."""

_WITHOUT_SHARED_MEMORY = (
    apsw.FullError,
    apsw.IOError,
    apsw.CantOpenError,
    apsw.ReadOnlyError,  # in a folder that may not be written
)

_ALWAYS = {
    "synchronous": "FULL",
    "fullfsync": 1,  # macOS syncs to the disk itself only then; others do anyway
    "foreign_keys": 1,
    "secure_delete": 1,  # what is erased is overwritten with zeros
    "trusted_schema": 0,
    "cell_size_check": 1,
    "mmap_size": 0,  # an I/O error in a mapping is a signal, not an error
    "temp_store": "MEMORY",
}


@dataclass(frozen=True)
class Shared:
    """A connection that treats the file as immutable, and the lock that keeps it unchanged."""

    connection: apsw.Connection
    lock: ReaderLock

    def close(self) -> None:
        """Close the connection and let writers in."""
        self.connection.close(True)
        self.lock.release()


_cut: set[tuple[int, int]] = set()  # databases that the parent was using when it forked


def inherit(folder: Path, connections: Sequence[apsw.Connection]) -> None:
    """Let go of a parent's connections to a folder's database, in a forked child."""
    # SQLite takes no lock that it believes to have, and it counts the parent's: a connection that a
    # child opened beside inherited ones would have no locks. So these are closed, which changes no
    # file. Those that the parent was using at the fork cannot be.
    if not uses.was_cut:
        for one in connections:
            with contextlib.suppress(apsw.Error):
                one.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                one.close(True)
        return
    leave_to_parent(connections)
    with contextlib.suppress(OSError):
        found = os.stat(folder / DATABASE)
        _cut.add((found.st_dev, found.st_ino))


def _check_not_cut(folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(folder / DATABASE) if _cut else None
        if found is not None and (found.st_dev, found.st_ino) in _cut:
            wish = "a process that was not forked while its parent used the store"
            remedy = "start processes by spawn, or before the store is opened"
            raise error(StoreError, str(folder), wish, f"pid {os.getpid()}", remedy)


def connect(
    folder: Path, *, writing: bool, vfs: str | None = None, is_fixed: bool = False
) -> apsw.Connection:
    """Connect to the database of a folder."""
    _check_not_cut(folder)
    flags = apsw.SQLITE_OPEN_READWRITE if writing else apsw.SQLITE_OPEN_READONLY
    path = str(folder / DATABASE)
    if not is_fixed:
        return _set_up(apsw.Connection(path, flags=flags, vfs=vfs), writing=writing)
    if _has_log(folder):
        # An exclusive connection keeps the index of the log in its own memory. The lock that
        # SQLite would take for it cannot be taken on a file that may not be written.
        alone = apsw.Connection(path, flags=flags, vfs="unix-none")
        alone.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        alone.pragma("locking_mode", "EXCLUSIVE")
        return _set_up(alone, writing=writing)
    path = f"file:{quote(str((folder / DATABASE).absolute()))}?immutable=1"  # passes over a log
    flags |= apsw.SQLITE_OPEN_URI
    return _set_up(apsw.Connection(path, flags=flags, vfs=vfs), writing=writing)


def _has_log(folder: Path) -> bool:
    log = folder / LOG
    return log.exists() and log.stat().st_size > 0


def connect_in_memory(name: str, *, writing: bool) -> apsw.Connection:
    """Connect to a database in memory; connections of one name share it, the first one makes it."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    connection = _set_up(apsw.Connection(name, flags=flags, vfs="memdb"), writing=writing)
    if writing:
        limit = ctypes.c_int64(MOST_IN_MEMORY)
        connection.file_control("main", apsw.SQLITE_FCNTL_SIZE_LIMIT, ctypes.addressof(limit))
        connection.pragma("journal_mode", "MEMORY")
    else:
        connection.pragma("query_only", 1)
    return connection


def _set_up(connection: apsw.Connection, *, writing: bool) -> apsw.Connection:
    try:
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0)
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
        for name, value in _ALWAYS.items():
            connection.pragma(name, value)
        # The writer owns the checkpoints.
        connection.wal_autocheckpoint(1000 if writing else 0)
    except BaseException:
        connection.close()
        raise
    return connection


def tell_time(connection: apsw.Connection, now: Callable[..., int]) -> apsw.Connection:
    """Let SQL of a connection ask for the time of the store, in microseconds."""
    connection.create_scalar_function(NOW, now, 0)
    return connection


def connect_to_read(
    folder: Path, *, vfs: str | None, may_lock: bool
) -> tuple[apsw.Connection, Shared | None]:
    """Connect to read, also where SQLite cannot make the file for the memory that it shares."""
    # That is so on a full disk, on a file system that is mounted read-only, and in a folder that
    # may not be written. While there is no writer, the database and its log do not change: they are
    # read as they are, and writers are kept out until what is given beside the connection is
    # closed.
    until = time.monotonic() + SECONDS_FOR_A_WRITER
    while True:
        try:
            return _connect_beside_writers(folder, vfs), None
        except _WITHOUT_SHARED_MEMORY:
            shared = _connect_without_writers(folder, vfs) if may_lock else None
            if shared is not None:
                return shared.connection, shared
            # A writer is opening or closing the store: it creates the file soon, or leaves.
            if not may_lock or time.monotonic() >= until:
                raise
        time.sleep(_PAUSE)


def _connect_beside_writers(folder: Path, vfs: str | None) -> apsw.Connection:
    connection = connect(folder, writing=False, vfs=vfs)
    try:
        list(connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1"))
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_without_writers(folder: Path, vfs: str | None) -> Shared | None:
    """Connect to files that do not change; None: a writer is open, or was killed."""
    with disk_named(str(folder / LOCK)):
        lock = ReaderLock.take(folder)
    if lock is None:
        return None
    try:
        # If the file of shared memory exists, this process may have another connection, whose locks
        # would be lost when a connection that does not use that file is closed.
        if not _has_log(folder) or not (folder / SHARED_MEMORY).exists():
            return Shared(connect(folder, writing=False, vfs=vfs, is_fixed=True), lock)
    except BaseException:
        lock.release()
        raise
    lock.release()
    return None


# ---- Notices that the files of an open store were moved, removed, replaced, cut or overwritten
# SQLite writes to the files that it has open, wherever their names lead meanwhile: such a change
# would be acknowledged and lost. So a writer looks at each commit.

_HEAD_BYTES = 2 * 4096


@dataclass(frozen=True)
class _Content:
    """Sizes and header bytes that show whether a database has changed."""

    size: int
    head: bytes
    log_size: int
    log_salt: bytes
    n_copied: int


class OwnFiles:
    """The files of an open database, as far as they are known."""

    def __init__(self, folder: Path) -> None:
        """Know none; the folder is found after a change of the working folder too."""
        place = os.path.abspath(folder)
        names = ("", DATABASE, LOG, SHARED_MEMORY, LOCK)
        self._paths = {name: os.path.join(place, name) for name in names}
        self._known: dict[str, tuple[int, int] | None] = {}
        self._content: _Content | None = None
        self._data_version = 0

    def note_place(self) -> None:
        """Take the folder and the database that are there as those of the store."""
        self._note("", DATABASE)

    def note_lock(self) -> None:
        """Take the file whose lock the writer has just taken."""
        self._note(LOCK)

    def note_writer(self, writer: apsw.Connection) -> None:
        """Take what a new connection that writes has opened."""
        self._note(LOG, SHARED_MEMORY)
        self._data_version = int(writer.pragma("data_version"))
        self.note_content(writer)

    def forget_writer(self) -> None:
        """Forget what a connection has opened that is about to be closed: SQLite may remove it."""
        self._content = None
        for name in (LOG, SHARED_MEMORY):
            self._known.pop(name, None)

    def note_content(self, writer: apsw.Connection) -> None:
        """Take the bytes of the files as they are after the writer has changed them."""
        self._content = self._found(writer)

    def moved(self) -> str:
        """Say which file is not the one that was opened; empty: all are."""
        for name, known in self._known.items():
            found = self._identity(name)
            if found != known:
                return f"{'none' if found is None else 'another'} at {self._paths[name]}"
        return ""

    def changed(self, writer: apsw.Connection, is_older: Callable[[], bool]) -> str:
        """Say which file was changed by something else than SQLite; empty: none."""
        # The writer is in no transaction. ``is_older``: whether the writer reads an earlier state
        # of the store than it has read before.
        known, found = self._content, self._found(writer)
        if known is None or found is None or found == known:
            return ""
        version = int(writer.pragma("data_version"))
        if version != self._data_version and not is_older():
            # Another program wrote to it as SQLite allows.
            self._content, self._data_version = found, version
            return ""
        if found.log_size < known.log_size or found.log_salt != known.log_salt:
            return f"one that was cut or overwritten: {self._paths[LOG]}"
        is_same = (found.size, found.head) == (known.size, known.head)
        if not is_same and found.n_copied == known.n_copied:
            return f"one that was overwritten: {self._paths[DATABASE]}"
        return ""

    def refuse(self, name: str, found: str) -> None:
        """Refuse to go on where something was found."""
        if found:
            remedy = "close it, put its files back, and open it again"
            made = error(StoreError, name, "the files that were opened", found, remedy)
            made.errno = errno.ESTALE
            raise made

    def _note(self, *names: str) -> None:
        for name in names:
            self._known[name] = self._identity(name)

    def _identity(self, name: str) -> tuple[int, int] | None:
        try:
            found = os.stat(self._paths[name])
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _found(self, writer: apsw.Connection) -> _Content | None:
        try:
            size = os.stat(self._paths[DATABASE]).st_size
            handle = os.open(self._paths[LOG], os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:  # SQLite locks the database and the shared memory, which must not be closed here
            salt = os.pread(handle, 24, 0)[16:]
            log_size = os.fstat(handle).st_size
        except OSError:
            return None
        finally:
            os.close(handle)
        try:
            _, n_copied = writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
            # Read through SQLite's own handle, from the file and not from its cache.
            _, head = writer.read("main", 0, 0, _HEAD_BYTES)
        except (apsw.LockedError, apsw.IOError):
            return None  # an interrupt has left a statement unfinished, or the disk fails
        return _Content(size, head, log_size, salt, n_copied)
