"""A shard in another process, which is asked by bytes and answers with bytes."""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

from hyrecall.distributed.children import renew_in_children
from hyrecall.parts.counts import Statistics
from hyrecall.parts.part import Part
from hyrecall.parts.request import Request
from hyrecall.segments.facts import IndexFacts

__all__ = ["AskedShard"]


class _Turns:
    """Locks for what threads do with Python objects, made anew in a forked child.

    The threads that ask shards side by side would otherwise take the interpreter from one another
    while they pack and unpack, which costs twice the time of doing it one by one.
    """

    def __init__(self) -> None:
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """Make the locks."""
        self.lock = threading.Lock()
        self._of_requests: WeakKeyDictionary[Request, threading.Lock] = WeakKeyDictionary()

    def packed(self, request: Request) -> bytes:
        """Return the bytes of a request, which one thread makes.

        Others wait only for the same request: its arrays may run any code, even another recall.
        """
        with self.lock:
            own = self._of_requests.setdefault(request, threading.Lock())
        with own:
            return request.to_bytes()


_turns = _Turns()


class AskedShard:
    """A shard elsewhere, which is asked by bytes."""

    facts: IndexFacts

    def _ask(self, *frames: bytes) -> bytes:
        """Return the answer to a question.

        Raises
        ------
        ShardLostError
            There is none.
        """
        raise NotImplementedError  # a process or an actor has it

    def statistics(self, request: Request) -> Statistics:
        """Count what BM25 needs of the shard."""
        return self._counted(b"statistics", request)

    def count(self, request: Request) -> Statistics:
        """Count as :meth:`statistics` does, but take up no newer version before."""
        return self._counted(b"count", request)

    def _counted(self, verb: bytes, request: Request) -> Statistics:
        asked = _turns.packed(request)
        answer = self._ask(verb, asked)
        with _turns.lock:
            return Statistics.from_bytes(answer)

    def candidates(self, request: Request, statistics: Statistics) -> Part:
        """Return each arm's best documents of the shard."""
        asked = _turns.packed(request)
        with _turns.lock:
            given = asked, statistics.to_bytes()
        return self._found(b"candidates", *given)

    def alone(self, request: Request) -> Part:
        """Return each arm's best documents, scored by what this shard counts alone."""
        return self._found(b"alone", _turns.packed(request))

    def alone_as_it_is(self, request: Request) -> Part:
        """Count and search as :meth:`alone` does, but take up no newer version before."""
        return self._found(b"alone_as_it_is", _turns.packed(request))

    def _found(self, *frames: bytes) -> Part:
        answer = self._ask(*frames)
        with _turns.lock:
            return Part.from_bytes(answer, facts=self.facts)

    def reload(self) -> str:
        """Take up the version that the folder holds now; return the name of the state."""
        return self._ask(b"reload").decode()
