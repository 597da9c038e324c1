"""Connections to a store's database, as all of them are set up."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import apsw

from hyrecall.memory.faults import LARGEST_VALUE
from hyrecall.memory.lock import ReaderLock
from hyrecall.memory.schema import show_newest

__all__ = [
    "BUSY_MILLISECONDS",
    "DATABASE",
    "LOG",
    "Shared",
    "connect",
    "connect_in_memory",
    "connect_to_read",
]

DATABASE = "memory.db"
LOG = f"{DATABASE}-wal"

BUSY_MILLISECONDS = 5_000

MOST_IN_MEMORY = 2**40
"""Bytes of a database in memory; SQLite's own limit is 2**30."""

_WITHOUT_ROOM = (apsw.FullError, apsw.IOError, apsw.CantOpenError)

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
    """A connection that takes the file as fixed, and the lock that keeps it so."""

    connection: apsw.Connection
    lock: ReaderLock

    def close(self) -> None:
        """Close the connection and let writers in."""
        self.connection.close(True)
        self.lock.release()


def connect(
    folder: Path, *, writing: bool, vfs: str | None = None, is_fixed: bool = False
) -> apsw.Connection:
    """Connect to the database of a folder.

    Parameters
    ----------
    folder : Path
    writing : bool
    vfs : str, optional
    is_fixed : bool, default False
        Nobody changes the file as long as the connection is open.
    """
    flags = apsw.SQLITE_OPEN_READWRITE if writing else apsw.SQLITE_OPEN_READONLY
    path = str(folder / DATABASE)
    if is_fixed:
        flags |= apsw.SQLITE_OPEN_URI
        path = f"file:{quote(str((folder / DATABASE).absolute()))}?immutable=1"
    return _set_up(apsw.Connection(path, flags=flags, vfs=vfs), writing=writing)


def connect_in_memory(name: str, *, writing: bool) -> apsw.Connection:
    """Connect to a database in memory; connections of one name share it, the first one makes it.

    Parameters
    ----------
    name : str
        Beginning with a slash; this process's own.
    writing : bool
    """
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
        if not writing:
            show_newest(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_to_read(
    folder: Path, *, vfs: str | None, may_lock: bool
) -> tuple[apsw.Connection, Shared | None]:
    """Connect to read, also where the disk has no room for the memory that SQLite shares.

    Where there is no log and no writer, the file is all there is: it is read as it is, and writers
    are kept out until what is given beside the connection is closed.

    Parameters
    ----------
    folder : Path
    vfs : str, optional
    may_lock : bool
        Whether writers may be kept out.
    """
    try:
        connection = connect(folder, writing=False, vfs=vfs)
        try:
            list(connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1"))
        except BaseException:
            connection.close()
            raise
    except _WITHOUT_ROOM:
        log = folder / LOG
        if not may_lock or (log.exists() and log.stat().st_size):
            raise
        lock = ReaderLock.take(folder)
        if lock is None:
            raise
        try:
            connection = connect(folder, writing=False, vfs=vfs, is_fixed=True)
        except BaseException:
            lock.release()
            raise
        return connection, Shared(connection, lock)
    return connection, None
