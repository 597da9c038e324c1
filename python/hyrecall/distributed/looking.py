"""Asks shards look-ups during a recall, and keeps which version of each shard answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.distributed.asking import ShardThreads, answers_of, begin_lookup, results_of
from hyrecall.distributed.lost_shards import Fault, all_lost
from hyrecall.distributed.question import Question
from hyrecall.distributed.shards import Shard
from hyrecall.errors import CorruptIndexError, ShardLostError, StaleStatisticsError, error
from hyrecall.parts.lookups import Looked, Lookup, join_looked

__all__ = ["Looking", "Routing"]


class _Routes(Protocol):
    @property
    def queries(self) -> Mapping[int, npt.NDArray[np.int64] | None]: ...


class Routing(Protocol):
    """Says which shards of a placement may hold the documents of a scope."""

    def of_scope(self, scope: object) -> _Routes | None:
        """Return which queries each shard is asked, by its number; None: the scope is invalid."""
        ...


class _Asked(NamedTuple):
    """A shard and the queries of a look-up that it is asked; None: all."""

    shard: Shard
    lookup: Lookup
    queries: npt.NDArray[np.int64] | None

    @property
    def name(self) -> str:
        """The name of the shard."""
        return self.shard.name


class Looking:
    """The look-ups of one recall."""

    # All questions of a recall read one version of each shard. A shard that did not answer one of
    # them is not asked again. If it had answered others, a recall with tags or graphs begins again,
    # so that its reply lacks all or nothing of the shard.

    def __init__(
        self, shards: Sequence[Shard], router: Routing | None, threads: ShardThreads | None
    ) -> None:
        """Take the shards of a generation, with what says which of them a query needs."""
        self._shards = shards
        self._router = router
        self._threads = threads
        self.lost: dict[str, Fault] = {}
        self.versions: dict[str, tuple[str, ...]] = {}

    @property
    def has_failed(self) -> bool:
        """Whether a shard is lost that had answered."""
        return not self.lost.keys().isdisjoint(self.versions)

    def forget_lost(self) -> None:
        """Forget that lost shards had answered, since the recall begins again without them."""
        for name in self.lost:
            self.versions.pop(name, None)

    def ask(self, lookup: Lookup) -> list[pa.Table]:
        """Ask the shards that a look-up needs; return the rows of each that answers."""
        known = tuple(one for some in self.versions.values() for one in some)
        asked = self._asked(lookup)
        if all(one.name in self.versions for one in asked):  # else one may have any version
            asked = self._asked(replace(lookup, versions=known))

        def begin(one: _Asked) -> Question[Looked]:
            return begin_lookup(one.shard, one.lookup)

        results = results_of(asked, begin, self._threads)
        found: list[tuple[_Asked, Looked]] = []
        if known:
            for one, answer in zip(asked, results, strict=True):
                if isinstance(answer, ShardLostError | CorruptIndexError):
                    self.lost[one.name] = answer
                else:
                    found.append((one, answer))
        elif asked:
            found = answers_of(zip(asked, results, strict=True), self.lost)
        for one, looked in found:
            self.note(one.name, (looked.version,))
        joined = join_looked(lookup, [(looked, one.queries) for one, looked in found])
        return [rows for _, rows in joined]

    def _asked(self, lookup: Lookup) -> list[_Asked]:
        routes = None if self._router is None else self._router.of_scope(lookup.scope)
        if routes is None:  # without a placement, or the shards say why a scope cannot be read
            asked = [_Asked(one, lookup, None) for one in self._shards]
        else:
            asked = [
                _Asked(self._shards[number], lookup, None)
                if own is None
                else _Asked(self._shards[number], lookup.of_queries(own), own)
                for number, own in routes.queries.items()
            ]
        return [one for one in asked if one.name not in self.lost and one.lookup.rows.num_rows]

    def note(self, name: str, versions: tuple[str, ...]) -> None:
        """Record the version of a shard that answered."""
        if self.versions.setdefault(name, versions) != versions:
            wish, remedy = "one version of each shard in a call", "call again"
            raise error(StaleStatisticsError, name, wish, "a newer one", remedy)

    def ask_ahead(self, lookup: Lookup) -> list[pa.Table]:
        """Ask as :meth:`ask` does, for what is told with a request."""
        # If no shard that is asked answers, others may still answer other queries of the request.
        try:
            return self.ask(lookup)
        except (ShardLostError, CorruptIndexError):
            if all(one.name in self.lost for one in self._shards):
                raise
            return []

    def left(self, shards: Sequence[Shard]) -> list[Shard]:
        """Return those of some shards that have answered every look-up so far."""
        left = [one for one in shards if one.name not in self.lost]
        if not left:
            raise all_lost(self.lost[one.name] for one in shards)
        return left
