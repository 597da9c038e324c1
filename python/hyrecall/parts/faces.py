"""The methods of an index for a recall over shards: counting, and finding candidates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyrecall import parts
from hyrecall.base.arguments import check_methods
from hyrecall.errors import DTypeError, error
from hyrecall.segments.manifest import Lineage
from hyrecall.segments.segments import IndexFacts, State

if TYPE_CHECKING:
    from hyrecall.parts.lookups import Looked, Lookup

__all__ = ["IndexParts"]


@check_methods
class IndexParts:
    """The methods of an index that is a shard of a larger one."""

    _facts: IndexFacts
    _device: str
    _lineage: Lineage

    @property
    def _state(self) -> State:
        raise NotImplementedError  # implemented by Index

    def statistics(self, request: parts.Request) -> parts.Statistics:
        """Count what BM25 needs to score a request: integers over the scope of each query.

        Parameters
        ----------
        request : hyrecall.distributed.Request

        Returns
        -------
        hyrecall.distributed.Statistics
            Sum those of all shards with :meth:`hyrecall.distributed.Statistics.sum`.

        Raises
        ------
        DTypeError
            Not a request.
        ScopeError, OptionError, ShapeError
            As in :meth:`recall`. OptionError also for rows around hits, since these are read from
            whole threads.
        """
        _check("request", request, parts.Request)
        from hyrecall.parts.shard import statistics_of

        state = self._state
        with state.reading():
            return statistics_of(self._facts, state, self._name_of(state), request)

    def candidates(self, request: parts.Request, statistics: parts.Statistics) -> parts.Part:
        """Return the best documents of each arm, scored with the statistics of all shards.

        Parameters
        ----------
        request : hyrecall.distributed.Request
        statistics : hyrecall.distributed.Statistics
            The statistics of this request, summed over all shards.

        Returns
        -------
        hyrecall.distributed.Part
            The argument of :func:`hyrecall.distributed.merge`.

        Raises
        ------
        OptionError
            The statistics are of another request, or documents have changed since.
        DTypeError, ScopeError, ShapeError
            As in :meth:`statistics`.
        """
        _check("request", request, parts.Request)
        _check("statistics", statistics, parts.Statistics)
        from hyrecall.parts.shard import candidates_of

        state = self._state
        with state.reading():
            given = self._name_of(state), self._device, request, statistics
            return candidates_of(self._facts, state, *given)

    def _look_up(self, lookup: Lookup) -> Looked:
        """Answer a question about the documents that some queries may see."""
        from hyrecall.parts.lookups import look_up

        state = self._state
        with state.reading():
            return look_up(self._facts, state, self._name_of(state), lookup)

    @property
    def _version(self) -> str:
        """The name of the current state of the index, as in statistics and parts."""
        return self._name_of(self._state)

    def _name_of(self, state: State) -> str:
        from hyrecall.parts.part import version_of

        return version_of(state, self._lineage.seals)


def _check(argument: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise error(DTypeError, argument, f"a {kind.__name__}", repr(value)[:80])
