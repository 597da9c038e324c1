"""Opens a store that processes share: as its owner, or as a client of the owner.

A client whose owner is gone takes the lock and becomes the owner in place, or connects to whoever
was faster. What it was asked meanwhile is asked again; a change carries an id, so that one that
the last owner committed is not made twice.
"""

from __future__ import annotations

import contextlib
import logging
import random
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, Protocol, TypeVar, cast

from hyrecall.base import threads
from hyrecall.errors import StoreBusyError
from hyrecall.memory.changes import Change
from hyrecall.memory.derived.layout import IndexNotReadyError, Layout
from hyrecall.memory.derived.projection import load_arrow
from hyrecall.memory.keeping import P_, Owner
from hyrecall.memory.recall.call import FoundRows, IndexQuestion
from hyrecall.memory.sharing.client import Connections, connect_to, state_of
from hyrecall.memory.sharing.host import (
    CODEC,
    About,
    Host,
    OwnerRequest,
    RemoteRows,
    Task,
    answer,
    find_owner,
    layout_told,
    searches,
)
from hyrecall.memory.sharing.server import AnswersPlainly
from hyrecall.memory.sharing.wire import ConnectionLost, OwnerState
from hyrecall.memory.sql.connecting import disk_named
from hyrecall.memory.sql.database import Database

# ---- Tries again while the owner of a store has too much to do, within a number of seconds ----

FIRST_PAUSE = 0.02
"""Seconds before the second try; each later pause is twice as long, up to what the owner says."""

T_ = TypeVar("T_")


class Patience:
    """How long one call still waits for a busy owner. One thread uses it."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._pause = FIRST_PAUSE

    @property
    def left(self) -> float:
        """Seconds that the call may still wait."""
        return max(self._until - time.monotonic(), 0.0)

    def run(self, ask: Callable[[], T_]) -> T_:
        """Call a function until it raises no StoreBusyError, or the time is over."""
        while True:
            try:
                return ask()
            except StoreBusyError as fault:
                left = self.left
                if not left:
                    raise
                most = min(self._pause, max(fault.retry_after, FIRST_PAUSE), left)
            # Clients that were refused together do not come back together.
            time.sleep(random.uniform(most / 2, most))
            self._pause *= 2


# ---- Opens a store that processes share: as its owner, or as a client of the owner ----

_log = logging.getLogger("hyrecall.memory")

SECONDS_BEFORE_LOADING = 1.0
"""So long a client lives before it prepares to become the owner; most commands end sooner."""

Reply = TypeVar("Reply")


def observe(folder: Path | None) -> OwnerState | None:
    """Return the owner of a folder and its clients, without becoming one; None: nobody shares
    it.
    """
    if folder is None:
        return None
    try:
        return state_of(partial(connect_to, folder), CODEC)
    except ConnectionLost:
        return None


class MakesOwner(Protocol):
    """Makes the owner of a store in this process."""

    def __call__(self, *, is_takeover: bool, layout: Layout | None = None) -> Owner:
        """Open it; after a take-over the index is opened on a thread, as it was laid out."""
        ...


class SharedKeeper:
    """Keeps a store with other processes. Threads may share it."""

    def __init__(
        self,
        database: Database,
        place: Host | Connections,
        about: About,
        *,
        layout: Layout,
        make_owner: MakesOwner,
        clock: Callable[[], datetime],
        patience: float,
    ) -> None:
        assert database.folder is not None
        self.database, self._folder = database, database.folder
        self._about, self._make_owner, self._clock = about, make_owner, clock
        self._layout = layout
        self._layout_told = layout_told(about)
        self._inherited: tuple[Layout, About] | None = None  # the owner's, if it is another
        self._patience = patience
        self._renewing = threading.Lock()
        self._is_closed = False
        self._is_leaving = threading.Event()
        self._plainly: AnswersPlainly | None = None
        if isinstance(place, Host):
            place.open_for(make_owner(is_takeover=False))
        else:
            Patience(patience).run(lambda: self._adopt(place))
            self._prepare()
        self._place = place

    def answer_plainly(self, answer: AnswersPlainly) -> None:
        """Let the owner in this process, now or after a take-over, answer what is asked in JSON."""
        with self._renewing:
            self._plainly = answer
            if isinstance(self._place, Host):
                self._place.answer_plainly(answer)

    def _prepare(self) -> None:
        """Load on a thread what an owner needs: the next write may wait for this process."""

        def load() -> None:
            if not self._is_leaving.wait(SECONDS_BEFORE_LOADING):
                load_arrow()

        with contextlib.suppress(RuntimeError):  # there is no thread for it
            threads.start(load, name="hyrecall-prepare", stop=self._is_leaving.set)

    @property
    def owner(self) -> Owner | None:
        """The owner, if it is in this process."""
        place = self._place
        return place.owner if isinstance(place, Host) else None

    def write(
        self, change: Change[Reply], *, write_id: bytes | None = None, now: datetime | None = None
    ) -> Reply:
        """Commit a change, as :meth:`hyrecall.memory.keeping.Keeper.write`."""
        place = self._place
        if isinstance(place, Host):
            return place.owner.write(change, write_id=write_id, now=now)
        self.database.check_usable()
        made = secrets.token_bytes(16) if write_id is None else write_id
        reply = self._ask(OwnerRequest(change, made, self._clock() if now is None else now))
        return cast("Reply", reply)

    def search_index(self, question: IndexQuestion) -> FoundRows:
        """Rank rows, as :meth:`hyrecall.memory.keeping.Keeper.search_index`."""
        place = self._place
        if isinstance(place, Host):
            place.claim(self._layout, self._about)
            return place.owner.search_index(question)
        found: FoundRows = self._ask(OwnerRequest(question, layout=self._layout_told))
        if found.ranked is not None:  # this process has become the owner meanwhile
            return found
        return replace(found, ranked=RemoteRows(self, question, found))

    def run(
        self, do: Callable[Concatenate[Owner, P_], Reply], *given: P_.args, **named: P_.kwargs
    ) -> Reply:
        """Do upkeep, as :meth:`hyrecall.memory.keeping.Keeper.run`."""
        task = Task(do.__name__, given, named)
        layout = self._layout_told if searches(task) else None
        return cast("Reply", self._ask(OwnerRequest(task, layout=layout)))

    def state(self) -> OwnerState:
        """Return who owns the store and who uses it."""
        return Patience(self._patience).run(self._state)

    def _state(self) -> OwnerState:
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
            self._is_leaving.set()
            if isinstance(self._place, Host):
                self._place.close()
            else:
                self._place.stop()
            self.database.close()

    def _ask(self, asked: OwnerRequest) -> Any:
        patience = Patience(self._patience)
        return patience.run(lambda: self._ask_once(asked, patience))

    def _ask_once(self, asked: OwnerRequest, patience: Patience) -> Any:
        """Ask the owner, and the next one if it is lost."""
        while True:
            self.database.check_usable()
            place = self._place
            if isinstance(place, Host):
                if searches(asked.what):
                    place.claim(self._layout, self._about)
                return answer_here(place.owner, asked)
            try:
                return place.ask(asked, seconds=patience.left)
            except ConnectionLost:
                self._renew(place)

    def _renew(self, lost: Connections) -> None:
        """Find the owner that comes after one that is gone, or become it."""
        with self._renewing:
            if self._place is not lost:
                return  # another thread has done so
            self.database.check_usable()
            self.database.check_place()
            with disk_named(self.database.name):
                found = find_owner(self._folder, self._about)
            if isinstance(found, Host):
                self._take_over(found)
            else:
                try:
                    self._adopt(found)
                except BaseException:
                    found.stop()
                    raise
            self._place = found
            lost.stop()

    def _take_over(self, host: Host) -> None:
        try:
            self.database.promote(host.lock)
            layout, told = self._inherited or (None, None)
            host.open_for(self._make_owner(is_takeover=True, layout=layout), told)
            host.answer_plainly(self._plainly)
        except BaseException:
            host.stop()
            self.database.demote()
            host.lock.release()
            raise
        _log.info("this process owns the store now")

    def _adopt(self, connections: Connections) -> None:
        """Learn the owner's layout; let an owner without an embedder take this one's vectors."""
        try:
            self._inherited = self._other_layout(connections)
            model = self._about.get("model")
            if model is not None and connections.about.get("model") is None:
                dim = self._about.get("dim") or connections.about.get("dim")
                task = Task("take_vectors", (str(model), int(dim or 0)))
                connections.ask(OwnerRequest(task))
        except ConnectionLost:
            pass  # the next owner is asked
        except IndexNotReadyError as fault:
            _log.warning("the index could not be made anew: %s", fault.detail)

    def _other_layout(self, connections: Connections) -> tuple[Layout, About] | None:
        """Return the owner's layout if it is another one, so that a take-over leaves the index."""
        told = layout_told(connections.about)
        if told["layout"] == self._about["layout"]:
            return None
        layout = connections.ask(OwnerRequest(Task("tell_layout")))
        is_sound = isinstance(layout, Layout) and layout.hash == told["layout"]
        return (layout, told) if is_sound else None


def answer_here(owner: Owner, asked: OwnerRequest) -> Any:
    """Do in this process what would have been asked of another; rows can be explained here."""
    if isinstance(asked.what, IndexQuestion):
        return owner.search_index(asked.what)
    return answer(owner, asked)
