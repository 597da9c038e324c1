"""Arms and signals against their definitions in plain Python, on random worlds."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

import hyrecall as hr
from arms import world
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

# ---- every arm ----

DEPTH = 7
PATTERNS = ("o.k", "^n1", "ash|pine", "e+l?m", r"\bfir\b", "note.*yew", "x")
COLUMNS = ("id", "text", "edges", "data")
QUERIES = ("oak", "a wood", "Tea and fir", "nothing here", "woodlands", "red")

World = tuple[list[Doc], list[Edge], hr.Index, hr.Graph]


def make(seed: int, n: int = 40) -> World:
    draw = Draw(seed)
    docs, edges = draw.docs(n), draw.edges(n // 2, n)
    cut = len(docs) // 3
    index = hr.Index.build(docs_table(docs[:cut]), SCHEMA, analyzer=hr.Analyzer("word"))
    index.add(docs_table(docs[cut:]))  # several segments
    graph = hr.Graph.build(
        edges_table(edges[:5]), GRAPH, nodes=index, analyzer=hr.Analyzer("word"), threads=2
    )
    graph.add(edges_table(edges[5:]))
    return docs, edges, index, graph


def worlds(effort: Effort, quick: int = 25) -> range:
    return range(effort.cases(quick=quick, full=40 * quick))


def test_newest_is_the_top_of_a_sort_by_time(effort: Effort) -> None:
    for seed in worlds(effort):
        docs, _, index, _ = make(seed)
        scopes = [Draw(seed + 10).scope(), ("ann", "bob", "cy")]
        hits = index.recall(
            arms=arms.Newest("at"), scope=[said(s) for s in scopes], depth=DEPTH, limit=DEPTH
        )
        for query, scope in enumerate(scopes):
            expected = world.newest(seen(docs, scope), DEPTH)
            assert world.ranking(hits[query], "newest") == world.plain(expected)


def test_listed_keys_are_found_in_every_cell_of_the_scope_and_nowhere_else(effort: Effort) -> None:
    for seed in worlds(effort):
        docs, _, index, _ = make(seed)
        draw = Draw(seed + 10)
        keys = [f"n{i}" for i in draw.rng.permutation(45)[:12]]
        scopes = [draw.scope(), draw.scope()]
        hits = index.recall(
            arms=arms.Listed("hints"),
            candidates={"hints": [keys, None]},
            scope=[said(s) for s in scopes],
            depth=DEPTH,
            limit=DEPTH,
        )
        expected = world.listed(seen(docs, scopes[0]), keys, DEPTH)
        assert world.ranking(hits[0], "hints") == world.plain(expected)
        assert len(hits[1]) == 0


def test_a_pattern_is_searched_in_the_columns_in_their_order(effort: Effort) -> None:
    for seed in worlds(effort):
        docs, edges, index, graph = make(seed)
        draw = Draw(seed + 10)
        scopes = [draw.scope() for _ in PATTERNS]
        columns = ("id", "text", arms.Edges(graph), "data")
        hits = index.recall(
            text={"regex": list(PATTERNS)},
            arms=arms.Regex(columns),
            scope=[said(s) for s in scopes],
            depth=DEPTH,
            limit=DEPTH,
        )
        for query, (pattern, scope) in enumerate(zip(PATTERNS, scopes, strict=True)):
            own = [edge for edge in edges if edge.user in scope]
            expected = world.regex(seen(docs, scope), own, pattern, COLUMNS, DEPTH)
            assert world.ranking(hits[query], "regex") == world.plain(expected)
            for hit in hits[query]:
                assert hit.evidence("regex") == COLUMNS[round(1 / hit.score) - 1]


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("hops", [0, 1, 3])
def test_tags_reach_the_documents_within_their_hops(
    hops: int, partial: bool, effort: Effort
) -> None:
    for seed in worlds(effort, quick=5):
        docs, _, index, _ = make(seed)
        draw = Draw(seed + 10)
        scopes = [draw.scope() for _ in QUERIES]
        hits = index.recall(
            text={"tags": list(QUERIES)},
            arms=arms.Tags("tags", depth=hops, partial=partial),
            scope=[said(s) for s in scopes],
            depth=DEPTH,
            limit=DEPTH,
        )
        for query, (text, scope) in enumerate(zip(QUERIES, scopes, strict=True)):
            mine = seen(docs, scope)
            expected = world.tag_list(mine, text, DEPTH, hops=hops, partial=partial)
            assert world.ranking(hits[query], "tags") == world.plain(expected)


def test_a_filter_narrows_what_tags_list_and_leaves_their_counts_alone(effort: Effort) -> None:
    for seed in worlds(effort):
        docs, _, index, _ = make(seed)
        scope = Draw(seed + 10).scope()
        hits = index.recall(
            text={"tags": ["oak tree"]},
            arms=arms.Tags("tags"),
            scope=said(scope),
            filter=hr.Filter(kind=1),
            depth=DEPTH,
            limit=DEPTH,
        )
        everything = world.tag_list(seen(docs, scope), "oak tree", 1000)
        expected = [pair for pair in everything if pair[1].kind == 1][:DEPTH]
        assert world.ranking(hits[0], "tags") == world.plain(expected)


def test_related_documents_share_most_tags_with_the_results(effort: Effort) -> None:
    for seed in worlds(effort):
        docs, _, index, _ = make(seed)
        scope = Draw(seed + 10).scope()
        hits = index.recall(text=["oak", "fir pine"], scope=said(scope), limit=3)
        found = arms.related(hits, "tags", n=5, columns=("text",))
        mine = seen(docs, scope)
        for query in range(2):
            places = {(hit.key, hit.cell[0]) for hit in hits[query]}
            results = [doc for doc in mine if (doc.key, doc.user) in places]
            expected = world.related_keys(mine, results, 5)
            assert [(one.key, one.shared) for one in found[query]] == expected
            for n in (2, 5, 30):
                part = hr.SharedTags("tags", n=n, hops=1)
                asked = index.recall(text=["oak", "fir pine"], scope=said(scope), limit=3,
                                     expansion=part)  # fmt: skip
                wish = world.related_keys(mine, results, n, hops=1)
                assert [(one.key, one.shared) for one in asked[query].related] == wish
            texts = {(doc.key, doc.user): doc.text for doc in mine}
            assert all(one.values["text"] == texts[one.key, one.cell[0]] for one in found[query])


def test_edges_credit_who_takes_part_with_their_best_score(effort: Effort) -> None:
    for seed in worlds(effort):
        docs, edges, index, graph = make(seed)
        scope = Draw(seed + 10).scope()
        by_key = {edge.key: edge for edge in edges}
        for depth in (2, 30):
            arm = arms.EdgeLexical(graph, depth=depth)
            hits = index.recall(
                text={"edges": ["oak fir"]}, arms=arm, scope=said(scope), depth=30, limit=30
            )[0]
            best = graph.edges.recall(text=["oak fir"], scope=said(scope), limit=depth, depth=depth)
            credit: dict[str, tuple[float, int]] = {}
            for hit in best[0]:
                assert by_key[hit.key].user in scope
                for key in by_key[hit.key].who:
                    credit.setdefault(key, (hit.score, hit.key))
            mine = [doc for doc in seen(docs, scope) if doc.key in credit]
            expected = world.ranked(((credit[doc.key][0], doc) for doc in mine), 30)
            assert world.ranking(hits, "edges") == world.plain(expected)
            assert all(hit.evidence("edges") == credit[hit.key][1] for hit in hits)


def test_hops_are_those_of_a_search_over_sets(effort: Effort) -> None:
    for seed in worlds(effort):
        docs, edges, _, graph = make(seed)
        draw = Draw(seed + 10)
        scope = draw.scope()
        mine = seen(docs, scope)
        groups = world.groups_of(mine, [edge for edge in edges if edge.user in scope])
        connected = set().union(*groups)
        hot = {
            f"n{i}": f32
            for i, f32 in zip(draw.rng.permutation(40)[:4], (1, 0.7, 0.3, 0.1), strict=True)
        }
        for hops in (0, 1, 3):
            (found,) = graph.distances([list(hot)], scope=said(scope), hops=hops)
            assert found == world.distances(groups, set(hot) & connected, hops)
            assert list(found) == sorted(found)
            among = sorted({doc.key for doc in mine})
            (scores,) = graph.topical([hot], [among], scope=said(scope), hops=hops)
            for key, score in zip(among, scores, strict=True):
                reached = [
                    s * 0.5 ** world.distances(groups, {h}, hops)[key]
                    for h, s in hot.items()
                    if (h in connected or h == key) and key in world.distances(groups, {h}, hops)
                ]
                assert score == max(reached, default=0.0)


# ---- session and topical signals ----

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
SIGNALS_QUERIES = ("oak ash", "fir", "pine yew elm", "birch")
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
        sessions = [session(seed * 10 + at) for at in range(len(SIGNALS_QUERIES))]
        given = {
            "text": list(SIGNALS_QUERIES),
            "arms": arms.EdgeLexical(graph),
            "limit": 90,
            "depth": 90,
        }
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
    hits = index.recall(text=list(SIGNALS_QUERIES), scope=scope, expansion=around, limit=4)
    keys = [one.keys for one in hits]
    top = [one[:2] for one in keys]
    expected = graph.neighbours(top, scope=scope, text=list(SIGNALS_QUERIES), exclude=keys, n=2)
    assert any(any(one) for one in expected)
    for query, one in enumerate(hits):
        assert [hit.context for hit in one[:2]] == expected[query]
        assert [hit.context for hit in one[2:]] == [()] * len(one[2:])
    assert [one.related for one in hits] == arms.related(hits, "tags", n=3)
    assert any(one.related for one in hits)
    assert "expansion" in hits.trace.milliseconds
    plain = index.recall(text=list(SIGNALS_QUERIES), scope=scope, limit=4)
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
    (lambda i, g: Phase("p", 0, 0.5, 0.5, 0.5), hr.OptionError, "Phase: expected weights that"),
    (lambda i, g: stage(g, hops=17), hr.OptionError, "hops: expected an int in [0, 16]"),
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
