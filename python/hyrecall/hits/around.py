"""Rows, neighbours and related documents of hits, and what Feedback added to queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


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


# ---- What the best rows of a first answer added to the queries of a batch: trace and explanations


@dataclass(frozen=True)
class SecondLook:
    """What :class:`hyrecall.Feedback` added to one query."""

    rows: tuple[Any, ...]
    vectors: tuple[str, ...] = ()
    terms: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class AddedTerms:
    """The terms that one arm's queries got: query q has those from offsets[q] to offsets[q + 1]."""

    offsets: npt.NDArray[np.int64]
    terms: tuple[str, ...]
    boosts: npt.NDArray[np.float64]

    def of(self, query: int) -> dict[str, float]:
        """Return the terms of one query with their boosts."""
        own = slice(int(self.offsets[query]), int(self.offsets[query + 1]))
        return dict(zip(self.terms[own], self.boosts[own].tolist(), strict=True))


@dataclass(frozen=True, eq=False, repr=False)
class SecondLooks(Mapping[int, SecondLook]):
    """The second looks of a batch, by query; only queries to which something was added."""

    offsets: npt.NDArray[np.int64]
    row_keys: pa.Array
    moved: dict[str, npt.NDArray[np.bool_]]
    added: dict[str, AddedTerms]

    def __getitem__(self, query: int) -> SecondLook:
        """Return what was added to a query."""
        if not (isinstance(query, int) and 0 <= query < len(self._has) and self._has[query]):
            raise KeyError(query)
        own = slice(int(self.offsets[query]), int(self.offsets[query + 1]))
        terms = {arm: found for arm, one in self.added.items() if (found := one.of(query))}
        vectors = tuple(arm for arm, moved in self.moved.items() if moved[query])
        return SecondLook(tuple(self.row_keys[own].to_pylist()), vectors, terms)

    def __iter__(self) -> Iterator[int]:
        """Go through the queries to which something was added."""
        return iter(np.flatnonzero(self._has).tolist())

    def __len__(self) -> int:
        """Return how many queries got something."""
        return int(np.count_nonzero(self._has))

    def __repr__(self) -> str:
        """Show it as a dict."""
        return repr(dict(self))

    @property
    def _has(self) -> npt.NDArray[np.bool_]:
        """Say of each query whether anything was added to it."""
        has = np.zeros(len(self.offsets) - 1, np.bool_)
        for moved in self.moved.values():
            has |= moved
        for one in self.added.values():
            has |= np.diff(one.offsets) > 0
        return has
