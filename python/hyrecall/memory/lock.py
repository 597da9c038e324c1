"""The lock that makes a handle the only writer of a store, among threads and processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import weakref
from datetime import UTC, datetime
from pathlib import Path

from hyrecall.errors import WriterBusyError, error

__all__ = ["LOCK", "WriterLock"]

LOCK = "LOCK"
_PAUSE = 0.02  # seconds between two tries


class WriterLock:
    """Held from :meth:`take` to :meth:`release`; the system frees it when the process dies.

    The file says who holds it, for the message of whoever comes second. A forked child does not
    hold its parent's lock, and cannot free it.
    """

    def __init__(self, handle: int) -> None:
        """Keep the file on which the lock was taken."""
        self._handle: int | None = handle
        _held.add(self)

    @classmethod
    def take(cls, folder: Path, *, wait: float = 0.0) -> WriterLock:
        """Take the lock of a folder.

        Parameters
        ----------
        folder : Path
        wait : float, default 0
            Seconds to wait for another writer to leave.

        Raises
        ------
        WriterBusyError
            Another writer holds it.
        OSError
            From the disk.
        """
        # Never removed: a lock on a file without a name excludes nobody.
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            until = time.monotonic() + wait
            while not _try(handle):
                if time.monotonic() >= until:
                    raise _busy(folder, handle)
                time.sleep(_PAUSE)
            told = f"pid {os.getpid()}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC\n".encode()
            # What was there is longer or shorter: cut only after it is overwritten, so that a
            # reader in between sees a name, old or new.
            os.pwrite(handle, told, 0)
            os.ftruncate(handle, len(told))
        except BaseException:
            os.close(handle)
            raise
        return cls(handle)

    def release(self) -> None:
        """Let others write. Releasing twice is fine."""
        _held.discard(self)
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


_held: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _forget_in_child() -> None:
    # Closed, not unlocked: both processes have the same open file, and unlocking it here would
    # unlock it there. Left open, it would stay locked as long as this child lives.
    for lock in list(_held):
        lock.release()


def _try(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _busy(folder: Path, handle: int) -> WriterBusyError:
    who = b""
    with contextlib.suppress(OSError):
        who = os.pread(handle, 200, 0).partition(b"\n")[0]
    got = f"one at work ({who.decode(errors='replace') or 'unknown'})"
    remedy = "read_only=True, or wait= so many seconds"
    return error(WriterBusyError, str(folder), "no other writer", got, remedy)


os.register_at_fork(after_in_child=_forget_in_child)
