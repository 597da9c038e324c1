"""Which rows each stage left out for one query and why, recomputed to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hyrecall import _core
from hyrecall.ask.scope import Scope
from hyrecall.hits.around import NearRow
from hyrecall.hits.dropped import Dropped, DroppedRow, Peer, StageDrops
from hyrecall.hits.reply import Arrays, Reply
from hyrecall.recall.grouping import Groups, make_grouper
from hyrecall.recall.plan import Plan
from hyrecall.recall.reach import Reaches
from hyrecall.recall.shaper import Shaper
from hyrecall.segments.lookup import rows_of_keys
from hyrecall.segments.segments import State, gather_column
from hyrecall.stages.choice import Budget, token_counts
from hyrecall.stages.lists import FusedLists
from hyrecall.stages.stage import CallableResults, Why, beyond, text_columns
from hyrecall.table.arrow_values import join_texts, python_values

if TYPE_CHECKING:
    from hyrecall.segments.segments import IndexFacts


_WhyOf: TypeAlias = Callable[[int], Why]
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
        self._plan, self._state, self._reply, self._query = plan, state, reply, query
        self._facts: IndexFacts = reply.facts
        request = plan.again(query)
        execution = _core.Execution(state.snapshot, request)
        self._candidates = execution.candidates(execution.statistics())
        self._arrays = self._merged(request)
        self._shaper = Shaper(
            self._facts, state, plan, now=reply.now,
            reaches=Reaches(plan.graphs, plan.scope), known=results,
        )  # fmt: skip
        self._call = self._shaper.call(execution, query)

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
        _, pool = self._shaper.begin(self._arrays, self._call)
        if not self._is_answered:
            pool = pool.keep(np.zeros(len(pool), np.bool_))
        for stage in self._plan.stages:
            before = pool.with_arrays(entry=np.arange(len(pool)))
            pool = stage.run(before, self._call)
            why = stage.why(before, pool, self._call)
            add(stage.name, before, pool.arrays["entry"], why)
        if (how := self._plan.grouping) is not None:
            before = pool.with_arrays(entry=np.arange(len(pool)))
            pool, why = self._ungrouped(before)
            name = "group" if how.is_grouped else "surrounding"
            add(name, before, pool.arrays["entry"], why)
        if (floor := self._reply.min_confidence) is not None:
            add("min_confidence", pool, *self._sure(pool, floor))
            pool = pool.keep(np.full(len(pool), self._is_sure(floor)))
        add("limit", pool, *self._page(pool))
        return out

    def _merged(self, request: _core.BatchRequest) -> Arrays:
        """Join the candidates of a request."""
        arrays, evidence = _core.merge(request, [self._candidates]), self._plan.evidence
        return arrays if evidence is None else evidence.with_columns(arrays)

    @property
    def _is_answered(self) -> bool:
        """Whether the query is answered by this part of its call, and asks something."""
        plan, query = self._plan, self._query
        is_selected = plan.selected is None or bool(plan.selected[query])
        return is_selected and query not in plan.blank_queries

    def _floor(self) -> tuple[FusedLists, npt.NDArray[Any], _WhyOf]:
        """Return the fused list without its floor, what passes the floor, and why others do not."""
        free = self._plan.again(self._query, min_fused=None, normalize=False)
        arrays = self._merged(free)
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
        return whole, stay, lambda entry: Why("floor", float(whole.score[entry]), value)

    def _is_sure(self, floor: float) -> bool:
        made = self._reply.judged(self._query).query
        return made is None or made.value >= floor

    def _sure(self, pool: FusedLists, floor: float) -> tuple[npt.NDArray[Any], _WhyOf]:
        """Return all entries of a reply whose confidence reaches the floor, and none of others."""
        stay = np.arange(len(pool) if self._is_sure(floor) else 0)
        made = self._reply.judged(self._query).query
        return stay, lambda _: Why("floor", 0.0 if made is None else made.value, floor)

    def _page(self, pool: FusedLists) -> tuple[npt.NDArray[Any], _WhyOf]:
        """Return what limit and offset leave of a list, and why others are not on the page."""
        first, n = self._plan.offset, len(pool)
        end = min(first + self._plan.limit, n)
        stay = np.arange(min(first, n), end)

        def why(entry: int) -> Why:
            if entry < first:
                return Why("offset", float(pool.score[entry]), None)
            return beyond(pool, entry, pool, end - 1 if len(stay) else None)

        return stay, why

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

        def why(entry: int) -> Why:
            if entry in shown:
                reason, hit = shown[entry]
                return Why(reason, float(pool.score[entry]), None, hit)
            return self._no_room(pool, entry, hits, grouper.around[0])

        mask = np.zeros(len(pool), np.bool_)
        mask[hits + behind] = True
        return pool.keep(mask), why

    def _shown_with(
        self, pool: FusedLists, hits: list[int], around: Sequence[Sequence[NearRow]]
    ) -> dict[int, tuple[str, int]]:
        """Say of entries which hit before them they are shown around, or folded into its thread."""
        how = self._plan.grouping
        assert how is not None
        peers = self._peers(pool, list(range(len(pool))))
        groups = Groups.of(self._facts, self._state, pool, how).numbers.tolist()
        near = {
            (peers[hit].cell, one.key): hit
            for hit, rows in zip(hits, around, strict=True)
            for one in rows
        }
        heads = {groups[hit]: hit for hit in reversed(hits)}
        out = {}
        for at, (peer, group) in enumerate(zip(peers, groups, strict=True)):
            hit = near.get((peer.cell, peer.key))
            if hit is not None and hit < at:
                out[at] = ("surrounding", hit)
            elif how.is_grouped and group >= 0:
                hit = heads.get(group)
                if hit is not None and hit < at:
                    out[at] = ("group", hit)
        return out

    def _no_room(
        self, pool: FusedLists, entry: int, hits: list[int], around: Sequence[Sequence[NearRow]]
    ) -> Why:
        """Say what was left of the budget after the hits before an entry and the rows around."""
        budget = Budget.among(self._plan.stages)
        assert budget is not None
        assert budget.tokens is not None
        tokens = pool.arrays["token_estimate"]
        left = budget.tokens
        for hit, rows in zip(hits, around, strict=True):
            if hit < entry:
                left -= int(tokens[hit]) + self._cost(budget, pool, hit, rows)
        return Why("budget", float(tokens[entry]), float(left))

    def _cost(self, budget: Budget, pool: FusedLists, hit: int, rows: Sequence[NearRow]) -> int:
        """Return how many tokens the rows around a hit take."""
        if not rows:
            return 0
        (peer,) = self._peers(pool, [hit])
        scope = Scope([peer.cell]) if self._facts.schema.cell_columns else None
        keys = [one.key for one in rows]
        _, segment, row = rows_of_keys(self._facts, self._state, keys, scope)
        names = text_columns(budget, self._call)
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
