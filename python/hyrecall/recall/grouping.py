"""Groups a list by thread, or by a column, and adds the rows around hits, before the list is cut.

A list is walked from its best row on, and what is taken depends on the rows before it alone. So a
shorter limit gives a prefix of the longer one's reply (law L6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.ask.filters import Filter
from hyrecall.ask.request import Grouping
from hyrecall.ask.scope import Scope
from hyrecall.hits.around import AroundHits, NearRow, ThreadRow
from hyrecall.hits.reply import Reply
from hyrecall.recall.plan import Plan
from hyrecall.segments.lookup import rows_where
from hyrecall.segments.segments import State, gather_column, gather_values, seqs_of
from hyrecall.stages.choice import Budget, token_counts
from hyrecall.stages.lists import FusedLists, order_codes
from hyrecall.stages.stage import Stage, text_columns
from hyrecall.table.arrow_values import join_texts, python_values
from hyrecall.table.attributes import attribute_column

if TYPE_CHECKING:
    from hyrecall.segments.segments import IndexFacts


SMALL_CELL = 4096
"""Up to so many rows of a cell, all of its threads are ordered at once."""

Members = tuple[list[int], npt.NDArray[np.uint32], npt.NDArray[np.uint32], list[float]]
"""Where the members of each hit begin, and their segments, rows and scores."""

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


def shown_threads(
    facts: IndexFacts, state: State, members: Members, offsets: npt.NDArray[np.int64]
) -> AroundHits:
    """Return what hits show that the engine has grouped."""
    begins, segments, rows, scores = members
    with state.reading():
        keys = python_values(gather_column(state.segments, segments, rows, facts.schema.key))
    shown = [ThreadRow(key, score) for key, score in zip(keys, scores, strict=True)]
    of_hits = [tuple(shown[begin:end]) for begin, end in pairwise(begins)]
    pages = [slice(begin, end) for begin, end in pairwise(offsets.tolist())]
    nothing = [()] * len(pages)
    near = [((),) * (page.stop - page.start) for page in pages]
    return AroundHits(nothing, nothing, near, [tuple(of_hits[page]) for page in pages])


class Grouper:
    """Groups and surrounds the lists of one call; keeps what its hits show beside them."""

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
        budget = Budget.among(stages)
        self._budget = budget if budget is not None and budget.bounds else None
        self._offset, self._limit = page
        self._columns = tuple(columns)
        self._orders: dict[Thread, list[Place]] = {}
        self._cells: dict[tuple[Any, ...], bool] = {}  # whether all of its threads are ordered
        self.around: list[tuple[tuple[NearRow, ...], ...]] = []
        self.threads: list[tuple[tuple[ThreadRow, ...], ...]] = []

    def run(self, pool: FusedLists) -> FusedLists:
        """Return the rows that are hits, in their order; no list is cut before its page ends."""
        found = Groups.of(self._facts, self._state, pool, self._how)
        tokens = pool.arrays["token_estimate"] if self._budget else None
        walks = [
            _Walk(self, pool, found, tokens).run(int(begin), int(end), self._offset + self._limit)
            for begin, end in pairwise(pool.offsets)
        ]
        self._show_around(walks)
        if self._how.is_grouped:
            self._show_threads(pool, found, walks)
        else:
            self.threads += [()] * len(walks)
        mask = np.zeros(len(pool), np.bool_)
        mask[[at for walk in walks for at in walk.hits]] = True
        return pool.keep(mask)

    def shown(self, reply: Reply) -> Reply:
        """Return the reply with what its hits show beside them."""
        nothing = [()] * reply.n_queries
        around = reply.around or AroundHits(nothing, nothing)
        return replace(reply, around=replace(around, near=self.around, threads=self.threads))

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
        names = text_columns(self._budget, self._facts)
        return int(token_counts(self._budget, self._joined([place], names))[0])

    @property
    def n_around(self) -> int:
        """How many rows on either side of a hit."""
        return self._how.n_around

    @property
    def is_grouped(self) -> bool:
        """Whether a group has one hit."""
        return self._how.is_grouped

    @property
    def n_tokens(self) -> int | None:
        """The budget; None: there is none."""
        return None if self._budget is None else self._budget.tokens

    def _order(self, thread: Thread) -> list[Place]:
        """Return the live rows of a thread by their places, then by insertion."""
        cell, value = thread
        if cell not in self._cells:
            # The cell of a hit is one that the query may see.
            scope = Scope([cell]) if self._facts.schema.cell_columns else None
            segments, rows = rows_where(self._facts, self._state, scope)
            is_small = len(rows) <= SMALL_CELL
            self._cells[cell] = is_small
            if is_small:
                self._orders |= {
                    (cell, one): order for one, order in self._orders_of(segments, rows).items()
                }
        if thread not in self._orders:
            schema = self._facts.schema
            assert schema.thread is not None
            scope = Scope([cell]) if schema.cell_columns else None
            where = Filter(**{schema.thread: value})
            (order,) = self._orders_of(*rows_where(self._facts, self._state, scope, where)).values()
            self._orders[thread] = order
        return self._orders[thread]

    def _orders_of(
        self, segments: npt.NDArray[np.uint32], rows: npt.NDArray[np.uint32]
    ) -> dict[Any, list[Place]]:
        """Return some rows of one cell by thread, each thread in its order."""
        schema, held = self._facts.schema, self._state.segments
        assert schema.thread is not None
        threads = gather_column(held, segments, rows, schema.thread).dictionary_encode()
        numbers = threads.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        by = [seqs_of(held, segments, rows)]
        if schema.place is not None:
            places = gather_column(held, segments, rows, schema.place)
            by.append(order_codes(places, descending=False))
        order = np.lexsort((*by, numbers))
        values = python_values(threads.dictionary)
        pairs = list(zip(segments[order].tolist(), rows[order].tolist(), strict=True))
        begins = np.searchsorted(numbers[order], np.arange(len(values) + 1)).tolist()
        return {
            value: pairs[begin:end]
            for value, (begin, end) in zip(values, pairwise(begins), strict=True)
        }

    def _show_around(self, walks: Sequence[_Walk]) -> None:
        """Keep the rows around the hits on the page, in the order of their places."""
        if not self._how.n_around:
            self.around += [((),) * len(walk.hits[self._offset :]) for walk in walks]
            return
        shown = [[sorted(near) for near in walk.around[self._offset :]] for walk in walks]
        places = [place for of_query in shown for near in of_query for _, place in near]
        schema = self._facts.schema
        stored = [name for name in schema.first_texts if name in schema.row_columns]
        keys, texts = self._column(places, schema.key), [None] * len(places)
        if stored and len(stored) == len(schema.first_texts):
            texts = self._joined(places, stored).to_pylist()
        columns = {name: self._column(places, name) for name in self._columns}
        at = iter(range(len(places)))

        def row(step: int) -> NearRow:
            place = next(at)
            values = {name: column[place] for name, column in columns.items()}
            return NearRow(keys[place], step, texts[place], values)

        for of_query in shown:
            self.around.append(tuple(tuple(row(step) for step, _ in near) for near in of_query))

    def _show_threads(self, pool: FusedLists, found: Groups, walks: Sequence[_Walk]) -> None:
        """Keep the best rows of the groups of the hits on the page."""
        most = self._how.per_group
        members = [
            [found.like(hit, walk.end)[:most] for hit in walk.hits[self._offset :]]
            for walk in walks
        ]
        entries = [at for of_query in members for like in of_query for at in like]
        segments, rows = pool.arrays["segment"][entries], pool.arrays["row"][entries]
        schema = self._facts.schema
        keys = python_values(gather_column(self._state.segments, segments, rows, schema.key))
        rows_of = map(ThreadRow, keys, pool.score[entries].tolist())
        for of_query in members:
            self.threads.append(tuple(tuple(islice(rows_of, len(like))) for like in of_query))

    def _joined(self, places: Sequence[Place], names: Sequence[str]) -> pa.Array:
        return join_texts([self._gathered(places, name) for name in names])

    def _column(self, places: Sequence[Place], name: str) -> list[Any]:
        return python_values(self._gathered(places, name))

    def _gathered(self, places: Sequence[Place], name: str) -> pa.Array:
        segments, rows = np.array(places, np.uint32).reshape(-1, 2).T.copy()
        return gather_values(self._facts, self._state.segments, segments, rows, name)


class Groups(NamedTuple):
    """The threads of the entries of a pool, or their values in a column."""

    numbers: npt.NDArray[np.int64]  # -1: in no group
    values: list[Thread]  # of threads

    @classmethod
    def of(cls, facts: IndexFacts, state: State, pool: FusedLists, how: Grouping) -> Groups:
        """Number the groups of a pool; equal values in different cells are different threads."""
        schema = facts.schema
        segments, rows = pool.arrays["segment"], pool.arrays["row"]
        if how.column is not None:
            values = gather_column(state.segments, segments, rows, how.column)
            codes = np.unique(attribute_column(values).sort_codes, return_inverse=True)[1]
            is_none = values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
            return cls(np.where(is_none, -1, codes), [])
        assert schema.thread is not None
        names = (*schema.cell_columns, schema.thread)
        columns = [gather_column(state.segments, segments, rows, name) for name in names]
        numbers = np.zeros(len(rows), np.int64)
        for column in columns:
            codes = column.dictionary_encode(null_encoding="encode").indices.to_numpy()
            pairs = numbers * (int(codes.max(initial=0)) + 1) + codes
            first, numbers = np.unique(pairs, return_index=True, return_inverse=True)[1:]
        taken = [python_values(column.take(pa.array(first))) for column in columns]
        values = [(tuple(cell), thread) for *cell, thread in zip(*taken, strict=True)]
        is_none = columns[-1].is_null().to_numpy(zero_copy_only=False)
        return cls(np.where(is_none, -1, numbers), values)

    def like(self, at: int, end: int) -> list[int]:
        """Return an entry and those behind it in its list that are of its group."""
        if self.numbers[at] < 0:
            return [at]
        return (at + np.flatnonzero(self.numbers[at:end] == self.numbers[at])).tolist()


class _Walk:
    """One list from its best row on."""

    def __init__(
        self,
        grouper: Grouper,
        pool: FusedLists,
        threads: Groups,
        tokens: npt.NDArray[np.int64] | None,
    ) -> None:
        self._grouper, self._threads, self._tokens = grouper, threads, tokens
        self._segments, self._rows = pool.arrays["segment"], pool.arrays["row"]
        self._spent = self.end = 0
        self._shown: set[Place] = set()
        self._seen: set[int] = set()
        self.hits: list[int] = []
        self.around: list[list[tuple[int, Place]]] = []

    def run(self, begin: int, end: int, most: int) -> _Walk:
        """Take hits until there are enough, or the list ends."""
        self.end = end
        for at in range(begin, end):
            if len(self.hits) == most:
                break
            self._meet(at)
        return self

    def _meet(self, at: int) -> None:
        """Take the next entry as a hit, unless its thread has one, it was shown or has no room."""
        thread = int(self._threads.numbers[at])
        if self._grouper.is_grouped and thread in self._seen:
            return
        place = int(self._segments[at]), int(self._rows[at])
        cost = 0 if self._tokens is None else int(self._tokens[at])
        if place in self._shown or not self._fits(cost):
            return
        self._show(place, cost)
        self.hits.append(at)
        if thread < 0:
            self.around.append([])
            return
        self._seen.add(thread)
        self.around.append(self._beside(place, thread))

    def _beside(self, place: Place, thread: int) -> list[tuple[int, Place]]:
        """Return the rows around a hit that were not shown and fit, and show them."""
        if not self._grouper.n_around:
            return []
        out = []
        for step, near in self._grouper.near(place, self._threads.values[thread]):
            if near in self._shown:
                continue
            cost = self._grouper.cost(near)
            if self._fits(cost):
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
