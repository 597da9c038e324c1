"""LlamaIndex's contract for vector stores: our store and its SimpleVectorStore, side by side."""

import random
from typing import Any

import numpy as np
import pytest

pytest.importorskip(
    "llama_index.core", reason="LlamaIndex is not installed: .ci/frameworks llama_index"
)

from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

import hyrecall as hr
from adapters.llama_index_world import node
from hyrecall.adapters.llama_index import HyrecallVectorStore
from seams import llama_index_filters

KINDS: dict[str, Any] = {"year": int, "rating": float, "name": str, "tags": "list[str]"}
VALUES: dict[str, list[Any]] = {
    "year": [2020, 2023, 2026],
    "rating": [0.5, 1.0, 4.5],
    "name": ["ann", "bob", ""],
    "tags": [["x"], ["x", "y"], ["y", "z"], []],
}
MODE, OPERATOR = VectorStoreQueryMode, FilterOperator


def random_nodes(draw: random.Random, n: int = 40, dim: int = 8) -> list[TextNode]:
    made = []
    for at in range(n):
        metadata = {
            name: draw.choice(values) for name, values in VALUES.items() if draw.random() < 0.8
        }
        vector = [abs(draw.gauss(0, 1)) for _ in range(dim)]
        made.append(node(str(at), f"text {at}", f"d{at % 5}", metadata=metadata, embedding=vector))
    return made


def filled(nodes: list[TextNode]) -> tuple[HyrecallVectorStore, SimpleVectorStore]:
    ours, theirs = HyrecallVectorStore(cell="ann", attributes=KINDS), SimpleVectorStore()
    for store in (ours, theirs):
        assert store.add(nodes) == [one.node_id for one in nodes]
    return ours, theirs


def theirs_finds(filters: MetadataFilters) -> bool:
    """Return whether this version's SimpleVectorStore finds a node of 2026 without a name."""
    store = SimpleVectorStore()
    store.add([node("1", embedding=[1.0], metadata={"year": 2026})])
    try:
        reply = store.query(VectorStoreQuery(query_embedding=[1.0], filters=filters))
    except ValueError:
        return False
    return reply.ids == ["1"]


OTHER_NAME = MetadataFilter(key="name", value="ann", operator=OPERATOR.NE)
OTHER_YEAR = MetadataFilter(key="year", value=2020)
# Of these it had no NOT a year ago, and a node without a field failed "is not ann".
NOT = [FilterCondition.NOT]
CONDITIONS = [FilterCondition.AND, FilterCondition.OR]
CONDITIONS += NOT * theirs_finds(MetadataFilters(filters=[OTHER_YEAR], condition=NOT[0]))
OTHERS = [OPERATOR.NE, OPERATOR.NIN] * theirs_finds(MetadataFilters(filters=[OTHER_NAME]))


def random_filters(draw: random.Random) -> MetadataFilters:
    """Return filters that SimpleVectorStore can answer; what it nests not is tested apart."""
    filters = []
    for _ in range(draw.randint(1, 3)):
        name = draw.choice(list(VALUES))
        if name == "tags":
            choices = [OPERATOR.CONTAINS, OPERATOR.ANY, OPERATOR.ALL, OPERATOR.IS_EMPTY]
        else:
            choices = [OPERATOR.EQ, OPERATOR.GT, OPERATOR.GTE, OPERATOR.LT, OPERATOR.LTE]
            choices += [OPERATOR.IN, OPERATOR.IS_EMPTY, *OTHERS]
        operator = draw.choice(choices)
        known = ["x", "y", "z", "none"] if name == "tags" else VALUES[name]
        value: Any = draw.choice(known)
        if operator in (OPERATOR.IN, OPERATOR.NIN, OPERATOR.ANY, OPERATOR.ALL):
            value = draw.sample(known, draw.randint(1, 2))
        elif operator == OPERATOR.IS_EMPTY:
            value = None
        filters.append(MetadataFilter(key=name, value=value, operator=operator))
    return MetadataFilters(filters=[*filters], condition=draw.choice(CONDITIONS))


def query_faults(n: int = 120) -> list[VectorStoreQuery]:
    """Return the random queries that SimpleVectorStore answers otherwise."""
    draw = random.Random(20261126)
    ours, theirs = filled(random_nodes(draw))
    found = []
    for _ in range(n):
        asked = VectorStoreQuery(
            query_embedding=[abs(draw.gauss(0, 1)) for _ in range(8)],
            similarity_top_k=draw.choice([1, 5, 50]),
            filters=random_filters(draw) if draw.random() < 0.8 else None,
            node_ids=[str(draw.randrange(45)) for _ in range(9)] if draw.random() < 0.3 else None,
        )
        reply, expected = ours.query(asked), theirs.query(asked)
        if reply.ids != expected.ids or not np.allclose(
            reply.similarities or [], expected.similarities or [], atol=1e-6
        ):
            found.append(asked)
    return found


def test_queries_find_what_the_simple_store_finds() -> None:
    assert query_faults() == []


@pytest.mark.parametrize("operator", [OPERATOR.GT, OPERATOR.LTE])
def test_a_planted_wrong_order_is_found(
    operator: FilterOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        llama_index_filters._ORDERS, operator, lambda value: hr.Between(value, value)
    )
    assert query_faults()


def test_a_planted_loss_of_the_ids_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyrecall.adapters.llama_index.one_of", lambda name, ids: None)
    assert query_faults()


def test_changes_leave_what_they_leave_in_the_simple_store() -> None:
    draw = random.Random(7)
    nodes = random_nodes(draw)
    ours, theirs = filled(nodes)

    def held() -> tuple[set[str], set[str]]:
        asked = VectorStoreQuery(query_embedding=[1.0] * 8, similarity_top_k=100)
        mine, other = ours.query(asked).ids or [], theirs.query(asked).ids or []
        assert mine == other
        return set(mine), set(other)

    late = MetadataFilters(filters=[MetadataFilter(key="year", value=2023, operator=OPERATOR.GT)])
    changes: list[Any] = [
        lambda store: store.delete("d3"),
        lambda store: store.delete("no such document"),
        lambda store: store.delete_nodes(["1", "2", "no such node"]),
        lambda store: store.delete_nodes(["5", "6", "7", "9"], late),
        lambda store: store.delete_nodes(filters=late),
        lambda store: store.add([node("0", "changed", "d9", embedding=[1.0] * 8)]),
        lambda store: store.delete("d9"),
        lambda store: store.clear(),
    ]
    left = [len(held()[0])]
    for change in changes:
        change(ours)
        change(theirs)
        left.append(len(held()[0]))
    assert left[0] == 40
    assert left[-1] == 0
    assert len(set(left)) >= 6


def test_two_diverse_nodes_are_those_of_the_simple_store() -> None:
    # Of three and more, theirs are unlike the last chosen one only, ours unlike all chosen ones;
    # with a threshold of 0, theirs begins with the node that was added first.
    draw = random.Random(11)
    ours, theirs = filled(random_nodes(draw))
    for threshold in (0.1, 0.3, 0.5, 0.9, 1.0):
        asked = VectorStoreQuery(
            query_embedding=[abs(draw.gauss(0, 1)) for _ in range(8)],
            similarity_top_k=2,
            mode=MODE.MMR,
        )
        expected = theirs.query(asked, mmr_threshold=threshold)
        assert ours.query(asked, mmr_threshold=threshold).ids == expected.ids
        in_query = VectorStoreQuery(**{**vars(asked), "mmr_threshold": threshold})
        assert ours.query(in_query).ids == expected.ids
