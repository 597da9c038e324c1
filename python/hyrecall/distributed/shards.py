"""The shards that a :class:`hyrecall.distributed.ShardedIndex` asks: here, or in a process."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from hyrecall.base.arguments import number
from hyrecall.base.forks import renew_in_children
from hyrecall.distributed.asked_shard import AskedShard
from hyrecall.distributed.channel import Channel, Ended, Late, Pending
from hyrecall.distributed.lost_shards import Fault
from hyrecall.distributed.pipes import rebuild
from hyrecall.distributed.question import Question
from hyrecall.distributed.shard_opening import CheckedVersion, ShardOpening
from hyrecall.distributed.turns import turns
from hyrecall.errors import OptionError, ShardLostError, error
from hyrecall.index import Index
from hyrecall.parts.counts import Statistics
from hyrecall.parts.lookups import Looked, Lookup
from hyrecall.parts.part import Part
from hyrecall.parts.request import Request
from hyrecall.segments.facts import IndexFacts

__all__ = [
    "Ask",
    "AskedAlone",
    "LocalShard",
    "LooksUp",
    "Named",
    "OpenShard",
    "ProcessShard",
    "SavedShard",
    "Shard",
    "closed",
    "read_timeout",
]

MOST_SECONDS = 1e6  # of a timeout; locks refuse much longer ones


class Named(Protocol):
    """An object with a name."""

    @property
    def name(self) -> str:
        """The name in ``degraded``."""
        ...


N_ = TypeVar("N_", bound=Named)
T_ = TypeVar("T_")


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
class LooksUp(Shard, Protocol):
    """A shard that also answers look-ups, which graphs need."""

    def lookup(self, lookup: Lookup) -> Looked:
        """Answer a question about the documents that some queries may see."""
        ...


@runtime_checkable
class OpenShard(AskedAlone, LooksUp, Protocol):
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

    def lookup_as_it_is(self, lookup: Lookup) -> Looked:
        """Return the same as :meth:`lookup`, but load no newer version first."""
        ...

    def reload(self) -> str:
        """Load the version that the folder holds now; return the name of its state."""
        ...

    def check(self) -> None:
        """Raise ShardLostError if the shard does not answer, CorruptIndexError if it is damaged."""
        ...


class Ask(Protocol):
    """Asks shards; those that do not answer are recorded in ``lost``."""

    def __call__(
        self, shards: Sequence[N_], begin: Callable[[N_], Question[T_]], lost: dict[str, Fault], /
    ) -> list[tuple[N_, T_]]:
        """Return each shard that answers, with its answer. ``begin`` makes the question of one."""
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

    def lookup(self, lookup: Lookup) -> Looked:
        """Answer a question about the documents that some queries may see."""
        return self.index._look_up(lookup)

    lookup_as_it_is = lookup

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
    # question
    # after the unanswered one. The new process does not compare the same version with its checksums
    # again. A forked child starts its own processes.

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
