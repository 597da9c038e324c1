"""Documents by the texts of the edges they take part in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hyrecall.ask.arms.batch import Asked, Batch, Candidates, from_entries, read_arm_name
from hyrecall.ask.queries import lower
from hyrecall.ask.shaping.checks import integer
from hyrecall.base.keywords import check_keywords
from hyrecall.segments.segments import document_numbers

if TYPE_CHECKING:
    from hyrecall.graph.graph import Graph

__all__ = ["EdgeLexical"]


@check_keywords
@dataclass(frozen=True)
class EdgeLexical:
    """BM25 over the texts of a graph's edges, credited to the documents that take part in them.

    A document's score is that of its best edge among the best ``depth`` edges of the query's scope;
    ``hit.evidence(name)`` gives that edge's key. Statistics are those of the edges in scope.

    Parameters
    ----------
    graph : Graph or str
        A graph over the index that is asked. A name stands for one that is put in its place before
        the arm runs, so that the arm is plain data.
    name : str, default "edges"
        The arm's name.
    depth : int, optional
        How many edges are read; default: the recall's depth.

    Examples
    --------
    >>> EdgeLexical("knowledge").name
    'edges'
    """

    graph: Graph | str
    name: str = field(default="edges", kw_only=True)
    depth: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Check the options."""
        read_arm_name(self.name)
        if self.depth is not None:
            object.__setattr__(self, "depth", integer("depth", self.depth, 1))

    def read(self, texts: Sequence[object]) -> Asked:
        """Check the queries: texts or typed queries."""
        for at, text in enumerate(texts):
            if text is not None and not isinstance(text, str):
                lower(text, f"text[{self.name!r}][{at}]")
        return Asked(texts)

    def candidates(self, batch: Batch, asked: Asked) -> Candidates:
        """Find the best edges of each query and credit who takes part in them."""
        bound = batch.graphs[self.graph]
        graph = bound.graph
        hits = bound.best_edges(asked.entries, batch.scope, self.depth or batch.depth)
        edge, keys = graph.participants(hits.column(graph.participants_column))
        counts = np.diff(hits._arrays["offsets"])
        query_of = np.repeat(np.arange(len(hits), dtype=np.uint32), counts)[edge]
        which, segment, row = batch.audience.locate(keys, query_of)
        query, edge = query_of[which], edge[which]
        # Edges come best first, and so do their participants: a document's first entry is its
        # best edge.
        documents = document_numbers(batch.state.segments, query, segment, row)
        kept = np.unique(documents, return_index=True)[1]
        return from_entries(
            batch.n_queries,
            query[kept],
            segment[kept],
            row[kept],
            hits._arrays["arm_scores"][edge[kept]],
            hits.column(graph.edges.schema.key).take(pa.array(edge[kept])),
        )
