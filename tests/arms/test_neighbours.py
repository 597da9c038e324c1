"""Neighbours in a graph against a plain definition: one dict for each document."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr
from arms.world import GRAPH, SCHEMA, Doc, Draw, Edge, docs_table, edges_table, said, seen
from hyrecall.errors import DTypeError
from laws.effort import Effort
from seams import Neighbour, neighbours

TEXTS = (["ash yew", None, "oak"], None)
Best = tuple[float, int, Any]


def plain_best(
    found: Sequence[tuple[str, Edge]],
    seq_of: dict[int, int],
    scores: dict[Any, float],
    hidden: set[str],
    n: int,
) -> list[Neighbour]:
    """The n best of (neighbour, edge between): each neighbour once, with its best edge."""
    best: dict[str, Best] = {}
    for key, edge in found:
        score = scores.get(edge.key, 0.0)
        rank = (-score, seq_of[edge.key], edge.key)
        if key not in hidden and (key not in best or rank[:2] < best[key][:2]):
            best[key] = rank
    order = sorted(best, key=lambda key: (best[key][0], key))
    return [Neighbour(key, best[key][2], -best[key][0] + 0.0) for key in order[:n]]


def made(seed: int) -> tuple[list[Doc], list[Edge], hr.Graph]:
    draw = Draw(seed)
    docs = draw.docs(40)
    edges = draw.edges(40, 40)
    index = hr.Index.build(docs_table(docs), SCHEMA, analyzer=hr.Analyzer("word"))
    graph = hr.Graph.build(
        edges_table(edges[:9]), GRAPH, nodes=index, analyzer=hr.Analyzer("word"), threads=2
    )
    graph.add(edges_table(edges[9:]))  # several segments
    return docs, edges, graph


@pytest.mark.parametrize("n", [1, 2, 1000])
def test_neighbours_are_those_of_the_definition_for_every_query_of_a_batch(
    effort: Effort, n: int
) -> None:
    n_found = n_cut = 0
    for seed in range(effort.cases(quick=12, full=400)):
        docs, edges, graph = made(seed)
        draw = Draw(seed + 10)
        scopes = [draw.scope() for _ in range(3)]
        keys = [[f"n{i}" for i in draw.rng.permutation(44)[:size]] for size in (6, 0, 3)]
        exclude = [[f"n{i}" for i in draw.rng.permutation(44)[:5]] for _ in range(3)]
        seq_of = {edge.key: at for at, edge in enumerate(edges)}
        for text in TEXTS:
            found = graph.neighbours(
                keys, scope=[said(one) for one in scopes], text=text, exclude=exclude, n=n
            )
            assert [len(one) for one in found] == [6, 0, 3]
            for query, scope in enumerate(scopes):
                scores: dict[Any, float] = {}
                if text is not None and text[query] is not None:
                    hits = graph.edges.recall(
                        text=[text[query]], scope=said(scope), limit=100, depth=100
                    )
                    scores = {hit.key: hit.score for hit in hits[0]}
                mine = {doc.key for doc in seen(docs, scope)}
                for key, best in zip(keys[query], found[query], strict=True):
                    near = [
                        (other, edge)
                        for edge in edges
                        if edge.user in scope and key in edge.who and key in mine
                        for other in sorted(set(edge.who) & mine - {key})
                    ]
                    hidden = {*keys[query], *exclude[query]}
                    expected = plain_best(near, seq_of, scores, hidden, n)
                    assert repr(list(best)) == repr(expected)
                    n_found += len(best)
                    n_cut += len(plain_best(near, seq_of, scores, hidden, 1000)) > n
    assert n_found > 30
    assert n == 1000 or n_cut


def test_keys_that_are_numbers_stand_in_the_order_of_numbers() -> None:
    nodes = pa.table({"id": [10, 9, -1, 2], "user": ["u"] * 4, "text": ["a"] * 4})
    index = hr.Index.build(nodes, hr.Schema(key="id", cell="user", text="text"))
    edges = pa.table(
        {
            "id": ["second", "first"],
            "user": ["u"] * 2,
            "label": ["x"] * 2,
            "description": pa.array([None] * 2, pa.string()),
            "participants": [[10, 9, -1, 2], [10, 9]],
        }
    )
    graph = hr.Graph.build(edges, hr.GraphSchema(key="id", cell="user"), nodes=index)
    (((*found,),),) = graph.neighbours([[10]], scope="u")
    assert [(one.key, one.edge, one.score) for one in found] == [
        (-1, "second", 0.0),
        (2, "second", 0.0),
        (9, "second", 0.0),
    ]
    (((*found,),),) = graph.neighbours([[10]], scope="u", exclude=[[2]], n=2)
    assert [one.key for one in found] == [-1, 9]


def test_an_excluded_key_of_another_type_is_refused() -> None:
    _, _, graph = made(0)
    with pytest.raises(DTypeError, match="exclude: expected str keys, got int 3 at 1"):
        graph.neighbours([["n1"]], scope="ann", exclude=[["n2", 3]])


def test_an_edge_that_is_scored_by_another_querys_text_would_be_caught(
    monkeypatch: pytest.MonkeyPatch, effort: Effort
) -> None:
    right = neighbours._edge_scores

    def wrong(*given: Any) -> Any:
        offsets, segment, row, score = right(*given)
        return offsets, segment, row, score[::-1].copy()

    monkeypatch.setattr(neighbours, "_edge_scores", wrong)
    with pytest.raises(AssertionError):
        test_neighbours_are_those_of_the_definition_for_every_query_of_a_batch(effort, 2)
