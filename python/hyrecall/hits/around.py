"""What stands around hits, and is none: neighbours in a graph, documents with the same tags."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Around", "Neighbour", "Related"]


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


@dataclass(frozen=True, eq=False)
class Around:
    """What was found.

    Attributes
    ----------
    context : sequence of sequence
        Per query, of its first hits.
    related : sequence of sequence
        Per query.
    """

    context: Sequence[Sequence[tuple[Neighbour, ...]]]
    related: Sequence[Sequence[Related]]

    def only(self, asked: Iterable[bool]) -> Around:
        """Return what was found beside the hits of some queries."""
        pairs = zip(self.context, self.related, asked, strict=True)
        kept = [(context, found) if is_asked else ((), ()) for context, found, is_asked in pairs]
        return Around([context for context, _ in kept], [found for _, found in kept])
