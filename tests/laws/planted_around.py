"""Planted bugs of the stage Around: its oracle, with one decision made wrongly."""

from collections.abc import Mapping, Sequence

import numpy as np

from laws.subject import OracleSubject
from oracle.around import AroundOracle, Thread
from oracle.bm25 import Bm25
from oracle.documents import Call, Row, Scope, Shape
from oracle.fusion import running_sum
from oracle.words import Mask, Query


class AnyCell(AroundOracle):
    """A thread reaches over cells: equal values are one thread."""

    def thread(self, doc: int) -> Thread | None:
        found = super().thread(doc)
        return None if found is None else ((), found[1])

    def speaking(self, allowed: Mask, visible: Mask) -> list[int]:
        return list(range(len(self.rows)))


class AnyThread(AroundOracle):
    """The neighbours are the rows before and behind, whatever their thread."""

    def near(self, threads: Mapping[Thread, list[int]], doc: int, distance: int) -> list[int]:
        rows = sorted((doc for docs in threads.values() for doc in docs), key=self.place)
        rows = [row for row in rows if self.rows[row].cell == self.rows[doc].cell]
        if doc not in rows:
            return []
        at = rows.index(doc)
        return [rows[n] for n in (at - distance, at + distance) if 0 <= n < len(rows)]


class HiddenHits(AroundOracle):
    """Rows that the filter keeps out become hits when they give evidence."""

    def becomes_hit(self, doc: int, visible: Mask) -> bool:
        return True


class FilteredAreSilent(AroundOracle):
    """Rows that the filter keeps out give no evidence."""

    def speaking(self, allowed: Mask, visible: Mask) -> list[int]:
        return np.flatnonzero(visible).tolist()


class WholeIndexThreads(AroundOracle):
    """The threads' statistics are those of the whole index."""

    def thread_scores(
        self, arm: str, query: Query, threads: Mapping[Thread, list[int]], bm25: Bm25
    ) -> dict[Thread, float]:
        everything = self.threads(range(len(self.rows)))
        found = super().thread_scores(arm, query, everything, bm25)
        return {thread: score for thread, score in found.items() if thread in threads}


class TextlessThreads(AroundOracle):
    """Threads without any text count in the statistics."""

    def thread_statistics(self, arm: str, threads: Mapping[Thread, list[int]]) -> list[Thread]:
        return list(threads)


class Insertion(AroundOracle):
    """The place is ignored: rows stand in the order of insertion."""

    def place(self, doc: int) -> tuple[bool, int, int]:
        return False, 0, doc


class NullsFirst(AroundOracle):
    """Rows without a place come first."""

    def place(self, doc: int) -> tuple[bool, int, int]:
        missing, place, seq = super().place(doc)
        return not missing, place, seq


class RisingSum(AroundOracle):
    """Addends are added in the order of the stage's parts."""

    def total(self, fused: float, addends: Sequence[float]) -> float:
        return running_sum([fused, *addends]) + 0.0


class OneSide(AroundOracle):
    """Only the row before speaks."""

    def near(self, threads: Mapping[Thread, list[int]], doc: int, distance: int) -> list[int]:
        found = super().near(threads, doc, distance)
        return [near for near in found if self.place(near) < self.place(doc)]


class LengthAlways(AroundOracle):
    """Lengths count whole, however they are mixed."""

    def length_share(self, arm: str, counted: Mask) -> float:
        return 1.0


class NoUnit(AroundOracle):
    """Thread and length are added as if every fusion were in [0, 1]."""

    def unit(self, *_: object) -> float:
        return 1.0


PLANTED = (
    AnyCell, AnyThread, HiddenHits, FilteredAreSilent, WholeIndexThreads, TextlessThreads,
    Insertion, NullsFirst, RisingSum, OneSide, LengthAlways, NoUnit,
)  # fmt: skip


class GhostPlaces(AroundOracle):
    """A deleted row leaves a gap between the places of its neighbours."""

    gaps: frozenset[int] = frozenset()

    def near(self, threads: Mapping[Thread, list[int]], doc: int, distance: int) -> list[int]:
        rows = [r for r in range(len(self.rows)) if self.thread(r) == self.thread(doc)]
        if self.thread(doc) is None or not self.authorised_row(threads, doc):
            return []
        rows.sort(key=self.place)
        at = rows.index(doc)
        near = [rows[n] for n in (at - distance, at + distance) if 0 <= n < len(rows)]
        return [row for row in near if row not in self.gaps]

    def authorised_row(self, threads: Mapping[Thread, list[int]], doc: int) -> bool:
        return self.thread(doc) in threads

    def authorised(self, cells: Scope) -> Mask:
        allowed = super().authorised(cells)
        allowed[sorted(self.gaps)] = False
        return allowed


class ThreadGhosts(OracleSubject):
    """An index whose deleted rows keep their places."""

    def __init__(self, shape: Shape, rows: Sequence[Row]) -> None:
        super().__init__(shape, rows, oracle=AroundOracle)
        self.all_rows: list[Row] = list(rows)

    def add(self, rows: Sequence[Row]) -> None:
        super().add(rows)
        self.all_rows += rows

    def upsert(self, rows: Sequence[Row]) -> None:
        super().upsert(rows)
        self.all_rows += rows

    def recall(self, call: Call) -> list[object]:
        live = [id(row) for row in self.life.rows]
        oracle = GhostPlaces(self.shape, self.all_rows)
        oracle.gaps = frozenset(at for at, r in enumerate(self.all_rows) if id(r) not in live)
        return [oracle.recall(call, query) for query in range(len(call.scopes))]
