"""Finds what arms read of graphs, for all queries of a request, before shards answer it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.arms import EdgeLexical, Edges, Regex
from hyrecall.ask.scope import distinct_scopes, scope_of
from hyrecall.parts.request import KEY, PLACE, SCORE, Request, Told, ToldLists, question_of
from hyrecall.parts.runs import REFUSALS, Run, accepted, again, runs_of
from hyrecall.recall.arms import edge_matcher
from hyrecall.recall.graph_views import BoundGraphs
from hyrecall.recall.planning import make_plan
from hyrecall.segments.segments import IndexFacts, State

Arm = EdgeLexical | Regex


def tell_edges(facts: IndexFacts, request: Request, graphs: BoundGraphs) -> Told:
    """Search the edges of graphs for a request."""
    call = request.read(facts)
    asking = _Asking(facts, graphs)
    for run in runs_of(facts, call, None):
        try:
            n_queries = asking.add(run)
        except REFUSALS:
            if not run.is_for_threads:
                raise
            continue  # a shard that needs this form refuses it
        # Which queries need a second search is not known yet.
        asked = np.ones(n_queries, np.bool_) if run.selected is None else run.selected
        more = again(facts, call, run, accepted(facts, call, run, asked, asking.plan))
        if more is not None:
            asking.add(more)
    return {name: asking.answer(name, call.asked.scope) for name in asking.arms}


class _Asking:
    """What the runs of a request ask of edges."""

    def __init__(self, facts: IndexFacts, graphs: BoundGraphs) -> None:
        self._facts = facts
        self._graphs = graphs
        self._nothing = State.of((), (), 0)
        self._entries: dict[str, list[Any]] = {}  # by question, per query
        self.arms: dict[str, tuple[Arm, int]] = {}

    def plan(self, run: Run) -> tuple[int, int, Sequence[tuple[Any, Any]]]:
        """Return the number of queries of a run, its depth, and what its arms are asked."""
        with _core.arithmetic.RoundToNearest():
            given = self._facts, self._nothing, run.request, run.ranking, self._graphs
            plan = make_plan(*given, lambda *_: None)
        plan.request.release_guests()
        searches = plan.searches
        return plan.n_queries, plan.depth, () if searches is None else searches.asked

    def add(self, run: Run) -> int:
        """Add what a run asks; return its number of queries."""
        n_queries, depth, asked = self.plan(run)
        for arm, queries in asked:
            if isinstance(arm, EdgeLexical):
                most = arm.depth or depth
                self._add(question_of(arm, most), arm, most, queries.entries)
            elif isinstance(arm, Regex) and any(isinstance(one, Edges) for one in arm.columns):
                self._add(question_of(arm), arm, 0, queries.entries)
        return n_queries

    def _add(self, question: str, arm: Arm, depth: int, entries: Sequence[Any]) -> None:
        """Add the queries of an arm; two runs that ask the same have the same texts."""
        self.arms[question] = arm, depth
        known = self._entries.setdefault(question, [None] * len(entries))
        for at, entry in enumerate(entries):
            known[at] = entry if known[at] is None else known[at]

    def answer(self, question: str, scope: object) -> ToldLists:
        """Search the edges for all queries of a question."""
        (arm, depth), entries = self.arms[question], self._entries[question]
        if isinstance(arm, EdgeLexical):
            return self._best(arm, entries, scope, depth)
        return self._matching(arm, entries, scope)

    def _best(self, arm: EdgeLexical, texts: Sequence[Any], scope: object, depth: int) -> ToldLists:
        found = self._graphs[arm.graph].credits(arm, texts, scope, depth)
        kept = _firsts(found.query, found.keys)
        scores = found.scores[found.edge[kept]].astype(np.float32, copy=False)
        columns = {KEY: found.keys.take(pa.array(kept)), SCORE: pa.array(scores, pa.float32())}
        return ToldLists.of(len(texts), found.query[kept], pa.table(columns))

    def _matching(self, arm: Regex, patterns: Sequence[Any], scope: object) -> ToldLists:
        """Return the participants for each scope and pattern, found and told once."""
        import pyarrow.compute as pc

        scopes = distinct_scopes(scope, len(patterns)).number
        known: dict[tuple[int, str], int] = {}
        keys: list[pa.Array] = []
        places: list[npt.NDArray[np.int32]] = []
        number = np.zeros(len(patterns), np.int64)  # list 0 is that of queries without a pattern
        for query, pattern in enumerate(patterns):
            if pattern is None:
                continue
            group = int(scopes[query]), str(pattern)
            if group not in known:
                matches, own = edge_matcher(arm, pattern), scope_of(scope, query, query + 1)
                found = [
                    (place, pc.unique(graph.matching(arm, place, query, own, matches)))
                    for place, graph in self._edges_of(arm).items()
                ]
                at = [np.full(len(one), place, np.int32) for place, one in found]
                keys.append(pa.concat_arrays([one for _, one in found]))
                places.append(np.concatenate(at))
                known[group] = len(keys)
            number[query] = known[group]
        kind = self._facts.row_types[self._facts.schema.key]
        none = np.zeros(0, np.int32)
        rows = pa.table(
            {
                KEY: pa.concat_arrays([pa.array([], kind), *keys]),
                PLACE: pa.array(np.concatenate([none, *places]), pa.int32()),
            }
        )
        offsets = np.cumsum([0, 0, *map(len, keys)], dtype=np.int64)
        return ToldLists(offsets, rows, number)

    def _edges_of(self, arm: Regex) -> Mapping[int, Any]:
        return {
            place: self._graphs[one.graph]
            for place, one in enumerate(arm.columns)
            if isinstance(one, Edges)
        }


def _firsts(query: npt.NDArray[Any], keys: pa.Array) -> npt.NDArray[np.int64]:
    """Return the place of the first entry of each (query, key), by query."""
    if not len(keys):
        return np.zeros(0, np.int64)
    encoded = keys.dictionary_encode()
    codes = query.astype(np.int64) * len(encoded.dictionary) + encoded.indices.to_numpy()
    return np.sort(np.unique(codes, return_index=True)[1])
