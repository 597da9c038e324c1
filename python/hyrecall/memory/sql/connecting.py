"""Opens connections to a store's database, all with the same settings."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import apsw

from hyrecall.base.forks import leave_to_parent, uses
from hyrecall.errors import StoreError, error
from hyrecall.memory.sql.lock import LOCK, ReaderLock
from hyrecall.memory.sql.sqlite_errors import LARGEST_VALUE, disk_named

__all__ = [
    "BUSY_MILLISECONDS",
    "DATABASE",
    "LOG",
    "SHARED_MEMORY",
    "Shared",
    "connect",
    "connect_in_memory",
    "connect_to_read",
    "inherit",
]

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


def connect_to_read(
    folder: Path, *, vfs: str | None, may_lock: bool
) -> tuple[apsw.Connection, Shared | None]:
    """Connect to read, also where SQLite cannot make the file for the memory that it shares."""
    # That is so on a full disk, on a file system that is mounted read-only, and in a folder
    # that may
    # not be written. While there is no writer, the database and its log do not change: they
    # are read
    # as they are, and writers are kept out until what is given beside the connection is closed.
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
