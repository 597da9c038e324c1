"""Carries out the shaping stages on the fused lists of a batch, a stage at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

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
from hyrecall.hits.arm_texts import join_texts
from hyrecall.hits.reply_arrays import QUERY_ARRAYS
from hyrecall.hits.trace import StageTrace
from hyrecall.recall.callables import CallableResults
from hyrecall.recall.fill import fill_lists
from hyrecall.recall.fused_lists import (
    Array,
    Floats,
    FusedLists,
    Piece,
    by_value,
    order_codes,
    tie_ranks,
)
from hyrecall.recall.grouping import Grouper
from hyrecall.recall.leading import choose_leading, lead, others
from hyrecall.recall.linear import with_linear
from hyrecall.recall.plan import Plan
from hyrecall.recall.reach import Reaches
from hyrecall.recall.rerankers import rerank_scores, told_of
from hyrecall.recall.rescoring import rescored
from hyrecall.recall.session_signals import phase_of, session_signals, signal_sums
from hyrecall.recall.shaping_checks import text_columns, vector_arm
from hyrecall.recall.tokens import token_counts
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.segments import State, gather_column, seqs_of

__all__ = ["Shaper"]


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
        """What each stage did so far."""
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

    def _by_value(
        self, pool: FusedLists, column: str, pairs: Sequence[tuple[object, float]], default: float
    ) -> Floats:
        """Replace each entry by the number of its value in a column."""
        return by_value(self.column(pool, column), pairs, default, column)

    def _rescored(self, pool: FusedLists, found: Any, **told: Array) -> FusedLists:
        """Return the lists with their new scores, in the order of these."""
        pool = pool.with_arrays(**told, score=found["score"])
        return lead(pool.take(found["ordered"]))

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
            ranks = self._by_value(pool, stage.keep, pairs, float(len(stage.prefer)))
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
            reach=lambda graph, *near: self._reaches.of(graph, own.start, own.stop, *near),
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
