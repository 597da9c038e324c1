"""Rows, neighbours and related documents of hits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Neighbour:
    """A document one hop away.

    Attributes
    ----------
    key : object
    edge : object
        Key of the edge between: of several the one that matches the text best, then the earliest.
    score : float
        BM25 of that edge; 0.0 where it does not match, or no text was given.
    """

    key: Any
    edge: Any
    score: float


@dataclass(frozen=True)
class Related:
    """A document that shares tags with the results.

    Attributes
    ----------
    key, cell : object, tuple
        Of the document.
    shared : int
        How many of the results' tags it has.
    values : dict of str to object
        The columns asked for.
    """

    key: Any
    cell: tuple[Any, ...]
    shared: int
    values: dict[str, Any]


@dataclass(frozen=True)
class NearRow:
    """A row around a hit in its thread, by ``surrounding=``. It is no hit.

    Attributes
    ----------
    key : object
    step : int
        How many places behind the hit; negative: before it.
    text : str or None
        As ``hit.text``; None: no text is stored.
    values : dict of str to object
        The columns asked for.
    """

    key: Any
    step: int
    text: str | None
    values: dict[str, Any]


@dataclass(frozen=True)
class ThreadRow:
    """A row of the thread that a hit stands for, by ``group="thread"``.

    Attributes
    ----------
    key : object
    score : float
        What the list was ordered by.
    """

    key: Any
    score: float


@dataclass(frozen=True, eq=False)
class AroundHits:
    """The rows, neighbours and related documents of the hits of a batch."""

    context: Sequence[Sequence[tuple[Neighbour, ...]]]
    related: Sequence[Sequence[Related]]
    near: Sequence[Sequence[tuple[NearRow, ...]]] = ()
    threads: Sequence[Sequence[tuple[ThreadRow, ...]]] = ()

    def only(self, asked: Iterable[bool]) -> AroundHits:
        """Return what was found beside the hits of some queries."""
        kept = list(asked)

        def part(found: Sequence[Any]) -> list[Any]:
            pairs = zip(found, kept, strict=True) if found else ()
            return [one if is_asked else () for one, is_asked in pairs]

        return AroundHits(*map(part, (self.context, self.related, self.near, self.threads)))

    def beside(self, name: str, query: int, place: int) -> tuple[Any, ...]:
        """Return what was found for the hit at a place of a query; () if it was not asked for."""
        found = getattr(self, name)
        shown = found[query] if found else ()
        return shown[place] if place < len(shown) else ()
