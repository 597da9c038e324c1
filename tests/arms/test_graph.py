"""Graphs: their schema, life, keeping, states and neighbours, and what they refuse."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr
from arms.world import GRAPH, USERS, Doc, Draw, Edge, docs_table, edges_table, said, seen
from arms.world import SCHEMA as NEAR_SCHEMA
from arms.world import SCHEMA as STATES_SCHEMA
from hyrecall import arms
from hyrecall.errors import DTypeError, OptionError
from laws.effort import Effort
from seams import Lexical, Neighbour, Phase, Recipe, neighbours

# ---- schema, life, keeping, and what they refuse ----

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


# ---- a call reads each graph in one state, with its own copy of the scope ----

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
PHASES = (Phase("all", 0, 0.4, 0.4, 0.2),)
QUERIES = ["oak ash", "fir", "pine yew elm", "birch"]
SCOPES: list[Any] = [said(USERS), "bob", said(("ann", "cy")), said(USERS)]
SESSION = hr.Session({f"n{at}": NOW - timedelta(minutes=at) for at in range(12)}, 2)

Write = Callable[[hr.Index, hr.Graph], object]


def world(seed: int) -> tuple[hr.Index, hr.Graph]:
    draw = Draw(seed)
    docs = [draw.doc(f"n{at}", USERS[at % 3]) for at in range(30)]
    index = hr.Index.build(docs_table(docs), STATES_SCHEMA)
    return index, hr.Graph.build(edges_table(draw.edges(60, 30)), GRAPH, nodes=index)


def delete_edges(index: hr.Index, graph: hr.Graph) -> None:
    graph.delete(list(range(60)), scope=said(USERS))


def delete_documents(index: hr.Index, graph: hr.Graph) -> None:
    index.delete([f"n{at}" for at in range(30)], scope=said(USERS))


def add_edges(index: hr.Index, graph: hr.Graph) -> None:
    """Everything is one hop from everything, by edges that fit each query best."""
    draw = Draw(1)
    whole = tuple(f"n{at}" for at in range(30))
    edges = [draw.edge(100 + at, user, 30) for at, user in enumerate(USERS)]
    words = "oak ash fir pine yew elm birch " * 3
    graph.add(edges_table([type(e)(e.key, e.user, words, words, whole) for e in edges]))


def put_in_order(index: hr.Index, graph: hr.Graph) -> None:
    delete_documents(index, graph)
    index.compact()
    delete_edges(index, graph)
    graph.compact()


WRITES = (delete_edges, delete_documents, add_edges, put_in_order)


def signals(graph: object) -> hr.SessionSignals:
    return hr.SessionSignals(graph, phases=PHASES, hops=2)  # type: ignore[arg-type]


def explained(hits: hr.Hits) -> list[str]:
    return [repr(hit.explain()) for one in hits for hit in one]


def during(call: Callable[[], object]) -> hr.RerankBy:
    """A rerank that changes nothing, but others write while it runs."""
    done: list[object] = []

    def function(query: object, texts: Sequence[object]) -> list[float]:
        if not done:
            done.append(call())
        return [-float(at) for at in range(len(texts))]

    return hr.RerankBy(function, timeout="60s")


def replies(write: Write, ask: Callable[[hr.Graph, list[Any], hr.RerankBy], hr.Hits]) -> list[str]:
    """What a call says, alone and where others write, also into the list of its scopes."""
    out = []
    for writes in (False, True):
        index, graph = world(5)
        scope = list(SCOPES)

        def others(
            index: hr.Index = index, graph: hr.Graph = graph, scope: list[Any] = scope
        ) -> None:
            write(index, graph)
            scope[:] = ["cy", "cy", "bob", "ann"]

        hits = ask(graph, scope, during(others if writes else lambda: None))
        assert not hits.degraded
        assert (scope == SCOPES) is not writes
        out.append(everything(hits, hits.trace.arms))
    return out


def everything(hits: hr.Hits, names: Sequence[str]) -> str:
    said_of_hits = [
        [(hit.key, hit.score, hit.context, [hit.evidence(name) for name in names]) for hit in one]
        for one in hits
    ]
    return repr((hits.to_list(), said_of_hits, explained(hits)))


@pytest.mark.parametrize("write", WRITES)
def test_context_and_signals_are_of_the_snapshot_that_was_recalled_from(write: Write) -> None:
    def ask(graph: hr.Graph, scope: list[Any], rerank: hr.RerankBy) -> hr.Hits:
        hits = graph.nodes.recall(
            text=QUERIES, scope=scope, session=SESSION, now=NOW, arms=arms.EdgeLexical(graph),
            shaping=(rerank, signals(graph)), expansion=hr.Context("g"), graphs={"g": graph},
            limit=20,
        )  # fmt: skip
        assert sum(len(hit.context) > 0 for one in hits for hit in one) > 5
        return hits

    alone, beside = replies(write, ask)
    assert alone == beside


@pytest.mark.parametrize("write", WRITES)
def test_the_recipes_of_a_batch_read_the_same_graph_and_scope(write: Write) -> None:
    by_edges = Recipe(
        name="by_edges", arms=(Lexical(),), fusion=hr.RRF(),
        more=(arms.EdgeLexical("g"), arms.Regex(("text", arms.Edges("g")))),
        shaping=(signals("g"),), expansion=(hr.Context("g"),),
    )  # fmt: skip

    def ask(graph: hr.Graph, scope: list[Any], rerank: hr.RerankBy) -> hr.Hits:
        plain = Recipe(name="plain", arms=(Lexical(),), fusion=hr.RRF(), shaping=(rerank,))
        hits = graph.nodes.recall(
            text=[*QUERIES[:2], "pine", "birch"], recipe=[plain, plain, by_edges, by_edges],
            scope=scope, session=SESSION, now=NOW, graphs={"g": graph}, limit=20,
        )  # fmt: skip
        found = [hit for one in hits[2:] for hit in one]
        assert any(hit.context for hit in found)
        assert any(hit.evidence("edges") is not None for hit in found)
        assert any(hit.evidence("regex") == "edges" for hit in found)
        return hits

    alone, beside = replies(write, ask)
    assert alone == beside


NO_GRAPHS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "SessionSignals.graph": lambda graph: {"shaping": hr.SessionSignals(graph)},
    "Context.graph": lambda graph: {"expansion": hr.Context(graph)},
    "edges.graph": lambda graph: {"arms": arms.EdgeLexical(graph)},
    "regex.columns": lambda graph: {"arms": arms.Regex(("text", arms.Edges(graph)))},
}


@pytest.mark.parametrize("by_recipe", [False, True])
@pytest.mark.parametrize("argument", NO_GRAPHS)
def test_what_is_no_graph_of_the_index_is_refused_before_anything_runs(
    argument: str, by_recipe: bool
) -> None:
    index, _ = world(1)
    _, others = world(1)
    for graph, wish in ((5, "an hr.Graph in place"), (others, "a graph over the recalled index")):
        ran: list[int] = []
        rerank = during(lambda ran=ran: ran.append(1))  # type: ignore[misc]
        given = NO_GRAPHS[argument](graph)
        stages = [rerank, *([given.pop("shaping")] if "shaping" in given else [])]
        texts: Any = {
            "text": ["oak ash elm fir yew"]
        }  # an arm that is asked nothing is checked too
        if by_recipe:
            parts = {("more" if name == "arms" else name): (one,) for name, one in given.items()}
            recipe = Recipe(
                name="r", arms=(Lexical(),), fusion=hr.RRF(), shaping=tuple(stages), **parts
            )
            asked: dict[str, Any] = {"recipe": recipe}
        else:
            asked = {"shaping": stages} | given
        with pytest.raises(hr.OptionError, match=f"^{argument}: expected {wish}"):
            index.recall(text=texts, scope="ann", now=NOW, **asked)
        assert ran == []
        index.recall(text=texts, scope="ann", now=NOW, shaping=rerank)
        assert ran == [1]  # it would have been seen


# ---- neighbours against a plain definition: one dict for each document ----

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
    index = hr.Index.build(docs_table(docs), NEAR_SCHEMA, analyzer=hr.Analyzer("word"))
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
