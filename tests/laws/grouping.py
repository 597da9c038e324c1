"""The engine with threads as hits and rows around hits, and planted bugs of the definition."""

from dataclasses import replace

import hyrecall as hr
from laws.around import AroundSubject
from laws.engine import arguments, replies
from oracle.around import Thread, deep
from oracle.documents import Call
from oracle.grouped import GroupedHit, GroupedOracle
from oracle.recall import Oracle
from oracle.words import Mask


class GroupedSubject(AroundSubject):
    """Every recall of the engine groups, or shows what stands around its hits."""

    by_thread = True
    n_around = 2

    def hits(self, call: Call) -> "hr.Hits":
        group = "thread" if self.by_thread else None
        said = arguments(self.shape, deep(call))
        return self.index.recall(**said, group=group, surrounding=self.n_around)

    def recall(self, call: Call) -> list[list[GroupedHit]]:  # type: ignore[override]
        hits = self.hits(call)
        plain = replies(self.shape, hits.to_arrow(), len(call.scopes))
        return [
            [
                GroupedHit(
                    one,
                    tuple((row.step, row.key) for row in shown.surrounding),
                    tuple((row.key, row.score) for row in shown.thread_rows),
                )
                for one, shown in zip(own, of_query, strict=True)
            ]
            for own, of_query in zip(plain, hits, strict=True)
        ]

    def recall_bytes(self, call: Call) -> bytes:
        return repr(self.recall(call)).encode() + super().recall_bytes(call)


def deepened(oracle: type[GroupedOracle]) -> type[GroupedOracle]:
    """The same definition for calls that name no depth."""

    class Deep(oracle):  # type: ignore[misc, valid-type]
        def recall(self, call: Call, query: int) -> list[GroupedHit]:
            return list(super().recall(deep(call), query))

    return Deep


class AnyCell(GroupedOracle):
    """Equal values are one thread, also in different cells."""

    def thread(self, doc: int) -> Thread | None:
        found = super().thread(doc)
        return None if found is None else ((), found[1])


class FilteredStandNowhere(GroupedOracle):
    """Only rows that pass the filter stand around a hit."""

    def standing(self, allowed: Mask, visible: Mask) -> list[int]:
        return [doc for doc, ok in enumerate(visible) if ok]


class Repeats(GroupedOracle):
    """A row stands wherever it fits."""

    def is_new(self, shown: set[int], doc: int) -> bool:
        return True


class NullsAreOneThread(GroupedOracle):
    """Rows without a thread have one hit together."""

    def thread(self, doc: int) -> Thread | None:
        return super().thread(doc) or (self.rows[doc].cell, None)


class Insertion(GroupedOracle):
    """The place is ignored: rows stand in the order of insertion."""

    def place(self, doc: int) -> tuple[bool, int, int]:
        return False, 0, doc


class OneSide(GroupedOracle):
    """Only rows before a hit stand there."""

    def near(self, threads: dict[Thread, list[int]], doc: int) -> list[tuple[int, int]]:
        return [one for one in super().near(threads, doc) if one[0] < 0]


PLANTED = (AnyCell, FilteredStandNowhere, Repeats, NullsAreOneThread, Insertion, OneSide)


class PageHitsStandNowhere(GroupedOracle):
    """A row that is a hit on the same page does not stand around a better one."""

    on_page: frozenset[int] = frozenset()

    def recall(self, call: Call, query: int) -> list[GroupedHit]:
        found = Oracle.recall(self, replace(call, limit=call.offset + call.limit, offset=0), query)
        keys = {(hit.cell, hit.key) for hit in found}
        docs = [doc for doc, row in enumerate(self.rows) if (row.cell, row.key) in keys]
        self.on_page = frozenset(docs)
        return list(super().recall(call, query))

    def near(self, threads: dict[Thread, list[int]], doc: int) -> list[tuple[int, int]]:
        return [one for one in super().near(threads, doc) if one[1] not in self.on_page]
