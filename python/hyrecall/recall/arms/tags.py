"""Searches by the tags that a query names, for :class:`hyrecall.arms.Tags`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.ask.arms.tags import Tags
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.hits.trace import Notes
from hyrecall.recall.arms.batch import ArmQueries, Batch, FoundDocs, plain_texts
from hyrecall.segments.facts import IndexFacts
from hyrecall.text.analyzer import Analyzer

__all__ = ["KnownTags", "read_tags", "search_tags", "tag_attribute", "text_bytes"]


@dataclass(frozen=True, eq=False)
class KnownTags:
    """The tags that each query reaches, where they are known: query q has offsets[q] to [q + 1]."""

    offsets: npt.NDArray[np.int64]
    tags: pa.Array
    hops: npt.NDArray[np.uint8]
    most_documents: npt.NDArray[np.int64]
    notes: Notes = field(default_factory=dict)

    def part(self, begin: int, end: int) -> KnownTags:
        """Return those of the queries [begin, end)."""
        offsets = self.offsets[begin : end + 1]
        own = slice(int(offsets[0]), int(offsets[-1]))
        most = self.most_documents[begin:end]
        return KnownTags(offsets - offsets[0], self.tags[own], self.hops[own], most)


def read_tags(arm: Tags, facts: IndexFacts, texts: Sequence[object]) -> ArmQueries:
    """Check the column, and the queries: plain texts."""
    _attribute(arm, facts)
    return ArmQueries(plain_texts(arm.name, texts))


def search_tags(arm: Tags, batch: Batch, asked: ArmQueries | KnownTags) -> FoundDocs:
    """Find the documents near each query's tags."""
    attribute, audience = _attribute(arm, batch.facts), batch.audience
    if isinstance(asked, KnownTags):
        known = asked.offsets, asked.tags, asked.hops, asked.most_documents
        return FoundDocs(*audience.near(attribute, *known, batch.depth))
    texts = [None if text is None else text_bytes(text) for text in asked.entries]
    analyzer = Analyzer(arm.analyzer).native
    found = audience.tags(attribute, analyzer, texts, arm.depth, arm.partial, batch.depth)
    return FoundDocs(*found)


def text_bytes(text: str) -> bytes:
    """Return the text of a query as an analyzer reads it."""
    return text.encode("utf-8", "surrogatepass")


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
