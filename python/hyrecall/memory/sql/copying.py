"""Copies the database of a store page by page while it is used, and replaces one under its readers.

SQLite's backup keeps every page in its place, so two copies differ only where rows changed. A copy
is one state of the database. A replacement is one transaction: a reader sees the state before or
the state after.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import apsw

from hyrecall.base import disk
from hyrecall.errors import CorruptStoreError, error
from hyrecall.memory.sql.connecting import DATABASE, LOG, connect, disk_named, sqlite_named
from hyrecall.memory.sql.database import Database
from hyrecall.memory.sql.schema import check_format, meta

_PAGES = 4096  # copied at a time
_WAL = b"\x02\x02"  # the bytes of a database with a write-ahead log, from byte 18
_SECONDS_FOR_READERS = 2.0
_PAUSE = 0.02


@dataclass(frozen=True)
class StoreState:
    """The store that a database belongs to, and its numbers of changes and erasures."""

    store_id: str
    sequence: int
    erasures: int


@dataclass(frozen=True)
class CopiedDatabase:
    """A copy in a file without a name."""

    handle: int
    size: int
    state: StoreState


@contextmanager
def copied_database(folder: Path) -> Iterator[CopiedDatabase]:
    """Copy the database of a store as it is now; writers and readers go on."""
    # The copy lies in the folder, without a name, so that nothing of it is left after a kill.
    with closing(Database.open(folder, read_only=True)) as database, disk_named(str(folder)):
        handle, target = _unnamed(folder)
        try:
            with closing(target), database.reading() as connection:
                state = _state(connection)
                _copy(connection, target)
            if os.pread(handle, 2, 18) != _WAL:
                wish, got = "a database with a write-ahead log", "another"
                raise error(CorruptStoreError, str(folder), wish, got)
            yield CopiedDatabase(handle, os.fstat(handle).st_size, state)
        finally:
            os.close(handle)


def _unnamed(folder: Path) -> tuple[int, apsw.Connection]:
    path = folder / f".{secrets.token_hex(8)}.tmp"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        target = _private(path)
    except BaseException:
        os.close(handle)
        raise
    finally:
        os.unlink(path)
    return handle, target


def _private(path: Path) -> apsw.Connection:
    """Connect to a database that nobody else knows and that need not survive a crash."""
    target = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs="unix-none")
    for name, value in (("locking_mode", "EXCLUSIVE"), ("journal_mode", "OFF")):
        target.pragma(name, value)
    target.pragma("synchronous", "OFF")
    return target


def _copy(source: apsw.Connection, target: apsw.Connection) -> None:
    with target.backup("main", source, "main") as backup:
        while not backup.done:
            backup.step(_PAGES)


def _state(connection: apsw.Connection) -> StoreState:
    found = (meta(connection, name) for name in ("store_id", "sequence", "erasures"))
    store_id, sequence, erasures = found
    return StoreState(str(store_id), int(sequence), int(erasures))


def state_of(folder: Path) -> StoreState | None:
    """Return the state of the database of a folder; None: there is none."""
    if not (folder / DATABASE).exists():
        return None
    with sqlite_named(str(folder)), closing(connect(folder, writing=False)) as connection:
        return _state(connection)


def copy_to(folder: Path, path: Path) -> None:
    """Copy the database of a folder to a new file; the caller holds the lock of the folder."""
    with sqlite_named(str(folder)), disk_named(str(folder)):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with closing(connect(folder, writing=False)) as source, closing(_private(path)) as target:
            _copy(source, target)


def received_state(path: Path) -> StoreState:
    """Return the state of a database in a file that nobody uses yet."""
    with sqlite_named(str(path)), disk_named(str(path)), closing(_fixed(path)) as connection:
        check_format(connection, str(path), writing=False)
        return _state(connection)


def _fixed(path: Path) -> apsw.Connection:
    """Connect to a file that nobody changes, as it is."""
    given = f"file:{quote(str(path.absolute()))}?immutable=1"
    return apsw.Connection(given, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def put_database(folder: Path, path: Path) -> None:
    """Make a whole, synced file the database of a folder; the caller holds the lock of the
    folder.
    """
    with sqlite_named(str(folder)), disk_named(str(folder)):
        if not (folder / DATABASE).exists():
            disk.remove([folder / LOG, folder / f"{DATABASE}-shm"])
            os.replace(path, folder / DATABASE)
            disk.sync_folder(folder)
            return
        with closing(connect(folder, writing=True)) as target:
            with closing(_fixed(path)) as source:
                _copy(source, target)
            _empty_log(target)
        os.unlink(path)


def empty_log(folder: Path) -> None:
    """Empty the log of a replica, if a reading kept the last pull from it; the caller has the
    lock.
    """
    with (
        sqlite_named(str(folder)),
        disk_named(str(folder)),
        closing(connect(folder, writing=True)) as connection,
    ):
        _empty_log(connection)


def _empty_log(connection: apsw.Connection) -> None:
    """Move the log into the database, where what the new state lacks is overwritten."""
    # A reading of the state before prevents that: the next pull tries again. Other readings only
    # prevent that the file gets shorter, and the next change begins at its front.
    until = time.monotonic() + _SECONDS_FOR_READERS
    connection.set_busy_timeout(0)
    while True:
        n_pages, n_moved = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        if n_moved >= n_pages or time.monotonic() >= until:
            break
        time.sleep(_PAUSE)
    with contextlib.suppress(apsw.BusyError):
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
