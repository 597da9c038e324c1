"""Makes locks, files and SQLite safe to use in a process after a fork.

A child has none of its parent's threads, finds locks held that nobody will release, and shares the
parent's open files, sockets and temporary folders. Here are the tools of all who hold such things.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from hyrecall.errors import StoreError, error

SECONDS_FOR_USES = 0.5
"""So long a fork waits at most for the end of :class:`Use`."""

Lock_ = TypeVar("Lock_")


class Birth:
    """Remembers which process made an object; another one may not use it."""

    def __init__(self) -> None:
        self.pid = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether it was this process, and not one that forked it."""
        return self.pid == os.getpid()

    def check(self, name: str) -> None:
        """Refuse to use an object in a forked child."""
        if self.pid != os.getpid():
            wish, got = f"the process that opened it (pid {self.pid})", f"pid {os.getpid()}"
            raise error(StoreError, name, wish, got, "open it again")


class _Renewed(Protocol):
    def renew(self) -> None:
        """Drop what is the parent's. Called first in a forked child."""


_known: weakref.WeakSet[_Renewed] = weakref.WeakSet()
_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def renew_in_children(one: _Renewed) -> None:
    """Call ``one.renew()`` in every child that this process forks while ``one`` lives."""
    _known.add(one)


def free_in_children(lock: Lock_) -> Lock_:
    """Return a lock or condition of :mod:`threading` that is free in a forked child."""
    _locks.add(lock)
    return lock


def leave_to_parent(one: object) -> None:
    """Keep an inherited object for ever, since its destructor would act on what is the parent's."""
    # Also at the exit of the interpreter, which clears modules: a destructor may wait for a thread.
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))


class _Uses:
    """Counts the uses of a library during which no fork may happen."""

    was_cut = False

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.lock = threading.RLock()
        self.change = threading.Condition(self.lock)
        self.users: dict[Use, int] = {}  # -> its thread
        self.n_forks = 0

    def before_fork(self) -> None:
        """Wait for the uses of other threads; no new one begins until the fork."""
        self.lock.acquire()
        self.n_forks += 1
        own = {threading.get_ident()}
        self.change.wait_for(lambda: own.issuperset(self.users.values()), SECONDS_FOR_USES)

    def after_in_parent(self) -> None:
        """Let uses begin again."""
        self.n_forks -= 1
        self.change.notify_all()
        self.lock.release()

    def after_in_child(self) -> None:
        """Find out whether the fork came between; the child's own uses begin."""
        self.was_cut = bool(self.users)
        self._clear()

    def wait_for_forks(self) -> None:
        """Let other threads fork first, unless they wait for an outer use of this one."""
        if threading.get_ident() not in self.users.values():
            self.change.wait_for(lambda: not self.n_forks, SECONDS_FOR_USES)


uses = _Uses()


class Use:
    """A ``with`` block around a use of SQLite, during which forks wait; may be nested."""

    # A fork of another thread waits for its end, for half a second at most.

    def __enter__(self) -> None:
        with uses.lock:
            if uses.n_forks:
                uses.wait_for_forks()
            uses.users[self] = threading.get_ident()

    def __exit__(self, *exc: object) -> None:
        """End it, perhaps in another thread; in a child that was forked meanwhile there is none."""
        with uses.lock:
            uses.users.pop(self, None)
            if uses.n_forks:
                uses.change.notify_all()


def _after_in_child() -> None:
    uses.after_in_child()
    for lock in list(_locks):
        lock._at_fork_reinit()
    for one in list(_known):
        with contextlib.suppress(Exception):  # the others have to be renewed all the same
            one.renew()


os.register_at_fork(
    before=uses.before_fork,
    after_in_parent=uses.after_in_parent,
    after_in_child=_after_in_child,
)


class _InheritedFile:
    """An open file that a forked child replaces by ``/dev/null``."""

    def __init__(self, number: int) -> None:
        self.number: int | None = number
        renew_in_children(self)

    def renew(self) -> None:
        if self.number is not None:
            nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            os.dup2(nothing, self.number, inheritable=False)
            os.close(nothing)


@contextmanager
def kept_from_children(number: int) -> Iterator[None]:
    """Let a child that is forked in the block have ``/dev/null`` in the place of an open file."""
    # Else it would hold the parent's lock on the file, or write again what the parent has buffered.
    kept = _InheritedFile(number)
    try:
        yield
    finally:
        kept.number = None


@contextmanager
def locked(path: Path, how: int, mode: int = 0o600, *, wait: float | None = None) -> Iterator[int]:
    """Hold an exclusive lock on a file or folder; the system frees it when the process dies."""
    number, birth = os.open(path, how | os.O_CLOEXEC, mode), Birth()
    try:
        with kept_from_children(number):
            if wait is None:
                fcntl.flock(number, fcntl.LOCK_EX)
            else:
                _lock_within(number, wait)
            try:
                yield number
            finally:
                if birth.is_here:  # a child that has just been forked has the file too
                    fcntl.flock(number, fcntl.LOCK_UN)
    finally:
        os.close(number)


def _lock_within(number: int, wait: float) -> None:
    until = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise
            time.sleep(0.02)
        else:
            return
