"""Counts the memories of some cells that vectors cannot find."""

from __future__ import annotations

from hyrecall.ask.filters import Filter
from hyrecall.ask.scope import ANY, Scope, ScopePattern
from hyrecall.index import Index
from hyrecall.memory.derived.layout import CELL
from hyrecall.memory.derived.layout import UNEMBEDDED as _COLUMN
from hyrecall.memory.derived.readiness import Ready
from hyrecall.memory.sql.cells import Cell

__all__ = ["EVERYWHERE", "UNEMBEDDED", "ComparableVectors", "count_unembedded", "told_unembedded"]

EVERYWHERE = Scope.matching(**dict.fromkeys(CELL, ANY))

MOST_KEPT = 256
"""Counts that are kept for the next call."""

UNEMBEDDED = Filter(**{_COLUMN: True})
"""Passes memories with a text and without a vector that the index takes."""


def count_unembedded(index: Index, scope: Scope | ScopePattern = EVERYWHERE) -> int:
    """Count the memories of a scope with a text and without a vector that the index takes."""
    return index.count(scope=scope, filter=UNEMBEDDED)


def told_unembedded(n: int, n_memories: int) -> str:
    """Say how many memories have no usable vector."""
    return f"{n} of {n_memories} memories have no usable vector"


class ComparableVectors:
    """Counts the memories that a query's vector cannot be compared with, once for each state."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._kept: dict[tuple[object, ...], str] = {}

    def told(self, ready: Ready, cells: tuple[tuple[int, Cell], ...]) -> str:
        """Say how many memories of cells have no usable vector; "" if all have one."""
        key = (ready.sequence, ready.model, ready.dim, tuple(number for number, _ in cells))
        found = self._kept.get(key)
        if found is None:
            scope = Scope([tuple(cell) for _, cell in cells])
            n = count_unembedded(ready.index, scope)
            found = told_unembedded(n, ready.index.count(scope=scope)) if n else ""
            if len(self._kept) >= MOST_KEPT:
                self._kept = {}
            self._kept[key] = found
        return found
