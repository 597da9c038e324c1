"""Locks among threads and processes: one writer of a store, or readers that keep writers out."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hyrecall.base import disk
from hyrecall.base.forks import renew_in_children
from hyrecall.errors import OptionError, WriterBusyError, error

LOCK = "LOCK"

ALONE = "alone"
"""Terms of a writer that lets no other process use the store."""

SHARED = "shared"
"""Terms of a writer that other processes reach over its socket."""

SECONDS_FOR_READERS = 1.0
"""So long a writer waits at least for the end of readings that keep it out."""

_HOW = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
"""How LOCK is opened: it is written, so a link in its place must not lead to another file."""

_PAUSE = 0.02  # seconds between two tries
_MOST = 1000  # bytes of the file that are read
_LINE = re.compile(r"pid (\d+), since ([0-9: -]+ UTC)(?:, (.+))?")


@dataclass(frozen=True)
class Holder:
    """The process that holds the file LOCK, or held it last."""

    pid: int | None = None
    since: str = ""
    terms: str = ALONE


class _Lock:
    """A lock on the file LOCK, until it is released or the process dies."""

    # A forked child does not hold its parent's lock, and cannot free it.

    def __init__(self, handle: int | None) -> None:
        """Keep the file on which the lock was taken; None: there is none that could be locked."""
        self._handle = handle
        renew_in_children(self)

    def release(self) -> None:
        """Release the lock. Releasing twice is fine."""
        handle, self._handle = self._handle, None
        if handle is not None:
            fcntl.flock(handle, fcntl.LOCK_UN)  # a child that has just been forked has the file too
            os.close(handle)

    def renew(self) -> None:
        """Close the file in a forked child: it would stay locked as long as the child lives."""
        # Not unlocked: both processes have the same open file.
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


class WriterLock(_Lock):
    """Held from :meth:`take` to :meth:`release`; the system frees it when the process dies."""

    # The file's first line says who holds it, for the message of whoever comes second; the rest is
    # a note that outlives its writer.

    def __init__(self, handle: int) -> None:
        super().__init__(handle)
        self._since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        self._note_at = 0

    @classmethod
    def take(cls, folder: Path, *, wait: float = 0.0, terms: str = ALONE) -> WriterLock:
        """Take the lock of a folder."""
        # LOCK is never deleted: another process could not find the locked file.
        handle = os.open(folder / LOCK, _HOW, 0o600)
        try:
            begun = time.monotonic()
            while not _try(handle):
                is_read = _is_read(handle)
                if time.monotonic() - begun >= max(wait, SECONDS_FOR_READERS if is_read else 0.0):
                    raise _busy(folder, handle, is_read=is_read)
                time.sleep(_PAUSE)
        except BaseException:
            os.close(handle)
            raise
        lock = cls(handle)
        try:
            lock.tell(terms)
        except BaseException:
            lock.release()
            raise
        return lock

    def is_at(self, folder: Path) -> bool:
        """Return whether the lock is held, and the file of that name in a folder is still its
        own.
        """
        # It is not held in a forked child; and a store that was moved leaves its name to another.
        if self._handle is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._handle), os.stat(folder / LOCK))
        except OSError:
            return False

    def tell(self, terms: str) -> None:
        """Write who holds the lock, and on which terms; the note stays."""
        assert self._handle is not None
        told = f"pid {os.getpid()}, since {self._since}, {terms}\n".encode()
        content = told + _note_of(os.pread(self._handle, _MOST, 0))
        # The old note may be longer: overwrite first and cut afterwards, so that a reader sees
        # a whole name, old or new.
        os.pwrite(self._handle, content, 0)
        os.ftruncate(self._handle, len(content))
        self._note_at = len(told)

    def put_note(self, note: bytes) -> None:
        """Replace the note; the file ends behind it."""
        # It is not synced, and a fault of the disk is passed over: an older note is never wrong.
        if self._handle is not None:
            with contextlib.suppress(OSError):
                os.pwrite(self._handle, note, self._note_at)
                os.ftruncate(self._handle, self._note_at + len(note))


class ReaderLock(_Lock):
    """Keeps writers out of a folder; readers share it."""

    @classmethod
    def take(cls, folder: Path) -> ReaderLock | None:
        """Take the lock of a folder, or return None if a writer holds it."""
        # A folder without LOCK has had no writer: a copy of some files of a store. If it may not be
        # written, it will have none, and nothing is locked.
        try:
            handle = disk.open_to_read(folder / LOCK)
        except FileNotFoundError:
            if os.access(folder, os.W_OK):
                raise
            return cls(None)
        if _try(handle, fcntl.LOCK_SH):
            return cls(handle)
        os.close(handle)
        return None


_OF_SHARDS = {"shards.json", "building"}  # a folder of shards has a lock of the same name


def make_folder(folder: Path, known: set[str]) -> None:
    """Make the folder of a store, for its owner only; refuse one that holds other things."""
    if folder.is_dir():
        names = {path.name for path in folder.iterdir()}
        if names & _OF_SHARDS:
            wish, remedy = "a store, or an empty or new folder", "hyrecall shards serve, or batch"
            raise error(OptionError, str(folder), wish, "a folder of shards", remedy)
        if names and not names & known:
            got = f"one with {sorted(names)[0]!r} in it"
            raise error(OptionError, str(folder), "a store, or an empty or new folder", got)
        return
    if folder.exists() and not folder.is_dir():  # in this order: another process may make it now
        raise error(OptionError, str(folder), "a folder", "a file")
    # Created with these permissions: a chmod afterwards could be prevented by a crash.
    disk.make_folder(folder, mode=0o700)


def read_note(folder: Path) -> bytes:
    """Return the note in the lock of a folder; empty: there is none, or it cannot be read."""
    try:
        return _note_of(disk.read_bytes(folder / LOCK))
    except OSError:
        return b""


def read_holder(folder: Path) -> Holder:
    """Return what the lock of a folder says of its holder; it may have ended since."""
    try:
        return _holder_of(disk.read_bytes(folder / LOCK))
    except OSError:
        return Holder()


def _holder_of(content: bytes) -> Holder:
    found = _LINE.fullmatch(content.partition(b"\n")[0].decode(errors="replace"))
    if found is None:
        return Holder()
    pid, since, terms = found.groups()
    return Holder(int(pid), since, terms or ALONE)


def _note_of(content: bytes) -> bytes:
    return content.partition(b"\n")[2]


def _try(handle: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_read(handle: int) -> bool:
    """Return whether readers hold the lock, and not a writer."""
    if not _try(handle, fcntl.LOCK_SH):
        return False
    fcntl.flock(handle, fcntl.LOCK_UN)
    return True


def _busy(folder: Path, handle: int, *, is_read: bool) -> WriterBusyError:
    if is_read:
        wish, got = "no reading that keeps writers out", "one that takes long"
        return error(WriterBusyError, str(folder), wish, got, "wait= so many seconds")
    who = b""
    with contextlib.suppress(OSError):
        who = os.pread(handle, 200, 0).partition(b"\n")[0]
    got = f"one at work ({who.decode(errors='replace') or 'unknown'})"
    remedy = "read_only=True, or wait= so many seconds"
    return error(WriterBusyError, str(folder), "no other writer", got, remedy)
