"""Graphs over shards give the replies of one index, bit for bit, and keep to scopes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.graph_worlds import (
    GRAPH,
    NOW,
    GraphWorld,
    around,
    asked,
    built,
    compare,
    documents,
    edges,
    new_world,
    sessions,
    world_of,
)
from distributed.placement import WireShard
from distributed.planted_graphs import PLANTED
from hyrecall.arms import EdgeLexical, Edges, Regex
from hyrecall.distributed import Request, ShardedIndex, Statistics
from hyrecall.errors import ShardLostError
from laws.checks import outcome
from laws.effort import Effort
from seams import LocalShard, Lookup, LookupAnswer, Part

EVERYONE = hr.Scope.matching(user=hr.ANY)
FREE = hr.GraphSchema(key="id", cell=None, text="label", participants="who")
COLUMNS = ("key", "description")


def by_name(recipe: hr.Recipe | list[hr.Recipe]) -> Any:
    return lambda graph: {"recipe": recipe, "graphs": {"graph": graph}}


@pytest.mark.plain_cases(4)
@pytest.mark.parametrize("schema", [GRAPH, FREE], ids=["cells", "no cells"])
def test_hypergraph(schema: hr.GraphSchema, effort: Effort) -> None:
    make = by_name(hr.recipes.hypergraph)
    n_beside = 0
    for seed in range(effort.cases(quick=4, full=60)):
        world = world_of(seed, schema)
        given = asked(seed)
        want, got = world.replies(make, **given, session=sessions(seed))
        assert compare(want, got) > 20
        n_beside += sum(len(some) for one in around(want) for some in one)
        assert world.same(make, **given) > 20
        assert world.same(make, **given, session=sessions(seed)[0], offset=2) > 10
    assert n_beside > 20


@pytest.mark.plain_cases(4)
def test_hypergraph_regex(effort: Effort) -> None:
    make = by_name(hr.recipes.hypergraph_regex)
    for seed in range(effort.cases(quick=4, full=60)):
        world = world_of(seed)
        given = {**asked(seed), "text": ["oak|ash", "fi", "e.m", "now", "k1.", "elm", "o.k", "a.h"]}
        del given["vectors"]
        assert world.same(make, **given) > 20


ARMS: dict[str, Any] = {
    "edges": lambda graph: {"arms": EdgeLexical(graph)},
    "few edges": lambda graph: {"arms": EdgeLexical(graph, depth=2)},
    "patterns": lambda graph: {"arms": Regex((*COLUMNS, Edges(graph)))},
    "edges first": lambda graph: {"arms": (Regex((Edges(graph), "data")),)},
    "both": lambda graph: {
        "arms": (EdgeLexical(graph, name="near"), Regex((Edges(graph), *COLUMNS), pattern="oak"))
    },
    "beside": lambda graph: {"expansion": hr.Context(graph, top=3, n=2)},
    "by name": lambda graph: {
        "arms": (EdgeLexical("graph 0", depth=5), EdgeLexical(graph, name="others")),
        "graphs": {"graph 0": graph},
    },
}


@pytest.mark.plain_cases(4)
@pytest.mark.parametrize("name", ARMS)
def test_every_part_with_a_graph(name: str, effort: Effort) -> None:
    for seed in range(effort.cases(quick=4, full=60)):
        world = world_of(seed)
        for fusion in (hr.RRF(), hr.WeightedSum(), None):
            assert world.same(ARMS[name], **asked(seed), fusion=fusion) > 20
        kept = hr.Filter(n=(2, None))
        assert world.same(ARMS[name], **asked(seed), filter=kept, depth=20) > 10


def test_queries_with_the_same_scope_and_pattern_are_told_once() -> None:
    table, sizes = documents(3), []
    parts = [Recording("a", built(table[:30], 0)), Recording("b", built(table[30:], 30))]
    one, shards = built(table, 0), ShardedIndex(parts)
    made = [hr.Graph.build(edges(3), GRAPH, nodes=nodes) for nodes in (one, shards)]
    world = GraphWorld(one, shards, *made)
    for n in (1, 40):
        given = {"text": ["oak", "fir"] * n, "scope": ["ann", EVERYONE] * n}
        assert world.same(ARMS["edges first"], **given) > n
        sizes.append([len(rows) for rows in parts[0].said.pop().values()])
    assert sizes[0] == sizes[1]
    assert sum(sizes[0]) > 10


def test_signals_of_a_session(effort: Effort) -> None:
    def make(graph: hr.Graph) -> dict[str, Any]:
        stage = hr.SessionSignals(graph, hops=2, n_hot=4, half_life="20m")
        return {"shaping": stage, "arms": EdgeLexical(graph)}

    for seed in range(effort.cases(quick=4, full=60)):
        world = world_of(seed)
        assert world.same(make, **asked(seed), session=sessions(seed)) > 20


def test_a_recipe_for_each_query(effort: Effort) -> None:
    plain = hr.recipes.default
    for seed in range(effort.cases(quick=4, full=60)):
        world = world_of(seed)
        mixed = [hr.recipes.hypergraph, plain, hr.recipes.hypergraph_regex, plain] * 2
        assert world.same(by_name(mixed), **asked(seed)) > 20


def test_neighbours_and_distances_that_a_program_asks_for() -> None:
    keys = [["k1", "k2"], ["k9"], []]
    scopes = ["ann", hr.Scope(["bob", "cy"]), EVERYONE]
    hot = [{"k1": 1.0, "k3": 0.5}, {"k4": 1.0}, {}]
    n = 0
    for seed in range(4):
        world = new_world(seed)  # whose edges are deleted
        texts = ["oak", None, "fir"]
        said = [
            (
                graph.distances(keys, scope=scopes, hops=2),
                graph.neighbours(keys, scope=scopes, text=texts),
                [one.tolist() for one in graph.topical(hot, keys, scope=scopes)],
            )
            for graph in (world.graph, world.sharded)
        ]
        assert said[0] == said[1]
        n += sum(map(len, said[0][0]))
        assert world.sharded.delete_incident(["k5"], scope="ann") == world.graph.delete_incident(
            ["k5"], scope="ann"
        )
    assert n > 10


READS: dict[str, Any] = {
    "hot": lambda graph, keys, scope: graph.distances(keys, scope=scope),
    "keys": lambda graph, keys, scope: graph.neighbours(keys, scope=scope),
    "exclude": lambda graph, keys, scope: graph.neighbours(
        [["k1"]] * len(keys), scope=scope, exclude=keys
    ),
    "among": lambda graph, keys, scope: graph.topical([{"k1": 1.0}] * len(keys), keys, scope=scope),
}


@pytest.mark.parametrize(
    ("keys", "scope", "message"),
    [
        ([["k1"], ["k2"]], ["ann"], "scope: expected 2 entries, one per query, got 1"),
        ([["k1"], ["k2"]], ["ann"] * 3, "scope: expected 2 entries, one per query, got 3"),
        ([["k1"], ["k2"]], ["ann", 3], "scope[1]: expected a str or None for user, got int 3"),
        ([["k1"]], None, "scope: expected a scope: a cell"),
        ([[["k1"]]], "ann", "{}: expected str keys, got list ['k1'] at 0"),
        ([["k1", 3]], "ann", "{}: expected str keys, got int 3 at 1"),
        ([[None]], "ann", "{}: expected str keys, got NoneType None at 0"),
    ],
)
def test_errors_of_a_program_are_those_of_one_index(keys: Any, scope: Any, message: str) -> None:
    world = world_of(0)
    classes = set()
    for graph in (world.graph, world.sharded):
        for name, ask in READS.items():
            with pytest.raises(hr.HyrecallError) as caught:
                ask(graph, keys, scope)
            assert str(caught.value).startswith(message.format(name))
            classes.add(caught.type)
    assert len(classes) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"text": ["oak"], "scope": None},
        {"text": ["oak"], "scope": ["ann", "bob"]},
        {"text": [" "], "scope": "ann"},
        {"text": ["oak"], "scope": "ann", "session": [None, None]},
        {"text": ["oak"], "scope": "ann", "depth": 5, "limit": 9},
        {"text": ["(("], "scope": "ann", "vectors": np.ones((1, 3), "f4")},
        {"text": ["oak"], "scope": "ann", "graphs": {}},
        {"text": ["oak"], "scope": "ann", "arms": EdgeLexical("graph")},
    ],
)
def test_errors_are_those_of_one_index(options: dict[str, Any]) -> None:
    world = world_of(0)
    given = {"recipe": hr.recipes.hypergraph}
    own = [
        outcome(lambda index=index, graph=graph: index.recall(
            **{**given, "graphs": {"graph": graph}, **options}))
        for index, graph in ((world.one, world.graph), (world.shards, world.sharded))
    ]  # fmt: skip
    assert own[0] == own[1]
    assert not isinstance(own[0], hr.Hits)


def test_a_graph_over_another_index_and_what_stays_refused() -> None:
    world = world_of(0)

    def said(**options: Any) -> str:
        with pytest.raises(hr.HyrecallError) as caught:
            world.shards.recall(text=["oak"], scope="ann", **options)
        return str(caught.value)

    other = said(arms=EdgeLexical(world.graph))
    assert other == "edges.graph: expected a graph over the recalled index, got another"
    assert said(arms=EdgeLexical(7)).startswith("edges.graph: expected an hr.Graph in place")
    near = {"arms": EdgeLexical(world.sharded)}
    assert said(**near, surrounding=1).startswith("surrounding: expected 0 in a recall over sh")
    assert said(**near, shaping=hr.Feedback()).startswith("shaping: expected no Feedback in a re")
    hits = world.shards.recall(text=["oak"], scope="ann", **near)
    with pytest.raises(hr.HyrecallError, match="hits of one index"):
        hits[0][0].explain()
    with pytest.raises(hr.HyrecallError, match=r"an hr\.Index or a ShardedIndex"):
        hr.Graph.build(edges(0), GRAPH, nodes=object())  # type: ignore[arg-type]
    assert repr(world.sharded) == f"<Graph: {len(world.sharded)} edges over documents in shards>"


# ---- shards that fail, and processes


class Lost(LocalShard):
    """Does not answer look-ups."""

    def lookup(self, lookup: Lookup) -> LookupAnswer:
        raise ShardLostError("it ended")


def test_distances_need_every_shard() -> None:
    table = documents(5)
    lost = Lost("the lost", built(table.slice(0, 30), 0))
    shards = ShardedIndex([lost, WireShard("the other", built(table.slice(30), 30))])
    graph = hr.Graph.build(edges(5), GRAPH, nodes=shards)
    with pytest.raises(ShardLostError, match="nodes: expected an answer of all shards"):
        graph.distances([["k1"]], scope="ann")


@pytest.mark.slow
def test_processes(tmp_path: Path) -> None:
    table = documents(8)
    for at, one in enumerate((built(table.slice(0, 25), 0), built(table.slice(25), 25))):
        one.save(tmp_path / f"s{at}")
    one = built(table, 0)
    with ShardedIndex.open(tmp_path, processes=True, device="cpu") as shards:
        made = [hr.Graph.build(edges(8), GRAPH, nodes=nodes) for nodes in (one, shards)]
        world = GraphWorld(one, shards, *made)
        make = by_name(hr.recipes.hypergraph)
        assert world.same(make, **asked(8), session=sessions(8)) > 20
        assert world.same(make, **{**asked(8), "scope": "ann"}) > 20
        assert world.same(by_name(hr.recipes.hypergraph_regex), text=["oak"], scope="bob") > 0


# ---- scopes


class Recording(WireShard):
    """Keeps what it is asked and what it answers."""

    def __init__(self, name: str, index: hr.Index) -> None:
        super().__init__(name, index)
        self.said: list[Any] = []

    def lookup(self, lookup: Lookup) -> LookupAnswer:
        looked = super().lookup(lookup)
        self.said += [lookup.rows.to_pylist(), looked.rows.to_pylist()]
        return looked

    def candidates(self, request: Request, statistics: Statistics) -> Part:
        assert request._told is not None
        told = {name: lists.rows.to_pylist() for name, lists in request._told.items()}
        self.said.append(told)
        return super().candidates(request, statistics)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_what_others_store_changes_no_byte(seed: int) -> None:
    """E32 over shards: replies, and what shards are asked and told."""
    said = []
    for others in (False, True):
        table, made = documents(seed), edges(seed)
        if others:  # all of bob's documents and edges are of another world
            table = _of_bob(table, documents(seed + 50))
            made = _of_bob(made, edges(seed + 50))
        own = [Recording("a", built(table, 0)), Recording("b", built(documents(0)[:0], 0))]
        shards = ShardedIndex(own)
        graph = hr.Graph.build(made, GRAPH, nodes=shards)
        make = by_name(hr.recipes.hypergraph)
        given = {**asked(seed), "scope": hr.Scope(["ann", "cy"]), "session": sessions(seed)}
        hits = shards.recall(now=NOW, **make(graph), **given)
        said.append((hits.to_list(), around(hits), [one.said for one in own]))
    assert said[0] == said[1]
    assert "bob" not in repr(said)


def _of_bob(table: pa.Table, other: pa.Table) -> pa.Table:
    mine = np.array(table["user"].to_pylist()) != "bob"
    theirs = np.array(other["user"].to_pylist()) == "bob"
    return pa.concat_tables([table.filter(pa.array(mine)), other.filter(pa.array(theirs))])


# ---- planted bugs


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.__name__)
def test_planted_bugs_are_caught(bug: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make = by_name(hr.recipes.hypergraph.replace(depth=12))

    def is_seen(seed: int) -> bool:
        world = new_world(seed)
        given = {**asked(seed), "scope": "ann", "session": sessions(seed)}
        want = world.one.recall(now=NOW, **make(world.graph), **given)
        with monkeypatch.context() as patch:
            bug(patch)
            try:
                got = world.shards.recall(now=NOW, **make(world.sharded), **given)
            except hr.HyrecallError:
                return True
        try:
            compare(want, got)
        except AssertionError:
            return True
        return False

    assert any(map(is_seen, range(4)))
