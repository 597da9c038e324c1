"""The owner's side of a shared store: the lock, the server, and the owner once it is open."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from hyrecall.errors import HyrecallError
from hyrecall.memory.derived.layout import Layout
from hyrecall.memory.keeping.owner import Owner
from hyrecall.memory.keeping.tasks import Snapshot
from hyrecall.memory.sharing.asking import (
    About,
    Asked,
    answer,
    compare,
    compare_layouts,
    layout_told,
    searches,
)
from hyrecall.memory.sharing.client import Connections
from hyrecall.memory.sharing.election import (
    connect_to,
    elect,
    listen_in,
    remove_socket,
    without_sockets,
)
from hyrecall.memory.sharing.kinds import CODEC
from hyrecall.memory.sharing.protocol import Hello, OwnerState
from hyrecall.memory.sharing.server import Server
from hyrecall.memory.sql.lock import WriterLock

__all__ = ["Host", "find_owner"]

_log = logging.getLogger("hyrecall.memory")


def find_owner(folder: Path, about: About, *, wait: float = 0.0) -> Host | Connections:
    """Connect to the owner of a folder, or become it: then its clients wait for the opening."""
    hello = Hello(os.getpid(), about=about)
    connect = partial(Connections, partial(connect_to, folder), CODEC, hello)
    found = elect(folder, connect, wait=wait)
    return Host(folder, found, about) if isinstance(found, WriterLock) else found


class Host:
    """The owner's side of a shared store: the lock, the server, and the owner once it is open."""

    def __init__(self, folder: Path, lock: WriterLock, about: About) -> None:
        """Listen; clients wait until :meth:`open_for`."""
        self.lock = lock
        self._folder, self._about = folder, about
        self._owner: Owner | None = None
        self._claiming = threading.Lock()
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

    def open_for(self, owner: Owner, layout: About | None = None) -> None:
        """Answer clients from now on."""
        self._owner = owner
        self._about = {**self._about, **(layout or {})}
        self._server.ready()

    def claim(self, layout: Layout, about: About) -> None:
        """Make the index anew for this process, which searches it, if it has another layout."""
        if self._about["layout"] == layout.hash:
            return
        with self._claiming:
            if self._about["layout"] == layout.hash:
                return
            owner = self.owner
            self._about = {**self._about, **layout_told(about)}
            owner.layout = layout
            owner.follower.relayout(layout, model=owner.follower.model, dim=owner.follower.dim)

    def state(self) -> OwnerState:
        """Return who owns the store and who uses it."""
        return self._server.state()

    def stop(self) -> None:
        """Answer what is at work, and no client more; remove the socket."""
        self._server.close()
        if self._server.was_started and self.lock.is_at(self._folder):
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
        if not isinstance(asked, Asked) or not searches(asked.what):
            return answer(self.owner, asked)
        compare_layouts(self._about, asked.layout, os.getpid())
        reply = answer(self.owner, asked)
        compare_layouts(self._about, asked.layout, os.getpid())  # it was claimed meanwhile
        return reply

    def _admit(self, about: About) -> About:
        follower = self.owner.follower
        own = {**self._about, "model": follower.model, "dim": follower.dim}
        compare(own, about, os.getpid())
        return own
