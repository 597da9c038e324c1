"""Every arm against its definition in plain Python, on random worlds."""

import pytest

import hyrecall as hr
from arms import world
from arms.world import GRAPH, SCHEMA, Doc, Draw, Edge, docs_table, edges_table, said, seen
from hyrecall import arms
from laws.effort import Effort

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
