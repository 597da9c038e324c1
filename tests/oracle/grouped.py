"""Threads as hits, and rows around hits, by definition: a list is walked from its best row on."""

from collections.abc import Sequence
from typing import Any

from oracle.around import AroundPart, Threads
from oracle.documents import Call, Hit, Key, Reply
from oracle.recall import Ranked, Search
from oracle.words import Mask


class GroupedPart(AroundPart):
    """Recall with ``group=`` and ``surrounding=``. One method for each decision."""

    def standing(self, allowed: Mask, visible: Mask) -> Sequence[int]:
        """Rows that may stand around a hit: all of the scope, whatever the filter says."""
        return [doc for doc, ok in enumerate(allowed) if ok]

    def beside(self, threads: Threads, doc: int, n: int) -> list[tuple[int, int]]:
        """The rows around a row in its thread: (step, row), in their order."""
        thread = self.thread(doc)
        if thread is None:
            return []
        rows = threads[thread]
        at = rows.index(doc)
        steps = (step for step in range(-n, n + 1) if step and 0 <= at + step < len(rows))
        return [(step, rows[at + step]) for step in steps]

    def group(self, call: Call, doc: int) -> Any:
        """What has one hit: a thread, or a value in any cell; None: the row is of no group."""
        if call.group is None:
            return self.thread(doc)
        value = self.rows[doc].attributes[call.group]
        return None if value is None or value != value else (value,)  # noqa: PLR0124 - NaN

    def is_new(self, shown: set[int], doc: int) -> bool:
        """Whether a row did not stand in the reply before."""
        return doc not in shown

    def page(self, search: Search, ranked: Ranked) -> Reply:
        """The hits of the walk between offset and offset + limit."""
        call = search.call
        if not call.is_grouped:
            return super().page(search, ranked)
        standing = self.standing(search.allowed, search.visible)
        threads = self.threads(standing)
        hits: list[Hit] = []
        around: list[tuple[tuple[int, Key], ...]] = []
        members: list[list[tuple[Key, float]]] = []
        shown: set[int] = set()
        seen: dict[Any, int] = {}
        for doc, score in ranked:
            thread, key = self.group(call, doc), self.rows[doc].key
            if call.by_thread and thread in seen:
                members[seen[thread]].append((key, score))
                continue
            if len(hits) == call.offset + call.limit or not self.is_new(shown, doc):
                continue
            shown.add(doc)
            if thread is not None:
                seen[thread] = len(hits)
            hits.append(self.hit(search, len(hits) + 1, doc, score))
            members.append([(key, score)])
            near = self.beside(threads, doc, call.n_around) if doc in standing else []
            new = [(step, row) for step, row in near if self.is_new(shown, row)]
            shown.update(row for _, row in new)
            around.append(tuple((step, self.rows[row].key) for step, row in new))
        listed = [tuple(one[: call.per_group]) if call.by_thread else () for one in members]
        whole = zip(hits, around, listed, strict=True)
        made = [hit._replace(around=near, thread=rows) for hit, near, rows in whole]
        return tuple(made[call.offset :])
