"""What recalls and reads need to know of an index beside its documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from hyrecall.ask.defaults import DEFAULT_BM25
from hyrecall.table.schema import Schema
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

__all__ = ["IndexFacts"]


@dataclass(frozen=True, eq=False)
class IndexFacts:
    """What a request needs to know of the index beside its documents."""

    schema: Schema
    analyzers: Mapping[str, Analyzer]
    bm25: Mapping[str, BM25]
    dims: Mapping[str, int]
    row_types: Mapping[str, pa.DataType]
    threads: int

    def plain(self) -> IndexFacts:
        """Return what hits say of their index when they are pickled: no functions of the caller."""
        schema = Schema.from_dict(self.schema.to_dict())
        return replace(self, schema=schema, analyzers={}, bm25={})

    @cached_property
    def text_arms(self) -> tuple[str, ...]:
        """The lexical arms, as declared."""
        return tuple(self.schema.text_arms)

    @cached_property
    def vector_arms(self) -> tuple[str, ...]:
        """The dense arms, as declared."""
        return tuple(self.schema.vector_arms)

    @cached_property
    def arms(self) -> tuple[str, ...]:
        """Every arm, lexical first, as declared."""
        return (*self.text_arms, *self.vector_arms)

    @cached_property
    def joined_bm25(self) -> dict[str, BM25]:
        """The BM25 of each text arm under the default fusion: the one named, else its own.

        A build that names the default, ``BM25()``, says no more than one that names nothing.
        """
        named = {arm: text.bm25 is not None for arm, text in self.schema.text_arms.items()}
        default = BM25()
        return {
            arm: bm25 if named[arm] or bm25 != default else DEFAULT_BM25
            for arm, bm25 in self.bm25.items()
        }

    @cached_property
    def attribute_types(self) -> dict[str, pa.DataType]:
        """The type of each attribute column, in the order in which every segment holds them."""
        return {name: self.row_types[name] for name in self.schema.attributes}

    @cached_property
    def cell_types(self) -> dict[str, pa.DataType]:
        """The type of each cell column."""
        return {name: self.row_types[name] for name in self.schema.cell_columns}
