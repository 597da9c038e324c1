"""Keeps what a caller's callables returned, so that lists can be shaped again without a call."""

from __future__ import annotations

from dataclasses import dataclass, field

from hyrecall.recall.fused_lists import Array

__all__ = ["CallableResults"]


@dataclass(frozen=True, eq=False)
class CallableResults:
    """What the callables of stages returned for the entries of each list, by stage."""

    _kept: dict[str, list[tuple[int, Array, Array]]] = field(default_factory=dict)

    def keep(self, stage: object, first_query: int, offsets: Array, values: Array) -> None:
        """Keep the values of some queries' lists, whose entries begin at ``offsets``."""
        self._kept.setdefault(type(stage).__name__, []).append((first_query, offsets, values))

    def of(self, stage: object, query: int) -> Array:
        """Return the values of one query's list."""
        for first, offsets, values in self._kept[type(stage).__name__]:
            if first <= query < first + len(offsets) - 1:
                at = query - first
                return values[int(offsets[at]) : int(offsets[at + 1])]
        raise KeyError(query)
