"""Scope, non-interference, no history and the same bits, for every arm and what follows it."""

import inspect
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hyrecall as hr
from arms import channels
from arms.channels import every_arm, indexes, say_everything
from arms.world import Draw, docs_table, edges_table, said
from hyrecall import _core, arms
from hyrecall.errors import HyrecallError
from laws.effort import Effort
from seams import BoundGraph, read_scopes, reply_of

# Native callables of the arms that meet documents: an Audience and an Adjacency hold the scopes of
# the request they were made of, and Neighbours are of an Adjacency.
NATIVE_DOORS = {
    "Audience": {"rows", "newest", "locate", "tags", "related"},
    "Adjacency": {"distances", "spread"},
    "Neighbours": {"best"},
}
# Of a graph: what takes a scope, writes rows that name their cells, or gives no document.
GRAPH_DOORS = {
    *("delete", "delete_incident", "distances", "topical", "neighbours"),
    *("build", "add", "upsert"),
    *("open", "save", "compact", "edge_scope", "flat_keys", "participants"),
}
# The same of a graph as a call holds it, which reads the edges.
BOUND_DOORS = {
    *("best_edges", "credits", "edge_rows", "participants_where"),
    *("incident", "adjacency"),
}


def test_every_native_callable_of_the_arms_is_known_to_the_law() -> None:
    for kind, doors in NATIVE_DOORS.items():
        members = vars(getattr(_core.arms, kind)).items()
        public = {name for name, member in members if not name.startswith("_") and callable(member)}
        assert public == doors
    with pytest.raises(TypeError):
        _core.arms.Audience(_core.Snapshot([]))  # type: ignore[call-arg]


def test_every_callable_of_a_graph_is_known_to_the_law() -> None:
    for kind, doors in ((hr.Graph, GRAPH_DOORS), (BoundGraph, BOUND_DOORS)):
        members = inspect.getmembers(kind, callable)
        assert {name for name, _ in members if not name.startswith("_")} == doors


def test_a_graph_asks_for_a_scope() -> None:
    draw = Draw(1)
    _, graph = indexes(draw.docs(5), draw.edges(5, 5))
    for call in (
        lambda: graph.distances([["n1"]]),
        lambda: graph.topical([{"n1": 1.0}], [["n1"]]),
        lambda: graph.neighbours([["n1"]]),
        lambda: graph.delete_incident(["n1"]),
        lambda: graph.delete([1]),
    ):
        with pytest.raises(HyrecallError, match="scope"):
            call()


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20))]
)
def test_what_others_store_changes_no_byte_in_any_channel(seed: int) -> None:
    """E32: full text, vector-free arms, graph, hints, related and context."""
    draw = Draw(seed)
    docs, edges = draw.docs(40), draw.edges(25, 40)
    scope = ("ann", "cy")
    hints = [f"n{i}" for i in draw.rng.permutation(40)[:8]]
    alone = [doc for doc in docs if doc.user in scope], [e for e in edges if e.user in scope]
    whole = say_everything(*indexes(docs, edges), scope, hints)
    assert say_everything(*indexes(*alone), scope, hints) == whole
    changed = [doc if doc.user in scope else draw.doc(doc.key, doc.user) for doc in docs]
    assert say_everything(*indexes(changed, edges), scope, hints) == whole


FORBIDDEN = "forbidden"


@pytest.mark.parametrize("channel", ["regex", "edges", "tags", "newest", "hints"])
def test_a_forbidden_document_is_never_the_best_candidate(channel: str) -> None:
    """It fits every channel better than any other document; bob may see it, ann may not."""
    draw = Draw(3)
    docs = [replace(doc, user="ann") for doc in draw.docs(20)]
    docs = list({doc.key: doc for doc in docs}.values())
    best = replace(docs[0], key=FORBIDDEN, user="bob", text="zzz", tags=("zzz",), at=99, kind=7)
    edges = [
        replace(edge, user="ann", label="zzz", who=(FORBIDDEN, docs[0].key))
        for edge in draw.edges(3, 20)
    ]
    bobs = [replace(edge, key=edge.key + 100, user="bob") for edge in edges]
    index, graph = indexes([*docs, best], [*edges, *bobs])
    (arm,) = (arm for arm in every_arm(graph) if arm.name == channel)
    reads_text = channel in ("regex", "edges", "tags")

    def keys(scope: object) -> list[str]:
        hits = index.recall(
            text={channel: ["zzz"]} if reads_text else None,
            arms=arm,
            candidates={"hints": [[FORBIDDEN, docs[1].key]]} if channel == "hints" else None,
            scope=scope,
        )
        assert FORBIDDEN not in str(hits.trace) or scope != "ann"
        related = arms.related(hits, "tags")
        context = graph.neighbours([hits[0].keys], scope=scope, text=["zzz"])
        assert scope == "bob" or FORBIDDEN not in repr((hits.to_list(), related, context))
        return hits[0].keys

    assert keys("bob")[0] == FORBIDDEN
    assert FORBIDDEN not in keys("ann")
    ann, bob = (
        graph.distances([[FORBIDDEN]], scope="ann"),
        graph.distances([[FORBIDDEN]], scope="bob"),
    )
    assert (ann, bob) == ([{}], [{FORBIDDEN: 0}])
    assert graph.topical([{FORBIDDEN: 1.0}], [[docs[0].key]], scope="ann")[0].tolist() == [0.0]


def test_native_code_drops_listed_rows_that_the_query_may_not_see() -> None:
    draw = Draw(5)
    index, _ = indexes(draw.docs(30), [])
    index.delete(["n1", "n2", "n3"], scope=said(("ann", "bob", "cy")))
    state = index._state
    facts = index._facts
    cells = {name: facts.row_types[name] for name in facts.schema.cell_columns}
    request = _core.BatchRequest(
        scopes=read_scopes(cells, state.snapshot, "ann", 1), filters=[], filter_of=None,
        depth=100, limit=100, offset=0, threads=1,
    )  # fmt: skip
    everything = [
        (number, row)
        for number, segment in enumerate([*state.segments, *state.segments])
        for row in range(segment.rows.num_rows + 200)
    ]
    segment, row = np.array(everything, np.uint32).T.copy()
    score = np.linspace(1, 2, len(row), dtype=np.float32)
    request.add_listed("x", np.array([0, len(row)]), segment, row, score, None)
    request.set_fusion(
        kind="none", weights=[1.0], rank_constant=60.0, scales=["none"], complete=True,
        balance=None, min_fused=None, normalize=False,
    )  # fmt: skip
    execution = _core.Execution(state.snapshot, request)
    found = _core.merge(request, [execution.candidates(execution.statistics())])
    own = index.recall(arms=arms.Newest("kind"), scope="ann", limit=100)
    assert set(zip(found["segment"].tolist(), found["row"].tolist(), strict=True)) == set(
        zip(
            reply_of(own[0]).arrays["segment"].tolist(),
            reply_of(own[0]).arrays["row"].tolist(),
            strict=True,
        )
    )
    assert own.n_hits > 0


def test_history_leaves_no_trace_in_any_channel(effort: Effort) -> None:
    for seed in range(effort.cases(quick=3, full=400)):
        draw = Draw(seed)
        docs, edges = draw.docs(30), draw.edges(20, 30)
        index, graph = indexes(docs[:10], edges[:4])
        live = {(doc.key, doc.user): doc for doc in docs[:10]}
        links = {(edge.key, edge.user): edge for edge in edges[:4]}
        for step, doc in enumerate([*docs[10:], *docs[:15]]):
            changed = draw.doc(doc.key, doc.user)
            index.upsert(docs_table([changed]))
            live.pop((doc.key, doc.user), None)
            live[doc.key, doc.user] = changed
            edge = edges[step % len(edges)]
            edge = draw.edge(edge.key, edge.user, 30)
            graph.upsert(edges_table([edge]))
            links.pop((edge.key, edge.user), None)
            links[edge.key, edge.user] = edge
            if step % 3 == 0:
                gone = next(iter(live))
                index.delete([gone[0]], scope=gone[1])
                del live[gone]
                incident = [key for key, one in links.items() if gone[0] in one.who]
                if step % 2 == 0:
                    mine = [key for key in incident if key[1] == gone[1]]
                    assert graph.delete_incident([gone[0]], scope=gone[1]) == len(mine)
                    for key in mine:
                        del links[key]
            if step == 20:
                index.compact()
                graph.compact()
        scope = ("ann", "bob")
        hints = ["n1", "n5", "n7", "n29"]
        fresh = indexes(list(live.values()), list(links.values()))
        assert say_everything(index, graph, scope, hints) == say_everything(*fresh, scope, hints)


def test_batches_and_threads_change_no_byte() -> None:
    draw = Draw(8)
    docs, edges = draw.docs(60), draw.edges(40, 60)
    scopes = [said(draw.scope()) for _ in range(9)]
    texts = [["oak", "fir tea", "wood"][i % 3] for i in range(9)]
    hints = [[f"n{i}", "n3"] for i in range(9)]
    replies = set()
    for threads in (1, 4):
        index = hr.Index.build(docs_table(docs), channels.SCHEMA, threads=threads)
        graph = hr.Graph.build(edges_table(edges), channels.GRAPH, nodes=index, threads=threads)
        options = {"arms": every_arm(graph), "limit": 10}
        whole = index.recall(text=texts, candidates={"hints": hints}, scope=scopes, **options)
        replies.add(str(whole.to_list()))
        for q in range(9):
            one = index.recall(
                text=[texts[q]], candidates={"hints": [hints[q]]}, scope=[scopes[q]], **options
            )
            expected = [{**row, "query": 0} for row in whole.to_list()[q]]
            assert one.to_list()[0] == expected
    assert len(replies) == 1


@pytest.mark.slow
def test_every_hash_seed_gives_the_same_bytes(effort: Effort) -> None:
    """C27, F08: nothing depends on the order of a set."""
    tests = Path(__file__).parents[1]
    package = Path(hr.__file__).parents[1]
    said_by_seed = set()
    for seed in range(effort.cases(quick=2, full=20)):
        env = os.environ | {
            "PYTHONHASHSEED": str(seed),
            "PYTHONPATH": os.pathsep.join([str(tests), str(package)]),
        }
        command = [sys.executable, "-m", "arms.channels"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        said_by_seed.add(done.stdout)
    assert len(said_by_seed) == 1
    assert len(said_by_seed.pop()) > 1000
