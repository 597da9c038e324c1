"""Threads as hits, and rows around hits, by definition: a list is walked from its best row on."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from oracle.around import AroundOracle, Thread
from oracle.documents import Call, Hit, Key, Reply
from oracle.recall import Oracle
from oracle.words import Mask

MOST_IN_THREAD = 5


class GroupedHit(NamedTuple):
    """A hit, the rows around it as (step, key), and the best rows of its thread as (key, score)."""

    hit: Hit
    around: tuple[tuple[int, Key], ...]
    thread: tuple[tuple[Key, float], ...]


class GroupedOracle(Oracle):
    """The definition. One method for each decision."""

    by_thread = True
    n_around = 2

    thread = AroundOracle.thread
    place = AroundOracle.place
    threads = AroundOracle.threads

    def depth(self, call: Call) -> int:
        """How many candidates an arm hands on: as asked."""
        assert call.depth is not None
        return call.depth

    def standing(self, allowed: Mask, visible: Mask) -> Sequence[int]:
        """Rows that may stand around a hit: all of the scope, whatever the filter says."""
        return [doc for doc, ok in enumerate(allowed) if ok]

    def near(self, threads: dict[Thread, list[int]], doc: int) -> list[tuple[int, int]]:
        """The rows around a row in its thread: (step, row), in their order."""
        thread = self.thread(doc)
        if thread is None:
            return []
        rows = threads[thread]
        at = rows.index(doc)
        steps = range(-self.n_around, self.n_around + 1)
        return [(s, rows[at + s]) for s in steps if s and 0 <= at + s < len(rows)]

    def is_new(self, shown: set[int], doc: int) -> bool:
        """Whether a row did not stand in the reply before."""
        return doc not in shown

    def is_one_group(self, seen: dict[Thread, int], thread: Thread | None) -> bool:
        """Whether the thread of a row has a hit."""
        return self.by_thread and thread in seen

    def wanted(self, call: Call) -> int:
        """How many hits the walk takes."""
        return call.offset + call.limit

    def recall(self, call: Call, query: int) -> Sequence[GroupedHit]:  # type: ignore[override]
        """The reply to one query of a call."""
        allowed = self.authorised(call.scopes[query])
        visible = self.visible(allowed, call.filter(query))
        whole: Reply = super().recall(replace(call, limit=10**9, offset=0), query)
        doc_of = {(row.cell, row.key): doc for doc, row in enumerate(self.rows)}
        standing = self.standing(allowed, visible)
        threads = self.threads(standing)
        hits: list[Hit] = []
        around: list[tuple[tuple[int, Key], ...]] = []
        members: list[list[tuple[Key, float]]] = []
        shown: set[int] = set()
        seen: dict[Thread, int] = {}
        for hit in whole:
            doc = doc_of[hit.cell, hit.key]
            thread = self.thread(doc)
            if thread is not None and self.is_one_group(seen, thread):
                members[seen[thread]].append((hit.key, hit.score))
                continue
            if len(hits) == self.wanted(call) or not self.is_new(shown, doc):
                continue
            shown.add(doc)
            if thread is not None:
                seen[thread] = len(hits)
            hits.append(replace_rank(hit, len(hits) + 1))
            members.append([(hit.key, hit.score)])
            near = self.near(threads, doc) if doc in standing else []
            new = [(step, row) for step, row in near if self.is_new(shown, row)]
            shown.update(row for _, row in new)
            around.append(tuple((step, self.rows[row].key) for step, row in new))
        page = slice(call.offset, call.offset + call.limit)
        listed = [tuple(one[:MOST_IN_THREAD]) if self.by_thread else () for one in members]
        return [
            GroupedHit(*parts) for parts in zip(hits[page], around[page], listed[page], strict=True)
        ]


def replace_rank(hit: Hit, rank: int) -> Hit:
    """The same hit at another rank."""
    return hit._replace(rank=rank)
