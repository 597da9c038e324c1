"""Searches by the tags that a query names, for :class:`hyrecall.arms.Tags`."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from hyrecall.ask.arms.tags import Tags
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.recall.arms.batch import ArmQueries, Batch, FoundDocs, plain_texts
from hyrecall.segments.facts import IndexFacts
from hyrecall.text.analyzer import Analyzer

__all__ = ["read_tags", "search_tags", "tag_attribute"]


def read_tags(arm: Tags, facts: IndexFacts, texts: Sequence[object]) -> ArmQueries:
    """Check the column, and the queries: plain texts."""
    _attribute(arm, facts)
    return ArmQueries(plain_texts(arm.name, texts))


def search_tags(arm: Tags, batch: Batch, asked: ArmQueries) -> FoundDocs:
    """Find the documents near each query's tags."""
    return FoundDocs(
        *batch.audience.tags(
            _attribute(arm, batch.facts),
            Analyzer(arm.analyzer).native,
            [
                None if text is None else text.encode("utf-8", "surrogatepass")
                for text in asked.entries
            ],
            arm.depth,
            arm.partial,
            batch.depth,
        )
    )


def _attribute(arm: Tags, facts: IndexFacts) -> int:
    return tag_attribute(f"{arm.name}.column", arm.column, facts)


def tag_attribute(argument: str, column: str, facts: IndexFacts) -> int:
    """Return the number of an attribute column of strings or lists of strings."""
    known = list(facts.schema.attributes)
    if column not in known:
        raise error(OptionError, argument, f"an attribute column of {known}", repr(column))
    kind = facts.row_types[column]
    types = pa.types
    inner = kind.value_type if types.is_list(kind) or types.is_large_list(kind) else kind
    if not (types.is_string(inner) or types.is_large_string(inner)):
        raise error(DTypeError, argument, "a column of strings or lists of strings", kind)
    return known.index(column)
