"""What a query matches, by definition: how many rows, their order by columns, their values."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from oracle.documents import Call, Hit, Page, Reply
from oracle.recall import Oracle
from oracle.words import Mask


class PagePart(Oracle):
    """Recall with ``sort=`` and ``facets=``, and totals. One method for each decision."""

    def matching(self, call: Call, query: int) -> Mask:
        """Rows that pass scope and filter and that an arm which runs matches, at any score."""
        allowed = self.authorised(call.scopes[query])
        visible = self.visible(allowed, call.filter(query))
        if not call.arms:
            return visible
        found = self.arm_scores(call, query, allowed, visible)
        fusion = self.fusion(call)
        runs = call.arms if fusion is None else self.weights(fusion, call)
        masks = [found[arm][1] for arm in runs if arm in found]
        return np.logical_or.reduce([np.zeros(len(self.rows), bool), *masks])

    def value(self, doc: int, column: str) -> Any:
        """The value of a row; NaN is none."""
        value = self.rows[doc].attributes[column]
        return None if isinstance(value, float) and math.isnan(value) else value

    def ordered(self, docs: Sequence[int], sort: Sequence[tuple[str, bool]]) -> list[int]:
        """Rows by columns, those without a value last in either direction, then by seq."""
        out = sorted(docs, key=self.ties().__getitem__)
        for column, descends in reversed(sort):
            values = {doc: self.value(doc, column) for doc in out}
            has = [doc for doc in out if values[doc] is not None]
            has.sort(key=lambda doc: values[doc], reverse=descends)
            out = [*has, *(doc for doc in out if values[doc] is None)]
        return out

    def elements(self, doc: int, column: str) -> set[Any]:
        """The distinct values of a row."""
        value = self.value(doc, column)
        return {one for one in (value if isinstance(value, list) else [value]) if one is not None}

    def facet(self, docs: Sequence[int], column: str) -> list[tuple[Any, int]]:
        """The values of rows, most frequent first, equal counts by rising value."""
        counts = Counter(one for doc in docs for one in self.elements(doc, column))
        return sorted(counts.items(), key=lambda item: (-item[1], item[0]))

    def is_between(self, value: float, low: float | None, high: float | None) -> bool:
        """Whether a value is in a range, which has its start and lacks its end."""
        return (low is None or low <= value) and (high is None or value < high)

    def ranges(self, docs: Sequence[int], edges: Sequence[float | None]) -> list[tuple[Any, int]]:
        """How many rows have a price in each range."""
        prices = [self.value(doc, "price") for doc in docs]
        return [
            (ends, sum(one is not None and self.is_between(one, *ends) for one in prices))
            for ends in pairwise(edges)
        ]

    def told(self, page: Page, docs: Sequence[int]) -> tuple[Any, ...]:
        """What a page shows beside its hits."""
        facets = [(name, tuple(self.facet(docs, name))) for name in page.facets]
        if page.edges:
            facets.append(("price", tuple(self.ranges(docs, page.edges))))
        return len(docs), tuple(facets)

    def recall(self, call: Call, query: int) -> Reply:
        """The reply to one query of a call."""
        if call.page is None:
            return super().recall(call, query)
        docs = [int(doc) for doc in np.flatnonzero(self.matching(call, query))]
        if call.page.sort is None:
            hits = super().recall(call, query)
        else:
            rows = self.ordered(docs, call.page.sort)[call.offset : call.offset + call.limit]
            nothing = (None,) * len(self.shape.arms)
            hits = tuple(
                Hit(
                    call.offset + at,
                    self.rows[doc].key,
                    self.rows[doc].cell,
                    None,
                    nothing,
                    nothing,
                )
                for at, doc in enumerate(rows, 1)
            )
        counted = self.told(call.page, docs)
        return tuple(hit._replace(counted=counted) for hit in hits)
