"""A call reads each graph in one state, with its own copy of the scope; and so do explanations."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import hyrecall as hr
from arms.world import GRAPH, SCHEMA, USERS, Draw, docs_table, edges_table, said
from hyrecall import arms
from seams import Lexical, Phase, Recipe

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
PHASES = (Phase("all", 0, 0.4, 0.4, 0.2),)
QUERIES = ["oak ash", "fir", "pine yew elm", "birch"]
SCOPES: list[Any] = [said(USERS), "bob", said(("ann", "cy")), said(USERS)]
SESSION = hr.Session({f"n{at}": NOW - timedelta(minutes=at) for at in range(12)}, 2)

Write = Callable[[hr.Index, hr.Graph], object]


def world(seed: int) -> tuple[hr.Index, hr.Graph]:
    draw = Draw(seed)
    docs = [draw.doc(f"n{at}", USERS[at % 3]) for at in range(30)]
    index = hr.Index.build(docs_table(docs), SCHEMA)
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
