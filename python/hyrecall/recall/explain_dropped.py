"""Which rows each stage left out for one query and why, recomputed to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from hyrecall import _core
from hyrecall.ask.scope import Scope
from hyrecall.ask.shaping import MMR, Budget, Dedup, Gate, Stage
from hyrecall.ask.shaping.choice import token_counts
from hyrecall.hits.around import NearRow
from hyrecall.hits.dropped import Dropped, DroppedRow, Peer, StageDrops
from hyrecall.hits.reply import Reply, join_texts
from hyrecall.recall.evidence import merged
from hyrecall.recall.fused_lists import FusedLists, Piece, scaled_relevance
from hyrecall.recall.grouping import make_grouper
from hyrecall.recall.plan import Plan
from hyrecall.recall.reach import Reaches
from hyrecall.recall.session_signals import text_columns
from hyrecall.recall.shaper import CallableResults, Shaper
from hyrecall.segments.lookup import rows_of_keys
from hyrecall.segments.segments import State, gather_column
from hyrecall.table.arrow_values import python_values

if TYPE_CHECKING:
    from hyrecall.segments.segments import IndexFacts


class _Why(NamedTuple):
    """Why a row was dropped; ``kept`` and ``via`` are entries of the same list."""

    reason: str
    value: float
    bound: float | None
    kept: int | None = None
    via: int | None = None


_WhyOf: TypeAlias = Callable[[int], _Why]
"""Says of an entry of a list why it was dropped."""


def explain_dropped(
    plan: Plan, state: State, results: CallableResults | None, reply: Reply, query: int, most: int
) -> Dropped:
    """Run the stages again for one query and say what each dropped."""
    with _core.arithmetic.RoundToNearest():
        return Dropped(tuple(_Again(plan, state, results, reply, query).run(most)))


class _Again:
    """One query, answered again on the snapshot of its call, with the same result."""

    def __init__(
        self, plan: Plan, state: State, results: CallableResults | None, reply: Reply, query: int
    ) -> None:
        self._plan, self._state, self._query = plan, state, query
        self._facts: IndexFacts = reply.facts
        request = plan.again(query)
        execution = _core.Execution(state.snapshot, request)
        self._candidates = execution.candidates(execution.statistics())
        self._arrays = merged(request, self._candidates, plan.evidence)
        self._piece = Piece(execution, request, query)
        self._shaper = Shaper(
            self._facts, state, plan, now=reply.now, texts=(),
            reaches=Reaches(plan.graphs, plan.scope), known=results,
        )  # fmt: skip

    def run(self, most: int) -> list[StageDrops]:
        """Return what each stage dropped, with ``most`` rows in all."""
        out: list[StageDrops] = []

        def add(stage: str, before: FusedLists, stay: npt.NDArray[Any], why: _WhyOf) -> None:
            dropped = np.setdiff1d(np.arange(len(before)), stay)
            room = most - sum(len(one.rows) for one in out)
            rows = self._rows(before, dropped[:room].tolist(), why)
            out.append(StageDrops(stage, len(before), len(stay), rows))

        if self._plan.joining["min_fused"] is not None:
            add("min_fused", *self._floor())
        _, pool = self._shaper.begin(self._arrays, self._piece)
        if not self._is_answered:
            pool = pool.keep(np.zeros(len(pool), np.bool_))
        for stage in self._plan.stages:
            before = pool.with_arrays(entry=np.arange(len(pool)))
            pool, _ = self._shaper.run_stage(stage, before, self._piece)
            add(type(stage).__name__, before, pool.arrays["entry"], self._why(stage, before, pool))
        if (how := self._plan.grouping) is not None:
            before = pool.with_arrays(entry=np.arange(len(pool)))
            pool, why = self._ungrouped(before)
            name = "group" if how.by_thread else "surrounding"
            add(name, before, pool.arrays["entry"], why)
        add("limit", pool, *self._page(pool))
        return out

    @property
    def _is_answered(self) -> bool:
        """Whether the query is answered by this part of its call, and asks something."""
        plan, query = self._plan, self._query
        is_selected = plan.selected is None or bool(plan.selected[query])
        return is_selected and query not in plan.blank_queries

    def _floor(self) -> tuple[FusedLists, npt.NDArray[Any], _WhyOf]:
        """Return the fused list without its floor, what passes the floor, and why others do not."""
        free = self._plan.again(self._query, min_fused=None, normalize=False)
        arrays = merged(free, self._candidates, self._plan.evidence)
        names = ("segment", "row", "score")
        offsets = arrays["offsets"]
        if not self._is_answered:
            offsets = np.zeros_like(offsets)
        n = int(offsets[-1])
        whole = FusedLists(offsets, {name: arrays[name][:n] for name in names})
        passing = {
            *zip(self._arrays["segment"].tolist(), self._arrays["row"].tolist(), strict=True)
        }
        rows = zip(whole.arrays["segment"].tolist(), whole.arrays["row"].tolist(), strict=True)
        stay = np.flatnonzero(np.array([one in passing for one in rows], np.bool_))
        value, _ = self._plan.joining["min_fused"]
        return whole, stay, lambda entry: _Why("floor", float(whole.score[entry]), value)

    def _page(self, pool: FusedLists) -> tuple[npt.NDArray[Any], _WhyOf]:
        """Return what limit and offset leave of a list, and why others are not on the page."""
        first, n = self._plan.offset, len(pool)
        end = min(first + self._plan.limit, n)
        stay = np.arange(min(first, n), end)

        def why(entry: int) -> _Why:
            if entry < first:
                return _Why("offset", float(pool.score[entry]), None)
            return self._beyond(pool, entry, pool, end - 1 if len(stay) else None)

        return stay, why

    def _why(self, stage: Stage, before: FusedLists, after: FusedLists) -> _WhyOf:
        match stage:
            case Dedup():
                return self._duplicate(stage, before)
            case MMR():
                budget = next((one for one in self._plan.stages if isinstance(one, Budget)), None)
                return self._not_chosen(budget, stage, before, after)
            case Budget():
                return self._not_chosen(stage, None, before, after)
            case Gate():
                return lambda entry: _Why("floor", float(before.score[entry]), stage.min_score)
        return _unexpected  # the other stages keep every row

    # ---- near-duplicates ----

    def _duplicate(self, stage: Dedup, before: FusedLists) -> _WhyOf:
        kept_for = self._shaper.clusters(stage, before, self._piece)["kept_for"]
        column = self._shaper.dense(stage)

        def similarity(one: int, other: int) -> float:
            cosine = self._cosine(column, before, min(one, other), max(one, other))
            return (1.0 + cosine) / 2.0 if stage.scale == "unit" else cosine

        def why(entry: int) -> _Why:
            kept = int(kept_for[entry])
            value = similarity(kept, entry)
            if value > stage.limit:
                return _Why("duplicate", value, stage.limit, kept)
            members = [at for at in np.flatnonzero(kept_for == kept).tolist() if at != entry]
            value, first = max((similarity(at, entry), -at) for at in members)
            return _Why("duplicate", value, stage.limit, kept, -first)

        return why

    def _cosine(self, column: int, pool: FusedLists, one: int, other: int) -> float:
        """Return the cosine of two entries, the first as query, as the stages compare them."""
        segment, row = pool.arrays["segment"], pool.arrays["row"]
        places = [(int(segment[at]), int(row[at])) for at in (one, other)]
        return _core.shaping.row_cosine(self._piece.execution, column, 0, *places)

    # ---- what is chosen within a budget, or by MMR ----

    def _not_chosen(
        self, budget: Budget | None, mmr: MMR | None, before: FusedLists, after: FusedLists
    ) -> _WhyOf:
        chosen = after.arrays["entry"].tolist()
        is_full = len(chosen) == self._plan.offset + self._plan.limit
        tokens: Sequence[int] = ()
        left = [0]  # before each choice
        if budget is not None and budget.bounds:
            assert budget.tokens is not None
            tokens = self._shaper.tokens(budget, before, self._piece).tolist()
            left = [budget.tokens]
            for one in chosen:
                left.append(left[-1] - tokens[one])

        def why(entry: int) -> _Why:
            if tokens and chosen:
                steps = left[1:-1] if is_full else left[1:]  # after which a choice was to be made
                if mmr is None:  # its turn came after what stands before it
                    turn = sum(one < entry for one in chosen)
                    steps = [] if is_full and turn == len(chosen) else [left[turn]]
                too_few = [one for one in steps if tokens[entry] > one]
                if too_few:
                    return _Why("budget", float(tokens[entry]), float(too_few[0]))
            last = chosen[-1] if chosen else None
            if mmr is None:
                return self._beyond(before, entry, before, last)
            return self._outranked(mmr, before, after, entry)

        return why

    def _outranked(self, mmr: MMR, before: FusedLists, after: FusedLists, entry: int) -> _Why:
        """Say what the value of an entry was when the last one was chosen."""
        chosen = after.arrays["entry"].tolist()
        column = self._shaper.dense(mmr)
        similarity = 0.0
        for one in chosen[:-1]:
            similarity = max(similarity, self._cosine(column, before, one, entry))
        relevance = scaled_relevance(
            mmr.relevance, float(before.score[entry]),
            float(before.score.max()), float(before.score.min()),
        )  # fmt: skip
        value = _core.shaping.mmr_value(mmr.relevance_weight, relevance, similarity)
        why = self._beyond(before, entry, after, len(chosen) - 1 if chosen else None)
        # With one choice there was nothing to compare: the first of the list is chosen.
        return why._replace(value=value, bound=None if len(chosen) < 2 else why.bound)

    @staticmethod
    def _beyond(pool: FusedLists, entry: int, kept: FusedLists, last: int | None) -> _Why:
        """Say that an entry comes after the last that stays, with both scores."""
        # Rows that lead stay whatever their score, so nothing is compared with theirs.
        bound = None if last is None else float(kept.score[last])
        if last is not None and "exact" in kept.arrays:
            leads = bool(kept.arrays["exact"][last]) and not pool.arrays["exact"][entry]
            bound = None if leads else bound
        return _Why("limit", float(pool.score[entry]), bound)

    # ---- rows that are shown with another ----

    def _ungrouped(self, pool: FusedLists) -> tuple[FusedLists, _WhyOf]:
        """Return the hits and what is behind them, and why others left."""
        # Behind the last hit of a full page a row leaves only for a hit that it is shown with.
        page = self._plan._replace(offset=0, limit=self._plan.offset + self._plan.limit)
        grouper = make_grouper(self._facts, self._state, page, ())
        assert grouper is not None
        hits = grouper.run(pool).arrays["entry"].tolist()
        shown = self._shown_with(pool, hits, grouper.around[0])
        is_full = len(hits) == page.limit
        n_met = (hits[-1] + 1 if hits else 0) if is_full else len(pool)
        behind = [at for at in range(n_met, len(pool)) if at not in shown]

        def why(entry: int) -> _Why:
            if entry in shown:
                reason, hit = shown[entry]
                return _Why(reason, float(pool.score[entry]), None, hit)
            return self._no_room(pool, entry, hits, grouper.around[0])

        mask = np.zeros(len(pool), np.bool_)
        mask[hits + behind] = True
        return pool.keep(mask), why

    def _shown_with(
        self, pool: FusedLists, hits: list[int], around: Sequence[Sequence[NearRow]]
    ) -> dict[int, tuple[str, int]]:
        """Say of entries which hit before them they are shown around, or folded into its thread."""
        schema, how = self._facts.schema, self._plan.grouping
        assert schema.thread is not None
        assert how is not None
        peers = self._peers(pool, list(range(len(pool))))
        segment, row = pool.arrays["segment"], pool.arrays["row"]
        threads = python_values(gather_column(self._state.segments, segment, row, schema.thread))
        near = {
            (peers[hit].cell, one.key): hit
            for hit, rows in zip(hits, around, strict=True)
            for one in rows
        }
        heads = {(peers[hit].cell, threads[hit]): hit for hit in reversed(hits)}
        out = {}
        for at, (peer, thread) in enumerate(zip(peers, threads, strict=True)):
            hit = near.get((peer.cell, peer.key))
            if hit is not None and hit < at:
                out[at] = ("surrounding", hit)
            elif how.by_thread and thread is not None:
                hit = heads.get((peer.cell, thread))
                if hit is not None and hit < at:
                    out[at] = ("group", hit)
        return out

    def _no_room(
        self, pool: FusedLists, entry: int, hits: list[int], around: Sequence[Sequence[NearRow]]
    ) -> _Why:
        """Say what was left of the budget after the hits before an entry and the rows around."""
        budget = next(one for one in self._plan.stages if isinstance(one, Budget))
        assert budget.tokens is not None
        tokens = pool.arrays["token_estimate"]
        left = budget.tokens
        for hit, rows in zip(hits, around, strict=True):
            if hit < entry:
                left -= int(tokens[hit]) + self._cost(budget, pool, hit, rows)
        return _Why("budget", float(tokens[entry]), float(left))

    def _cost(self, budget: Budget, pool: FusedLists, hit: int, rows: Sequence[NearRow]) -> int:
        """Return how many tokens the rows around a hit take."""
        if not rows:
            return 0
        (peer,) = self._peers(pool, [hit])
        scope = Scope([peer.cell]) if self._facts.schema.cell_columns else None
        keys = [one.key for one in rows]
        _, segment, row = rows_of_keys(self._facts, self._state, keys, scope)
        names = text_columns(self._facts, budget)
        columns = [gather_column(self._state.segments, segment, row, name) for name in names]
        return int(token_counts(budget, join_texts(columns)).sum())

    # ---- rows ----

    def _rows(self, pool: FusedLists, dropped: list[int], why_of: _WhyOf) -> tuple[DroppedRow, ...]:
        whys = [why_of(entry) for entry in dropped]
        others = [at for why in whys for at in (why.kept, why.via) if at is not None]
        named = list(dict.fromkeys((*dropped, *others)))
        peers = dict(zip(named, self._peers(pool, named), strict=True))
        return tuple(
            DroppedRow(
                entry + 1,
                peers[entry].key,
                peers[entry].cell,
                why.reason,
                why.value,
                why.bound,
                None if why.kept is None else peers[why.kept],
                None if why.via is None else peers[why.via],
            )
            for entry, why in zip(dropped, whys, strict=True)
        )

    def _peers(self, pool: FusedLists, entries: list[int]) -> list[Peer]:
        """Name the documents of entries: each is in the scope of the query, as its list is."""
        schema = self._facts.schema
        at = np.array(entries, np.int64)
        segment, row = pool.arrays["segment"][at], pool.arrays["row"][at]

        def column(name: str) -> list[Any]:
            return python_values(gather_column(self._state.segments, segment, row, name))

        cells = zip(*map(column, schema.cell_columns), strict=True)
        keys = column(schema.key)
        if not schema.cell_columns:
            return [Peer(key, ()) for key in keys]
        return [Peer(key, cell) for key, cell in zip(keys, cells, strict=True)]


def _unexpected(entry: int) -> _Why:
    raise AssertionError(f"entry {entry}: a stage that keeps every row dropped one")
