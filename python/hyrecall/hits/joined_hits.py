"""The replies of several recipes to parts of one batch, as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.base.arguments import place_in
from hyrecall.hits.hit import QueryHits
from hyrecall.hits.hits import Hits
from hyrecall.hits.trace import Trace

__all__ = ["JoinedHits"]


class JoinedHits(Hits):
    """Hits of a batch of which each query is answered by one of several parts.

    Columns of one part only, an arm's score say, are null in the others.
    """

    def __init__(self, parts: Sequence[Hits], part_of: npt.NDArray[np.int64]) -> None:
        """Take replies to the whole batch, each empty but for its queries."""
        first = parts[0]
        super().__init__(
            {},
            plan=first._plan,
            facts=first._facts,
            state=first._held,
            columns=first._columns,
            now=first.now,
            trace=_trace([part.trace for part in parts]),
        )
        self._parts = tuple(parts)
        self._part_of = part_of

    @property
    def parts(self) -> tuple[Hits, ...]:
        """The replies it is made of."""
        return self._parts

    def part_of(self, query: int) -> Hits:
        """Return the reply that holds a query's hits."""
        return self._parts[int(self._part_of[query])]

    def _query(self, index: int) -> QueryHits:
        query = place_in(len(self), index, "query")
        return self.part_of(query)._query(query)

    @property
    def n_hits(self) -> int:
        """Hits of all queries together."""
        return sum(part.n_hits for part in self._parts)

    def _offsets(self) -> npt.NDArray[np.int64]:
        # A query has hits in one part at most.
        offsets = np.stack([part._offsets() for part in self._parts])
        return np.asarray(offsets.sum(axis=0), np.int64)

    def column(self, name: str) -> pa.Array:
        """Return a row column (key, cell, attribute or stored) of every hit, in order."""
        return self._in_order([part.column(name) for part in self._parts])

    def arm_scores(self, arm: str) -> pa.Array:
        """Return an arm's score of every hit, float32; null where it was not computed."""
        return self._of_arm(arm, pa.float32())

    def arm_ranks(self, arm: str) -> pa.Array:
        """Return an arm's rank of every hit, int32 from 1; null outside the arm's list."""
        return self._of_arm(arm, pa.int32())

    def _of_arm(self, arm: str, kind: pa.DataType) -> pa.Array:
        self._places(arm)  # refuses an arm that no part knows
        return self._in_order([_known(part, arm, kind) for part in self._parts])

    def only(self, asked: npt.NDArray[np.bool_]) -> Hits:
        """Return the reply to some of the queries; the others have no hits in it."""
        hits = JoinedHits([part.only(asked) for part in self._parts], self._part_of)
        hits._held, hits._query_keys = self._held, hits._parts[0]._query_keys
        return hits

    def _name_queries(self, keys: pa.Array) -> None:
        """Take the caller's key of each query."""
        super()._name_queries(keys)
        for part in self._parts:
            part._name_queries(keys)

    def _values(self) -> dict[str, Any]:
        plain = {"_facts": self._facts.plain(), "_plan": self._plan.plain(), "_held": None}
        return vars(self) | plain | {"_lists": {}}

    @property
    def _arms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(arm for part in self._parts for arm in part._arms))

    def _results(self) -> pa.Table:
        tables = [part._results() for part in self._parts]
        joined = pa.concat_tables(tables, promote_options="default")
        return joined.take(pa.array(self._order()))

    def _in_order(self, columns: Sequence[pa.Array]) -> pa.Array:
        return pa.concat_arrays(columns).take(pa.array(self._order()))

    def _order(self) -> npt.NDArray[np.int64]:
        """Return the places of the parts' hits, one part behind the other, by query."""
        queries = [
            np.repeat(np.arange(len(self)), np.diff(part._arrays["offsets"]))
            for part in self._parts
        ]
        return np.argsort(np.concatenate(queries), kind="stable")


def _known(part: Hits, arm: str, kind: pa.DataType) -> pa.Array:
    if arm not in part._arms:
        return pa.nulls(part.n_hits, kind)
    return part.arm_scores(arm) if kind == pa.float32() else part.arm_ranks(arm)


def _trace(traces: Sequence[Trace]) -> Trace:
    """Add up what the parts say; arms and stages stand in the order of the parts."""
    milliseconds: dict[str, float] = {}
    for trace in traces:
        for step, spent in trace.milliseconds.items():
            milliseconds[step] = milliseconds.get(step, 0.0) + spent

    def each(name: str) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(one for trace in traces for one in getattr(trace, name)))

    return Trace(
        device=traces[0].device,
        n_queries=traces[0].n_queries,
        arms=each("arms"),
        depth=max(trace.depth for trace in traces),
        milliseconds=milliseconds,
        degraded=each("degraded"),
        notes=each("notes"),
        stages=tuple(stage for trace in traces for stage in trace.stages),
        exact={query: n for trace in traces for query, n in trace.exact.items()},
    )
