"""A shard in another process: requests and answers are sent as bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar
from weakref import WeakKeyDictionary

from hyrecall.base.forks import renew_in_children
from hyrecall.distributed.question import Question
from hyrecall.distributed.turns import turns
from hyrecall.parts.counts import Statistics
from hyrecall.parts.lookups import Looked, Lookup
from hyrecall.parts.part import Part
from hyrecall.parts.request import Request
from hyrecall.segments.facts import IndexFacts

__all__ = ["AskedShard"]

T_ = TypeVar("T_")


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

    def begin_lookup(self, lookup: Lookup) -> Question[Looked]:
        """Send the question of :meth:`lookup`."""
        # A question that names states needs no newer version.
        return self._looked(b"lookup_as_it_is" if lookup.versions else b"lookup", lookup)

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

    def lookup(self, lookup: Lookup) -> Looked:
        """Answer a question about the documents that some queries may see."""
        return self.begin_lookup(lookup).answer()

    def lookup_as_it_is(self, lookup: Lookup) -> Looked:
        """Return the same as :meth:`lookup`, but load no newer version first."""
        return self._looked(b"lookup_as_it_is", lookup).answer()

    def reload(self) -> str:
        """Load the version that the folder holds now; return the name of its state."""
        return self._ask(b"reload").decode()

    def _counted(self, verb: bytes, request: Request) -> Question[Statistics]:
        return _read(self._begin(verb, _packing.packed(request)), Statistics.from_bytes)

    def _looked(self, verb: bytes, lookup: Lookup) -> Question[Looked]:
        with turns.taken():
            asked = lookup.to_bytes()
        return _read(self._begin(verb, asked), Looked.from_bytes)

    def _found(self, *frames: bytes) -> Question[Part]:
        return _read(self._begin(*frames), partial(Part.from_bytes, facts=self.facts))


def _read(asked: Question[bytes], read: Callable[[bytes], T_]) -> Question[T_]:
    """Return a question that decodes the answer of another one."""

    def answer() -> T_:
        data = asked.answer()
        with turns.taken():
            return read(data)

    return Question(answer, is_under_way=asked.is_under_way)
