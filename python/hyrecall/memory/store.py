"""The open store behind a handle: database, index, embedder, sessions."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import apsw
import numpy as np
import numpy.typing as npt

from hyrecall.ask.recipe import Recipe
from hyrecall.base.arguments import as_int, number, read_path
from hyrecall.base.disk import replica_mark
from hyrecall.base.progress import ProgressFunction
from hyrecall.base.runtime import check_device
from hyrecall.base.threads import Pool
from hyrecall.embed import choose
from hyrecall.embed.choose import AUTO, Given
from hyrecall.embed.guard import Guard
from hyrecall.embed.http import HttpEmbedder
from hyrecall.embed.protocol import NORMS, norms
from hyrecall.errors import DTypeError, OptionError, ShapeError, StoreError, error
from hyrecall.memory.changes import Change, RecordConversations, Touch
from hyrecall.memory.data.matches import Degradation, DegradedReason
from hyrecall.memory.data.sessions import SessionTracker
from hyrecall.memory.data.types import flag, in_utc
from hyrecall.memory.derived.follower import Background, Follower
from hyrecall.memory.derived.layout import (
    IndexNotReadyError,
    Layout,
    OpenReport,
    layout_of,
    on_layout,
)
from hyrecall.memory.faces.transfer import divide
from hyrecall.memory.keeping import Keeper, Owner
from hyrecall.memory.recall.call import KnownSearches
from hyrecall.memory.recall.index_search import JoinedCalls
from hyrecall.memory.recall.recalling import Means, Trackers, call_tracker
from hyrecall.memory.sharing.client import Connections
from hyrecall.memory.sharing.shared_keeper import (
    About,
    Host,
    Patience,
    SharedKeeper,
    find_owner,
    observe,
)
from hyrecall.memory.sharing.wire import OwnerState
from hyrecall.memory.sql.connecting import DATABASE, check_sqlite, disk_named
from hyrecall.memory.sql.database import IN_MEMORY, Database, MemoryDatabase
from hyrecall.memory.sql.lock import LOCK, make_folder
from hyrecall.memory.sql.reading import newest_model
from hyrecall.memory.sql.schema import FORMAT
from hyrecall.memory.sql.store_sessions import StoreSessions
from hyrecall.recipes import default, loom
from hyrecall.text.analyzer import Analyzer, read_analyzer

__all__ = [
    "AUTO",
    "SECONDS",
    "Clock",
    "Given",
    "Store",
    "StoreOptions",
    "about_store",
    "open_database",
]


# ---- The options with which a store is opened ----

MOST_DIM = 65_536

SECONDS = "seconds in [0, 86400]"

Clock = Callable[[], datetime]


@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """How a store is opened; see :meth:`hyrecall.memory.Memory.open`."""

    recipe: Recipe | None = None
    analyzer: Analyzer | str | None = None
    embedder: Given = AUTO
    dim: int | None = None
    read_only: bool | None = None
    shared: bool = True
    wait: float = 0.0
    owner_timeout: float = 10.0
    accept_loss: bool = False
    recall_timeout: float | None = None
    write_timeout: float | None = None
    sessions: SessionTracker | None = None
    snapshot_every: int = 10_000
    device: str = "cpu"
    threads: int | None = None
    progress: ProgressFunction | None = None
    warm: bool = True
    clock: Clock | None = None

    def __post_init__(self) -> None:
        if self.recipe is not None and not isinstance(self.recipe, Recipe):
            raise error(DTypeError, "recipe", "an hr.Recipe", type(self.recipe).__name__)
        if self.sessions is not None and not isinstance(self.sessions, SessionTracker):
            wish = "an object with session and record"
            raise error(DTypeError, "sessions", wish, type(self.sessions).__name__)
        if self.clock is not None and not callable(self.clock):
            wish = "a function that returns a datetime"
            raise error(DTypeError, "clock", wish, type(self.clock).__name__)
        flag("warm", self.warm)
        if self.read_only is not None:
            flag("read_only", self.read_only)
        flag("shared", self.shared)
        for name in ("wait", "owner_timeout", "recall_timeout", "write_timeout"):
            value = getattr(self, name)
            if value is not None or name in ("wait", "owner_timeout"):
                number(name, value, 0.0, 86_400.0, SECONDS)
        dim = as_int(self.dim)
        if self.dim is not None and (dim is None or not 1 <= dim <= MOST_DIM):
            raise error(OptionError, "dim", f"an int from 1 to {MOST_DIM}", repr(self.dim))
        every = as_int(self.snapshot_every)
        if every is None or every < 1:
            raise error(OptionError, "snapshot_every", "an int >= 1", repr(self.snapshot_every))
        check_device(self.device)

    def at(self, path: str | os.PathLike[str]) -> StoreOptions:
        """Return the options for a folder: a replica is opened for reading, if nothing is said."""
        if self.read_only:
            return self  # whatever the folder is, and whatever became of its file REMOTE
        mark = replica_mark(read_path(path))
        if mark is not None and self.read_only is False:
            got = f"False, and the folder is a replica of {mark.noted[-1].url}"
            remedy = "read_only=True, or hyrecall.replicas.promote(path)"
            raise error(OptionError, "read_only", "True for a replica", got, remedy)
        return replace(self, read_only=mark is not None or bool(self.read_only))


# ---- Opens the database of a store: alone, beside other processes, or in memory ----


def about_store(recipe: Recipe, layout: Layout, model: str | None, dim: int | None) -> About:
    """Return what processes that share a store compare."""
    return {
        "format": FORMAT,
        "layout": layout.hash,
        "recipe": recipe.name,
        "analyzer": f"{layout.analyzer!r} ({layout.analyzer.hash})",
        "model": model,
        "dim": dim,
    }


def open_database(
    path: str | os.PathLike[str], options: StoreOptions, about: About
) -> tuple[Database, Host | Connections | None]:
    """Open the database of a folder, or make one in memory."""
    folder = read_path(path)
    if str(folder) == IN_MEMORY:
        return _in_memory(options), None
    if options.read_only or not options.shared:
        database = Database.open(
            folder,
            read_only=bool(options.read_only),
            wait=options.wait,
            accept_loss=options.accept_loss,
        )
        return database, None
    return _shared(folder, options, about)


def _shared(
    folder: Path, options: StoreOptions, about: About
) -> tuple[Database, Host | Connections]:
    check_sqlite(apsw.sqlite_lib_version())
    with disk_named(str(folder)):
        make_folder(folder, {DATABASE, LOCK})
        patience = Patience(options.owner_timeout)
        place = patience.run(lambda: find_owner(folder, about, wait=options.wait))
    try:
        if isinstance(place, Host):
            database = Database.open(folder, lock=place.lock, accept_loss=options.accept_loss)
        else:
            database = Database.open(folder, beside_owner=True)
    except BaseException:
        place.stop()
        raise
    return database, place


def _in_memory(options: StoreOptions) -> Database:
    usual = type(options)(read_only=False)
    for name in ("read_only", "wait", "owner_timeout", "accept_loss", "snapshot_every"):
        value = getattr(options, name)
        if value != getattr(usual, name):
            wish = f"the default with the path {IN_MEMORY!r}: such a store is new and never saved"
            raise error(OptionError, name, wish, repr(value))
    return MemoryDatabase.make()


# ---- The open store behind a handle: database, index, embedder, sessions ----

_log = logging.getLogger("hyrecall.memory")
_log.addHandler(logging.NullHandler())

DIM = 768
"""Length of vectors where neither embedder, ``dim=`` nor the store says another."""

RECALL_SECONDS, WRITE_SECONDS = 1.5, 5.0
"""What a recall and a write may wait for the embedder where nothing says more."""

_PAUSE = 0.01  # seconds between two looks at an index that is being built

GIVEN = "given"
"""Model of vectors that a caller gives where no embedder has a name."""

Vectors = npt.NDArray[np.float32]
Vector = npt.NDArray[np.float32]
Reply = TypeVar("Reply")


class Store:
    """An open store. Threads may share it."""

    def __init__(self, path: str | os.PathLike[str], options: StoreOptions) -> None:
        with disk_named(str(path)):
            options = options.at(path)
        self.options = options
        self.recipe: Recipe = default if options.recipe is None else options.recipe
        self.formula: Recipe = loom if options.recipe is None else options.recipe
        self.layout: Layout = layout_of(self.recipe, read_analyzer("analyzer", options.analyzer))
        packaged = self.recipe.semantic == "default"
        embedder = choose.embedder(options.embedder, os.environ, packaged=packaged)
        is_own = embedder is not options.embedder
        allowed = choose.named_timeout() if is_own and isinstance(embedder, HttpEmbedder) else None
        if not packaged and allowed is None:  # as the system that the recipe follows
            own = getattr(embedder, "timeout", None)
            allowed = float(own) if isinstance(own, int | float) else None
        self.recall_timeout = _first(options.recall_timeout, allowed, RECALL_SECONDS)
        self._patience = _first(options.recall_timeout, RECALL_SECONDS)
        self.write_timeout = _first(options.write_timeout, allowed, WRITE_SECONDS)
        self.guard = Guard(embedder, dim=options.dim, closes=is_own, usual=self.recall_timeout)
        self._clock = _now if options.clock is None else options.clock
        self._settling = threading.Lock()
        self.joining = JoinedCalls()
        self.known_searches = KnownSearches()
        with ExitStack() as opened:
            opened.callback(self.guard.close)
            about = about_store(self.recipe, self.layout, self.guard.model, self._known_dim)
            self.database, place = open_database(path, options, about)
            self.database.clock.now = self._clock
            opened.callback(self.database.close)
            if place is not None:
                opened.callback(place.stop)
            self.dim = self._first_dim(place)
            self._keeper: Keeper = self._keep(place, about)
            opened.callback(self._keeper.close)
            if options.warm:
                self.guard.start_warming()
            opened.pop_all()
        own = StoreSessions(self.database, lambda met: self.write(RecordConversations(met)))
        self.sessions = own if options.sessions is None else options.sessions
        self._own_sessions = own
        self._trackers: Trackers = Pool(call_tracker, workers=8, name="hyrecall-sessions")

    def __reduce__(self) -> tuple[object, ...]:
        remedy = "in each process MemorySync.open(path)"
        wish = "a folder that each process opens"
        raise error(DTypeError, "pickle", wish, "an open store", remedy)

    def _keep(self, place: Host | Connections | None, about: About) -> Keeper:
        """Open the owner in this process, or be a client of another's."""
        self._alone: Owner | None = None
        self._shared: SharedKeeper | None = None
        if place is None:
            self._alone = self._make_owner(is_takeover=False)
            return self._alone
        self._shared = SharedKeeper(
            self.database,
            place,
            about,
            layout=self.layout,
            make_owner=self._make_owner,
            clock=self.now,
            patience=self.options.owner_timeout,
        )
        return self._shared

    def _make_owner(self, *, is_takeover: bool, layout: Layout | None = None) -> Owner:
        options = self.options
        if self.recipe.tables is not None and not options.read_only:
            with self.database.transaction() as connection:
                divide(connection)
        return Owner(
            self.database,
            layout or self.layout,
            model=self.guard.model,
            dim=self.dim,
            clock=self.now,
            joining=self.joining,
            snapshot_every=options.snapshot_every,
            device=options.device,
            threads=options.threads,
            progress=None if is_takeover else options.progress,
            opens_soon=is_takeover,
            guard=self.guard,
            fills_at_once=options.warm,
        )

    @property
    def keeper(self) -> Keeper:
        """Who commits changes and searches the index; refuses a closed or inherited store."""
        self.database.check_usable()
        return self._keeper

    @property
    def _known_dim(self) -> int | None:
        return self.options.dim or self.guard.dim

    def _first_dim(self, place: Host | Connections | None) -> int:
        """Return the length of vectors that is known before the embedder is called."""
        known: str | int | None = self._known_dim
        if known is None and isinstance(place, Connections):
            known = place.about.get("dim")
        if isinstance(known, int):
            return known
        with self.database.reading() as connection:
            if self.guard.model is not None:
                select = "SELECT dim FROM models WHERE model = ?"
                found = connection.execute(select, (self.guard.model,)).get
                return DIM if found is None else int(found)
            newest = newest_model(connection)
        return DIM if newest is None else newest[1]

    @property
    def means(self) -> Means:
        """The parts of a store that a recall uses."""
        return Means(
            database=self.database,
            search_index=self.keeper.search_index,
            touch=lambda rows, at: self.write(Touch(rows, at)),
            guard=self.guard,
            sessions=self.sessions,
            trackers=self._trackers,
            clock=self._clock if self.options.clock is None else self.now,
            layout=self.layout,
            settle=self.settle,
            budget=self.recall_timeout,
            patience=self._patience,
        )

    def now(self) -> datetime:
        """Return the time of the handle's clock, in UTC."""
        return in_utc(self._clock())

    def check_recipe(self, recipe: object) -> Recipe:
        """Return the recipe of a call; it must share the index of the store."""
        if recipe is None:
            return self.recipe
        if not isinstance(recipe, Recipe):
            raise error(DTypeError, "recipe", "an hr.Recipe", type(recipe).__name__)
        own = on_layout(recipe, self.layout)
        if own is None:
            wish = f"a recipe that shares an index with {self.recipe.name}"
            raise error(OptionError, "recipe", wish, recipe.name, "Memory.open(path, recipe=...)")
        return own

    def answer_with(self, answer: Callable[[Store, dict[str, Any]], dict[str, Any]]) -> None:
        """Answer by this function what is asked in plain JSON, while this process is the owner."""
        if self._shared is None:
            return
        known = weakref.ref(self)  # an owner that nobody closes must not keep its handle

        def answer_plainly(asked: dict[str, Any]) -> dict[str, Any]:
            store = known()
            return {"refused": "closed"} if store is None else answer(store, asked)

        self._shared.answer_plainly(answer_plainly)

    # ---- writing ----

    def write(self, change: Change[Reply], write_id: bytes | None = None) -> Reply:
        """Commit a change and return its reply, as :meth:`Keeper.write`."""
        return self.keeper.write(change, write_id=write_id)

    def follow(self) -> None:
        """Let the index follow changes that were not offered to it."""
        self.keeper.run(Owner.follow)

    @property
    def owner(self) -> Owner:
        """The owner."""
        owner = self._alone if self._shared is None else self._shared.owner
        if owner is None:
            raise error(StoreError, repr(self), "the process that owns the store", "another")
        return owner

    @property
    def opened(self) -> OpenReport | None:
        """How the owner's index was opened; None: on a thread, after a take-over."""
        return self.owner.opened

    @property
    def follower(self) -> Follower:
        """What keeps the index up to date, in the owner's process."""
        return self.owner.follower

    @property
    def background(self) -> Background:
        """The thread of the follower, in the owner's process."""
        return self.owner.background

    def owner_state(self) -> OwnerState | None:
        """Return who owns the store and who uses it; None: no process shares it."""
        self.database.check_usable()
        if self._shared is not None:
            return self._shared.state()
        return observe(self.database.folder) if self.options.read_only else None

    def embed(
        self, texts: Sequence[str], budget: float | None
    ) -> tuple[list[Vector | None], list[tuple[Degradation, ...]]]:
        """Embed texts before their transaction; return a vector of each, or why it has none."""
        if self.guard.off is not None and self.guard.off.is_choice:
            return [None] * len(texts), [()] * len(texts)
        most = self.guard.timeout
        if budget is None:
            budget = min(self.write_timeout, math.inf if most is None else most)
        rows, why = self.guard.embed_each(texts, budget=budget, waits=True)
        faults = Counter(Degradation.of_fault(one.fault, one.detail) for one in why if one)
        for reason, n in faults.items():
            if reason.reason is not DegradedReason.EMBEDDINGS_OFF:
                _log.warning("%d of %d kept without vectors: %s", n, len(texts), reason)
        self.settle()
        found: list[Vector | None] = [
            row if one is None and text.strip() else None
            for text, row, one in zip(texts, rows, why, strict=True)
        ]
        told: list[tuple[Degradation, ...]] = [
            () if one is None else (Degradation.of_fault(one.fault, one.told),) for one in why
        ]
        return found, told

    def settle(self) -> None:
        """Rebuild the index if the embedder's vectors have another length than was assumed."""
        dim = self.guard.dim
        if dim is None or dim == self.dim:
            return
        if not self._settling.acquire(blocking=False):
            return  # another thread is at it
        try:
            if dim != self.dim:
                try:
                    self.keeper.run(Owner.take_vectors, self.guard.model, dim)
                except IndexNotReadyError as fault:
                    _log.warning("the index could not be made anew: %s", fault.detail)
                self.dim = dim  # only now: a call that is interrupted before is repeated
        finally:
            self._settling.release()

    def given_vectors(self, vectors: object, n: int) -> Vectors | None:
        """Check the vectors that a caller passes; None: there are none."""
        if vectors is None:
            return None
        try:
            with np.errstate(over="ignore"):  # becomes an infinity, which is refused
                rows = np.asarray(vectors, np.float32)
        except (TypeError, ValueError, OverflowError):  # an int that no float holds
            raise error(DTypeError, "vectors", "rows of numbers", "others") from None
        if rows.shape != (n, self.dim):
            wish = f"shape ({n}, {self.dim})"
            raise error(ShapeError, "vectors", wish, rows.shape)
        if not np.isfinite(rows).all():
            raise error(OptionError, "vectors", "finite numbers", "NaN or infinity")
        found, is_taken = norms(rows)
        if not is_taken.all():
            at = int(np.flatnonzero(~is_taken)[0])
            raise error(OptionError, "vectors", NORMS, f"{found[at]:g} in row {at}")
        return rows

    @property
    def model(self) -> str:
        """Name the model of the vectors that are written."""
        return self.guard.model or GIVEN

    def wait_until_ready(self, timeout: float) -> bool:
        """Wait until the embedder is loaded and the index is up to date; return whether both
        are.
        """
        until = time.monotonic() + number("timeout", timeout, 0.0, 86_400.0, SECONDS)
        is_loaded = self.guard.wait_until_loaded(timeout)
        self.settle()
        while True:
            left = max(until - time.monotonic(), 0.0)
            state = self.keeper.run(Owner.await_index, left)
            if state in ("ready", "behind"):
                return state == "ready" and is_loaded
            if state == "unavailable" or not left:
                return False
            time.sleep(min(_PAUSE, left))

    # ---- closing ----

    def close(self) -> None:
        """Save the index and let go of everything. Closing twice is fine."""
        # A forked child leaves the store to its parent.
        if not self.database.is_here:
            return
        with ExitStack() as held:  # each is let go of, the last here first, whatever the others do
            held.callback(self.guard.close)
            held.callback(self._keeper.close)
            held.callback(self._own_sessions.close)
            held.callback(self._trackers.close)

    def __repr__(self) -> str:
        return str(self.database.folder or IN_MEMORY)


def _first(*seconds: float | None) -> float:
    """Return the first of several times that is said."""
    return next(one for one in seconds if one is not None)


def _now() -> datetime:
    return datetime.now(UTC)
