"""The replies of several recipes to parts of one batch, as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.ask.request import keys_of
from hyrecall.hits.reply import Reply, ReplyBase
from hyrecall.hits.trace import Trace


def join_replies(replies: Sequence[Reply], answered_by: npt.NDArray[np.int64]) -> JoinedReply:
    """Join replies to the whole batch, of which each keeps the hits of its own queries."""
    kept = tuple(one.only(answered_by == number) for number, one in enumerate(replies))
    return _joined(kept, answered_by, replies[0].query_keys)


def _joined(
    replies: tuple[Reply, ...], answered_by: npt.NDArray[np.int64], query_keys: pa.Array | None
) -> JoinedReply:
    first = replies[0]
    return JoinedReply(
        facts=first.facts,
        arms=tuple(dict.fromkeys(arm for one in replies for arm in one.arms)),
        columns=first.columns,
        now=first.now,
        trace=_joined_trace([one.trace for one in replies]),
        query_keys=query_keys,
        replies=replies,
        answered_by=answered_by,
    )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class JoinedReply(ReplyBase):
    """The reply to a batch of which each query is answered by one of several recipes."""

    # A column that only some of the replies have, such as an arm's score, is null in the others.

    replies: tuple[Reply, ...]
    answered_by: npt.NDArray[np.int64]

    @property
    def n_hits(self) -> int:
        """Hits of all queries together."""
        return sum(one.n_hits for one in self.replies)

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Query q has the hits offsets[q] to offsets[q + 1] of :meth:`table`."""
        # A query has hits in one part at most.
        offsets = np.stack([one.offsets for one in self.replies])
        return np.asarray(offsets.sum(axis=0), np.int64)

    @property
    def parts(self) -> tuple[Reply, ...]:
        """The replies it is made of."""
        return self.replies

    def part_of(self, query: int) -> Reply:
        """Return the reply that holds the hits of a query."""
        return self.replies[int(self.answered_by[query])]

    def only(self, asked: npt.NDArray[np.bool_]) -> JoinedReply:
        """Return the reply to some of the queries; the others have no hits and no key in it."""
        kept = tuple(one.only(asked) for one in self.replies)
        keys = None if self.query_keys is None else keys_of(self.query_keys, asked)
        return replace(self, replies=kept, query_keys=keys, _values={})

    def column(self, name: str) -> pa.Array:
        """Return a row column (key, cell, attribute or stored) of every hit, in order."""
        return self._in_order([one.column(name) for one in self.replies])

    def arm_scores(self, arm: str) -> pa.Array:
        """Return an arm's score of every hit, float32; null where it was not computed."""
        return self._of_arm(arm, pa.float32())

    def arm_ranks(self, arm: str) -> pa.Array:
        """Return an arm's rank of every hit, int32 from 1; null outside the arm's list."""
        return self._of_arm(arm, pa.int32())

    def results(self) -> pa.Table:
        """Return what the recall found out of its hits: query, rank, key, cell, scores."""
        tables = [one.results() for one in self.replies]
        joined = pa.concat_tables(tables, promote_options="default")
        return joined.take(pa.array(self._order()))

    def _of_arm(self, arm: str, kind: pa.DataType) -> pa.Array:
        if not any(arm in one.ran for one in self.replies):
            self.check_arm(arm)
        return self._in_order([_scores_or_ranks(one, arm, kind) for one in self.replies])

    def _in_order(self, columns: Sequence[pa.Array]) -> pa.Array:
        return pa.concat_arrays(columns).take(pa.array(self._order()))

    def _order(self) -> npt.NDArray[np.int64]:
        """Return the places of the parts' hits, one part behind the other, by query."""
        queries = [
            np.repeat(np.arange(self.n_queries), np.diff(one.offsets)) for one in self.replies
        ]
        return np.argsort(np.concatenate(queries), kind="stable")

    def __reduce__(self) -> tuple[Any, ...]:
        return _joined, (self.replies, self.answered_by, self.query_keys)


def _scores_or_ranks(reply: Reply, arm: str, kind: pa.DataType) -> pa.Array:
    if arm not in (*reply.arms, *reply.ran):
        return pa.nulls(reply.n_hits, kind)
    return reply.arm_scores(arm) if kind == pa.float32() else reply.arm_ranks(arm)


def _joined_trace(traces: Sequence[Trace]) -> Trace:
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
        about=_joined_about(traces),
        feedback={query: one for trace in traces for query, one in trace.feedback.items()},
    )


def _joined_about(traces: Sequence[Trace]) -> dict[str, dict[int, str]]:
    """Join what is about single queries; what any part says of all queries stays of all."""
    about: dict[str, dict[int, str]] = {}
    of_all: set[str] = set()
    for trace in traces:
        of_all.update(one for one in (*trace.degraded, *trace.notes) if one not in trace.about)
        for note, alone in trace.about.items():
            about[note] = about.get(note, {}) | alone
    return {note: alone for note, alone in about.items() if note not in of_all}
