"""Asks the owner of a store: a pool of connections, one request at a time on each."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import stat
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from hyrecall import errors
from hyrecall.base.asking import MOST_BYTES_OF_HELLO, SOCKET, address_of, peer_of
from hyrecall.base.forks import Birth
from hyrecall.base.threads import check_waiting
from hyrecall.errors import (
    HyrecallError,
    OwnerError,
    StoreBusyError,
    StoreMismatchError,
    WriterBusyError,
    error,
)
from hyrecall.memory.sharing.wire import (
    CALL,
    FAULT,
    REPLY,
    REQUEST,
    STATUS,
    CallbackCaller,
    Codec,
    ConnectionLost,
    Frames,
    Hello,
    OwnerState,
    Welcome,
    WireError,
    check_peer,
    raise_fault,
)
from hyrecall.memory.sql.lock import SHARED, WriterLock, read_holder

HUNG_SECONDS = 10.0
"""An owner that gives no sign of life for so long hangs."""

LOOK_SECONDS = 2.0
"""After so long without a reply, a client asks the owner for a sign of life."""

MOST_CONNECTIONS = 16
"""Of one handle; further threads wait for one."""

Connect = Callable[[], socket.socket]


class OwnerConnection:
    """One connection to an owner, after its hello."""

    def __init__(self, connect: Connect, codec: Codec, hello: Hello) -> None:
        self._codec = codec
        self._numbers = itertools.count()
        self.is_clean = False  # whether it may carry another request
        try:
            connection = connect()
        except HyrecallError:
            raise
        except OSError as fault:
            raise ConnectionLost(str(fault)) from None
        self._frames = Frames(connection)
        try:
            self.pid, uid = peer_of(connection)
            check_peer(uid)
            with contextlib.suppress(
                ConnectionLost
            ):  # refused before the hello: the reply says why
                self._frames.send(hello.to_bytes(), patience=HUNG_SECONDS)
            self.welcome = self._welcome()
        except TimeoutError:
            self._frames.close()
            raise hung(self.pid) from None
        except BaseException:
            self._frames.close()
            raise

    def _welcome(self) -> Welcome:
        while True:
            data = self._frames.receive(most=MOST_BYTES_OF_HELLO, timeout=HUNG_SECONDS)
            welcome = Welcome.of_bytes(data)
            if welcome.refused is not None:
                raise _refusal(welcome)
            if not welcome.is_opening:
                return welcome

    def ask(
        self,
        message: object,
        *,
        seconds: float | None = None,
        is_alive: Callable[[], None] | None = None,
    ) -> Any:
        """Return the reply to a message."""
        mine: list[Callable[..., Any]] = []

        def number_of(function: Callable[..., Any]) -> int:
            mine.append(function)
            return len(mine) - 1

        number = next(self._numbers)
        data = self._codec.encode([REQUEST, number, seconds, message], number_of)
        try:
            self._frames.send(data, patience=HUNG_SECONDS)
        except TimeoutError:
            raise hung(self.pid) from None
        with CallbackCaller(self._frames, self._codec, mine) as answering:
            while True:
                try:
                    told = self._codec.decode(self._frames.receive(timeout=LOOK_SECONDS))
                except TimeoutError:
                    check_waiting()
                    if is_alive is not None:
                        is_alive()
                    continue
                if isinstance(told, list) and told and told[0] == CALL:
                    answering.put(told)
                    continue
                self.is_clean = answering.is_idle
                return self._read(told, number, answering)

    def _read(self, told: Any, number: int, answering: CallbackCaller) -> Any:
        if not isinstance(told, list) or len(told) != 3:
            raise error(WireError, "message", "a reply", "another")
        word, of, value = told
        if word == REPLY and of == number:
            return value
        if word == FAULT and of in (number, None):
            raise answering.original(raise_fault(value))
        raise error(WireError, "message", f"the reply to request {number}", "another")

    def close(self) -> None:
        """Close the connection."""
        self._frames.close()


class Connections:
    """A pool of connections to one owner. Threads may share it."""

    def __init__(self, connect: Connect, codec: Codec, hello: Hello) -> None:
        """Connect once, so that a refusal is known now; raises as :class:`OwnerConnection`."""
        self._connect, self._codec, self._hello = connect, codec, hello
        self._birth = Birth()
        self._state = threading.Lock()
        self._free = threading.Semaphore(MOST_CONNECTIONS)
        self._is_closed = False
        first = OwnerConnection(connect, codec, hello)
        self.pid, self.about = first.pid, first.welcome.about
        self._idle = [first]
        # A handle that nobody closes leaves no open sockets, at exit neither.
        weakref.finalize(self, _close_all, self._birth, self._idle)

    def ask(self, message: object, *, seconds: float | None = None) -> Any:
        """Return the owner's reply to a message; raises what the owner raised."""
        begun = time.monotonic()
        with self._link(seconds) as link:
            if seconds is not None:
                seconds = max(begun + seconds - time.monotonic(), 0.0)
            return link.ask(message, seconds=seconds, is_alive=self._check_alive)

    def state(self) -> OwnerState:
        """Return the state of the owner; raises as :meth:`ask`."""
        return state_of(self._connect, self._codec)

    def stop(self) -> None:
        """Close all connections that are idle; others when their request ends."""
        if not self._birth.is_here:
            return
        with self._state:
            self._is_closed = True
            idle = list(self._idle)
            self._idle.clear()
        for link in idle:
            link.close()

    @contextmanager
    def _link(self, seconds: float | None) -> Iterator[OwnerConnection]:
        with self._one_of_most(seconds):
            link = self._take()
            is_kept = False
            try:
                link.is_clean = False
                yield link
                is_kept = link.is_clean
            except BaseException:
                is_kept = link.is_clean
                raise
            finally:
                with self._state:
                    is_kept = is_kept and not self._is_closed
                    if is_kept:
                        self._idle.append(link)
                if not is_kept:
                    link.close()

    @contextmanager
    def _one_of_most(self, seconds: float | None) -> Iterator[None]:
        """Wait until this thread may have a connection."""
        if not self._free.acquire(timeout=seconds):
            got = f"{MOST_CONNECTIONS} requests of this handle"
            raise error(StoreBusyError, "store", "a free connection", got, "try again")
        try:
            yield
        finally:
            self._free.release()

    def _take(self) -> OwnerConnection:
        with self._state:
            if self._is_closed:
                raise ConnectionLost("closed")
            if self._idle:
                return self._idle.pop()
        link = OwnerConnection(self._connect, self._codec, self._hello)
        if link.pid != self.pid:  # the next owner, to whom this process has not been introduced
            link.close()
            raise ConnectionLost("another owner")
        return link

    def _check_alive(self) -> None:
        """Ask the owner for a sign of life; a reply that takes long is none that hangs."""
        # Of a lost connection the one that waits finds out too; a busy owner is alive.
        with contextlib.suppress(ConnectionLost, StoreBusyError):
            self.state()


def _close_all(birth: Birth, links: list[OwnerConnection]) -> None:
    """Close connections in the process that made them; a forked child has none."""
    if birth.is_here:
        for link in links:
            link.close()


def state_of(connect: Connect, codec: Codec) -> OwnerState:
    """Ask an owner who it is and who uses the store, as an observer."""
    link = OwnerConnection(connect, codec, Hello(os.getpid(), is_observer=True))
    try:
        until = time.monotonic() + HUNG_SECONDS

        def is_late() -> None:
            if time.monotonic() >= until:
                raise hung(link.pid)

        state = link.ask(STATUS, is_alive=is_late)
    finally:
        link.close()
    if not isinstance(state, OwnerState):
        raise error(WireError, "message", "the state of an owner", "another")
    return state


def hung(pid: int) -> OwnerError:
    """Return the error for an owner that gives no sign of life."""
    wish = f"an answer of the process that owns it (pid {pid}) within {HUNG_SECONDS:g} s"
    remedy = "it keeps the store until it ends: look whether it is stopped"
    return error(OwnerError, "store", wish, "none", remedy)


def _refusal(welcome: Welcome) -> HyrecallError:
    kind = getattr(errors, welcome.kind, None)
    if not (isinstance(kind, type) and issubclass(kind, HyrecallError)):
        kind = StoreMismatchError
    made: HyrecallError = kind(welcome.refused)
    return made


# ---- Finds the owner of a store, or makes this process the owner: one at a time, by the lock alone
# Whoever holds the writer's lock of the folder is the owner, and listens on a socket in the folder.
# The system frees the lock when its process ends, however it ends. Nothing else moves ownership.

_BACKLOG = 1_024
_PAUSE = 0.005  # seconds between two tries
_GRACE = 0.2  # seconds in which LOCK may still name an earlier owner

T = TypeVar("T")


def listen_in(folder: Path) -> socket.socket:
    """Return a listening socket in a folder, for processes of this user only."""
    # The caller holds the writer's lock, so an older socket is nobody's.
    with contextlib.suppress(FileNotFoundError):
        (folder / SOCKET).unlink()
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with address_of(folder) as address:
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
            with address_of(folder) as address:
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
