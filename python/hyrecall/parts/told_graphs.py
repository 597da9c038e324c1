"""Graphs of a request in one shard: what their edges say was found outside, and came with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa

from hyrecall.ask.arms.edges import EdgeLexical
from hyrecall.ask.arms.regex import Regex
from hyrecall.ask.graph_names import HasParts, names_in
from hyrecall.errors import OptionError, error
from hyrecall.parts.told import Told, ToldLists, question_of, told_to
from hyrecall.recall.graph_views import BoundGraphs, EdgeCredits, Matches
from hyrecall.segments.facts import IndexFacts

__all__ = ["KEY", "PLACE", "SCORE", "ToldGraph", "told_graphs"]

KEY, SCORE, PLACE = "key", "score", "place"
"""Columns of what is told: a participant, the score of its edge, the place of a column."""


class ToldGraph:
    """The answers to what arms ask of a graph's edges, in the place of the graph."""

    def __init__(self, key_type: pa.DataType, told: Told | None) -> None:
        """Take the type of the nodes' keys, and what a request tells."""
        self._key_type = key_type
        self._told = told

    def credits(
        self, arm: EdgeLexical, texts: Sequence[object], scope: object, depth: int
    ) -> EdgeCredits:
        """Return the participants of each query's best edges; their edges are not known here."""
        del scope
        lists = told_to(self._told, question_of(arm, depth), len(texts))
        self._check(lists, SCORE, pa.float32())
        scores = lists.rows.column(SCORE).to_numpy()
        if not np.isfinite(scores).all():
            raise error(OptionError, "request", "finite scores of edges", "others")
        query, edge = lists.query.astype(np.uint32), np.arange(len(scores))
        return EdgeCredits(query, lists.rows.column(KEY).combine_chunks(), edge, scores, None)

    def matching(
        self, arm: Regex, place: int, query: int, scope: object, matches: Matches
    ) -> pa.Array:
        """Return the participants of the edges that a query's pattern matches."""
        import pyarrow.compute as pc

        del scope, matches
        lists = told_to(self._told, question_of(arm))
        if not 0 <= query < lists.n_queries:
            got = f"those of {lists.n_queries} queries"
            raise error(OptionError, "request", f"answers for query {query}", got)
        self._check(lists, PLACE, pa.int32())
        rows = lists.list_of(query)
        found = rows.filter(pc.equal(rows.column(PLACE), place))
        return found.column(KEY).combine_chunks()

    def _check(self, lists: ToldLists, name: str, kind: pa.DataType) -> None:
        """Refuse rows of other types; they may come from another process."""
        wanted = pa.schema([(KEY, self._key_type), (name, kind)])
        columns = lists.rows.columns
        if lists.rows.schema != wanted or any(one.null_count for one in columns):
            raise error(OptionError, "request", f"answers of {wanted}", lists.rows.schema)


def told_graphs(facts: IndexFacts, how: HasParts, told: Told | None) -> BoundGraphs:
    """Return what stands for the graphs of a recipe, or of options, in one shard."""
    # A shard searches arms. It does not walk along edges, which stages and expansions do.
    graph = ToldGraph(facts.row_types[facts.schema.key], told)
    return cast(BoundGraphs, {name: graph for name, _ in names_in(how)})
