"""Acceptance rows C: context around the first results, and the same reply in every process."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hyrecall as hr
from laws.effort import Effort
from spec.hypergraph_world import (
    QUERY,
    WORDS,
    Edge,
    Node,
    build,
    by_force,
    cosine_of,
    drawn,
    hypergraph,
    show,
)

TESTS = Path(__file__).parents[1]


def test_C18_three_neighbours_of_the_first_five_results_with_their_edges() -> None:
    assert hypergraph.expansion == by_force.expansion == (hr.Context("graph", top=5, n=3),)
    # Found by words and by cosine: before all that an edge alone brings.
    results = [Node(f"r{at}", "oak" + " and" * at, vector=cosine_of(0.9 - at / 20))
               for at in range(7)]  # fmt: skip
    others = [Node(name, cell="work" if name == "foreign" else "home")
              for name in ("n1", "n2", "n3", "n4", "n5", "m1", "p1", "foreign")]  # fmt: skip
    edges = [
        Edge(1, ("r0", "n5")),
        Edge(2, ("r0", "n4")),
        Edge(3, ("r0", "n3"), "oak by the long river"),
        Edge(4, ("r0", "n2"), "oak"),
        Edge(5, ("r0", "n1")),
        Edge(6, ("r0", "r1"), "oak"),  # a result is no context
        Edge(7, ("r0", "foreign"), "oak"),
        Edge(8, ("r2", "n2", "m1"), "old", "oak"),  # a hyperedge
        Edge(9, ("n2", "p1"), "oak"),  # two hops from r0
        Edge(10, ("r4", "n1")),
        Edge(11, ("r5", "n1")),
        Edge(12, ("r6", "n1")),
        Edge(13, ("r0", "n1"), cell="work"),
    ]
    world = build([*results, *others], edges)
    hits = world.ask("oak", QUERY, limit=7)
    assert hits.keys == [f"r{at}" for at in range(7)]
    context = [[(one.key, one.edge) for one in hit.context] for hit in hits]
    assert context == [
        [("n2", 4), ("n3", 3), ("n1", 5)],  # by BM25 of the edge, then key; n4 and n5 are too many
        [],
        [("m1", 8), ("n2", 8)],
        [],
        [("n1", 10)],
        [],  # the sixth and the seventh have neighbours, and show none
        [],
    ]
    scores = {one.edge: one.score for hit in hits for one in hit.context}
    found = world.graph.edges.recall_one(text="oak", scope="home", limit=50)
    bm25 = {hit.key: hit.score for hit in found}
    assert scores == {edge: bm25.get(edge, 0.0) for edge in (4, 3, 5, 8, 10)}
    assert scores[4] > scores[3] > scores[5] == 0.0
    # Fewer results: what is no result any more is context.
    first = world.ask("oak", QUERY, limit=1)
    assert [one.key for one in first[0].context] == ["n2", "r1", "n3"]
    forced = world.ask("^r0$", recipe=by_force)
    assert [one.key for one in forced[0].context] == ["n1", "n2", "n3"]  # no word, no BM25


def test_C18_context_is_one_hop_away_never_a_result_and_never_out_of_scope(effort: Effort) -> None:
    n_shown = 0
    for seed in range(effort.cases(quick=5, full=200)):
        nodes, edges = drawn(seed)
        cells = {node.key: node.cell for node in nodes}
        own = {edge.id: edge for edge in edges if edge.cell == "home"}
        world = build(nodes, edges)
        rng = np.random.default_rng(seed)
        hits = world.recall([str(word) for word in WORDS], limit=int(rng.integers(1, 9)))
        for word, one in zip(WORDS, hits, strict=True):
            bm25 = {hit.key: hit.score for hit in
                    world.graph.edges.recall_one(text=word, scope="home", limit=100)}  # fmt: skip
            for place, hit in enumerate(one):
                best: dict[str, float] = {}
                for edge in own.values():
                    if hit.key in edge.participants:
                        for key in edge.participants:
                            best[key] = max(best.get(key, 0.0), bm25.get(edge.id, 0.0))
                wanted = [key for key in best if cells[key] == "home" and key not in one.keys]
                wanted.sort(key=lambda key: (-best[key], key))
                expected = wanted[:3] if place < 5 else []
                assert [n.key for n in hit.context] == expected
                for shown in hit.context:
                    assert {hit.key, shown.key} <= set(own[shown.edge].participants)
                    assert shown.score == best[shown.key] == bm25.get(shown.edge, 0.0)
                n_shown += len(hit.context)
    assert n_shown > 300


@pytest.mark.slow
def test_C27_the_reply_is_the_same_whatever_the_seed_of_hashes(effort: Effort) -> None:
    expected = show()
    assert expected.count('"key"') > 80
    assert expected.count('"context": [[') > 20
    path = os.pathsep.join([str(TESTS), *sys.path])
    for seed in range(effort.cases(quick=2, full=20)):
        made = subprocess.run(
            [sys.executable, "-m", "spec.hypergraph_world"],
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert made.stdout.strip() == expected
