"""Searches the index of a store: a question becomes the rows that it ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from hyrecall.ask.expansion import Context
from hyrecall.ask.recipe import Recipe, is_joinable
from hyrecall.ask.scope import scope_of_cells
from hyrecall.embed.protocol import EmbedFault
from hyrecall.hits.confidence import Judged
from hyrecall.hits.dropped import Dropped
from hyrecall.hits.explain_text import Explanation
from hyrecall.hits.hits import QueryHits, reply_of
from hyrecall.hits.reply import Arrays
from hyrecall.hits.trace import Trace
from hyrecall.memory.data.matches import Degradation, DegradedReason
from hyrecall.memory.derived.follower import Follower
from hyrecall.memory.derived.layout import BEHIND, ComparableVectors, Ready
from hyrecall.memory.recall.call import FoundRows, Hints, IndexQuestion, hints_arm
from hyrecall.memory.recall.turns import Turns, Waiting
from hyrecall.recall.batch import REFUSALS
from hyrecall.table.schema import STAGE_COLUMNS

# ---- Joins questions that come while the index is being searched: natural batching of threads ----
# An idle index is searched at once. Questions that come while a batch runs are the next batch,
# which one of their threads runs. No question waits for company, and no reply depends on it (law
# L4).

MOST_JOINED = 64

Call_ = TypeVar("Call_")
Reply_ = TypeVar("Reply_")


@dataclass
class JoinedCalls:
    """How many calls may be joined, and how many were."""

    # A store has one of them, whichever process owns it: so it outlives a take-over.

    most: int = MOST_JOINED
    n_calls: int = 0
    n_batches: int = 0


class _Batch(Generic[Reply_]):
    """Calls that run together."""

    __slots__ = ("replies",)

    def __init__(self) -> None:
        self.replies: Sequence[Reply_] | None = None


class _WaitingSearch(Waiting, Generic[Call_, Reply_]):
    """A call that a thread waits for."""

    __slots__ = ("batch", "call", "place")

    def __init__(self, call: Call_) -> None:
        super().__init__()
        self.call = call
        self.batch: _Batch[Reply_] | None = None
        self.place = 0

    @property
    def is_settled(self) -> bool:
        """Whether it is answered, or has to run alone."""
        return self.batch is not None and self.batch.replies is not None

    @property
    def reply(self) -> Sequence[Reply_]:
        """The reply, or nothing if it has to run alone."""
        assert self.batch is not None
        assert self.batch.replies is not None
        return self.batch.replies[self.place : self.place + 1]


class JoinedSearch(Turns[_WaitingSearch[Call_, Reply_]], Generic[Call_, Reply_]):
    """Runs calls of several threads, those that wait together as one batch."""

    def __init__(
        self, run: Callable[[Sequence[Call_]], Sequence[Reply_]], joining: JoinedCalls
    ) -> None:
        super().__init__()
        self._run, self.joining = run, joining

    def __call__(self, call: Call_, may_join: Callable[[Call_, Call_], bool]) -> Reply_:
        """Return the reply of a call; blocks."""
        if not self._waiting and not self._leads.locked():  # nobody to join, or to wait for
            try:
                with self._leads:
                    self.joining.n_calls += 1
                    self.joining.n_batches += 1
                    return self._run([call])[0]
            finally:
                if self._waiting:
                    self._wake_next()
        mine: _WaitingSearch[Call_, Reply_] = _WaitingSearch(call)
        self._settle(mine, lambda mine: self._lead(mine, may_join))
        reply = mine.reply
        return reply[0] if reply else self._run([call])[0]

    def _lead(
        self, mine: _WaitingSearch[Call_, Reply_], may_join: Callable[[Call_, Call_], bool]
    ) -> None:
        """Run a batch of a call and of those that wait and may join it."""
        others = [one for one in list(self._waiting) if one is not mine and not one.is_settled]
        joined = [one for one in others if may_join(mine.call, one.call)]
        members = [mine, *joined[: self.joining.most - 1]]
        batch: _Batch[Reply_] = _Batch()
        for place, one in enumerate(members):
            one.batch, one.place = batch, place
        self.joining.n_calls += len(members)
        self.joining.n_batches += 1
        try:
            replies = self._run([one.call for one in members])
            batch.replies = [reply for _, reply in zip(members, replies, strict=True)]
        except Exception:
            batch.replies = ()
            if len(members) == 1:
                raise
        for one in members[1:]:
            self._waiting.pop(one, None)
            one.wake()


# ---- Searches the index of a store: a question becomes the rows that it ranks ----

GRAPH = "graph"  # what recipes call it
EDGES = "edges"  # the arm over edges' texts, as recipes call it


class _ReadyQuestion(NamedTuple):
    """A question, and the index it runs on, if that was ready within its time."""

    question: IndexQuestion
    ready: Ready


class IndexSearch:
    """Searches the index that a follower keeps. Threads may share it."""

    def __init__(self, follower: Follower, joining: JoinedCalls) -> None:
        self._follower = follower
        self._usable = ComparableVectors()
        self.joined: JoinedSearch[_ReadyQuestion, FoundRows] = JoinedSearch(self._search, joining)

    def __call__(self, question: IndexQuestion) -> FoundRows:
        """Rank the rows that a caller may see, as :meth:`Keeper.search_index`."""
        # A question that can be answered together with others joins those that wait. Before that it
        # waits for the changes by itself, so that no batch waits and no budget is another's.
        asked = _ReadyQuestion(question, self._follower.ready(budget=question.budget))
        if self.joined.joining.most > 1 and _joins(question):
            return self.joined(asked, _may_join)
        return self._search([asked])[0]

    def _search(self, asked: Sequence[_ReadyQuestion]) -> list[FoundRows]:
        """Rank the rows for questions that differ in what is asked and by whom alone."""
        first, ready = asked[0]
        texts, vectors, scopes, filters, has_filter = [], [], [], [], False
        for one, _ in asked:
            vector = one.vector
            texts.append(one.query)
            vectors.append(None if vector is None or len(vector) != ready.dim else vector)
            scopes.append(scope_of_cells(tuple(map(tuple, dict(one.cells).values()))))
            filters.append(one.filter)
            has_filter = has_filter or one.filter is not None
        # Questions are joined by whether they have a vector; one of another length is none.
        if len(asked) > 1 and len({vector is None for vector in vectors}) > 1:
            return [self._search([one])[0] for one in asked]
        has_vector = vectors[0] is not None
        # Without a vector alpha has no effect, unless alpha itself excluded vectors.
        recipe = first.recipe if has_vector or first.ranks_words_alone else first.by_words
        has_text = bool(first.query.strip()) or not has_vector
        hits = ready.index.recall(
            text=texts if has_text else None,
            vectors=np.array(vectors, np.float32) if has_vector else None,
            scope=scopes,
            filter=filters if has_filter else None,
            limit=first.limit,
            offset=first.offset,
            recipe=recipe,
            session=first.session,  # a recipe that reads sessions is never joined
            candidates=None if first.candidates is None else _candidates(recipe, asked),
            graphs={GRAPH: ready.graph} if recipe._has_graphs else None,
            columns=("row",),
            surrounding=first.around,
            now=first.now,
        )
        reply, found = reply_of(hits), []
        for at, (one, own) in enumerate(asked):
            alone, trace = QueryHits(reply.part_of(at), at), reply.trace.of_query(at)
            if len(asked) > 1:
                alone = QueryHits(alone._alone(), at)  # others' rows are not kept alive with it
            found.append(self._of_question(own, one, alone, trace, has_vector=has_vector))
        return found

    def _of_question(
        self,
        ready: Ready,
        question: IndexQuestion,
        hits: QueryHits,
        trace: Trace,
        *,
        has_vector: bool,
    ) -> FoundRows:
        """Return what was found for one question, with what the index could not do for it."""
        reasons: list[Degradation] = []
        if ready.behind:
            reasons.append(Degradation(DegradedReason.INDEX_NOT_READY, BEHIND))
        if question.vector is not None and not has_vector:
            told = f"{len(question.vector)}, expected {ready.dim}"
            reasons.append(Degradation.of_fault(EmbedFault.WRONG_SIZE, told))
        if has_vector and (told := self._usable.told(ready, question.cells)):
            reasons.append(Degradation(DegradedReason.EMBED_STALE, told))
        for note in trace.degraded:
            is_text = note.endswith(tuple(REFUSALS.values()))
            kind = DegradedReason.QUERY_TOO_LARGE if is_text else DegradedReason.RERANK
            reasons.append(Degradation(kind, note))
        expansion = question.recipe.expansion
        shows_edges = bool(expansion) and any(isinstance(one, Context) for one in expansion)
        return _found(
            hits, trace, tuple(reasons), is_behind=ready.behind, shows_edges=shows_edges,
            model=ready.model,
        )  # fmt: skip


def _joins(question: IndexQuestion) -> bool:
    """Say whether a question may be searched together with others."""
    first, second = question.recipe, question.by_words
    return is_joinable(first) and (second is first or is_joinable(second))


def _may_join(one: _ReadyQuestion, other: _ReadyQuestion) -> bool:
    """Say whether two questions can be one batch: what they differ in, the index takes by query."""
    first, second = one.question, other.question
    return (
        one.ready.index is other.ready.index
        and one.ready.graph is other.ready.graph
        and (first.limit, first.offset, first.around, first.ranks_words_alone)
        == (second.limit, second.offset, second.around, second.ranks_words_alone)
        and (first.vector is None) == (second.vector is None)
        and bool(first.query.strip()) == bool(second.query.strip())
        and (first.candidates is None) == (second.candidates is None)
        and _joins(second)
        and (first.recipe, first.by_words) == (second.recipe, second.by_words)
    )


class _LocalHits:
    """Explains hits and what was dropped, by the index state of the search, which it keeps."""

    def __init__(self, hits: QueryHits, model: str | None) -> None:
        self.hits, self._model = hits, model

    def judge(self) -> Judged:
        """Return how sure the reply is, and each hit."""
        models = {} if self._model is None else {"embedding": self._model}
        return reply_of(self.hits).judged(self.hits.query, models)

    def explain(self, place: int) -> Explanation:
        """Recompute the score of a hit."""
        self.judge()  # by the store's model, which the explanation then tells
        return self.hits[place].explain()

    def explain_dropped(self, most: int) -> Dropped:
        """Say what the stages left out."""
        return self.hits.explain_dropped(most)


def _candidates(
    recipe: Recipe, asked: Sequence[_ReadyQuestion]
) -> dict[str, list[Hints | None]] | None:
    """Return the callers' candidates under the name of the recipe's arm for them."""
    name = hints_arm(recipe)
    return None if name is None else {name: [one.question.candidates for one in asked]}


def _found(
    one: QueryHits,
    trace: Trace,
    reasons: tuple[Degradation, ...],
    *,
    is_behind: bool,
    shows_edges: bool,
    model: str | None,
) -> FoundRows:
    """Return a query's hits, which are alone in their reply, as plain data."""
    reply = one._reply
    arrays = reply.arrays
    n_rows, n_candidates = len(arrays["rank"]), reply.n_candidates(one.query)
    around = reply.around
    scores, ranks = reply.values_of_arms()
    nothing = (None,) * n_rows
    stages = {name: _plain(arrays[name]) for name in STAGE_COLUMNS if name in arrays}
    return FoundRows(
        rows=tuple(reply.cached("row", "row")),
        scores=tuple(arrays["score"].tolist()),
        vector_scores=scores.get("embedding", nothing),
        bm25_scores=scores.get("text", nothing),
        stages=stages,
        ranks=ranks
        if len(ranks) == len(n_candidates)
        else {arm: ranks[arm] for arm in n_candidates},
        fills=_flags(arrays, "from_fill", n_rows),
        exact=_flags(arrays, "exact", n_rows),
        n_candidates=_tiers(trace, n_candidates),
        trace=trace,
        phase=None if reply.phases is None else one.phase,
        related=() if around is None else tuple((tuple(it.cell), it.key) for it in one.related),
        context=() if around is None else _keys(around.context[one.query], n_rows),
        around=() if around is None else _rows_around(one),
        edges=tuple(hit.evidence(EDGES) for hit in one)
        if shows_edges and EDGES in n_candidates
        else (),
        reasons=reasons,
        is_behind=is_behind,
        ranked=_LocalHits(one, model),
    )


def _rows_around(hits: QueryHits) -> tuple[tuple[int, ...], ...]:
    """Return the versions around each hit in its session; nothing where no hit has any."""
    around = tuple(tuple(near.values["row"] for near in hit.surrounding) for hit in hits)
    return around if any(around) else ()


def _plain(column: npt.NDArray[Any]) -> tuple[Any, ...]:
    """Return what a stage computed as Python values; NaN is None."""
    return tuple(None if value != value else value for value in column.tolist())  # noqa: PLR0124


def _flags(arrays: Arrays, name: str, n: int) -> tuple[bool, ...]:
    return tuple(arrays[name].astype(np.bool_).tolist()) if name in arrays else (False,) * n


def _tiers(trace: Trace, found: dict[str, int]) -> dict[str, int]:
    """Return the number of candidates of each arm, also of arms that another arm replaced."""
    if trace.arms == (*found,):
        return found
    has_tables = {name.rpartition(".")[2] for name in found if name not in trace.arms}
    return {arm: 0 for arm in trace.arms if arm not in has_tables} | found


def _keys(near: Sequence[Sequence[Any]], n: int) -> tuple[tuple[str, ...], ...]:
    """Return the ids of each row's neighbours; none if no row has one."""
    if not any(near):
        return ()
    shown = [tuple(one.key for one in context) for context in near[:n]]
    return (*shown, *((),) * (n - len(shown)))
