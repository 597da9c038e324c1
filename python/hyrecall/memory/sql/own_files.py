"""Notices that the files of an open store were moved, removed, replaced, cut or overwritten.

SQLite writes to the files that it has open, wherever their names lead meanwhile: such a change
would be acknowledged and lost. So a writer looks at each commit.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import apsw

from hyrecall.errors import StoreError, error
from hyrecall.memory.sql.connecting import DATABASE, LOG, SHARED_MEMORY
from hyrecall.memory.sql.lock import LOCK

__all__ = ["OwnFiles"]

_HEAD_BYTES = 2 * 4096


@dataclass(frozen=True)
class _Content:
    """What says of which state the bytes are."""

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
        # The writer is in no transaction. ``is_older``: whether the writer
        # reads an earlier state of the store than it has read before.
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
