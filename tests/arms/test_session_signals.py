"""Session and topical signals against their definition, on random worlds of documents and edges."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

import hyrecall as hr
from arms.test_oracles import make
from arms.world import (
    GRAPH,
    SCHEMA,
    USERS,
    Doc,
    Draw,
    Edge,
    distances,
    docs_table,
    edges_table,
    groups_of,
    said,
    seen,
)
from hyrecall import arms
from laws.effort import Effort
from seams import Phase

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
QUERIES = ("oak ash", "fir", "pine yew elm", "birch")
PHASES = (Phase("early", 0, 0.8, 0.1, 0.1), Phase("late", 2, 0.4, 0.35, 0.25))
Scores = dict[str, tuple[float, float, float, float]]  # general, topical, session, together


def dense_world(seed: int) -> tuple[list[Doc], list[Edge], hr.Index, hr.Graph]:
    """Few documents, each key once, and many edges: most are within a few hops."""
    draw = Draw(seed)
    docs = [draw.doc(f"n{at}", USERS[at % 3]) for at in range(18)]
    edges = draw.edges(24, 18)
    index = hr.Index.build(docs_table(docs), SCHEMA)
    return docs, edges, index, hr.Graph.build(edges_table(edges), GRAPH, nodes=index)


def stage(graph: hr.Graph | str | None, **options: Any) -> hr.SessionSignals:
    given = {"hops": 2, "n_hot": 3, "min_hot": 0.2, "phases": PHASES} | options
    return hr.SessionSignals(graph, **given)


def session(seed: int) -> hr.Session | None:
    rng = np.random.default_rng(seed)
    if rng.random() < 0.15:
        return None
    keys = {f"n{rng.integers(0, 20)}" for _ in range(rng.integers(0, 9))}
    times = {key: NOW - timedelta(seconds=int(rng.integers(-100, 9000))) for key in sorted(keys)}
    return hr.Session(times, int(rng.integers(0, 5)))


class Definition:
    """The signals of one query, in plain Python."""

    half_life = 1800.0
    hops, n_hot, min_hot = 2, 3, 0.2

    def warm(self, session: hr.Session) -> dict[str, float]:
        ages = {key: (NOW - time).total_seconds() for key, time in session.accessed.items()}
        return {key: 0.5 ** (max(age, 0.0) / self.half_life) for key, age in ages.items()}

    def hot(self, warm: dict[str, float]) -> dict[str, float]:
        order = sorted(warm, key=lambda key: (-warm[key], key))
        return {key: warm[key] for key in order if warm[key] >= self.min_hot}

    def near(self, scores: Sequence[float]) -> float:
        return max(scores, default=0.0)

    def weights(self, session: hr.Session | None) -> tuple[float, float, float]:
        if session is None or not session.accessed:
            return 1.0, 0.0, 0.0
        phase = PHASES[0] if session.n_recalls < 2 else PHASES[1]
        return phase.general, phase.topical, phase.session

    def scores(
        self,
        docs: Sequence[Doc],
        edges: Sequence[Edge],
        fused: Sequence[tuple[str, float]],
        session: hr.Session | None,
    ) -> Scores:
        warm = {} if session is None else self.warm(session)
        hot = dict(list(self.hot(warm).items())[: self.n_hot])
        there = {doc.key for doc in docs}
        far = {one: distances(groups_of(docs, edges), {one} & there, self.hops) for one in hot}
        best = max((score for _, score in fused), default=1.0)
        weights = self.weights(session)
        out = {}
        for key, score in fused:
            topical = self.near([hot[one] * 0.5 ** far[one][key] for one in hot if key in far[one]])
            parts = (score / best, topical, warm.get(key, 0.0))
            together = sum(w * part for w, part in zip(weights, parts, strict=True))
            out[key] = (*parts, together)
        return out


class TopicsAddUp(Definition):
    def near(self, scores: Sequence[float]) -> float:
        return sum(scores)


class EveryWarmDocumentIsHot(Definition):
    min_hot = 0.0


class OneHopLess(Definition):
    hops = 1


class OldIsAsGoodAsNew(Definition):
    half_life = 3600.0


class OnePhase(Definition):
    def weights(self, session: hr.Session | None) -> tuple[float, float, float]:
        return super().weights(None if session is None else replace(session, n_recalls=0))


class AnEmptySessionWeighs(Definition):
    def weights(self, session: hr.Session | None) -> tuple[float, float, float]:
        return (0.8, 0.1, 0.1) if session is None else super().weights(session)


def compare(definition: Definition, seeds: range) -> int:
    """Check random replies; give how many documents had a topic."""
    n_topical = 0
    for seed in seeds:
        docs, edges, index, graph = dense_world(seed)
        scopes = [("ann",), ("ann", "bob"), Draw(seed + 5).scope(), ("cy",)]
        sessions = [session(seed * 10 + at) for at in range(len(QUERIES))]
        given = {"text": list(QUERIES), "arms": arms.EdgeLexical(graph), "limit": 90, "depth": 90}
        where = [said(scope) for scope in scopes]
        plain = index.recall(**given, scope=where)
        hits = index.recall(
            **given,
            scope=where,
            shaping=stage(graph),
            session=sessions,
            now=NOW,
        )
        for query, scope in enumerate(scopes):
            mine, own = seen(docs, scope), [edge for edge in edges if edge.user in scope]
            fused = [(hit.key, hit.score) for hit in plain[query]]
            expected = definition.scores(mine, own, fused, sessions[query])
            found = {hit.key: hit for hit in hits[query]}
            assert set(found) == set(expected)
            table = hits.to_arrow().filter(hits.to_arrow()["query"].to_numpy() == query)
            for row in table.to_pylist():
                got = [row[f"{name}_score"] for name in ("general", "topical", "session")]
                want = expected[row["key"]]
                assert [*got, row["score"]] == pytest.approx(want, abs=1e-9)
                n_topical += want[1] > 0
            assert [hit.score for hit in hits[query]] == sorted(
                (hit.score for hit in hits[query]), reverse=True
            )
            phase = hits[query].phase
            assert phase is not None
            assert (phase.general, phase.topical, phase.session) == definition.weights(
                sessions[query]
            )
    return n_topical


def test_signals_are_what_their_definition_says(effort: Effort) -> None:
    assert compare(Definition(), range(effort.cases(quick=20, full=400))) > 60


@pytest.mark.parametrize(
    "bug",
    [TopicsAddUp, EveryWarmDocumentIsHot, OneHopLess, OldIsAsGoodAsNew, OnePhase,
     AnEmptySessionWeighs],
)  # fmt: skip
def test_a_wrong_signal_would_be_seen(bug: type[Definition]) -> None:
    with pytest.raises(AssertionError):
        compare(bug(), range(60))


def test_context_and_related_are_what_the_graph_and_the_tags_say() -> None:
    _, _, index, graph = make(6)
    scope = said(("ann", "bob"))
    around = (hr.Context(graph, top=2, n=2), hr.SharedTags("tags", n=3))
    hits = index.recall(text=list(QUERIES), scope=scope, expansion=around, limit=4)
    keys = [one.keys for one in hits]
    top = [one[:2] for one in keys]
    expected = graph.neighbours(top, scope=scope, text=list(QUERIES), exclude=keys, n=2)
    assert any(any(one) for one in expected)
    for query, one in enumerate(hits):
        assert [hit.context for hit in one[:2]] == expected[query]
        assert [hit.context for hit in one[2:]] == [()] * len(one[2:])
    assert [one.related for one in hits] == arms.related(hits, "tags", n=3)
    assert any(one.related for one in hits)
    assert "expansion" in hits.trace.milliseconds
    plain = index.recall(text=list(QUERIES), scope=scope, limit=4)
    assert [(hit.context, one.related) for one in plain for hit in one[:1]] == [((), [])] * len(
        [one for one in plain if len(one)]
    )


def test_a_session_keeps_512_documents_of_a_day() -> None:
    old = hr.Session({f"old{at}": NOW - timedelta(hours=23, minutes=at) for at in range(80)}, 4)
    after = old.after([f"k{at}" for at in range(500)], now=NOW)
    assert after.n_recalls == 5
    assert len(after.accessed) == 512
    assert sorted(key for key in after.accessed if key.startswith("old")) == sorted(
        f"old{at}" for at in range(12)
    )
    later = after.after(["k7"], now=NOW + timedelta(hours=2))
    assert set(later.accessed) == {f"k{at}" for at in range(500)}
    assert later.accessed["k7"] == NOW + timedelta(hours=2)
    assert old.n_recalls == 4
    assert hr.Session({"a": datetime(2026, 1, 1)}).accessed["a"].tzinfo is UTC


REFUSED: list[tuple[Callable[[hr.Index, hr.Graph], object], type[Exception], str]] = [
    (lambda i, g: stage(None), hr.OptionError, "graph: expected a graph, or phases with"),
    (lambda i, g: Phase("p", 0, 0.5, 0.5, 0.5), hr.OptionError, "Phase: expected weights that"),
    (lambda i, g: stage(g, phases=PHASES[1:]), hr.OptionError, "phases: expected phases with"),
    (lambda i, g: stage(g, phases=("early",)), hr.DTypeError, "phases: expected a sequence"),
    (lambda i, g: stage(g, hops=17), hr.OptionError, "hops: expected an int in [0, 16]"),
    (lambda i, g: stage(g, min_hot=2), hr.OptionError, "min_hot: expected"),
    (lambda i, g: hr.Session({"a": 3}), hr.DTypeError, "accessed['a']: expected a datetime"),
    (lambda i, g: hr.Session({}, -1), hr.OptionError, "n_recalls: expected an int >= 0"),
    (lambda i, g: hr.Context(g, top=0), hr.OptionError, "top: expected an int"),
    (lambda i, g: ask(i, session=hr.Session()), hr.OptionError, "session: expected SessionSignal"),
    (lambda i, g: ask(i, shaping=stage(g), session=[None] * 3), hr.ShapeError, "session: expecte"),
    (lambda i, g: ask(i, shaping=stage(g), session="ann"), hr.DTypeError, "session: expected an"),
    (
        lambda i, g: ask(i, shaping=stage(g), session=hr.Session({7: NOW})),
        hr.DTypeError,
        "session[0].accessed",
    ),
    (lambda i, g: ask(i, shaping=stage("g")), hr.OptionError, "graphs: expected {'g': hr.Graph}"),
    (lambda i, g: ask(i, graphs={"g": g}), hr.OptionError, "graphs: expected graphs that are"),
    (lambda i, g: ask(i, graphs=g), hr.DTypeError, "graphs: expected {name: hr.Graph}"),
    (lambda i, g: ask(i, expansion="graph"), hr.DTypeError, "expansion: expected hr.Context"),
    (lambda i, g: ask(i, expansion=[hr.SharedTags("kind")]), hr.DTypeError, "column: expected a"),
    (
        lambda i, g: ask(i, expansion=[hr.SharedTags("tags")] * 2),
        hr.DTypeError,
        "expansion: expected each kind once",
    ),
]  # fmt: skip


def ask(index: hr.Index, **options: Any) -> hr.Hits:
    return index.recall(text=["oak"], scope="ann", now=NOW, **options)


@pytest.mark.parametrize("at", range(len(REFUSED)))
def test_what_cannot_be_weighed_or_shown_is_refused_by_name(at: int) -> None:
    _, _, index, graph = make(1)
    call, kind, start = REFUSED[at]
    with pytest.raises(kind) as caught:
        call(index, graph)
    assert str(caught.value).startswith(start)
