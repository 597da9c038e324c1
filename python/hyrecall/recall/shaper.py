"""Carries out the shaping stages on the fused lists of a batch, a stage at a time."""

from __future__ import annotations

import inspect
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.shaping import (
    MMR,
    Budget,
    Composite,
    Dedup,
    Gate,
    Linear,
    Provenance,
    Recency,
    Rerank,
    RerankBy,
    SessionSignals,
    Stage,
)
from hyrecall.ask.shaping.checks import read_duration
from hyrecall.ask.shaping.choice import token_counts
from hyrecall.base.threads import AllHungError, LateError, Pool
from hyrecall.base.times import age_seconds, importances
from hyrecall.hits.reply import QUERY_ARRAYS, join_texts
from hyrecall.hits.trace import StageTrace
from hyrecall.recall.arms import newest_rows
from hyrecall.recall.fused_lists import (
    Array,
    Floats,
    FusedLists,
    Piece,
    by_value,
    choose_leading,
    lead,
    order_codes,
    others,
    tie_ranks,
)
from hyrecall.recall.grouping import Grouper
from hyrecall.recall.linear import with_linear
from hyrecall.recall.plan import Plan
from hyrecall.recall.reach import Reaches
from hyrecall.recall.session_signals import (
    phase_of,
    session_signals,
    signal_sums,
    text_columns,
    vector_arm,
)
from hyrecall.segments.segments import IndexFacts, State, document_numbers, gather_column, seqs_of

if TYPE_CHECKING:
    from hyrecall.ask.recipe import TieBreak


# ---- Keeps what a caller's callables returned, so that lists can be shaped again without a call


@dataclass(frozen=True, eq=False)
class CallableResults:
    """The values that callables of stages returned, by stage and list."""

    _kept: dict[str, list[tuple[int, Array, Array]]] = field(default_factory=dict)

    def keep(self, stage: object, first_query: int, offsets: Array, values: Array) -> None:
        """Keep the values of some queries' lists, whose entries begin at ``offsets``."""
        self._kept.setdefault(type(stage).__name__, []).append((first_query, offsets, values))

    def of(self, stage: object, query: int) -> Array:
        """Return the values of one query's list."""
        for first, offsets, values in self._kept[type(stage).__name__]:
            if first <= query < first + len(offsets) - 1:
                at = query - first
                return values[int(offsets[at]) : int(offsets[at + 1])]
        raise KeyError(query)


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


# ---- Calls a reranking function: bounded in time, and its failures are only told ----

_LATE = "out of time"


def rerank_scores(
    stage: RerankBy, queries: Sequence[str | None], texts: Sequence[list[str | None]]
) -> tuple[list[Floats], dict[int, str]]:
    """Return each query's scores, NaN where there are none, and the faults by query."""
    found = [np.full(len(one), np.nan) for one in texts]
    deadline = time.monotonic() + read_duration("timeout", stage.timeout)
    faults: dict[int, str] = {}
    # One thread: a model is seldom safe to call from several. It is left behind when time is up.
    worker = Pool(_call, workers=1, most=1, name="hyrecall-rerank")
    try:
        for at, (query, one) in enumerate(zip(queries, texts, strict=True)):
            if not one:
                continue
            if query is None:
                faults[at] = "no text"
                continue
            given = (stage, query, [text or "" for text in one])
            made: Floats | str
            try:
                made = worker.run(given, max(deadline - time.monotonic(), 0.0))
            except (LateError, AllHungError):
                made = _LATE
            if isinstance(made, str):
                faults[at] = made
            else:
                found[at] = made
    finally:
        worker.close()
    return found, faults


def told_of(faults: Iterable[str]) -> str:
    """Return the note that queries kept their order, and why."""
    counts = sorted(Counter(faults).items())
    told = ", ".join(f"{name} for {count}" for name, count in counts)
    return f"RerankBy kept the order: {told}"


def _call(given: tuple[RerankBy, str, list[str]], until: float) -> Floats | str:
    """Return the scores, or the name of what was raised."""
    try:
        return _scores(*given, until)
    except TimeoutError:
        return _LATE
    except BaseException as fault:  # SystemExit too: it must not end the caller
        return type(fault).__name__


def _scores(stage: RerankBy, query: str, texts: list[str], until: float) -> Floats:
    within = getattr(stage.function, "scores_within", None)
    if within is None:
        made: Any = stage.function(query, texts)
    else:  # it ends by itself, so that a late call keeps no core busy
        made = within(query, texts, max(0.0, until - time.monotonic()))
    if inspect.isawaitable(made):
        import asyncio

        made = asyncio.run(_result(made))
    scores = np.asarray(made, np.float64)
    if scores.shape != (len(texts),):
        raise ValueError(f"expected {len(texts)} scores, got shape {scores.shape}")
    if np.isnan(scores).any():
        raise ValueError("expected scores, got NaN")
    return scores


async def _result(made: Any) -> Any:
    return await made


# ---- Scores the entries of fused lists anew by age, weight or both, and orders the lists by it


def rescored(
    stage: Provenance | Recency | Composite,
    pool: FusedLists,
    state: State,
    now: datetime,
    threads: int,
) -> FusedLists:
    """Return the lists after a stage whose new score of an entry depends on that entry alone."""
    # Equal scores are ordered as the fused lists order them, or by place where a rerank chose the
    # places. What comes first for what it holds stays there.
    entries = _Entries(pool, state, threads)
    if isinstance(stage, Provenance):
        return _by_weight(stage, entries)
    return (
        _by_age(stage, entries, now) if isinstance(stage, Recency) else _mixed(stage, entries, now)
    )


class _Entries:
    """The entries of lists, with the columns of their rows."""

    def __init__(self, pool: FusedLists, state: State, threads: int) -> None:
        self.pool = pool
        self.order = pool.arrays["tie_rank"], threads
        self._state = state

    def column(self, name: str) -> pa.Array:
        """Return a row column of every entry."""
        arrays = self.pool.arrays
        return gather_column(self._state.segments, arrays["segment"], arrays["row"], name)

    def after(self, found: Any, **told: Array) -> FusedLists:
        """Return the lists with their new scores, in the order of these."""
        scored = self.pool.with_arrays(**told, score=found["score"])
        return lead(scored.take(found["ordered"]))


def _by_weight(stage: Provenance, entries: _Entries) -> FusedLists:
    column = entries.column(stage.column)
    weight = by_value(column, stage.by_value, stage.default, stage.column)
    found = _core.shaping.rescore_by_weight(entries.pool.native, weight, *entries.order)
    change = found["score"] - entries.pool.score
    return entries.after(found, provenance_weight=weight, provenance_change=change)


def _by_age(stage: Recency, entries: _Entries, now: datetime) -> FusedLists:
    age = age_seconds(entries.column(stage.column), now)
    half_life, each = read_duration("half_life", stage.half_life), np.zeros(0)
    if stage.by is not None:
        each = by_value(entries.column(stage.by), stage.by_value, half_life, stage.by)
    found = _core.shaping.rescore_by_age(
        entries.pool.native, age, half_life, each, stage.exponent, *entries.order
    )
    factor = found["signal"]
    if (factor == 1.0).all():  # nothing is penalised: the list stays as it is, to the last bit
        return entries.pool.with_arrays(recency_factor=factor, score=found["score"])
    return entries.after(found, recency_factor=factor)


def _mixed(stage: Composite, entries: _Entries, now: datetime) -> FusedLists:
    age = age_seconds(entries.column(stage.time), now)
    half_life = read_duration("half_life", stage.half_life)
    importance = importances(entries.column(stage.rating), stage.default, stage.scale)
    weights = stage.recency, stage.importance, stage.relevance
    found = _core.shaping.rescore_by_composite(
        entries.pool.native, age, half_life, importance, weights, *entries.order
    )
    return entries.after(
        found,
        recency_score=found["signal"],
        importance_score=importance,
        relevance_score=entries.pool.score,
        composite_raw=found["raw"],
    )


# ---- Carries out the shaping stages on the fused lists of a batch, a stage at a time ----


class Shaper:
    """Runs the stages of one call on its pieces; keeps what the trace says of them."""

    def __init__(
        self,
        facts: IndexFacts,
        state: State,
        plan: Plan,
        *,
        now: datetime,
        texts: Sequence[str | None],
        reaches: Reaches,
        known: CallableResults | None = None,
        grouper: Grouper | None = None,
    ) -> None:
        """Take what the stages may need; ``texts`` are the queries' own, for rerankers."""
        # ``known``: what callables returned before, for one query that is shaped again; None: they
        # are called, and ``results`` keeps what they return.
        self._facts = facts
        self._state = state
        self._plan = plan
        self._stages = plan.stages
        self._now = now
        self._texts = texts
        self._reaches = reaches
        self._known = known
        self.grouper = grouper
        self.results = CallableResults()
        self.exact = plan.unfound
        self.about: dict[str, dict[int, str]] = {}  # the stages' notes, as Trace.about
        self._traces = [StageTrace(type(s).__name__, 0, 0, 0.0, ()) for s in plan.stages]

    @property
    def traces(self) -> tuple[StageTrace, ...]:
        """The traces of the stages so far."""
        return tuple(self._traces)

    def run(self, arrays: dict[str, Array], piece: Piece) -> dict[str, Array]:
        """Shape the native hits of a piece and cut offset and limit."""
        arrays, pool = self.begin(arrays, piece)
        blank = self._blank(len(pool.offsets) - 1, piece)
        before = pool
        for number, stage in enumerate(self._stages):
            started = time.perf_counter()
            n_in = len(pool)
            pool, note = self.run_stage(stage, pool, piece)
            seconds = time.perf_counter() - started
            self._traces[number] = self._traces[number].plus(n_in, len(pool), seconds * 1e3, note)
        if self._plan.fill is not None:
            selected = self._plan.selected
            n = len(blank)
            may = np.ones(n, np.bool_) if selected is None else selected[piece.first_query :][:n]
            pool = fill_lists(
                pool, self._facts, self._state, self._plan, piece.request, piece.first_query,
                blank, may, before,
            )  # fmt: skip
        if self.grouper is not None:
            pool = self.grouper.run(pool)
        rank = pool.places + 1
        first = self._plan.offset
        pool = pool.with_arrays(rank=rank.astype(np.int32))
        pool = pool.keep((rank > first) & (rank <= first + self._plan.limit))
        flat = {name: pool.arrays[name].reshape(-1) for name in ("arm_scores", "arm_ranks")}
        kept = {name: arrays[name] for name in QUERY_ARRAYS}
        return {**kept, **pool.arrays, **flat, "offsets": pool.offsets}

    def begin(self, arrays: dict[str, Array], piece: Piece) -> tuple[dict[str, Array], FusedLists]:
        """Return the native hits of a piece, and the lists that the first stage gets."""
        exact = self._plan.exact
        if exact is not None and exact.lists:
            arrays = exact.split(arrays, len(self._plan.arms), piece.first_query)
            self.exact |= exact.counts(arrays, piece.first_query)
        offsets = arrays["offsets"]
        entries = {name: a for name, a in arrays.items() if name not in QUERY_ARRAYS}
        n_arms = len(self._plan.arms)
        for name in ("arm_scores", "arm_ranks"):
            entries[name] = entries[name].reshape(-1, n_arms)
        pool = FusedLists(offsets, entries)
        if self._plan.blank_queries:
            blank = self._blank(len(offsets) - 1, piece)
            pool = pool.keep(~np.repeat(blank, np.diff(offsets)))
        return arrays, lead(self._break_ties(pool))

    def _blank(self, n_queries: int, piece: Piece) -> npt.NDArray[np.bool_]:
        """Say which queries of a piece are without a word."""
        if not self._plan.blank_queries:
            return np.zeros(n_queries, np.bool_)
        return np.isin(np.arange(n_queries) + piece.first_query, self._plan.blank_queries)

    def run_stage(
        self, stage: Stage, pool: FusedLists, piece: Piece
    ) -> tuple[FusedLists, str | None]:
        """Return the lists after a stage, and what it could not do."""
        note = None
        match stage:
            case Linear():
                held = self._plan, self._state, self._facts.schema
                pool = self._ordered(with_linear(stage, pool, *held, self._now))
            case Provenance() | Recency() | Composite():
                pool = rescored(stage, pool, self._state, self._now, self._facts.threads)
            case Rerank():
                pool = self._rerank(stage, pool)
            case RerankBy():
                pool, note = self._rerank_by(stage, pool, piece.first_query)
            case Dedup():
                pool = self._dedup(stage, pool, piece)
            case Budget():  # with MMR it bounds what that chooses
                if not any(isinstance(other, MMR) for other in self._stages):
                    pool = self._choose(pool, piece, stage, None)
            case MMR():
                budget = next((s for s in self._stages if isinstance(s, Budget)), None)
                pool = self._choose(pool, piece, budget, stage)
            case SessionSignals():
                pool = self._session_signals(stage, pool, piece)
            case Gate():
                pool = pool.keep(pool.score >= stage.min_score)
        return pool, note

    def column(self, pool: FusedLists, name: str) -> pa.Array:
        """Return a row column of every entry."""
        return gather_column(self._state.segments, pool.arrays["segment"], pool.arrays["row"], name)

    def _break_ties(self, pool: FusedLists) -> FusedLists:
        """Order equal scores by the columns that decide; the insertion number decides last."""
        ties = [
            order_codes(self.column(pool, tie.column), descending=tie.descending, prefer=tie.prefer)
            for tie in self._plan.tie_break
        ]
        if self._stages:  # which break their ties so too
            seqs = seqs_of(self._state.segments, pool.arrays["segment"], pool.arrays["row"])
            ranks = tie_ranks(ties, seqs) if ties else seqs
            # With evidence, the fused score came with the reply.
            fused = pool.arrays.get("fused_score", pool.score)
            pool = pool.with_arrays(fused_score=fused, tie_rank=ranks)
        if not ties:
            return pool
        return pool.take(_core.shaping.order(pool.native, ties, self._facts.threads))

    def _ordered(self, pool: FusedLists) -> FusedLists:
        """Order by score; ties as the fused list's, or by place where a rerank chose the places."""
        # What comes first for what it holds stays there.
        ties = pool.arrays["tie_rank"]
        return lead(pool.take(_core.shaping.order(pool.native, [ties], self._facts.threads)))

    def _rerank(self, stage: Rerank, pool: FusedLists) -> FusedLists:
        places = self._plan.places(vector_arm(self._facts, stage))
        scores = pool.arrays["arm_scores"][:, places].max(axis=1).astype(np.float64)
        return self._permuted(pool, np.where(np.isneginf(scores), np.nan, scores), stage.window)

    def _rerank_by(
        self, stage: RerankBy, pool: FusedLists, first_query: int
    ) -> tuple[FusedLists, str | None]:
        if not len(pool):
            return self._permuted(pool, np.zeros(0), stage.window), None
        if self._known is not None:
            return self._permuted(pool, self._known.of(stage, first_query), stage.window), None
        inside = pool.places < stage.window
        texts = self._texts_of(stage, pool.keep(inside))
        counts = np.minimum(np.diff(pool.offsets), stage.window)
        ends = np.cumsum(counts)
        lists = [texts[end - n : end].to_pylist() for n, end in zip(counts, ends, strict=True)]
        queries = self._texts[first_query : first_query + len(counts)]
        found, faults = rerank_scores(stage, queries, lists)
        note = told_of(faults.values()) if faults else None
        if note is not None:
            alone = {first_query + query: told_of((fault,)) for query, fault in faults.items()}
            self.about[note] = self.about.get(note, {}) | alone
        scores = np.full(len(pool), np.nan)
        scores[inside] = np.concatenate([np.asarray(one, np.float64) for one in found])
        self.results.keep(stage, first_query, pool.offsets, scores)
        return self._permuted(pool, scores, stage.window), note

    def _permuted(self, pool: FusedLists, scores: Floats, window: int) -> FusedLists:
        """Share out the places of the window's scored entries by these scores; NaN has none."""
        moves = (pool.places < window) & ~np.isnan(scores)
        places = np.flatnonzero(moves)
        first = others(pool)[places]
        by_score = places[np.lexsort((places, -scores[places], first, pool.query[places]))]
        entries = np.arange(len(pool))
        entries[places] = by_score
        # A place keeps its score. Its first holder explains that score.
        held = ["segment", "row", "arm_ranks", "arm_scores", "linear_addends"]
        if self._plan.evidence is not None:
            held += self._plan.evidence.arrays()
        donors = {f"place_{name}": pool.arrays[name] for name in held if name in pool.arrays}
        moved = pool.with_arrays(rerank_score=np.where(moves, scores, np.nan)).take(
            (pool.offsets, entries)
        )
        return moved.with_arrays(score=pool.score, tie_rank=pool.places, **donors)

    def _dedup(self, stage: Dedup, pool: FusedLists, piece: Piece) -> FusedLists:
        found = self.clusters(stage, pool, piece)
        return pool.take(found["kept"]).with_arrays(n_duplicates=found["duplicates"])

    def clusters(self, stage: Dedup, pool: FusedLists, piece: Piece) -> Any:
        """Return the clusters of near-duplicates, as ``_core.shaping.dedup`` gives them."""
        preference = np.zeros(0, np.int64)
        if stage.keep is not None:
            pairs = [(value, float(at)) for at, value in enumerate(stage.prefer)]
            values, last = self.column(pool, stage.keep), float(len(stage.prefer))
            ranks = by_value(values, pairs, last, stage.keep)
            # A copy that does not hold what was asked for stands for none that does.
            preference = ranks.astype(np.int64) + others(pool) * (len(stage.prefer) + 1)
        column = self.dense(stage)
        return _core.shaping.dedup(
            pool.native, piece.execution, column, stage.limit, stage.scale == "unit", preference
        )

    def _session_signals(self, stage: SessionSignals, pool: FusedLists, piece: Piece) -> FusedLists:
        counts = np.diff(pool.offsets)
        own = slice(piece.first_query, piece.first_query + len(counts))
        topical, session = session_signals(
            stage, self._facts, self._plan.sessions[own], pool.offsets,
            self.column(pool, self._facts.schema.key),
            reach=lambda graph: self._reaches.of(graph, own.start, own.stop),
            now=self._now,
        )  # fmt: skip
        best, _ = pool.extremes
        general = np.where(best > 0, pool.score / np.where(best > 0, best, 1.0), 0.0)
        phases = [phase_of(stage, one) for one in self._plan.sessions[own]]
        scored = pool.with_arrays(
            general_score=general,
            topical_score=topical,
            session_score=session,
            general_best=best,
            score=signal_sums(phases, counts, (general, topical, session)),
        )
        return self._ordered(scored)

    def _choose(
        self, pool: FusedLists, piece: Piece, budget: Budget | None, mmr: MMR | None
    ) -> FusedLists:
        n_wanted, most = self._plan.offset + self._plan.limit, None
        if budget is not None and budget.bounds:
            most = budget.tokens
            pool = pool.with_arrays(token_estimate=self.tokens(budget, pool, piece))
        if self._plan.grouping is not None:  # the grouper says later what is a hit, and what fits
            n_wanted, most = len(pool), None
        if mmr is None and most is None:
            return pool
        tokens = np.zeros(0, np.int64) if most is None else pool.arrays["token_estimate"]
        budgets = np.full(0 if most is None else len(pool.offsets) - 1, most or 0, np.int64)
        column = None if mmr is None else self.dense(mmr)
        found = _core.shaping.diversify(
            pool.native,
            piece.execution,
            column,
            1.0 if mmr is None else mmr.relevance_weight,
            "raw" if mmr is None else mmr.relevance,
            n_wanted,
            tokens,
            budgets,
        )
        found = choose_leading(
            pool, found, piece, mmr, column, n_wanted=n_wanted, tokens=tokens, tokens_fit=most
        )
        if mmr is None:
            return pool.take(found["chosen"])
        high, low = pool.extremes
        pool = pool.with_arrays(mmr_high=high, mmr_low=low)
        chosen = pool.take(found["chosen"])
        nearest = found["nearest"]
        near = {
            f"mmr_nearest_{name}": np.where(nearest < 0, 0, pool.arrays[name][nearest])
            for name in ("segment", "row")
        }
        return chosen.with_arrays(
            mmr_relevance=found["relevance"],
            mmr_similarity=found["similarity"],
            mmr_has_nearest=nearest >= 0,
            score=found["value"],
            **near,
        )

    def tokens(self, budget: Budget, pool: FusedLists, piece: Piece) -> npt.NDArray[np.int64]:
        """Estimate what each entry's text takes."""
        if self._known is not None and budget.estimate is not None:
            return self._known.of(budget, piece.first_query)
        counts = token_counts(budget, self._texts_of(budget, pool))
        if budget.estimate is not None:
            self.results.keep(budget, piece.first_query, pool.offsets, counts)
        return counts

    def _texts_of(self, stage: RerankBy | Budget, pool: FusedLists) -> pa.Array:
        """Return the text of each entry that a stage reads."""
        names = text_columns(self._facts, stage)
        return join_texts([self.column(pool, name) for name in names])

    def dense(self, stage: Dedup | MMR) -> int:
        """Return the number of the dense column whose rows a stage compares."""
        return self._facts.vector_arms.index(vector_arm(self._facts, stage))
