"""Rows, tenants and queries of the device's table, and torch's ways to answer them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

import hyrecall as hr
from bench import corpus, device_rivals, ours, reference

WINDOW = (250_000, 749_999)  # of created_at, which is uniform in [0, 1,000,000)
Make = Callable[[], device_rivals.Search]


@dataclass(frozen=True)
class Size:
    """How much of everything a run takes."""

    rows: int
    dim: int
    queries: int
    tenants: int
    k: int
    threads: int
    seconds: float  # of one measurement, about


SIZES = {
    "tiny": Size(4_000, 64, 32, 20, 100, 4, 0.5),
    "small": Size(100_000, 768, 1_024, 100, 100, 16, 2.0),
    "full": Size(1_000_000, 768, 1_024, 1_000, 100, 16, 3.0),
}


@dataclass
class World:
    """Rows, tenants and queries of a size, on a device; each part made when it is first needed."""

    size: Size
    device: str
    torch: Any  # the module, or None
    _stored: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def rows(self) -> corpus.Floats:
        return corpus.gaussian_rows(self.size.rows, self.size.dim)

    @cached_property
    def queries(self) -> corpus.Floats:
        return corpus.gaussian_rows(self.size.queries, self.size.dim, "queries")

    @cached_property
    def tenants(self) -> corpus.Ints:
        return corpus.zipf_tenants(self.size.rows, self.size.tenants)

    @cached_property
    def times(self) -> corpus.Ints:
        return corpus.generator("device times").integers(0, 1_000_000, size=self.size.rows)

    @cached_property
    def asking(self) -> corpus.Ints:
        """The tenant of each query: drawn by row, so large tenants ask more."""
        rng = corpus.generator("device asking")
        return self.tenants[rng.integers(self.size.rows, size=self.size.queries)]

    def stored(self, dtype: str) -> Any:
        """Return the rows as they are indexed: a tensor on the device where torch is there."""
        if dtype not in self._stored:
            self._stored[dtype] = self._store(dtype)
        return self._stored[dtype]

    def _store(self, dtype: str) -> Any:
        if self.torch is not None:
            return self.torch.from_numpy(self.rows).to(self.device, getattr(self.torch, dtype))
        if dtype == "float32":
            return self.rows
        import ml_dtypes

        return self.rows.astype(ml_dtypes.bfloat16)

    def exact(self, dtype: str) -> corpus.Floats:
        """Return the values of the stored rows as float32, for the reference."""
        if dtype == "float32":
            return self.rows
        stored = self.stored(dtype)
        return np.asarray(stored.float().cpu() if self.torch else stored, np.float32)

    def index(self, dtype: str, *, is_scoped: bool) -> hr.Index:
        """Build an index of the rows."""
        columns = {"tenant": self.tenants, "created_at": self.times} if is_scoped else None
        return ours.build(
            self.size.rows,
            vectors=self.stored(dtype),
            columns=columns,
            cell="tenant" if is_scoped else None,
            cluster="created_at" if is_scoped else None,
            device=self.device,
        )

    def answer(self, dtype: str, at: corpus.Ints, *, is_scoped: bool) -> reference.Answer:
        """Rank what the queries ``at`` may see, in float64."""
        rows, k = self.exact(dtype), self.size.k
        if not is_scoped:
            return reference.dense(rows, self.queries[at], k)
        inside_window = (self.times >= WINDOW[0]) & (self.times <= WINDOW[1])
        parts = []
        for query in at:
            inside = np.flatnonzero(inside_window & (self.tenants == self.asking[query]))
            found = reference.dense(rows[inside], self.queries[query : query + 1], k)
            padded = np.append(inside, -1)
            parts.append((padded[found.ids], found.scores))
        ids, scores = (np.concatenate(part) for part in zip(*parts, strict=True))
        return reference.Answer(ids, scores)

    def rivals(self, dtype: str, *, is_scoped: bool) -> dict[str, Make]:
        """Return torch's ways to do the same; none without torch."""
        if self.torch is None:
            return {}
        rows, k = self.stored(dtype), self.size.k
        scope = (self.tenants, self.times, WINDOW, k)
        one = partial(device_rivals.product, self.torch, rows, k)
        if is_scoped:
            one = partial(device_rivals.masked, self.torch, rows, *scope)
        made: dict[str, Make] = {
            "torch, eager": partial(one, is_compiled=False),
            "torch, compiled": partial(one, is_compiled=True),
        }
        if is_scoped:
            gathered = partial(device_rivals.gathered, self.torch, rows, *scope)
            made = {f"{name}, with a mask": make for name, make in made.items()}
            made["torch, a product a tenant"] = gathered
        return made
