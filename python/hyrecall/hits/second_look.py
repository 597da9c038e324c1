"""What the best rows of a first answer added to the queries of a batch: trace and explanations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


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
