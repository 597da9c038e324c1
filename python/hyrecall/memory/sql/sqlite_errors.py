"""Raises SQLite's errors as errors of the store, and refuses versions of SQLite that lose data."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from hyrecall.errors import (
    CorruptStoreError,
    HyrecallError,
    OptionError,
    StoreError,
    WriterBusyError,
    error,
)

__all__ = [
    "DAMAGING",
    "LARGEST_VALUE",
    "check_sqlite",
    "disk_named",
    "problems",
    "sqlite_named",
    "sqlite_version",
]

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
    except apsw.BusyError as fault:
        raise error(WriterBusyError, path, "a database that is not busy", fault) from fault
    except UnicodeDecodeError as fault:  # readers that expect damage have found it before this
        raise error(CorruptStoreError, path, "texts in UTF-8", "other bytes") from fault
    except apsw.TooBigError as fault:
        wish = f"at most {LARGEST_VALUE:,} bytes of texts and metadata"
        raise error(OptionError, "memory", wish, "more") from fault
    except apsw.SQLError as fault:
        # The statement is from this package, so the schema must be damaged.
        made = error(CorruptStoreError, path, "the tables of a store", fault)
        raise _with_code(made, errno.EIO) from fault
    except DAMAGING as fault:
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
    place = Path(path)
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    inside = [place / name for name in ("memory.db", "LOCK") if os.path.exists(place / name)]
    for one in (place, *inside):
        what = "folder" if os.path.isdir(one) else "file"
        if not os.access(one, os.R_OK | (os.X_OK if what == "folder" else 0)):
            return f"permission to read the {what} {one}", "none"
        if not os.access(one, os.W_OK):
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
