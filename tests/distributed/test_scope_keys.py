"""Scopes of a batch are told apart by their cells, shards by their names, graphs by their nodes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.arms import EdgeLexical, Edges, Regex
from hyrecall.distributed import ShardedIndex
from hyrecall.errors import OptionError
from seams import LocalShard, distinct_scopes
from seams import scope as scopes

SCHEMA = hr.Schema(key="id", cell="user", text="text")
EDGES = hr.GraphSchema(key="id", cell="user", text="label", participants="who")


class Hidden(str):
    """A string that does not show its value, as types for secrets do."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "***"


def hits_of_hidden_users(form: type) -> list[list[object]]:
    tables = [
        pa.table({"id": ["a", "b"], "user": [user] * 2, "text": ["one", "two"]})
        for user in ("ann", "bob")
    ]
    nodes = ShardedIndex.build(tables, SCHEMA, device="cpu")
    label, who = ["secret tea", "coffee"], [["a", "b"], ["b", "a"]]
    edges = pa.table({"id": [1, 2], "user": ["ann", "bob"], "label": label, "who": who})
    arm = Regex(columns=(Edges(hr.Graph.build(edges, EDGES, nodes=nodes)),))
    users = [Hidden("ann"), Hidden("bob")]
    asked = users if form is str else [hr.Scope([one]) for one in users]
    return [
        one.keys for one in nodes.recall(text={arm.name: ["secret"] * 2}, arms=arm, scope=asked)
    ]


@pytest.mark.parametrize("form", [str, hr.Scope])
def test_strings_that_hide_their_value_are_scopes_of_their_own(form: type) -> None:
    assert hits_of_hidden_users(form) == [["a", "b"], []]


def test_scopes_compared_by_how_they_look_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scopes, "scope_key", repr)  # the planted bug
    assert hits_of_hidden_users(str) != [["a", "b"], []]


def test_distinct_scopes_are_told_apart_by_type_and_value() -> None:
    given = [
        1, True, "1", hr.Scope([1]), hr.Scope([True]), hr.Scope([]), (1, "a"), (True, "a"),
        hr.Scope.matching(user=hr.ANY), hr.Scope.matching(user="1"), hr.Scope([(1, "a")]),
    ]  # fmt: skip
    found = distinct_scopes(given + given[::-1], 2 * len(given))
    assert all(one is own for one, own in zip(found.scopes, given, strict=True))
    assert found.number.tolist() == [*range(len(given)), *reversed(range(len(given)))]
    assert len(distinct_scopes([np.int64(1), np.int64(1)], 2).scopes) == 2  # costs time alone


# ---- names and nodes ----


def test_shards_of_one_name_are_refused() -> None:
    rows = pa.table({"id": ["a"], "user": ["ann"], "text": ["tea"]})
    index = hr.Index.build(rows, SCHEMA, device="cpu")
    with pytest.raises(OptionError, match=r"^shards: expected a name .* got 'x' 2 times"):
        ShardedIndex([LocalShard("x", index), LocalShard("y", index), LocalShard("x", index)])


def test_a_graph_over_all_shards_is_refused_by_each_of_them() -> None:
    rows = pa.table({"id": ["a", "b"], "user": ["ann"] * 2, "text": ["tea"] * 2})
    nodes = ShardedIndex.build([rows.slice(0, 1), rows.slice(1)], SCHEMA, device="cpu")
    edges = pa.table({"id": [1], "user": ["ann"], "label": ["tea"], "who": [["a", "b"]]})
    graph = hr.Graph.build(edges, EDGES, nodes=nodes)
    asked = {"text": ["tea"], "scope": "ann", "arms": EdgeLexical(graph)}
    assert len(nodes.recall(**asked)[0]) == 2
    for shard in nodes.shards:
        assert isinstance(shard, LocalShard)
        with pytest.raises(OptionError, match="a graph over the recalled index"):
            shard.index.recall(**asked)
