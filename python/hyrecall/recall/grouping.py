"""Threads as hits, and the rows around a hit: what becomes of a whole list before it is cut.

A list is walked from its best row on, and what is taken depends on the rows before it alone. So a
shorter limit gives a prefix of the longer one's reply (law L6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.ask.filters import Filter
from hyrecall.ask.grouping import Grouping
from hyrecall.ask.scope import Scope
from hyrecall.ask.shaping import Budget, Stage
from hyrecall.hits.arm_texts import join_texts
from hyrecall.hits.around import Around, NearRow, ThreadRow
from hyrecall.hits.reply import Reply
from hyrecall.recall.fused_lists import FusedLists, order_codes
from hyrecall.recall.plan import Plan
from hyrecall.recall.shaping_checks import text_columns
from hyrecall.recall.tokens import token_counts
from hyrecall.segments.lookup import rows_where
from hyrecall.segments.segments import State, gather_column, seqs_of
from hyrecall.table.arrow_values import python_values

if TYPE_CHECKING:
    from hyrecall.segments.facts import IndexFacts

__all__ = ["Grouper", "make_grouper", "with_groups"]

MOST_IN_THREAD = 5
"""Rows of a thread that are listed with its hit."""

Place = tuple[int, int]
"""A row: its segment, and its number there."""

Thread = tuple[tuple[Any, ...], Any]
"""A cell, and the value of the thread in it."""


def make_grouper(
    facts: IndexFacts, state: State, plan: Plan, columns: Sequence[str]
) -> Grouper | None:
    """Return what groups the hits of a call; None: it asks for neither threads nor rows around."""
    if plan.grouping is None:
        return None
    page = plan.offset, plan.limit
    return Grouper(facts, state, plan.grouping, plan.stages, page=page, columns=columns)


def with_groups(reply: Reply, grouper: Grouper) -> Reply:
    """Return the reply with what its hits show beside them."""
    nothing = [()] * reply.n_queries
    around = reply.around or Around(nothing, nothing)
    return replace(reply, around=replace(around, near=grouper.around, threads=grouper.threads))


class Grouper:
    """Groups and surrounds the lists of one call; keeps what its hits show beside them.

    Attributes
    ----------
    around : list
        For each query of the pieces so far, and each hit on its page: the rows around it.
    threads : list
        The same for the best rows of its thread.
    """

    def __init__(
        self,
        facts: IndexFacts,
        state: State,
        how: Grouping,
        stages: Sequence[Stage],
        *,
        page: tuple[int, int],
        columns: Sequence[str],
    ) -> None:
        """Take the call's stages, its (offset, limit), and the columns that it shows."""
        self._facts, self._state, self._how = facts, state, how
        budgets = [stage for stage in stages if isinstance(stage, Budget) and stage.bounds]
        self._budget = budgets[0] if budgets else None
        self._offset, self._limit = page
        self._columns = tuple(columns)
        self._orders: dict[Thread, list[Place]] = {}
        self.around: list[tuple[tuple[NearRow, ...], ...]] = []
        self.threads: list[tuple[tuple[ThreadRow, ...], ...]] = []

    def run(self, pool: FusedLists) -> FusedLists:
        """Return the rows that are hits, in their order; no list is cut before its page ends."""
        segments, rows = pool.arrays["segment"], pool.arrays["row"]
        places = list(zip(segments.tolist(), rows.tolist(), strict=True))
        threads = self._threads_of(segments, rows)
        tokens = pool.arrays["token_estimate"].tolist() if self._budget else [0] * len(places)
        keys = self._column(places, self._facts.schema.key)
        scores = pool.score.tolist()
        kept: list[int] = []
        for query in range(len(pool.offsets) - 1):
            walk = _Walk(self, places, threads, tokens)
            for at in range(int(pool.offsets[query]), int(pool.offsets[query + 1])):
                walk.meet(at, is_wanted=len(walk.hits) < self._offset + self._limit)
            kept += walk.hits
            self.around.append(tuple(map(self._shown, walk.around[self._offset :])))
            self.threads.append(
                tuple(
                    tuple(ThreadRow(keys[at], scores[at]) for at in found[:MOST_IN_THREAD])
                    for found in walk.members[self._offset :]
                )
                if self._how.by_thread
                else ()
            )
        mask = np.zeros(len(places), np.bool_)
        mask[kept] = True
        return pool.keep(mask)

    def near(self, place: Place, thread: Thread) -> list[tuple[int, Place]]:
        """Return the rows around a row in its thread with their distances, the nearest first."""
        order = self._order(thread)
        at = order.index(place)
        steps = (sign * step for step in range(1, self._how.n_around + 1) for sign in (-1, 1))
        return [(step, order[at + step]) for step in steps if 0 <= at + step < len(order)]

    def cost(self, place: Place) -> int:
        """Return how many tokens a row takes of the budget."""
        if self._budget is None:
            return 0
        names = text_columns(self._facts, self._budget)
        return int(token_counts(self._budget, self._joined([place], names))[0])

    @property
    def n_around(self) -> int:
        """How many rows on either side of a hit."""
        return self._how.n_around

    @property
    def by_thread(self) -> bool:
        """Whether a thread has one hit."""
        return self._how.by_thread

    @property
    def n_tokens(self) -> int | None:
        """The budget; None: there is none."""
        return None if self._budget is None else self._budget.tokens

    def _threads_of(
        self, segments: npt.NDArray[np.uint32], rows: npt.NDArray[np.uint32]
    ) -> list[Thread | None]:
        """Return the thread of each row; None: it is in none."""
        schema = self._facts.schema
        assert schema.thread is not None
        names = (*schema.cell_columns, schema.thread)
        found = [
            python_values(gather_column(self._state.segments, segments, rows, name))
            for name in names
        ]
        return [
            None if thread is None else (tuple(cell), thread)
            for *cell, thread in zip(*found, strict=True)
        ]

    def _order(self, thread: Thread) -> list[Place]:
        """Return the live rows of a thread by their places, then by insertion."""
        if thread not in self._orders:
            schema = self._facts.schema
            assert schema.thread is not None
            cell, value = thread
            scope = Scope([cell]) if schema.cell_columns else None
            # The thread of a hit: its cell is one that the query may see.
            where = Filter(**{schema.thread: value})
            segments, rows = rows_where(self._facts, self._state, scope, where)
            by = [seqs_of(self._state.segments, segments, rows)]
            if schema.place is not None:
                column = gather_column(self._state.segments, segments, rows, schema.place)
                by.append(order_codes(column, descending=False))
            order = np.lexsort(by)
            pairs = zip(segments[order].tolist(), rows[order].tolist(), strict=True)
            self._orders[thread] = list(pairs)
        return self._orders[thread]

    def _shown(self, near: Sequence[tuple[int, Place]]) -> tuple[NearRow, ...]:
        """Return rows around a hit in the order of their places."""
        ordered = sorted(near)
        places = [place for _, place in ordered]
        schema = self._facts.schema
        keys = self._column(places, schema.key)
        stored = [name for name in schema.first_texts if name in schema.row_columns]
        texts: list[str | None] = [None] * len(places)
        if stored and len(stored) == len(schema.first_texts):
            texts = self._joined(places, stored).to_pylist()
        values = {name: self._column(places, name) for name in self._columns}
        return tuple(
            NearRow(keys[at], step, texts[at], {name: of[at] for name, of in values.items()})
            for at, (step, _) in enumerate(ordered)
        )

    def _joined(self, places: Sequence[Place], names: Sequence[str]) -> pa.Array:
        return join_texts([self._gathered(places, name) for name in names])

    def _column(self, places: Sequence[Place], name: str) -> list[Any]:
        return python_values(self._gathered(places, name))

    def _gathered(self, places: Sequence[Place], name: str) -> pa.Array:
        segments, rows = np.array(places, np.uint32).reshape(-1, 2).T.copy()
        return gather_column(self._state.segments, segments, rows, name)


class _Walk:
    """One list from its best row on.

    Attributes
    ----------
    hits : list of int
        The entries that are hits so far.
    around : list
        Of each hit the rows around it with their distances.
    members : list
        Of each hit the entries of its thread, itself first.
    """

    def __init__(
        self,
        grouper: Grouper,
        places: Sequence[Place],
        threads: Sequence[Thread | None],
        tokens: Sequence[int],
    ) -> None:
        self._grouper, self._places, self._threads = grouper, places, threads
        self._tokens, self._spent = tokens, 0
        self._shown: set[Place] = set()
        self._hit_of: dict[Thread, int] = {}
        self.hits: list[int] = []
        self.around: list[list[tuple[int, Place]]] = []
        self.members: list[list[int]] = []

    def meet(self, at: int, *, is_wanted: bool) -> None:
        """Take the next entry: as a hit if one is wanted, as a row of a thread, or not at all."""
        thread = self._threads[at]
        if self._grouper.by_thread and thread in self._hit_of:
            self.members[self._hit_of[thread]].append(at)
            return
        place = self._places[at]
        if not is_wanted or place in self._shown or not self._fits(self._tokens[at]):
            return
        self._show(place, self._tokens[at])
        if thread is not None:
            self._hit_of[thread] = len(self.hits)
        self.hits.append(at)
        self.members.append([at])
        self.around.append([] if thread is None else self._beside(place, thread))

    def _beside(self, place: Place, thread: Thread) -> list[tuple[int, Place]]:
        """Return the rows around a hit that were not shown and fit, and show them."""
        out = []
        for step, near in self._grouper.near(place, thread) if self._grouper.n_around else ():
            cost = self._grouper.cost(near)
            if near not in self._shown and self._fits(cost):
                self._show(near, cost)
                out.append((step, near))
        return out

    def _fits(self, cost: int) -> bool:
        """Say whether a row fits into the budget; the first always does."""
        most = self._grouper.n_tokens
        return most is None or not self.hits or self._spent + cost <= most

    def _show(self, place: Place, cost: int) -> None:
        self._shown.add(place)
        self._spent += cost
