"""Look-ups about tags, of an index whose documents lie in shards.

A shard knows the tags of its own documents only. So the tags that a query names, and those near
them, are asked of all shards, one hop after the other; the documents of a tag that is reached in
one shard may lie in another one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from hyrecall.ask.expansion import MOST_BESIDE
from hyrecall.ask.shaping.checks import integer
from hyrecall.errors import OptionError, error
from hyrecall.parts.lookups import QUERY, Lookup, audience_of, cell_column
from hyrecall.recall.arms.tags import tag_attribute
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.segments import State, gather_column, seqs_of
from hyrecall.text.analyzer import Analyzer

__all__ = ["documents_sharing", "named_tags", "tags_beside"]


def named_tags(facts: IndexFacts, state: State, lookup: Lookup) -> pa.Table:
    """Find the tags that share a token with a query."""
    # The question has the ``text`` of each query, and the settings ``column``, ``analyzer`` and
    # ``partial`` of the arm. The answer has ``tag`` and ``documents``, the number of documents in
    # scope that have it.
    texts: list[bytes | None] = [None] * lookup.n_queries
    given = _column(lookup, "text", pa.large_binary()).to_pylist()
    for query, text in zip(lookup.query.tolist(), given, strict=True):
        texts[query] = text
    analyzer = Analyzer(_setting(lookup, "analyzer")).native
    found = audience_of(facts, state, lookup).named_tags(
        _attribute(facts, lookup), analyzer, texts, bool(_setting(lookup, "partial"))
    )
    offsets, tags, documents = found
    return pa.table(
        {
            QUERY: _queries(offsets),
            "tag": pa.array(tags, pa.large_string()),
            "documents": pa.array(documents, pa.int64()),
        }
    )


def tags_beside(facts: IndexFacts, state: State, lookup: Lookup) -> pa.Table:
    """Find the other tags of the documents that have one of the column ``tag``."""
    tags = _column(lookup, "tag", pa.large_string())
    offsets = _offsets(lookup, lookup.query)
    audience = audience_of(facts, state, lookup)
    offsets, found = audience.tags_beside(_attribute(facts, lookup), offsets, tags)
    return pa.table({QUERY: _queries(offsets), "tag": pa.array(found, pa.large_string())})


def documents_sharing(facts: IndexFacts, state: State, lookup: Lookup) -> pa.Table:
    """Find the ``n`` documents with most of some tags, for each query."""
    # Each row of the question has a ``tag``, or the insertion number ``seq`` of a document that is
    # left out. The answer has ``key``, the parts of the cell, ``seq`` and ``shared``, the number of
    # these tags.
    tags, seqs = _column(lookup, "tag", pa.large_string()), _column(lookup, "seq", pa.int64())
    query = lookup.query
    is_tag, is_seq = (np.asarray(one.is_valid()) for one in (tags, seqs))
    n = integer("n", _setting(lookup, "n"), 1, MOST_BESIDE)
    offsets, segment, row, shared = audience_of(facts, state, lookup).sharing(
        _attribute(facts, lookup),
        _offsets(lookup, query[is_tag]),
        tags.drop_null(),
        _offsets(lookup, query[is_seq]),
        np.asarray(seqs.drop_null(), np.int64),
        n,
    )
    columns: dict[str, Any] = {QUERY: _queries(offsets)}
    names = {"key": facts.schema.key}
    names |= {cell_column(at): name for at, name in enumerate(facts.schema.cell_columns)}
    for name, column in names.items():
        columns[name] = gather_column(state.segments, segment, row, column)
    columns["seq"] = pa.array(seqs_of(state.segments, segment, row), pa.int64())
    columns["shared"] = pa.array(shared.astype(np.int64))
    return pa.table(columns)


def _attribute(facts: IndexFacts, lookup: Lookup) -> int:
    return tag_attribute("column", _setting(lookup, "column"), facts)


def _setting(lookup: Lookup, name: str) -> Any:
    if name not in lookup.settings:
        raise error(OptionError, "lookup", f"the setting {name!r}", sorted(lookup.settings))
    return lookup.settings[name]


def _column(lookup: Lookup, name: str, kind: pa.DataType) -> pa.Array:
    """Return a column of a question, which may come from another process."""
    names = lookup.rows.schema.names
    if names.count(name) != 1 or lookup.rows.schema.field(name).type != kind:
        raise error(OptionError, "lookup", f"a column {name!r} of {kind}", names)
    return lookup.rows.column(name).combine_chunks()


def _offsets(lookup: Lookup, query: np.ndarray) -> np.ndarray:
    """Return where the rows of each query begin and end."""
    return np.searchsorted(query, np.arange(lookup.n_queries + 1)).astype(np.int64)


def _queries(offsets: np.ndarray) -> pa.Array:
    """Return the query of each row."""
    return pa.array(np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), pa.int64())
