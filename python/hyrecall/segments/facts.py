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

__all__ = ["EmbeddedArm", "IndexFacts"]


@dataclass(frozen=True)
class EmbeddedArm:
    """By which model an arm's vectors were made, and from which columns of a document."""

    model: str
    columns: tuple[str, ...]


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

    def plain(self) -> IndexFacts:
        """Return the facts that pickled hits keep, without the caller's functions."""
        schema = Schema.from_dict(self.schema.to_dict())
        return replace(self, schema=schema, analyzers={}, bm25={})

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
        """The BM25 constants of each text arm under the default fusion.

        An arm keeps constants that its schema names, or that differ from ``BM25()``; other arms
        have ``DEFAULT_BM25``.
        """
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
