"""The arm of the documents of a graph's edges, by the texts of the edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from hyrecall.arm.arm import ArmQueries, Batch, FoundDocs, SearchArm, from_entries, read_arm_name
from hyrecall.ask.queries import lower
from hyrecall.base.arguments import check_keywords, convert_field
from hyrecall.base.options import GraphLike, integer
from hyrecall.table.attributes import RowTypes


@check_keywords
@dataclass(frozen=True)
class EdgeLexical(SearchArm):
    """Retrieves the documents of a graph's edges by BM25 over the edges' texts.

    The best ``depth`` edges in the query's scope are read, with statistics of the edges in scope. A
    document has the score of its best edge among them; ``hit.evidence(name)`` is that edge's key.

    Parameters
    ----------
    graph : Graph or str
        A graph over the recalled index, or its name in ``graphs=``. With a name, the arm is plain
        data.
    name : str, default "edges"
        The arm's name.
    depth : int, optional
        Number of edges that are read; default: the recall's depth.

    Examples
    --------
    >>> EdgeLexical("knowledge").name
    'edges'
    """

    graph: GraphLike | str
    name: str = field(default="edges", kw_only=True)
    depth: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Check the options."""
        read_arm_name(self.name)
        if self.depth is not None:
            convert_field(self, "depth", integer, 1)

    _takes = "text"
    _refused_over_shards = "EdgeLexical"

    def _ask(self, facts: RowTypes, given: Sequence[object], n_queries: int) -> ArmQueries:
        for at, text in enumerate(given):
            if text is not None and not isinstance(text, str):
                lower(text, f"text[{self.name!r}][{at}]")
        return ArmQueries(given)

    def _search(self, batch: Batch, asked: ArmQueries) -> FoundDocs:
        graph = batch.graphs[self.graph]
        found = graph.credits(asked.entries, batch.scope, self.depth or batch.depth)
        which, segment, row = batch.audience.locate(found.keys, found.query)
        query, edge = found.query[which], found.edge[which]
        # Edges come best first, and so do their participants: a document's first entry is its
        # best edge.
        kept = np.unique(batch.numbers(query, segment, row), return_index=True)[1]
        return from_entries(
            batch.n_queries,
            query[kept],
            segment[kept],
            row[kept],
            found.scores[edge[kept]],
            found.names.take(pa.array(edge[kept])),
        )
