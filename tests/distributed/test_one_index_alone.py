"""What reads more than candidates: shards asked apart refuse it by name, never leave it out.

Shards of one process answer it (test_as_one_index.py).
"""

from __future__ import annotations

from collections import UserList
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.placement import ApartShard
from hyrecall.arms import EdgeLexical, Edges, Regex, Tags
from hyrecall.distributed import Request, ShardedIndex, merge
from hyrecall.errors import OptionError
from laws.engine import ipc_bytes
from seams import LocalShard
from seams import request as request_module

SCHEMA = hr.Schema(
    key="id", cell="user", text="text", vector="v", stored=("text",),
    attributes=("tags", "last_accessed", "importance"),
)  # fmt: skip
ROWS = pa.table(
    {
        "id": ["a", "b"],
        "user": ["ann"] * 2,
        "text": ["tea", "hot tea"],
        "v": pa.array([[1.0, 0.0], [0.0, 1.0]], pa.list_(pa.float32(), 2)),
        "tags": pa.array([["tea"], ["tea", "cup"]], pa.list_(pa.string())),
        "last_accessed": pa.array([0, 1], pa.timestamp("us", "UTC")),
        "importance": [1, 2],
    }
)
ONE = hr.Index.build(ROWS, SCHEMA, device="cpu")
EMPTY = hr.Index.build(ROWS.slice(0, 0), SCHEMA, device="cpu", first_seq=2)
EDGES = pa.table({"id": [1], "label": ["tea"], "who": [["a", "b"]]})
EDGE_SCHEMA = hr.GraphSchema(key="id", cell=None, text="label", participants="who")
GRAPH = hr.Graph.build(EDGES, EDGE_SCHEMA, nodes=ONE)
HEBB = hr.recipes.hebb.replace(analyzer=None)
ASKED: dict[str, Any] = {"text": ["tea"], "vectors": np.ones((1, 2), "f4"), "scope": "ann"}

ARMS = "arms: expected arms that shards can answer (Listed, Newest, Regex in columns), got "
STAGES = "shaping: expected stages that shards can answer, got "
PARTS: dict[str, tuple[dict[str, Any], str]] = {
    "tags": ({"arms": Tags("tags")}, ARMS + "Tags; recall from one index"),
    "tags in a sequence": ({"arms": UserList([Tags("tags")])}, ARMS + "Tags;"),
    "edges by name": ({"arms": (Regex("text"), EdgeLexical("net"))}, ARMS + "EdgeLexical;"),
    "edges": ({"arms": EdgeLexical(GRAPH)}, ARMS + "EdgeLexical;"),
    "patterns in edges": ({"arms": Regex(("text", Edges("net")))}, ARMS + "Regex in Edges;"),
    "signals": ({"shaping": hr.SessionSignals("net")}, STAGES + "SessionSignals with a graph;"),
    "feedback": (
        {"shaping": (hr.Feedback(), hr.MMR(0.5))},
        STAGES + "Feedback (it",
    ),
    "hebb": ({"recipe": HEBB}, ARMS + "Tags of the recipe 'hebb';"),
    "shared tags": (
        {"recipe": HEBB.replace(more=())},
        "expansion: expected no expansion in a recall over shards, got SharedTags of the recipe",
    ),
    "hypergraph": ({"recipe": hr.recipes.hypergraph}, ARMS + "EdgeLexical of the recipe 'hyp"),
    "a second search": (
        {"recipe": hr.recipes.default.replace(on_no_match=(Tags("tags"),))},
        ARMS + "Tags of the recipe 'default';",
    ),
    "groups of a column": (
        {"group": "importance"},
        "group: expected 'thread', or None, in a recall",
    ),
    "a list": ({"recipe": [hr.recipes.hypergraph_regex]}, ARMS + "Regex in Edges of the recipe"),
}
"""What no request may hold, and what is said of it."""

OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "graphs": ({"graphs": {"net": GRAPH}}, "graphs: expected None in a recall over shards"),
    "context": ({"expansion": hr.Context(GRAPH)}, "expansion: expected () in a recall over sh"),
    "beside": ({"expansion": [hr.SharedTags("tags")]}, "expansion: expected () in a recall over"),
    "around": ({"surrounding": 2}, "surrounding: expected 0 in a recall over shards"),
    "columns as the order": ({"sort": "importance"}, "sort: expected None in a recall over shards"),
    "facets": ({"facets": ["tags"]}, "facets: expected None in a recall over shards"),
    "rows of a group": ({"per_group": 2}, "per_group: expected None in a recall over shards"),
}
"""What only a recall has: a request has no such argument."""


def apart(given: dict[str, Any]) -> object:
    return ShardedIndex([ApartShard("a", ONE), ApartShard("b", EMPTY)]).recall(**given)


def alone(given: dict[str, Any]) -> object:
    return ShardedIndex([ApartShard("a", ONE)]).recall(**given)


def request(given: dict[str, Any]) -> object:
    asked = Request(**given)
    counted = ONE.statistics(asked)
    return merge(asked, [ONE.candidates(asked, counted)])


DOORS: list[Callable[[dict[str, Any]], object]] = [apart, alone, request]


def check(door: Callable[[dict[str, Any]], object], name: str) -> None:
    options, message = (PARTS | OPTIONS)[name]
    with pytest.raises(OptionError) as caught:
        door(ASKED | options)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", PARTS | OPTIONS)
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_each_is_refused_by_name(door: Callable[[dict[str, Any]], object], name: str) -> None:
    if door is request and name in OPTIONS:
        with pytest.raises(TypeError, match=next(iter(OPTIONS[name][0]))):
            Request(**ASKED, **OPTIONS[name][0])
        return
    check(door, name)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_a_planted_silent_answer_is_seen(
    door: Callable[[dict[str, Any]], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_module, "_refused", lambda part: None)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        check(door, "tags")  # each shard follows the tags of its own documents


@pytest.mark.parametrize(
    "nothing",
    [
        {"expansion": ()},
        {"expansion": []},
        {"expansion": None},
        {"graphs": {}},
        {"graphs": None},
        {"surrounding": 0},
        {"sort": None, "facets": []},
    ],
)
def test_what_asks_for_nothing_is_answered(nothing: dict[str, Any]) -> None:
    got = apart(ASKED | nothing)
    assert isinstance(got, hr.Hits)
    assert ipc_bytes(got.to_arrow()) == ipc_bytes(ONE.recall(**ASKED).to_arrow())


def test_the_nodes_of_a_graph_are_documents_of_this_process() -> None:
    with pytest.raises(hr.DTypeError, match=r"^nodes: expected an hr\.Index or a ShardedI"):
        hr.Graph.build(EDGES, EDGE_SCHEMA, nodes=LocalShard("a", ONE))  # type: ignore[arg-type]
    graph = hr.Graph.build(EDGES, EDGE_SCHEMA, nodes=ShardedIndex([ApartShard("a", ONE)]))
    with pytest.raises(OptionError, match=r"^nodes: expected shards of this process, on the CPU"):
        graph.distances([["a"]], scope="ann")


def test_a_recipe_without_its_graphs_is_answered_as_by_one_index() -> None:
    recipe = hr.recipes.hypergraph.without_graphs()
    recipe = recipe.replace(more=(), on_no_match=(), tie_break=())
    given = ASKED | {"recipe": recipe}
    got = apart(given)
    assert isinstance(got, hr.Hits)
    assert ipc_bytes(got.to_arrow()) == ipc_bytes(ONE.recall(**given).to_arrow())


def test_totals_stay_with_the_postings_of_shards_apart() -> None:
    with pytest.raises(OptionError, match=r"^hits: expected hits of one index, got hits of"):
        _ = apart(ASKED).total  # type: ignore[attr-defined]
