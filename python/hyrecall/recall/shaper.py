"""Carries out the stages of a call: a second search, each stage on the lists, fill and page."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.errors import OptionError, error
from hyrecall.hits.reply import QUERY_ARRAYS, only_queries
from hyrecall.hits.trace import StageTrace
from hyrecall.recall.arms import newest_rows
from hyrecall.recall.grouping import Grouper
from hyrecall.recall.plan import Plan
from hyrecall.recall.reach import Reaches
from hyrecall.segments.segments import IndexFacts, State, document_numbers, gather_column, seqs_of
from hyrecall.stages.feedback import Feedback, SecondLook, asked_again, look, without_effect
from hyrecall.stages.lists import Array, FusedLists, lead, order_codes, tie_ranks
from hyrecall.stages.session_signals import Phase, phases_of
from hyrecall.stages.stage import CallableResults, StageCall, StagePlan, checked
from hyrecall.table.attributes import ordered_attribute

if TYPE_CHECKING:
    from hyrecall.arm.arm import FoundDocs
    from hyrecall.ask.recipe import TieBreak


# ---- What stages see of an index, a plan and a call ----


def stage_plan(facts: IndexFacts, plan: Plan) -> StagePlan:
    """Return what the stages of a plan may check."""
    evidence = () if plan.evidence is None else plan.evidence.stages
    return StagePlan(
        schema=facts.schema,
        row_types=facts.row_types,
        threads=facts.threads,
        stages=(*evidence, *plan.stages),
        known_arms=(*facts.arms, *plan.extra),
        arms=plan.arms,
        bases=plan.bases,
    )


def check_shaping(facts: IndexFacts, plan: Plan) -> None:
    """Check that an index and a plan can answer the stages; before anything is computed."""
    known = facts.schema.row_columns
    if plan.fill is not None:
        ordered_attribute("Fill.column", plan.fill.column, facts)
    for tie in plan.tie_break:
        if tie.column not in known:
            raise error(OptionError, "tie_break", f"columns of {list(known)}", repr(tie.column))
    seen = stage_plan(facts, plan)
    for stage in plan.stages:
        stage.check(seen)


# ---- Searches twice where a stage acts on queries: the first search, and the plan of the second


class SecondSearch(NamedTuple):
    """The plan of the second search of a batch, and what the first one found."""

    plan: Plan
    found: Mapping[int, dict[str, FoundDocs]]
    looks: Mapping[int, SecondLook]
    seconds: float | None


def look_twice(
    facts: IndexFacts,
    state: State,
    plan: Plan,
    feedback: Feedback,
    parts: Sequence[tuple[int, int]],
) -> SecondSearch:
    """Search with each part [begin, end) of a batch; put what the best rows add to its queries."""
    began = time.perf_counter()
    bases = plan.bases[plan.n_lexical :]
    dense = [arm for arm in bases if arm not in plan.extra]
    told = list(without_effect(feedback, plan.n_lexical, len(dense)))
    plan = plan._replace(notes={**plan.notes, **dict.fromkeys(told)})
    if len(told) == (feedback.dense > 0) + (feedback.terms > 0):
        return SecondSearch(plan, {}, {}, None)
    found: dict[int, dict[str, FoundDocs]] = {}
    looks = []
    for begin, end in parts:
        request = plan.request.slice(begin, end, feedback.rows)
        found[begin] = plan.complete(request, begin, is_first=True)
        execution = _core.Execution(state.snapshot, request)
        arrays, _ = execution.hits(execution.statistics())
        if plan.blank_queries:
            is_blank = np.isin(np.arange(begin, begin + request.n_queries), plan.blank_queries)
            arrays = only_queries(arrays, ~is_blank)
        rows = arrays["segment"], arrays["row"]
        keys = gather_column(state.segments, *rows, facts.schema.key)
        looks.append(look(feedback, execution, arrays, keys))
    again, added = asked_again(plan.request, looks, plan.arms, plan.arms[plan.n_lexical :])
    return SecondSearch(plan._replace(request=again), found, added, time.perf_counter() - began)


# ---- Fills a list that is too short with the newest documents of the query's scope ----


def fill_lists(
    pool: FusedLists,
    facts: IndexFacts,
    state: State,
    plan: Plan,
    request: _core.BatchRequest,
    first_query: int,
    blank: Array,
    selected: Array,
    before: FusedLists,
) -> FusedLists:
    """Add the newest documents to lists below offset + limit, behind all others."""
    # Lists whose rows are grouped become as long as the depth, whatever part of them is asked for.
    # Documents of one time come in the order of the recipe's tie-break. A query that says nothing
    # gets them with score 1, any other with 0: it was asked and they do not match, which their
    # score in a text arm says too. ``from_fill`` tells them from hits. Queries that are not
    # ``selected`` get none, and nothing of the list ``before`` the stages comes back.
    fill = plan.fill
    assert fill is not None
    pool = pool.with_arrays(from_fill=np.zeros(len(pool), np.bool_))
    wanted = plan.offset + plan.limit if plan.grouping is None else plan.depth
    counts = np.diff(pool.offsets)
    may = blank | (counts == 0) | (fill.when == "always")
    assert plan.has_query is not None
    has_query = plan.has_query[first_query : first_query + len(counts)]
    if fill.when == "one_arm":
        _, firsts = np.unique(plan.bases, return_index=True)  # arms of several tables count once
        may |= has_query[:, firsts].sum(axis=1) == 1
    need = np.where(may & selected, np.maximum(wanted - counts, 0), 0)
    if not need.any():
        return pool
    # Among the newest so many there are enough that were in no list.
    most = wanted + int(np.diff(before.offsets).max(initial=0))
    offsets, segment, row = newest_in_order(facts, state, request, fill.column, most, plan)
    query = np.repeat(np.arange(len(counts)), np.diff(offsets))
    held = np.repeat(np.arange(len(counts)), counts)
    found = np.repeat(np.arange(len(counts)), np.diff(before.offsets))
    others = ~np.isin(
        document_numbers(state.segments, query, segment, row),
        document_numbers(state.segments, found, before.arrays["segment"], before.arrays["row"]),
    )
    query, segment, row = query[others], segment[others], row[others]
    starts = np.concatenate([[0], np.cumsum(np.bincount(query, minlength=len(counts)))])[:-1]
    kept = np.arange(len(query)) - starts[query] < need[query]
    query, segment, row = query[kept], segment[kept], row[kept]
    added = {name: _missing(array, len(query)) for name, array in pool.arrays.items()}
    added |= {"segment": segment, "row": row, "from_fill": np.ones(len(query), np.bool_)}
    added["score"] = np.where(blank[query], 1.0, 0.0)
    for arm in range(plan.n_lexical):
        columns = [part.lexical[plan.bases[arm]] for part in state.segments]
        has_text = _core.rows.has_text(columns, segment, row).view(np.bool_)
        scored = has_text & ~blank[query] & has_query[query, arm]
        if plan.tables is not None:
            values = gather_column(state.segments, segment, row, plan.tables.column)
            scored &= plan.in_table(arm, values)
        added["arm_scores"][:, arm] = np.where(scored, 0.0, added["arm_scores"][:, arm])
    joined = {name: np.concatenate([pool.arrays[name], added[name]]) for name in added}
    order = np.argsort(np.concatenate([held, query]), kind="stable")
    sizes = counts + np.bincount(query, minlength=len(counts))
    return type(pool)(
        np.concatenate([[0], np.cumsum(sizes)]), {n: array[order] for n, array in joined.items()}
    )


def newest_in_order(
    facts: IndexFacts, state: State, request: _core.BatchRequest, column: str, n: int, plan: Plan
) -> tuple[Array, Array, Array]:
    """Return each query's n newest documents, those of one time in the order of the tie-break."""
    # Queries with the same scope and filter have the same ones, which are found once.
    if not plan.tie_break or n == 0:
        return newest_rows(facts, state, request, column, n)
    groups = _core.arms.Audience(state.snapshot, request).group_of
    _, firsts, group_of = np.unique(groups, return_index=True, return_inverse=True)
    found = [
        _newest_of_one(facts, state, request.slice(query, query + 1), column, n, plan)
        for query in firsts.tolist()
    ]
    sizes = np.array([len(row) for _, row in found], np.int64)[group_of]
    segment = np.concatenate([found[group][0] for group in group_of])
    row = np.concatenate([found[group][1] for group in group_of])
    return np.concatenate([[0], np.cumsum(sizes)]), segment, row


def _newest_of_one(
    facts: IndexFacts, state: State, request: _core.BatchRequest, column: str, n: int, plan: Plan
) -> tuple[Array, Array]:
    """Return (segment, row) of the n newest documents of a request's only query."""
    # All documents that share the time of the last one are looked at, however many they are.
    import pyarrow.compute as pc

    most = n + 1
    while True:
        _, segment, row = newest_rows(facts, state, request, column, most)
        times = order_codes(gather_column(state.segments, segment, row, column), descending=True)
        # A list that is cut within documents of one time lacks some that may come before others.
        if len(times) < most or times[n - 1] != times[-1]:
            break
        most *= 64
    keys: list[tuple[pa.Array, str]] = [(pa.array(times), "ascending")]
    for tie in plan.tie_break:
        values = gather_column(state.segments, segment, row, tie.column)
        keys.append(_sort_key(values, tie))
    keys.append((pa.array(seqs_of(state.segments, segment, row)), "ascending"))
    table = pa.table([values for values, _ in keys], [str(at) for at in range(len(keys))])
    by = [(str(at), order) for at, (_, order) in enumerate(keys)]
    chosen = pc.select_k_unstable(table, k=n, sort_keys=by).to_numpy()
    return segment[chosen], row[chosen]


def _sort_key(values: pa.Array, tie: TieBreak) -> tuple[pa.Array, str]:
    """Return what a tie-break sorts by: numbers where Arrow would not sort the values so."""
    kind = values.type
    is_plain = pa.types.is_large_string(kind) or pa.types.is_integer(kind)
    if is_plain and not tie.prefer and not values.null_count:
        return values, "descending" if tie.descending else "ascending"
    codes = order_codes(values, descending=tie.descending, prefer=tie.prefer)
    return pa.array(codes), "ascending"


def _missing(like: Array, n: int) -> Array:
    """Return n entries of an array's kind that say nothing: minus infinity is a null arm score."""
    shape = (n, *like.shape[1:])
    if like.dtype == np.float32:
        return np.full(shape, -np.inf, np.float32)
    if like.dtype == np.float64:
        return np.full(shape, np.nan)
    return np.zeros(shape, like.dtype)


# ---- Carries out the stages on the fused lists of a batch, a stage at a time ----


class Shaper:
    """Runs the stages of one call on its pieces; keeps what the trace says of them."""

    def __init__(
        self,
        facts: IndexFacts,
        state: State,
        plan: Plan,
        *,
        now: datetime,
        reaches: Reaches,
        texts: Sequence[str | None] = (),
        known: CallableResults | None = None,
        grouper: Grouper | None = None,
    ) -> None:
        """Take what the stages may need; ``texts`` are the queries' own, for rerankers."""
        # ``known``: what callables returned before, for one query that is shaped again; None: they
        # are called, and ``results`` keeps what they return.
        self._facts, self._state, self._plan = facts, state, plan
        self._now, self._texts, self._reaches, self._known = now, texts, reaches, known
        self.grouper = grouper
        self.results = CallableResults()
        self.exact = plan.unfound
        self.about: dict[str, dict[int, str]] = {}  # the stages' notes, as Trace.about
        self._traces = [StageTrace(stage.name, 0, 0, 0.0, ()) for stage in plan.stages]

    @property
    def traces(self) -> tuple[StageTrace, ...]:
        """The traces of the stages so far."""
        return tuple(self._traces)

    @property
    def phases(self) -> tuple[Phase, ...] | None:
        """The weights of each query's session signals; None where no stage weighs them."""
        return phases_of(self._plan.stages, self._plan.sessions)

    def call(self, execution: _core.Execution, first_query: int) -> StageCall:
        """Return what the stages get for a piece of the batch."""
        plan, segments = self._plan, self._state.segments

        def gather(lists: FusedLists, name: str) -> pa.Array:
            return gather_column(segments, lists.arrays["segment"], lists.arrays["row"], name)

        def seqs(lists: FusedLists) -> Array:
            return seqs_of(segments, lists.arrays["segment"], lists.arrays["row"])

        return StageCall(
            **vars(stage_plan(self._facts, plan)),
            now=self._now,
            n_wanted=plan.offset + plan.limit,
            is_grouped=plan.grouping is not None,
            execution=execution,
            first_query=first_query,
            texts=self._texts,
            sessions=plan.sessions,
            seqs=seqs,
            reach=self._reaches.of,
            _gather=gather,
            _results=self.results,
            _known=self._known,
        )

    def run(
        self,
        arrays: dict[str, Array],
        execution: _core.Execution,
        request: _core.BatchRequest,
        first_query: int,
    ) -> dict[str, Array]:
        """Shape the native hits of a piece and cut offset and limit."""
        plan, call = self._plan, self.call(execution, first_query)
        arrays, pool = self.begin(arrays, call)
        before = pool
        for number, stage in enumerate(plan.stages):
            started = time.perf_counter()
            n_in, noted = len(pool), dict[str, dict[int, str]]()
            pool = checked(stage, stage.run(pool, replace(call, _noted=noted)))
            milliseconds = (time.perf_counter() - started) * 1e3
            trace = self._traces[number].plus(n_in, len(pool), milliseconds, None)
            for note, alone in noted.items():
                trace = trace.plus(0, 0, 0.0, note)
                if alone:
                    self.about[note] = self.about.get(note, {}) | alone
            self._traces[number] = trace
        if plan.fill is not None:
            n = len(pool.offsets) - 1
            may = np.ones(n, np.bool_) if plan.selected is None else plan.selected[first_query:][:n]
            blank = self._blank(n, first_query)
            held = (self._facts, self._state, plan, request, first_query)
            pool = fill_lists(pool, *held, blank, may, before)
        if self.grouper is not None:
            pool = self.grouper.run(pool)
        rank = pool.places + 1
        pool = pool.with_arrays(rank=rank.astype(np.int32))
        pool = pool.keep((rank > plan.offset) & (rank <= plan.offset + plan.limit))
        flat = {name: pool.arrays[name].reshape(-1) for name in ("arm_scores", "arm_ranks")}
        kept = {name: arrays[name] for name in QUERY_ARRAYS if name in arrays}
        return {**kept, **pool.arrays, **flat, "offsets": pool.offsets}

    def begin(
        self, arrays: dict[str, Array], call: StageCall
    ) -> tuple[dict[str, Array], FusedLists]:
        """Return the native hits of a piece, and the lists that the first stage gets."""
        exact, n_arms = self._plan.exact, len(self._plan.arms)
        if exact is not None and exact.lists:
            arrays = exact.split(arrays, n_arms, call.first_query)
            self.exact |= exact.counts(arrays, call.first_query)
        offsets = arrays["offsets"]
        entries = {name: a for name, a in arrays.items() if name not in QUERY_ARRAYS}
        for name in ("arm_scores", "arm_ranks"):
            entries[name] = entries[name].reshape(-1, n_arms)
        pool = FusedLists(offsets, entries)
        if self._plan.blank_queries:
            blank = self._blank(len(offsets) - 1, call.first_query)
            pool = pool.keep(~np.repeat(blank, np.diff(offsets)))
        return arrays, lead(self._break_ties(pool, call))

    def _blank(self, n_queries: int, first_query: int) -> npt.NDArray[np.bool_]:
        """Say which queries of a piece are without a word."""
        return np.isin(np.arange(n_queries) + first_query, self._plan.blank_queries)

    def _break_ties(self, pool: FusedLists, call: StageCall) -> FusedLists:
        """Order equal scores by the columns that decide; the insertion number decides last."""
        ties = [
            order_codes(call.column(pool, tie.column), descending=tie.descending, prefer=tie.prefer)
            for tie in self._plan.tie_break
        ]
        if self._plan.stages:  # which break their ties so too
            seqs = call.seqs(pool)
            ranks = tie_ranks(ties, seqs) if ties else seqs
            # With evidence, the fused score came with the reply.
            fused = pool.arrays.get("fused_score", pool.score)
            pool = pool.with_arrays(fused_score=fused, tie_rank=ranks)
        if not ties:
            return pool
        return pool.take(_core.shaping.order(pool.native, ties, self._facts.threads))
