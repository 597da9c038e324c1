"""Shards as :class:`hyrecall.distributed.ShardedIndex` asks them: here, or in another process."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from hyrecall.base.arguments import number
from hyrecall.distributed.asked_shard import AskedShard
from hyrecall.distributed.children import renew_in_children
from hyrecall.distributed.pipes import PipeClosed, read_frames, rebuild, write_frames
from hyrecall.errors import CorruptIndexError, OptionError, ShardLostError, error
from hyrecall.index import Index
from hyrecall.parts.counts import Statistics
from hyrecall.parts.part import Part
from hyrecall.parts.request import Request
from hyrecall.segments.facts import IndexFacts

__all__ = [
    "Ask",
    "AskedAlone",
    "LocalShard",
    "Named",
    "OpenShard",
    "ProcessShard",
    "SavedShard",
    "Shard",
    "closed",
    "read_timeout",
    "told_of",
    "why_lost",
]

MOST_SECONDS = 1e6  # of a timeout; more than a lock takes is an error
START_SECONDS = 60.0  # that a process may take beside its timeout, to start and open the index
_of_parents: list[subprocess.Popen[bytes]] = []  # of a forked child: never used, never collected


class Named(Protocol):
    """What is called by a name."""

    @property
    def name(self) -> str:
        """What ``degraded`` calls it."""
        ...


N_ = TypeVar("N_", bound=Named)
T_ = TypeVar("T_")


class Shard(Protocol):
    """What a sharded index asks of each shard.

    Both calls raise ShardLostError if the shard cannot be asked, CorruptIndexError if its files
    are damaged, and the index's own errors.
    """

    @property
    def name(self) -> str:
        """What ``degraded`` calls it."""
        ...

    def statistics(self, request: Request) -> Statistics:
        """Count what BM25 needs of the shard."""
        ...

    def candidates(self, request: Request, statistics: Statistics) -> Part:
        """Return each arm's best documents of the shard."""
        ...

    def close(self) -> None:
        """Let go of the shard."""
        ...


@runtime_checkable
class AskedAlone(Shard, Protocol):
    """A shard that can also count and search in one trip."""

    def alone(self, request: Request) -> Part:
        """Return each arm's best documents, scored by what this shard counts alone."""
        ...


@runtime_checkable
class OpenShard(AskedAlone, Protocol):
    """A shard whose folder may be saved anew, and which may be one of several replicas."""

    name: str

    @property
    def facts(self) -> IndexFacts:
        """What all shards of the index have in common."""
        ...

    def count(self, request: Request) -> Statistics:
        """Count as :meth:`statistics` does, but take up no newer version before."""
        ...

    def alone_as_it_is(self, request: Request) -> Part:
        """Count and search as :meth:`alone` does, but take up no newer version before."""
        ...

    def reload(self) -> str:
        """Take up the version that the folder holds now; return the name of the state."""
        ...

    def check(self) -> None:
        """Raise ShardLostError if the shard does not answer, CorruptIndexError if it is damaged."""
        ...


class Ask(Protocol):
    """Asks shards side by side, each by a call; those that do not answer are noted in ``lost``."""

    def __call__(
        self, shards: Sequence[N_], call: Callable[[N_], T_], lost: dict[str, str], /
    ) -> list[tuple[N_, T_]]:
        """Return each shard that answers, with its answer."""
        ...


def told_of(lost: Mapping[str, str]) -> list[str]:
    """Say that shards are missing, as ``degraded`` does."""
    return [f"{name}: its documents are missing ({why})" for name, why in lost.items()]


def why_lost(fault: ShardLostError | CorruptIndexError) -> str:
    """Say why the documents of a shard are missing."""
    return f"its files are damaged: {fault}" if isinstance(fault, CorruptIndexError) else str(fault)


class SavedShard(NamedTuple):
    """The saved index of a shard that another process opens.

    Attributes
    ----------
    path : Path
    seal : str or None
        Of its only version that may be opened; None: the newest, also while it is open.
    """

    path: Path
    seal: str | None


class LocalShard:
    """A shard in this process. It takes up a newer version only in :meth:`reload`."""

    def __init__(self, name: str, index: Index, *, is_fixed: bool = False) -> None:
        """Take an index, which is closed with the shard; a fixed one keeps its version."""
        self.name = name
        self.index = index
        self.is_fixed = is_fixed

    @property
    def facts(self) -> IndexFacts:
        """What all shards of the index have in common."""
        return self.index._facts

    def statistics(self, request: Request) -> Statistics:
        """Count what BM25 needs of the shard."""
        return self.index.statistics(request)

    count = statistics

    def reload(self) -> str:
        """Take up the version that the folder holds now; return the name of the state."""
        if self.index.is_stale and not self.is_fixed:
            self.index.reload()
        return self.index._version

    def check(self) -> None:
        """Do nothing: a shard in this process answers."""

    def candidates(self, request: Request, statistics: Statistics) -> Part:
        """Return each arm's best documents of the shard."""
        return self.index.candidates(request, statistics)

    def alone(self, request: Request) -> Part:
        """Return each arm's best documents, scored by what this shard counts alone."""
        return self.candidates(request, self.statistics(request))

    alone_as_it_is = alone

    def close(self) -> None:
        """Close the index."""
        self.index.close()


class _Ended(Exception):  # noqa: N818
    """The process of a shard ended. Raised inside this module only."""


class ProcessShard(AskedShard):
    """A shard in a process of its own, which opened the index of a path.

    Another process takes the place of one that ended: at once if ``tries`` is 2; if it is 1, at the
    question after the one that was not answered. A forked child starts processes of its own.
    """

    def __init__(
        self,
        saved: SavedShard,
        facts: IndexFacts,
        *,
        device: str,
        threads: int | None,
        timeout: float | None,
        name: str | None = None,
        tries: int = 2,
    ) -> None:
        """Take a saved index, and its facts; the process starts with the first call."""
        self.name = str(saved.path) if name is None else name
        self.facts = facts
        self._timeout = read_timeout(timeout)
        self._tries = tries
        options = [] if threads is None else ["--threads", str(threads)]
        options += [] if saved.seal is None else ["--seal", saved.seal]
        self._command = [
            *(sys.executable, "-m", "hyrecall.distributed.worker", os.path.abspath(saved.path)),
            *("--device", device, *options),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._ending: weakref.finalize[[subprocess.Popen[bytes]], ProcessShard] | None = None
        self._asking = threading.Lock()
        self._is_new = True  # the process has answered nothing yet
        self._is_closed = False
        renew_in_children(self)

    def check(self) -> None:
        """Raise ShardLostError if the process does not answer; one at work on a question does."""
        if not self._asking.locked():
            self._ask(b"state")

    @property
    def pid(self) -> int | None:
        """The id of the process; None: it is not started."""
        return None if self._process is None else self._process.pid

    def close(self) -> None:
        """End the process, also where it is at work on a question; later ones are refused."""
        self._is_closed = True
        process = self._process
        if process is not None:
            process.kill()
        with self._asking:
            self._end()

    def renew(self) -> None:
        """Let go of the process in a forked child: it answers the parent, and ends with it."""
        self._asking = threading.Lock()
        process, self._process = self._process, None
        if process is None:
            return
        _of_parents.append(process)
        self._ending.detach()  # type: ignore[union-attr]
        nothing = os.open(os.devnull, os.O_RDWR)
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError, ValueError):
                # What is buffered must not be sent twice, so it is not closed.
                os.dup2(nothing, pipe.fileno(), inheritable=False)  # type: ignore[union-attr]
        os.close(nothing)

    def _ask(self, *frames: bytes) -> bytes:
        """Return the answer to a question; if the process ended, that of another one.

        Questions change nothing, so asking twice counts nothing twice.

        Raises
        ------
        ShardLostError
            The process ended as often as it is tried, or one took too long.
        """
        with self._asking:
            kind, answer = self._answer(*frames)
        if kind != b"answer":
            raise rebuild(answer)
        return answer

    def _answer(self, *frames: bytes) -> list[bytes]:
        for left in reversed(range(self._tries)):
            try:
                return self._exchange(*frames)
            except _Ended as fault:
                if not left:
                    got = ("a process that ended", "two processes that ended")[self._tries - 1]
                    raise error(ShardLostError, self.name, "an answer", got) from fault
        raise AssertionError("unreachable")

    def _exchange(self, *frames: bytes) -> list[bytes]:
        """Send a question to the process and return its answer; a process that fails is ended."""
        process = self._started(may_wait=frames[0] in (b"reload", b"state"))
        seconds = self._timeout
        if seconds is not None and self._is_new:
            seconds += START_SECONDS
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = None if seconds is None else threading.Timer(seconds, end)
        if timer is not None:
            timer.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            write_frames(process.stdin, *frames)
            answer = read_frames(process.stdout)
            self._is_new = False
            return answer
        except (OSError, PipeClosed, ValueError) as fault:
            self._end()
            if late.is_set():
                got = f"none within {seconds} s"
                raise error(ShardLostError, self.name, "an answer", got) from fault
            raise _Ended from fault
        except BaseException:  # an interrupt: its answer must not be taken for the next one
            self._end()
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def _started(self, *, may_wait: bool) -> subprocess.Popen[bytes]:
        if self._is_closed:
            raise closed()
        if self._process is not None and self._process.poll() is not None:
            self._end()
            if self._tries == 1 and not may_wait:  # for a start: another replica can answer
                raise _Ended
        if self._process is None:
            self._is_new = True
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            # subprocess keeps a process that nobody ended, and the pipe whose end it waits for.
            self._ending = weakref.finalize(self, _end, self._process)
        return self._process

    def _end(self) -> None:
        self._process = None
        if self._ending is not None:
            self._ending()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    process.wait()


def closed() -> OptionError:
    """Return the error of a call to a closed index."""
    return error(OptionError, "index", "an open index", "a closed one")


def read_timeout(timeout: object) -> float | None:
    """Return seconds; None: no limit."""
    if timeout is None:
        return None
    wish = f"seconds above 0 and up to {MOST_SECONDS:.0f}, or None"
    seconds = number("timeout", timeout, 0.0, MOST_SECONDS, wish)
    if not seconds:
        raise error(OptionError, "timeout", wish, repr(timeout))
    return seconds
