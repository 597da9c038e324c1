"""Keeps a store that processes share: as its owner, or through the owner, as it turns out.

A client whose owner is gone takes the lock and becomes the owner in place, or connects to whoever
was faster. What it was asked meanwhile is asked again; a change carries an id, so that one that
the last owner committed is not made twice.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from hyrecall.errors import HyrecallError
from hyrecall.memory.changes.change import Change
from hyrecall.memory.derived.readiness import IndexNotReadyError
from hyrecall.memory.keeping.keeper import Task
from hyrecall.memory.keeping.owner import Owner
from hyrecall.memory.keeping.tasks import Snapshot, TakeVectors
from hyrecall.memory.recall.question import FoundRows, Question
from hyrecall.memory.sharing.asking import About, Asked, RemoteRows, answer, compare
from hyrecall.memory.sharing.client import Connections, state_of
from hyrecall.memory.sharing.election import (
    connect_to,
    elect,
    listen_in,
    remove_socket,
    without_sockets,
)
from hyrecall.memory.sharing.frames import ConnectionLost
from hyrecall.memory.sharing.kinds import CODEC
from hyrecall.memory.sharing.protocol import Hello, OwnerState
from hyrecall.memory.sharing.server import Server
from hyrecall.memory.sql.database import Database
from hyrecall.memory.sql.lock import WriterLock

__all__ = ["Host", "MakesOwner", "SharedKeeper", "find_owner", "observe"]

_log = logging.getLogger("hyrecall.memory")

Reply = TypeVar("Reply")


def find_owner(folder: Path, about: About, *, wait: float = 0.0) -> Host | Connections:
    """Connect to the owner of a folder, or become it: then its clients wait for the opening.

    Parameters
    ----------
    folder : Path
        That exists.
    about : mapping
        What this process knows of the store.
    wait : float, default 0
        Seconds to wait for a writer that does not share the store.

    Raises
    ------
    HyrecallError, OSError
        As :func:`elect`.
    """
    hello = Hello(os.getpid(), about=about)
    connect = partial(Connections, partial(connect_to, folder), CODEC, hello)
    found = elect(folder, connect, wait=wait)
    return Host(folder, found, about) if isinstance(found, WriterLock) else found


def observe(folder: Path | None) -> OwnerState | None:
    """Return the owner of a folder and its clients, without becoming one; None: nobody shares it.

    Raises
    ------
    OwnerError
        The owner does not answer.
    """
    if folder is None:
        return None
    try:
        return state_of(partial(connect_to, folder), CODEC)
    except ConnectionLost:
        return None


class MakesOwner(Protocol):
    """Makes the owner of a store in this process."""

    def __call__(self, *, is_takeover: bool) -> Owner:
        """Open it; after a take-over the index is opened on a thread."""
        ...


class Host:
    """The owner's side of a shared store: the lock, the server, and the owner once it is open.

    Parameters
    ----------
    folder : Path
    lock : WriterLock
        Whoever opens the database with it releases it.
    about : mapping
        What this process knows of the store.
    """

    def __init__(self, folder: Path, lock: WriterLock, about: About) -> None:
        """Listen; clients wait until :meth:`open_for`."""
        self.lock = lock
        self._folder, self._about = folder, about
        self._owner: Owner | None = None
        self._server = Server(CODEC, self._answer, self._admit)
        try:
            self._listen()
        except BaseException:
            lock.release()
            raise

    def _listen(self) -> None:
        listener: socket.socket | None = None
        try:
            listener = listen_in(self._folder)
            self._server.start(listener)
        except OSError as fault:
            _log.warning("no other process can use the store: %s", fault.strerror)
            self.lock.tell(without_sockets(fault))
        except RuntimeError as fault:  # no thread, as at the exit of the interpreter
            _log.warning("no other process can use the store: %s", fault)
            if listener is not None:
                listener.close()
            self.lock.tell(without_sockets(OSError(0, str(fault))))

    @property
    def owner(self) -> Owner:
        """The owner, once the store is open."""
        assert self._owner is not None
        return self._owner

    def open_for(self, owner: Owner) -> None:
        """Answer clients from now on."""
        self._owner = owner
        self._server.ready()

    def state(self) -> OwnerState:
        """Return who owns the store and who uses it."""
        return self._server.state()

    def stop(self) -> None:
        """Answer what is at work, and no client more; remove the socket."""
        self._server.close()
        if self._server.was_started:
            remove_socket(self._folder)

    def close(self) -> None:
        """Hand the store over: save the index while clients are served, then let go."""
        with ExitStack() as held:
            held.callback(self.owner.close)
            held.callback(self.stop)
            if self.state().clients:
                with contextlib.suppress(HyrecallError):
                    self.owner.run(Snapshot())

    def _answer(self, asked: object) -> Any:
        return answer(self.owner, asked)

    def _admit(self, about: About) -> About:
        follower = self.owner.follower
        own = {**self._about, "model": follower.model, "dim": follower.dim}
        compare(own, about, os.getpid())
        return own


class SharedKeeper:
    """Keeps a store with other processes. Threads may share it.

    Parameters
    ----------
    database : Database
        It reads; its writer is there as long as this process is the owner.
    place : Host or Connections
    about : mapping
        What this process knows of the store.
    make_owner : MakesOwner
        Makes the owner on the database: at the beginning, or after a take-over.
    clock : callable
        When a change of this process counts as recorded.

    Attributes
    ----------
    database : Database
    """

    def __init__(
        self,
        database: Database,
        place: Host | Connections,
        about: About,
        *,
        make_owner: MakesOwner,
        clock: Callable[[], datetime],
    ) -> None:
        """Open the owner, if this process is to be it."""
        assert database.folder is not None
        self.database, self._folder = database, database.folder
        self._about, self._make_owner, self._clock = about, make_owner, clock
        self._renewing = threading.Lock()
        self._is_closed = False
        if isinstance(place, Host):
            place.open_for(make_owner(is_takeover=False))
        else:
            self._adopt(place)
        self._place = place

    @property
    def owner(self) -> Owner | None:
        """The owner, if it is in this process."""
        place = self._place
        return place.owner if isinstance(place, Host) else None

    def write(
        self, change: Change[Reply], *, write_id: bytes | None = None, now: datetime | None = None
    ) -> Reply:
        """Commit a change, as :meth:`hyrecall.memory.keeping.keeper.Keeper.write`."""
        place = self._place
        if isinstance(place, Host):
            return place.owner.write(change, write_id=write_id, now=now)
        self.database.check_usable()
        made = secrets.token_bytes(16) if write_id is None else write_id
        reply = self._ask(Asked(change, made, self._clock() if now is None else now))
        return cast("Reply", reply)

    def search_index(self, question: Question) -> FoundRows:
        """Rank rows, as :meth:`hyrecall.memory.keeping.keeper.Keeper.search_index`."""
        place = self._place
        if isinstance(place, Host):
            return place.owner.search_index(question)
        found: FoundRows = self._ask(Asked(question))
        if found.ranked is not None:  # this process has become the owner meanwhile
            return found
        return replace(found, ranked=RemoteRows(self, question, found))

    def run(self, task: Task[Reply]) -> Reply:
        """Do a task, as :meth:`hyrecall.memory.keeping.keeper.Keeper.run`."""
        return cast("Reply", self._ask(Asked(task)))

    def state(self) -> OwnerState:
        """Return who owns the store and who uses it."""
        while True:
            place = self._place
            if isinstance(place, Host):
                return place.state()
            try:
                return place.state()
            except ConnectionLost:
                self._renew(place)

    def close(self) -> None:
        """Let go of everything, and of the store if this process owns it. Closing twice is fine."""
        with self._renewing:
            if self._is_closed:
                return
            self._is_closed = True
            if isinstance(self._place, Host):
                self._place.close()
            else:
                self._place.stop()
            self.database.close()

    def _ask(self, asked: Asked) -> Any:
        while True:
            self.database.check_usable()
            place = self._place
            if isinstance(place, Host):
                return answer_here(place.owner, asked)
            try:
                return place.ask(asked)
            except ConnectionLost:
                self._renew(place)

    def _renew(self, lost: Connections) -> None:
        """Find the owner that comes after one that is gone, or become it."""
        with self._renewing:
            if self._place is not lost:
                return  # another thread has done so
            self.database.check_usable()
            found = find_owner(self._folder, self._about)
            if isinstance(found, Host):
                self._take_over(found)
            else:
                self._adopt(found)
            self._place = found
            lost.stop()

    def _take_over(self, host: Host) -> None:
        try:
            self.database.promote(host.lock)
            host.open_for(self._make_owner(is_takeover=True))
        except BaseException:
            host.stop()
            self.database.demote()
            host.lock.release()
            raise
        _log.info("this process owns the store now")

    def _adopt(self, connections: Connections) -> None:
        """Let an owner without an embedder index the vectors of this process's model."""
        model = self._about.get("model")
        if model is not None and connections.about.get("model") is None:
            dim = self._about.get("dim") or connections.about.get("dim")
            try:
                connections.ask(Asked(TakeVectors(str(model), int(dim or 0))))
            except ConnectionLost:
                pass  # the next owner is asked
            except IndexNotReadyError as fault:
                _log.warning("the index could not be made anew: %s", fault.detail)


def answer_here(owner: Owner, asked: Asked) -> Any:
    """Do in this process what would have been asked of another; rows can be explained here."""
    if isinstance(asked.what, Question):
        return owner.search_index(asked.what)
    return answer(owner, asked)
