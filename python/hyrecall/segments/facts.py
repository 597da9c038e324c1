"""The settings of an index that recalls and reads need: schema, analyzers, types, threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from hyrecall.ask.defaults import DEFAULT_BM25
from hyrecall.table.schema import Schema
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

__all__ = ["EmbeddedArm", "HostRates", "IndexFacts"]


@dataclass(frozen=True)
class EmbeddedArm:
    """By which model an arm's vectors were made, and from which columns of a document."""

    model: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class HostRates:
    """What a launch costs and how fast the CPU reads postings, as measured on one machine."""

    launch_seconds: float
    postings_per_second: float

    @property
    def most_postings(self) -> int:
        """The postings that the CPU has read before a device would have begun."""
        return int(self.launch_seconds * self.postings_per_second)

    def as_dict(self) -> dict[str, float]:
        """Return the rates and their product, as ``Index.stats()`` shows them."""
        return {
            "launch_ms": self.launch_seconds * 1e3,
            "postings_per_second": self.postings_per_second,
            "most_postings": self.most_postings,
        }


@dataclass(frozen=True, eq=False)
class IndexFacts:
    """The settings of an index, which stay the same when its documents change."""

    schema: Schema
    analyzers: Mapping[str, Analyzer]
    bm25: Mapping[str, BM25]
    dims: Mapping[str, int]
    row_types: Mapping[str, pa.DataType]
    threads: int
    embedded: Mapping[str, EmbeddedArm] = field(default_factory=dict)

    host_rates: HostRates | None = None
    """Only of an index that chose its device itself: small batches of texts then run on the CPU."""

    def plain(self) -> IndexFacts:
        """Return the facts that pickled hits keep, without the caller's functions."""
        schema = Schema.from_dict(self.schema.to_dict())
        return replace(self, schema=schema, analyzers={}, bm25={})

    @property
    def host_postings(self) -> int | None:
        """The most postings of a batch of texts that the CPU searches; None: the device does."""
        return None if self.host_rates is None else self.host_rates.most_postings

    @cached_property
    def text_arms(self) -> tuple[str, ...]:
        """The lexical arms in declared order."""
        return tuple(self.schema.text_arms)

    @cached_property
    def vector_arms(self) -> tuple[str, ...]:
        """The dense arms in declared order."""
        return tuple(self.schema.vector_arms)

    @cached_property
    def arms(self) -> tuple[str, ...]:
        """All arms in declared order, lexical arms first."""
        return (*self.text_arms, *self.vector_arms)

    @cached_property
    def joined_bm25(self) -> dict[str, BM25]:
        """The BM25 constants of each text arm under the default fusion."""
        # An arm keeps constants that its schema names, or that differ from ``BM25()``; other arms
        # have ``DEFAULT_BM25``.
        named = {arm: text.bm25 is not None for arm, text in self.schema.text_arms.items()}
        default = BM25()
        return {
            arm: bm25 if named[arm] or bm25 != default else DEFAULT_BM25
            for arm, bm25 in self.bm25.items()
        }

    @cached_property
    def attribute_types(self) -> dict[str, pa.DataType]:
        """The type of each attribute column, in the order of the segments."""
        return {name: self.row_types[name] for name in self.schema.attributes}

    @cached_property
    def cell_types(self) -> dict[str, pa.DataType]:
        """The type of each cell column."""
        return {name: self.row_types[name] for name in self.schema.cell_columns}
