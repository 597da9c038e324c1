"""Searches the edges of a graph by their texts, for :class:`hyrecall.arms.EdgeLexical`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from hyrecall.ask.arms.edges import EdgeLexical
from hyrecall.ask.queries import lower
from hyrecall.recall.arms.batch import ArmQueries, Batch, FoundDocs, from_entries
from hyrecall.segments.segments import document_numbers

__all__ = ["read_edge_lexical", "search_edge_lexical"]


def read_edge_lexical(arm: EdgeLexical, texts: Sequence[object]) -> ArmQueries:
    """Check the queries: texts or typed queries."""
    for at, text in enumerate(texts):
        if text is not None and not isinstance(text, str):
            lower(text, f"text[{arm.name!r}][{at}]")
    return ArmQueries(texts)


def search_edge_lexical(arm: EdgeLexical, batch: Batch, asked: ArmQueries) -> FoundDocs:
    """Find the best edges of each query and credit who takes part in them."""
    graph = batch.graphs[arm.graph]
    found = graph.credits(arm, asked.entries, batch.scope, arm.depth or batch.depth)
    which, segment, row = batch.audience.locate(found.keys, found.query)
    query, edge = found.query[which], found.edge[which]
    # Edges come best first, and so do their participants: a document's first entry is its
    # best edge.
    documents = document_numbers(batch.state.segments, query, segment, row)
    kept = np.unique(documents, return_index=True)[1]
    return from_entries(
        batch.n_queries,
        query[kept],
        segment[kept],
        row[kept],
        found.scores[edge[kept]],
        None if found.names is None else found.names.take(pa.array(edge[kept])),
    )
