"""The shards of a sharded index, in this process or another: calls, turns, opening, loss."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable
from weakref import WeakKeyDictionary

from hyrecall.base.arguments import convert_field, number
from hyrecall.base.forks import renew_in_children
from hyrecall.base.runtime import choose_threads
from hyrecall.distributed.channel import Channel, Ended, Late, Pending, rebuild
from hyrecall.errors import CorruptIndexError, OptionError, ShardLostError, error
from hyrecall.index import Index
from hyrecall.parts.counts import Statistics
from hyrecall.parts.part import Part
from hyrecall.parts.request import Request
from hyrecall.segments.opening import OpenOptions, read_pin
from hyrecall.segments.segments import IndexFacts
from hyrecall.text.analyzer import Analyzer

# ---- A question to a shard, which may be sent before a thread waits for its answer ----

T_ = TypeVar("T_")


@dataclass(frozen=True, slots=True)
class Question(Generic[T_]):
    """A question and the function that returns its answer."""

    answer: Callable[[], T_]
    is_under_way: bool = False


# ---- Lets threads that ask shards take turns with the interpreter (GIL), and release it to wait
# Python runs one thread at a time. Threads that pack, unpack and merge at the same time hand the
# interpreter over at every call that releases it, some twenty times a question; each handover wakes
# a thread. So a thread takes a turn for its work between two waits.
#
# A thread that has waited for its turn for ``PATIENCE`` seconds goes on without one. So foreign
# code that runs in a turn (arrays of a request may be of any class) cannot make threads wait for
# one another forever.

PATIENCE = 1.0
"""Seconds after which a thread goes on without a turn."""


class _Own(threading.local):
    """Whether the running thread has its turn, and how deep its calls are nested."""

    depth = 0  # of nested :meth:`_Turns.kept`
    has = False


class _ThreadTurns:
    """Lets threads call a shard one after the other; made new in a forked child."""

    def __init__(self) -> None:
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """Forget whose turn it is."""
        self._lock = threading.Lock()
        self._own = _Own()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep a turn that is taken inside this block until its end, or until the thread waits."""
        own = self._own  # a child that is forked meanwhile has another one
        own.depth += 1
        try:
            yield
        finally:
            own.depth -= 1
            if not own.depth:
                self.leave()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Run this block in a turn, or without one after ``PATIENCE`` seconds."""
        own = self._own
        with self.kept():
            if not own.has:
                own.has = True  # set first: a turn taken just before an interrupt is still ended
                own.has = self._lock.acquire(timeout=PATIENCE)
            yield

    def leave(self) -> None:
        """End the turn of this thread, if it has one. Called before each wait."""
        if self._own.has:
            # Released first: after an interrupt in between, the turn can still be ended.
            with contextlib.suppress(RuntimeError):  # not taken, after an interrupt
                self._lock.release()
            self._own.has = False


turns = _ThreadTurns()


# ---- A shard in another process: requests and answers are sent as bytes ----


class _Packing:
    """Packs requests to bytes, each in one thread only; a forked child makes new locks."""

    def __init__(self) -> None:
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """Create the locks."""
        self._lock = threading.Lock()
        self._of_requests: WeakKeyDictionary[Request, threading.Lock] = WeakKeyDictionary()

    def packed(self, request: Request) -> bytes:
        """Return the bytes of a request; one thread packs it."""
        # Threads wait only for the same request, because its arrays may run any code, even another
        # recall.
        with self._lock:
            own = self._of_requests.setdefault(request, threading.Lock())
        with own:
            return request.to_bytes()


_packing = _Packing()


class AskedShard:
    """A shard in another process, which takes and returns bytes."""

    facts: IndexFacts

    def _ask(self, *frames: bytes) -> bytes:
        """Return the answer to a question."""
        raise NotImplementedError  # implemented for processes and actors

    def _begin(self, *frames: bytes) -> Question[bytes]:
        """Send a question if this is possible without waiting for its answer."""
        return Question(partial(self._ask, *frames))

    def begin_statistics(self, request: Request) -> Question[Statistics]:
        """Send the question of :meth:`statistics`."""
        return self._counted(b"statistics", request)

    def begin_candidates(self, request: Request, statistics: Statistics) -> Question[Part]:
        """Send the question of :meth:`candidates`."""
        asked = _packing.packed(request)
        with turns.taken():
            given = asked, statistics.to_bytes()
        return self._found(b"candidates", *given)

    def begin_alone(self, request: Request) -> Question[Part]:
        """Send the question of :meth:`alone`."""
        return self._found(b"alone", _packing.packed(request))

    def statistics(self, request: Request) -> Statistics:
        """Return the shard's counts for BM25."""
        return self.begin_statistics(request).answer()

    def count(self, request: Request) -> Statistics:
        """Return the same as :meth:`statistics`, but load no newer version first."""
        return self._counted(b"count", request).answer()

    def candidates(self, request: Request, statistics: Statistics) -> Part:
        """Return each arm's best documents of the shard."""
        return self.begin_candidates(request, statistics).answer()

    def alone(self, request: Request) -> Part:
        """Return each arm's best documents, scored with the counts of this shard alone."""
        return self.begin_alone(request).answer()

    def alone_as_it_is(self, request: Request) -> Part:
        """Return the same as :meth:`alone`, but load no newer version first."""
        return self._found(b"alone_as_it_is", _packing.packed(request)).answer()

    def reload(self) -> str:
        """Load the version that the folder holds now; return the name of its state."""
        return self._ask(b"reload").decode()

    def _counted(self, verb: bytes, request: Request) -> Question[Statistics]:
        return _read(self._begin(verb, _packing.packed(request)), Statistics.from_bytes)

    def _found(self, *frames: bytes) -> Question[Part]:
        return _read(self._begin(*frames), partial(Part.from_bytes, facts=self.facts))


def _read(asked: Question[bytes], read: Callable[[bytes], T_]) -> Question[T_]:
    """Return a question that decodes the answer of another one."""

    def answer() -> T_:
        data = asked.answer()
        with turns.taken():
            return read(data)

    return Question(answer, is_under_way=asked.is_under_way)


# ---- Why shards are lost: the messages of replies without them, and the error if no shard answers

Fault: TypeAlias = ShardLostError | CorruptIndexError
"""Why a shard has no answer; the reply then comes from the other shards."""


def told_of(lost: Mapping[str, Fault]) -> list[str]:
    """Return the messages about lost shards for ``degraded``."""
    told = {name: _why_lost(fault) for name, fault in lost.items()}
    return [f"{name}: its documents are missing ({why})" for name, why in told.items()]


def all_lost(faults: Iterable[Fault]) -> Fault:
    """Return the error of a call that no shard answers: CorruptIndexError if all are damaged."""
    faults = list(faults)
    if faults and all(isinstance(one, CorruptIndexError) for one in faults):
        return faults[0]
    got = "; ".join(map(_why_lost, faults))
    return error(ShardLostError, "shards", "an answer of at least one", got)


def _why_lost(fault: Fault) -> str:
    """Return why the documents of a shard are missing."""
    return f"its files are damaged: {fault}" if isinstance(fault, CorruptIndexError) else str(fault)


# ---- The options with which the saved index of each shard is opened, here or in another process


@dataclass(frozen=True)
class ShardOpening:
    """Options of :meth:`hyrecall.Index.open` that hold for each shard, with the same names."""

    device: str = "auto"
    threads: int | None = None
    memory: str = "mmap"
    verify: str | None = None
    pin: Sequence[str] | str = ()

    def __post_init__(self) -> None:
        """Check the options, except the device, which may be that of another machine."""
        convert_field(self, "pin", lambda _, pin: read_pin(pin))
        OpenOptions(memory=self.memory, verify=self.verify, pin=read_pin(self.pin))
        choose_threads(self.threads)

    def open(
        self, path: str | Path, analyzer: Analyzer | Mapping[str, Analyzer] | None = None
    ) -> Index:
        """Open a saved index in this process."""
        return Index.open(path, analyzer=analyzer, embed={}, **self.options)

    @property
    def options(self) -> dict[str, Any]:
        """The options by name, as :meth:`hyrecall.Index.open` takes them."""
        return asdict(self)

    @property
    def once_checked(self) -> ShardOpening:
        """The options for a version whose checksums were compared before: ``"structure"``."""
        return replace(self, verify="structure")

    def to_json(self) -> str:
        """Return the options for the command line of another process."""
        return json.dumps(self.options)

    @classmethod
    def from_json(cls, text: str) -> ShardOpening:
        """Read the options that :meth:`to_json` wrote."""
        return cls(**json.loads(text))


class CheckedVersion:
    """The version of a folder that was opened last, with the checks that ``verify`` asks for."""

    # The processes of a shard share it: one that takes the place of another one does not compare
    # the same version with its checksums again.

    def __init__(self, seal: str | None = None) -> None:
        self.seal = seal


# ---- The shards that a :class:`hyrecall.distributed.ShardedIndex` asks: here, or in a process ----

MOST_SECONDS = 1e6  # of a timeout; locks refuse much longer ones


class Named(Protocol):
    """An object with a name."""

    @property
    def name(self) -> str:
        """The name in ``degraded``."""
        ...


class Shard(Protocol):
    """The methods that a sharded index calls on each shard."""

    # ``statistics`` and ``candidates`` raise ShardLostError if the shard cannot be asked,
    # CorruptIndexError if its files are damaged, and the index's own errors.

    @property
    def name(self) -> str:
        """The name in ``degraded``."""
        ...

    def statistics(self, request: Request) -> Statistics:
        """Return the shard's counts for BM25."""
        ...

    def candidates(self, request: Request, statistics: Statistics) -> Part:
        """Return each arm's best documents of the shard."""
        ...

    def close(self) -> None:
        """Close the shard."""
        ...


@runtime_checkable
class AskedAlone(Shard, Protocol):
    """A shard that can also count and search in one trip."""

    def alone(self, request: Request) -> Part:
        """Return each arm's best documents, scored with the counts of this shard alone."""
        ...


@runtime_checkable
class OpenShard(AskedAlone, Protocol):
    """A shard whose folder may get new versions, and which may be one of several replicas."""

    name: str

    @property
    def facts(self) -> IndexFacts:
        """The facts that all shards of the index share."""
        ...

    def count(self, request: Request) -> Statistics:
        """Return the same as :meth:`statistics`, but load no newer version first."""
        ...

    def alone_as_it_is(self, request: Request) -> Part:
        """Return the same as :meth:`alone`, but load no newer version first."""
        ...

    def reload(self) -> str:
        """Load the version that the folder holds now; return the name of its state."""
        ...

    def check(self) -> None:
        """Raise ShardLostError if the shard does not answer, CorruptIndexError if it is damaged."""
        ...


class SavedShard(NamedTuple):
    """The saved index of a shard that another process opens."""

    path: Path
    seal: str | None
    checked: CheckedVersion


class LocalShard:
    """A shard in this process. It loads a newer version only in :meth:`reload`."""

    def __init__(self, name: str, index: Index, *, is_fixed: bool = False) -> None:
        """Take an index, which is closed with the shard; a fixed shard keeps its version."""
        self.name = name
        self.index = index
        self.is_fixed = is_fixed

    @property
    def facts(self) -> IndexFacts:
        """The facts that all shards of the index share."""
        return self.index._facts

    def statistics(self, request: Request) -> Statistics:
        """Return the shard's counts for BM25."""
        return self.index.statistics(request)

    count = statistics

    def reload(self) -> str:
        """Load the version that the folder holds now; return the name of its state."""
        if self.index.is_stale and not self.is_fixed:
            self.index.reload()
        return self.index._version

    def check(self) -> None:
        """Do nothing: a shard in this process answers."""

    def candidates(self, request: Request, statistics: Statistics) -> Part:
        """Return each arm's best documents of the shard."""
        return self.index.candidates(request, statistics)

    def alone(self, request: Request) -> Part:
        """Return each arm's best documents, scored with the counts of this shard alone."""
        return self.candidates(request, self.statistics(request))

    alone_as_it_is = alone

    def close(self) -> None:
        """Close the index."""
        self.index.close()


class _Sent(NamedTuple):
    """A question, and the channel that it was sent to."""

    channel: Channel
    question: Pending


class ProcessShard(AskedShard):
    """A shard in its own process, which opens the index of a path."""

    # A process that ended is replaced: at once if ``tries`` is 2; if ``tries`` is 1, at the
    # question after the unanswered one. The new process does not compare the same version with its
    # checksums again. A forked child starts its own processes.

    def __init__(
        self,
        saved: SavedShard,
        facts: IndexFacts,
        opening: ShardOpening,
        *,
        timeout: float | None,
        name: str | None = None,
        tries: int = 2,
    ) -> None:
        """Take a saved index and its facts; the process starts with the first call."""
        self.name = str(saved.path) if name is None else name
        self.facts = facts
        self._timeout = read_timeout(timeout)
        self._tries = tries
        self._command = [
            *(sys.executable, "-m", "hyrecall.distributed.worker", os.path.abspath(saved.path)),
            *("--opening", opening.to_json()),
            *(() if saved.seal is None else ("--seal", saved.seal)),
        ]
        self._checked = saved.checked
        self._channel: Channel | None = None
        self._starting = threading.Lock()
        self._is_closed = False
        renew_in_children(self)

    def check(self) -> None:
        """Raise ShardLostError if the process does not answer; a busy one counts as answering."""
        if not self.is_busy:
            self._ask(b"state")

    @property
    def is_busy(self) -> bool:
        """Whether the process runs and has a question to answer."""
        channel = self._channel
        return channel is not None and channel.is_busy

    @property
    def pid(self) -> int | None:
        """The id of the process; None: it is not started."""
        channel = self._channel
        return None if channel is None or channel.is_over else channel.pid

    def close(self) -> None:
        """End the process, even while it answers a question; later questions are refused."""
        self._is_closed = True
        with self._starting:
            channel = self._channel
        if channel is not None:
            channel.end()

    def renew(self) -> None:
        """Forget the process in a forked child: it answers the parent, and ends with the parent."""
        self._starting = threading.Lock()
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.forget()

    def _ask(self, *frames: bytes) -> bytes:
        """Return the answer to a question."""
        return self._begin(*frames).answer()

    def _begin(self, *frames: bytes) -> Question[bytes]:
        """Send a question; start a process if none runs."""
        sent = self._sent(frames)
        return Question(
            partial(self._answer, frames, sent), is_under_way=sent.question.is_under_way
        )

    def _answer(self, frames: Sequence[bytes], sent: _Sent) -> bytes:
        """Return the answer to a question that was sent; if its process ended, ask a new one."""
        # Questions change nothing, so asking twice counts nothing twice.
        left = self._tries
        while True:
            turns.leave()
            try:
                kind, answer, *checked = sent.channel.receive(sent.question)
                break
            except Late as fault:
                got = f"none within {fault.seconds} s"
                raise error(ShardLostError, self.name, "an answer", got) from fault
            except Ended as fault:
                left -= fault.was_at_work
                if not left:
                    got = ("a process that ended", "two processes that ended")[self._tries - 1]
                    raise error(ShardLostError, self.name, "an answer", got) from fault
                sent = self._sent(frames)
        for seal in checked:
            self._checked.seal = seal.decode()
        if kind != b"answer":
            raise rebuild(answer)
        return answer

    def _sent(self, frames: Sequence[bytes]) -> _Sent:
        may_wait = frames[0] in (b"reload", b"state")
        while True:
            channel = self._started(may_wait=may_wait)
            with suppress(Ended):  # it ended since it was started
                return _Sent(channel, channel.send(*frames))

    def _started(self, *, may_wait: bool) -> Channel:
        """Return the channel to a process that runs, as far as is known."""
        with self._starting:
            if self._is_closed:
                raise closed()
            channel = self._channel
            if channel is not None and not channel.is_over and channel.has_ended:
                channel.end()
                self._channel = None
                if self._tries == 1 and not may_wait:
                    raise error(ShardLostError, self.name, "an answer", "a process that ended")
            if self._channel is None or self._channel.is_over:
                seal = self._checked.seal
                checked = () if seal is None else ("--checked", seal)
                self._channel = Channel((*self._command, *checked), self._timeout)
            return self._channel


def closed() -> OptionError:
    """Return the error of a call to a closed index."""
    return error(OptionError, "index", "an open index", "a closed one")


def read_timeout(timeout: object, argument: str = "timeout") -> float | None:
    """Return seconds; None: no limit."""
    if timeout is None:
        return None
    wish = f"seconds above 0 and up to {MOST_SECONDS:.0f}, or None"
    seconds = number(argument, timeout, 0.0, MOST_SECONDS, wish)
    if not seconds:
        raise error(OptionError, argument, wish, repr(timeout))
    return seconds
