"""Graphs: their schema, life, keeping, and what they refuse."""

from pathlib import Path

import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import arms
from hyrecall.errors import DTypeError, OptionError

PEOPLE = pa.table(
    {
        "id": ["ann", "bo", "cy", "di", "ed"],
        "user": ["u"] * 4 + ["v"],
        "text": ["cook", "nurse", "pilot", "poet", "baker"],
    }
)
SCHEMA = hr.GraphSchema(key="id", cell="user", stored="role")


def edges(first: int, *rows: tuple[str, list[str]], user: str = "u") -> pa.Table:
    return pa.table(
        {
            "id": [first + i for i in range(len(rows))],
            "user": [user] * len(rows),
            "label": [label for label, _ in rows],
            "description": [None] * len(rows),
            "participants": [who for _, who in rows],
            "role": ["boss, clerk"] * len(rows),
        },
        schema=pa.schema(
            {
                "id": pa.int64(),
                "user": pa.string(),
                "label": pa.string(),
                "description": pa.string(),
                "participants": pa.list_(pa.string()),
                "role": pa.string(),
            }
        ),
    )


@pytest.fixture
def people() -> hr.Index:
    return hr.Index.build(PEOPLE, hr.Schema(key="id", cell="user", text="text"))


@pytest.fixture
def graph(people: hr.Index) -> hr.Graph:
    table = edges(0, ("married to", ["ann", "bo"]), ("meet for chess", ["bo", "cy", "di"]))
    return hr.Graph.build(table, SCHEMA, nodes=people)


def test_c13_hops_and_topical_scores_of_a_hand_made_graph(graph: hr.Graph) -> None:
    assert graph.distances([["ann"], ["cy"]], scope="u") == [
        {"ann": 0, "bo": 1, "cy": 2, "di": 2},
        {"ann": 2, "bo": 1, "cy": 0, "di": 1},
    ]
    hot = [{"ann": 0.5, "di": 0.1}]
    among = [["ann", "bo", "cy", "di", "ed"]]
    (found,) = graph.topical(hot, among, scope="u")
    assert found.tolist() == [0.5, 0.25, 0.125, 0.125, 0.0]
    (near,) = graph.topical(hot, among, scope="u", hops=1)
    assert near.tolist() == [0.5, 0.25, 0.05, 0.1, 0.0]


def test_c05_an_edge_brings_in_all_who_take_part(people: hr.Index, graph: hr.Graph) -> None:
    arm = arms.EdgeLexical(graph)
    for text, keys, edge in (("chess", ["bo", "cy", "di"], 1), ("married", ["ann", "bo"], 0)):
        hits = people.recall(text=[text], scope="u", arms=arm)[0]
        assert hits.keys == keys
        assert [hit.evidence("edges") for hit in hits] == [edge] * len(keys)
        assert all(hit.explain().components[1].evidence == edge for hit in hits)
    assert people.recall(text=["chess"], scope="v", arms=arm)[0].keys == []


def test_c18_neighbours_stand_by_the_edge_that_says_most(graph: hr.Graph) -> None:
    graph.add(edges(2, ("plays chess against", ["bo", "ann"])))
    ((found,),) = graph.neighbours([["bo"]], scope="u", text=["chess"], n=2)
    assert [(one.key, one.edge) for one in found] == [("ann", 2), ("cy", 1)]  # they score alike
    assert found[0].score == found[1].score > 0
    ((plain,),) = graph.neighbours([["bo"]], scope="u")
    assert [(one.key, one.edge, one.score) for one in plain] == [
        ("ann", 0, 0.0),
        ("cy", 1, 0.0),
        ("di", 1, 0.0),
    ]
    ((rest,),) = graph.neighbours([["bo"]], scope="u", exclude=[["cy", "ann"]])
    assert [one.key for one in rest] == ["di"]


def test_c22_edges_come_and_go_and_a_document_takes_its_edges_along(
    people: hr.Index, graph: hr.Graph
) -> None:
    assert len(graph) == 2
    graph.upsert(edges(0, ("divorced from", ["ann", "bo"])))
    assert graph.edges.recall(text=["married", "divorced"], scope="u")[1].keys == [0]
    people.delete(["di"], scope="u")  # its edge is there still, without it
    assert graph.distances([["cy"]], scope="u") == [{"ann": 2, "bo": 1, "cy": 0}]
    assert graph.delete_incident(["di"], scope="u") == 1
    assert graph.delete_incident(["di"], scope="u") == 0
    assert graph.distances([["cy"]], scope="u") == [{}]
    assert graph.delete([0], scope="v") == 0
    assert graph.delete([0], scope="u") == 1
    assert len(graph) == 0


def test_two_columns_of_ends_and_integer_keys() -> None:
    nodes = hr.Index.build(
        pa.table({"id": [1, 2, 3], "text": ["a", "b", "c"]}),
        hr.Schema(key="id", cell=None, text="text"),
    )
    table = pa.table(
        {
            "edge": ["e1", "e2", "e3"],
            "rel": ["likes", "hates", "likes"],
            "source": pa.array([1, 2, None], pa.int32()),
            "target": pa.array([2, 3, 1], pa.int32()),
        }
    )
    schema = hr.GraphSchema(key="edge", cell=None, text="rel", participants=("source", "target"))
    graph = hr.Graph.build(table, schema, nodes=nodes)
    assert graph.distances([[1]]) == [{1: 0, 2: 1, 3: 2}]
    hits = nodes.recall(text={"edges": ["likes"]}, arms=arms.EdgeLexical(graph))[0]
    assert [(hit.key, hit.evidence("edges")) for hit in hits] == [(1, "e1"), (2, "e1")]
    graph.add(table.set_column(0, "edge", pa.array(["f1", "f2", "f3"])))
    assert graph.delete_incident([1, 99]) == 4


def test_a_graph_without_cells_is_seen_by_every_scope(people: hr.Index) -> None:
    table = edges(0, ("knows", ["ann", "bo"]), ("knows", ["ed"]))
    graph = hr.Graph.build(table, hr.GraphSchema(key="id", cell=None), nodes=people)
    assert graph.distances([["bo"], ["ed"]], scope=["u", "v"]) == [{"ann": 1, "bo": 0}, {"ed": 0}]


def test_a_graph_is_kept_in_files(people: hr.Index, graph: hr.Graph, tmp_path: Path) -> None:
    graph.save(tmp_path / "edges")
    again = hr.Graph.open(tmp_path / "edges", SCHEMA, nodes=people)
    assert again.distances([["ann"]], scope="u") == graph.distances([["ann"]], scope="u")
    with pytest.raises(OptionError, match="schema"):
        hr.Graph.open(tmp_path / "edges", hr.GraphSchema(key="id", cell="user"), nodes=people)


def test_a_graph_over_another_index_is_refused(people: hr.Index, graph: hr.Graph) -> None:
    other = hr.Index.build(PEOPLE, hr.Schema(key="id", cell="user", text="text"))
    with pytest.raises(OptionError, match="graph over the recalled index"):
        other.recall(text=["chess"], scope="u", arms=arms.EdgeLexical(graph))


def test_edges_without_a_text_or_participants_are_no_trouble(people: hr.Index) -> None:
    table = edges(0, ("", []), ("knows", ["nobody"]))
    table = pa.concat_tables([table, edges(2, ("knows", ["ann"]))])
    graph = hr.Graph.build(table, SCHEMA, nodes=people)
    assert graph.distances([["ann", "nobody"]], scope="u") == [{"ann": 0}]
    hits = people.recall(text={"edges": ["knows", None]}, scope="u", arms=arms.EdgeLexical(graph))
    assert [one.keys for one in hits] == [["ann"], []]


def test_many_cells_are_listed_once_and_say_the_same() -> None:
    users = [f"u{i}" for i in range(50)]
    table = pa.table({"id": users, "user": users, "text": ["x"] * 50})
    index = hr.Index.build(table, hr.Schema(key="id", cell="user", text="text"))
    index.delete(["u3"], scope="u3")
    chain = pa.concat_tables(
        [edges(i, ("next", [users[i], users[i + 1]]), user=users[i]) for i in range(49)]
    )
    graph = hr.Graph.build(chain, SCHEMA, nodes=index)
    for n in (20, 50):
        (found,) = graph.distances([["u5"]], scope=hr.Scope(users[:n]), hops=4)
        assert found == {"u4": 1, "u5": 0, "u6": 1, "u7": 2, "u8": 3, "u9": 4}


REFUSED = [
    (lambda n: hr.Graph.build(PEOPLE, SCHEMA, nodes=n), OptionError),
    (
        lambda n: hr.Graph.build(
            edges(0).set_column(4, "participants", pa.array([], pa.list_(pa.int64()))),
            SCHEMA,
            nodes=n,
        ),
        DTypeError,
    ),
    (
        lambda n: hr.Graph.build(
            edges(0).set_column(4, "participants", pa.array([], pa.string())), SCHEMA, nodes=n
        ),
        DTypeError,
    ),
    (
        lambda n: hr.Graph.build(edges(0), hr.GraphSchema(key="id", cell="role"), nodes=n),
        OptionError,
    ),
]


@pytest.mark.parametrize("at", range(len(REFUSED)))
def test_what_makes_no_graph_is_refused(at: int, people: hr.Index) -> None:
    call, kind = REFUSED[at]
    with pytest.raises(kind, match="expected"):
        call(people)


def test_no_query_is_no_answer(graph: hr.Graph) -> None:
    assert graph.distances([], scope="u") == []
    assert graph.topical([], [], scope="u") == []
    assert graph.neighbours([], scope="u") == []
