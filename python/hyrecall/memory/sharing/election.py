"""Finds the owner of a store, or makes this process the owner: one at a time, by the lock alone.

Whoever holds the writer's lock of the folder is the owner, and listens on a socket in the folder.
The system frees the lock when its process ends, however it ends. Nothing else moves ownership.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from hyrecall.errors import OwnerError, WriterBusyError, error
from hyrecall.memory.sharing.client import HUNG_SECONDS, hung
from hyrecall.memory.sharing.frames import ConnectionLost
from hyrecall.memory.sql.lock import SHARED, SOCKET, WriterLock, read_holder

__all__ = ["connect_to", "elect", "listen_in", "remove_socket", "without_sockets"]

LONGEST_PATH = 107
"""Bytes of the path of a Unix socket."""

_BACKLOG = 1_024
_PAUSE = 0.005  # seconds between two tries
_GRACE = 0.2  # seconds in which LOCK may still name an earlier owner

T = TypeVar("T")


@contextmanager
def _address(folder: Path) -> Iterator[str]:
    """Give the path of a folder's socket in a form that is short enough."""
    path = str(folder / SOCKET)
    if len(os.fsencode(path)) <= LONGEST_PATH:
        yield path
        return
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/{SOCKET}"
    finally:
        os.close(handle)


def listen_in(folder: Path) -> socket.socket:
    """Return a listening socket in a folder, for processes of this user only."""
    # The caller holds the writer's lock, so an older socket is nobody's.
    with contextlib.suppress(FileNotFoundError):
        (folder / SOCKET).unlink()
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _address(folder) as address:
            made.bind(address)
            os.chmod(address, stat.S_IRUSR | stat.S_IWUSR)  # nobody can connect before it listens
        made.listen(_BACKLOG)
    except BaseException:
        made.close()
        raise
    return made


def remove_socket(folder: Path) -> None:
    """Remove the socket of a folder; the caller holds the writer's lock."""
    with contextlib.suppress(OSError):
        (folder / SOCKET).unlink()


def connect_to(folder: Path) -> socket.socket:
    """Return a connection to the owner of a folder."""
    until = time.monotonic() + HUNG_SECONDS
    while True:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.setblocking(False)
            with _address(folder) as address:
                made.connect(address)
        except BlockingIOError:  # more connections wait to be accepted than can
            made.close()
            if time.monotonic() >= until:
                raise hung(read_holder(folder).pid or 0) from None
            time.sleep(_PAUSE)
        except BaseException:
            made.close()
            raise
        else:
            return made


def elect(folder: Path, connect: Callable[[], T], *, wait: float = 0.0) -> WriterLock | T:
    """Connect to the owner of a folder, or take the lock and become it."""
    begun = time.monotonic()
    while True:
        try:
            return WriterLock.take(folder, terms=SHARED)
        except WriterBusyError as fault:
            busy = fault
        with contextlib.suppress(ConnectionLost):
            return connect()
        waited = time.monotonic() - begun
        holder = read_holder(folder)
        if holder.terms == SHARED:
            # It opens the store, or leaves it, or its process has just ended.
            if waited >= HUNG_SECONDS + wait:
                raise hung(holder.pid or 0)
        elif waited >= max(wait, _GRACE):
            if holder.terms.startswith(_NO_SOCKETS):
                raise _cannot_share(folder, holder.terms)
            raise busy
        time.sleep(_PAUSE)


_NO_SOCKETS = "without sockets"


def without_sockets(fault: OSError) -> str:
    """Return the terms of an owner that cannot listen."""
    return f"{_NO_SOCKETS} ({fault.strerror or type(fault).__name__})"


def _cannot_share(folder: Path, terms: str) -> OwnerError:
    holder = read_holder(folder)
    wish = "a file system with Unix sockets, over which processes share a store"
    got = f"one {terms} (owner: pid {holder.pid})"
    remedy = "shared=False for one process at a time, or `hyrecall serve` for many"
    return error(OwnerError, str(folder), wish, got, remedy)
