"""Opens a store that processes share: as its owner, or as a client of the owner.

A client whose owner is gone takes the lock and becomes the owner in place, or connects to whoever
was faster. What it was asked meanwhile is asked again; a change carries an id, so that one that
the last owner committed is not made twice.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial, reduce
from operator import and_, or_
from pathlib import Path
from typing import Any, Concatenate, Final, Protocol, TypeAlias, TypeVar, cast

from hyrecall.arm.kinds import PARTS
from hyrecall.ask import expansion, predicates, recipe, scoring
from hyrecall.ask.filters import Filter
from hyrecall.ask.recipe import Recipe
from hyrecall.ask.scope import Scope
from hyrecall.base import threads
from hyrecall.base.threads import caller_of, serving
from hyrecall.errors import HyrecallError, OptionError, StoreBusyError, StoreMismatchError, error
from hyrecall.hits.confidence import Confidence, Judged, Signal
from hyrecall.hits.dropped import Dropped, DroppedRow, Peer, StageDrops
from hyrecall.hits.explain_text import Component, Explanation, Scaling, Term
from hyrecall.hits.trace import StageTrace, Trace
from hyrecall.memory import changes
from hyrecall.memory.changes import Change
from hyrecall.memory.data.matches import Degradation, DegradedReason
from hyrecall.memory.data.sessions import SessionName
from hyrecall.memory.data.types import Edge, Episode, Fact, Participant
from hyrecall.memory.derived.layout import IndexNotReadyError, Layout
from hyrecall.memory.derived.projection import load_arrow
from hyrecall.memory.faces.transfer import AgentLine, ExportLine, FeedbackLine, VersionLine
from hyrecall.memory.keeping import P_, TASKS, Compacted, Keeper, Owner
from hyrecall.memory.recall.audience import EVERYONE, AskedBy
from hyrecall.memory.recall.call import FoundRows, IndexQuestion
from hyrecall.memory.sharing.client import (
    Connections,
    connect_to,
    elect,
    listen_in,
    remove_socket,
    state_of,
    without_sockets,
)
from hyrecall.memory.sharing.server import AnswersPlainly, Server
from hyrecall.memory.sharing.wire import (
    ClassCodec,
    ClientState,
    Codec,
    ConnectionLost,
    Hello,
    OwnerState,
)
from hyrecall.memory.sql.codec import Cell
from hyrecall.memory.sql.connecting import disk_named
from hyrecall.memory.sql.database import Database
from hyrecall.memory.sql.doctor import DoctorCheck
from hyrecall.memory.sql.lock import WriterLock
from hyrecall.memory.sql.store_sessions import Conversation
from hyrecall.memory.sql.writing import NewVersion, Selection
from hyrecall.stages.feedback import SecondLook
from hyrecall.stages.registry import built_in
from hyrecall.stages.session import Session
from hyrecall.stages.stage import Step
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

# ---- Requests of a client to the owner of a store, and the settings that both must share ----

About: TypeAlias = Mapping[str, str | int | None]
"""What a process knows of its store: format, layout, recipe, analyzer, model, dim."""


@dataclass(frozen=True)
class Task:
    """Upkeep that only the owner can do: one of :data:`TASKS`, and its arguments."""

    name: str
    given: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OwnerRequest:
    """A change to commit, once under its id, or a question of the index, or a task."""

    what: Change[Any] | IndexQuestion | Task
    write_id: bytes | None = None
    now: datetime | None = None
    layout: About | None = None
    caller: str | None = field(default_factory=caller_of)


Answered: TypeAlias = Any


def answer(owner: Owner, asked: object) -> Answered:
    """Do what a client asks."""
    if isinstance(asked, OwnerRequest):
        what = asked.what
        if isinstance(what, Change):
            return owner.write(what, write_id=asked.write_id, now=asked.now)
        with serving(asked.caller):
            if isinstance(what, IndexQuestion):
                return replace(owner.search_index(what), ranked=None)
            if isinstance(what, Task) and what.name in TASKS:
                return TASKS[what.name](owner, *what.given, **what.named)
    raise error(OptionError, "message", "a change, a question or a task", type(asked).__name__)


class RemoteRows:
    """Explains rows that the owner ranked, by asking it again."""

    def __init__(self, keeper: Keeper, question: IndexQuestion, found: FoundRows) -> None:
        self._keeper, self._question = keeper, question
        self._rows, self._scores = found.rows, found.scores

    def explain(self, place: int) -> Explanation:
        """Recompute the score of a row, by its place from 0."""
        row, score = self._rows[place], self._scores[place]
        return self._keeper.run(Owner.explain_row, self._question, place, row, score)

    def explain_dropped(self, most: int) -> Dropped:
        """Say what the stages left out."""
        asked = self._question, self._rows, self._scores
        return self._keeper.run(Owner.explain_dropped, *asked, most)

    def judge(self) -> Judged:
        """Return how sure the reply is, and each row."""
        asked = self._question, self._rows, self._scores
        return self._keeper.run(Owner.judge_rows, *asked)


_COMPARED = ("format", "model", "dim")
_OF_LAYOUTS = ("layout", "analyzer", "recipe")


def compare(own: About, other: About, pid: int) -> None:
    """Compare what owner and client know of their store, when the client connects."""
    # A side without an embedder differs in neither model nor length.
    has_models = own.get("model") is not None and other.get("model") is not None
    for name in _COMPARED:
        mine, theirs = own.get(name), other.get(name)
        if name != "format" and (not has_models or mine is None or theirs is None):
            continue
        if mine != theirs:
            raise _mismatch(name, mine, theirs, pid)


_SEARCHES = ("explain_row", "explain_dropped", "judge_rows", "await_index")


def searches(what: object) -> bool:
    """Return whether something that is asked needs an index of the asker's layout."""
    return isinstance(what, IndexQuestion) or (isinstance(what, Task) and what.name in _SEARCHES)


def layout_told(about: About) -> About:
    """Return what a process says of its layout."""
    return {name: about.get(name) for name in _OF_LAYOUTS}


def compare_layouts(own: About, other: About | None, pid: int) -> None:
    """Compare the layout of the index with the one that a search is made for."""
    # Recipes may differ as long as they read the same index.
    told: About = {} if other is None else other
    if own.get("layout") != told.get("layout"):
        name = "recipe" if own.get("analyzer") == told.get("analyzer") else "analyzer"
        raise _mismatch(name, own.get(name), told.get(name), pid)


def _mismatch(name: str, mine: object, theirs: object, pid: int) -> StoreMismatchError:
    wish = f"{mine}, as in the process that owns the store (pid {pid})"
    return error(StoreMismatchError, name, wish, theirs)


# ---- The classes whose instances cross between processes: an allow-list ----

_MOST_PARTS = 10_000


def _filter(op: object, tests: object, parts: object) -> Filter:
    """Make a filter as its operators make it, so that everything is checked."""
    if not isinstance(tests, tuple) or not isinstance(parts, tuple) or len(parts) > _MOST_PARTS:
        raise error(OptionError, "filter", "tests and parts", "others")
    if op == "test":
        return Filter(**dict(tests))
    if not parts or not all(isinstance(part, Filter) for part in parts):
        raise error(OptionError, "filter", "filters to join", "others")
    if op == "not" and len(parts) == 1:
        return cast(Filter, ~parts[0])
    if op in ("and", "or"):
        return cast(Filter, reduce(and_ if op == "and" else or_, parts))
    raise error(OptionError, "filter", "a known operator", repr(op)[:40])


def _weighted(of: type, *options: str) -> ClassCodec:
    """Return the kind of a fusion, which is made of a mapping of weights."""

    def parts(value: Any) -> Iterable[Any]:
        weights = None if value.weights is None else dict(value.weights)
        return (weights, *(getattr(value, name) for name in options))

    def make(weights: Any, *values: Any) -> Any:
        return of(weights, **dict(zip(options, values, strict=True)))

    return ClassCodec(of, parts, make)


def _predicate(of: type) -> ClassCodec:
    return ClassCodec(of, lambda value: value.values, of)


OF_RECIPES: Final[tuple[type | ClassCodec, ...]] = (
    replace(ClassCodec.read(Recipe), is_kept=True),
    *(recipe.Lexical, recipe.Dense, recipe.TieBreak, recipe.Coefficients),
    *(recipe.Tables, recipe.Fill, recipe.WithThreads),
    *PARTS,
    *(expansion.Context, expansion.SharedTags),
    *built_in().values(),
    *(scoring.Above, BM25),
    _weighted(scoring.RRF, "rank_constant", "alpha", "alpha_mode"),
    _weighted(scoring.WeightedSum, "normalize", "complete", "balance"),
    _weighted(scoring.Max, "normalize", "complete"),
    _weighted(scoring.DBSF, "complete"),
)
"""Recipes and what they are made of."""

OF_REQUESTS: Final[tuple[type | ClassCodec, ...]] = (
    ClassCodec(Filter, lambda value: value._identity(), _filter),
    *map(
        _predicate,
        (
            *(predicates.Equal, predicates.AnyOf, predicates.Between, predicates.NoneOf),
            *(predicates.AllOf, predicates.IsNull, predicates.NotNull),
        ),
    ),
    ClassCodec(Scope, lambda value: (value.cells,), Scope),
    Session,
)
"""What else a request of an index is made of."""

OF_STORES: Final[tuple[type | ClassCodec, ...]] = (
    *(OwnerRequest, Task, Compacted, IndexQuestion, FoundRows, OwnerState, ClientState),
    *(changes.Remember, changes.RememberFact, changes.Update, changes.Supersede),
    *(changes.EndFact, changes.Forget, changes.Pin, changes.AddEdge, changes.RemoveEdge),
    *(changes.UpdateMany, changes.SetPolicy),
    *(changes.Touch, changes.RecordConversations, Conversation, changes.SetVectors),
    changes.GiveFeedback,
    *(changes.ImportLines, changes.ImportedLines, changes.SettleTables),
    Layout,
    ClassCodec(Analyzer, lambda value: (value.to_dict(),), Analyzer.from_dict),
    *(Episode, Fact, Edge, Participant, NewVersion, Cell, Selection, SessionName),
    *(ExportLine, VersionLine, AgentLine, FeedbackLine, AskedBy, type(EVERYONE)),
    *(DoctorCheck, Degradation, DegradedReason, Trace, StageTrace),
    *(Explanation, Component, Scaling, Step, Term, SecondLook, Judged, Confidence, Signal),
    *(Dropped, StageDrops, DroppedRow, Peer),
)
"""Changes, questions and tasks of a store, their replies, and what they are made of."""

CODEC: Final = Codec((*OF_RECIPES, *OF_REQUESTS, *OF_STORES))
"""The codec between the processes of a store."""


# ---- The owner's side of a shared store: the lock, the server, and the owner once it is open ----

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

    def answer_plainly(self, answer: AnswersPlainly | None) -> None:
        """Answer by this function what is asked in JSON."""
        self._server.answer_plainly = answer

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
                    self.owner.snapshot()

    def _answer(self, asked: object) -> Any:
        if not isinstance(asked, OwnerRequest) or not searches(asked.what):
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
                with contextlib.suppress(RuntimeError):  # the interpreter ends: too late to import
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
