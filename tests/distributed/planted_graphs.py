"""Planted bugs: mistakes in what shards are told of a graph, and in what they say of its nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from seams import QUERY, BoundGraph, Looking, Lookup, cell_column, telling

EVERYONE = hr.Scope.matching(user=hr.ANY)


def every_participant_exists(patch: pytest.MonkeyPatch) -> None:
    """Participants that no shard has are nodes."""
    ask = Looking.ask

    def answered(self: Looking, lookup: Lookup) -> list[pa.Table]:
        ask(self, lookup)
        names = {QUERY: lookup.rows[QUERY], "key": lookup.rows["key"]}
        cell = pa.array(["ann"] * lookup.rows.num_rows, pa.large_string())
        return [pa.table({**names, cell_column(0): cell})]

    patch.setattr(Looking, "ask", answered)


def edges_of_other_cells(patch: pytest.MonkeyPatch) -> None:
    """Edges are searched in all cells."""
    own, matching = BoundGraph.credits, BoundGraph.matching

    def best(self: BoundGraph, arm: Any, texts: Any, scope: object, depth: int) -> Any:
        return own(self, arm, texts, EVERYONE, depth)

    def matched(self: BoundGraph, arm: Any, place: int, query: int, scope: Any, m: Any) -> Any:
        return matching(self, arm, place, query, EVERYONE, m)

    patch.setattr(BoundGraph, "credits", best)
    patch.setattr(BoundGraph, "matching", matched)


def the_last_edge_of_a_participant(patch: pytest.MonkeyPatch) -> None:
    """A participant has the score of its worst edge."""
    firsts = telling._firsts

    def lasts(query: Any, keys: pa.Array) -> Any:
        at = len(keys) - 1 - firsts(query[::-1], keys.take(pa.array(np.arange(len(keys))[::-1])))
        return np.sort(at)

    patch.setattr(telling, "_firsts", lasts)


def half_of_the_edges(patch: pytest.MonkeyPatch) -> None:
    """The edges of a query are cut at half of the depth."""
    own = BoundGraph.credits

    def best(self: BoundGraph, arm: Any, texts: Any, scope: object, depth: int) -> Any:
        return own(self, arm, texts, scope, (depth + 1) // 2)

    patch.setattr(BoundGraph, "credits", best)


def answers_of_the_query_before(patch: pytest.MonkeyPatch) -> None:
    """Each query gets what the query before it asked."""
    matching = BoundGraph.matching

    def matched(self: BoundGraph, arm: Any, place: int, query: int, scope: Any, m: Any) -> Any:
        known.append(matching(self, arm, place, query, scope, m))
        return known[max(len(known) - 2, 0)]

    known: list[pa.Array] = []
    patch.setattr(BoundGraph, "matching", matched)


def no_second_search(patch: pytest.MonkeyPatch) -> None:
    """Nothing is told for the arms of ``on_no_match``: the answers are empty."""
    patch.setattr(telling, "again", lambda *_: None)


PLANTED = (
    every_participant_exists,
    edges_of_other_cells,
    the_last_edge_of_a_participant,
    half_of_the_edges,
    answers_of_the_query_before,
    no_second_search,
)
