"""Acceptance rows C: four ways to find a node, and patterns."""

import re
import time

import numpy as np
import pytest

import hyrecall as hr
from laws.effort import Effort
from seams import PATTERN_WISH, Dense, Lexical
from spec.hypergraph_world import (
    QUERY,
    WORDS,
    Edge,
    Node,
    build,
    by_force,
    cosine_of,
    drawn,
    hypergraph,
)

ALL = ("description", "vector", "edges", "regex")


def test_C02_each_of_four_strategies_finds_and_is_counted() -> None:
    nodes = [
        Node("a", "an oak tree"),
        Node("b", "oak leaves", vector=cosine_of(0.5)),
        Node("c", vector=cosine_of(0.4)),
        Node("d", vector=cosine_of(0.9)),
        Node("e", vector=cosine_of(0.2)),  # below the threshold
        *(Node(name) for name in ("f", "g", "h", "i")),
        Node("j", data='{"wood": "oaken"}'),
        Node("k", "unrelated"),
    ]
    edges = [Edge(1, ("f", "g"), "oak"), Edge(2, ("g", "h", "i"), "from", "the oak"),
             Edge(3, ("j", "k"))]  # fmt: skip
    world = build(nodes, edges)
    hits = world.ask("oak.*", QUERY)
    # The pattern matches two descriptions, the texts of two edges, and data.
    assert hits.n_candidates == {"description": 2, "vector": 3, "edges": 4, "regex": 7}
    assert set(hits.keys) == set("abcdfghij")
    plain = world.ask("oak", QUERY)
    assert plain.n_candidates == {"description": 2, "vector": 3, "edges": 4, "regex": 0}
    assert set(plain.keys) == set("abcdfghi")
    only = {"c": "vector", "f": "edges", "j": "regex"}
    for hit in hits:
        if hit.key in only:
            found = [arm for arm in ALL if hit.arm_rank(arm) is not None]
            expected = {only[hit.key]} | ({"regex"} if hit.key == "f" else set())
            assert set(found) == expected
    for limit in (1, 3):  # what is counted is what was found, not what is shown
        assert world.ask("oak.*", QUERY, limit=limit).n_candidates == hits.n_candidates


def test_C02_a_strategy_hands_on_250_candidates() -> None:
    nodes = [Node(f"n{at:03}", "oak", vector=cosine_of(0.5)) for at in range(300)]
    world = build(nodes, [Edge(at, (f"n{at:03}", f"n{at + 1:03}"), "oak") for at in range(299)])
    assert hypergraph.depth == 250  # five times the largest number of results
    counts = world.ask("(oak|elm)", QUERY).n_candidates
    assert counts == {"description": 250, "vector": 250, "edges": 250, "regex": 250}


def test_C03_words_are_sought_in_descriptions_and_not_in_data_or_keys() -> None:
    world = build(
        [
            Node("a", "the oak by the river", "elm"),
            Node("b", "a garden", '{"tree": "oak"}'),
            Node("oak", "a garden"),
            Node("c", "an elm"),
        ]
    )
    assert world.ask("oak").keys == ["a"]
    assert world.ask("elm").keys == ["c"]
    (hit,) = world.ask("oak")
    assert [arm for arm in ALL[:1] + ALL[2:] if hit.arm_rank(arm) is not None] == ["description"]
    # Some other node was found, so nothing looked into the data.
    assert world.ask("oak").n_candidates["regex"] == 0


def test_C04_a_cosine_of_035_is_a_candidate_and_less_is_not() -> None:
    at = np.float32(0.35)
    exact = [7.0, 18.0, 5.0, 1.0, 1.0]  # of length 20: the cosine is 7 / 20
    below = [float(np.float32(7 - 1e-6)), *exact[1:]]
    world = build(
        [
            Node("exact", vector=exact),
            Node("longer", vector=[4 * value for value in exact]),
            Node("below", vector=below),
            Node("low", vector=cosine_of(0.3499)),
            Node("high", vector=cosine_of(0.3501)),
            Node("against", vector=cosine_of(-0.9)),
            Node("none"),
        ]
    )
    raw = {hit.key: hit.vector_score for hit in world.index.recall_one(vector=QUERY, scope="home")}
    assert raw["exact"] == raw["longer"] == at
    assert at - np.float32(1e-7) < raw["below"] < at
    assert raw["low"] == pytest.approx(0.3499, abs=1e-6)
    hits = world.ask("nowhere", QUERY)
    assert hits.keys == ["high", "exact", "longer"]
    assert hits.n_candidates == {"description": 0, "vector": 3, "edges": 0, "regex": 0}
    for floor, expected in (
        (0.3499, {*hits.keys, "below"}),
        (0.36, set()),
        (None, raw.keys()),
        (-0.95, raw.keys()),
    ):
        recipe = hypergraph.replace(arms=(Lexical(), Dense(min_score=floor)))
        found = set(world.ask("nowhere", QUERY, recipe=recipe).keys)
        assert found - {"low"} == expected - {"low"}  # its float32 may lie on either side


def test_C05_an_edge_that_matches_brings_all_who_take_part_in_it() -> None:
    nodes = [Node(name) for name in "abcdefgh"]
    nodes += [Node("x", cell="work"), Node("y", cell="work")]
    edges = [
        Edge(1, ("a", "b"), "decided by"),
        Edge(2, ("c", "d", "e", "f"), "met", "they decided together"),
        Edge(3, ("g", "h"), "likes"),
        Edge(4, ("a", "gone"), "decided"),
        Edge(5, ("x", "y"), "decided", cell="work"),
    ]
    world = build(nodes, edges)
    hits = world.ask("decided")
    assert set(hits.keys) == set("abcdef")
    assert hits.n_candidates == {"description": 0, "edges": 6, "regex": 0}
    # A node counts by its best edge: the shorter text.
    assert {hit.key: hit.evidence("edges") for hit in hits} == {
        "a": 4, "b": 1, "c": 2, "d": 2, "e": 2, "f": 2,
    }  # fmt: skip
    found = world.graph.edges.recall_one(text="decided", scope="home")
    of_edge = {hit.key: hit.bm25_score for hit in found}
    for hit in hits:
        assert hit.arm_score("edges") == of_edge[hit.evidence("edges")]
    assert set(world.ask("likes").keys) == set("gh")
    assert set(world.ask("decided", scope="work").keys) == set("xy")


FALLBACK = [
    Node("jwt_tokens", "authentication by tokens", '{"alg": "RS256"}'),
    Node("sessions", "cookies and sessions", "call f(zzz) then"),
    Node("deploy", "blue green deploy", "(?=ahead)"),
    Node("near", vector=cosine_of(0.8)),
]


@pytest.mark.parametrize(
    ("text", "counts", "keys"),
    [
        # Other strategies found something, and the query is no pattern.
        ("tokens", {"description": 1, "edges": 0, "regex": 0}, ["jwt_tokens"]),
        ("uses", {"description": 0, "edges": 2, "regex": 0}, ["jwt_tokens", "sessions"]),
        # A pattern that compiles runs beside them.
        ("toke.?s", {"description": 0, "edges": 0, "regex": 1}, ["jwt_tokens"]),
        ("tokens|c..kies", {"description": 1, "edges": 0, "regex": 2}, ["jwt_tokens", "sessions"]),
        ("R[ST]256", {"description": 0, "edges": 0, "regex": 1}, ["jwt_tokens"]),
        # A metacharacter, but no pattern that compiles.
        ("deploy (", {"description": 1, "edges": 0, "regex": 0}, ["deploy"]),
        # Nothing found: a pattern or, where it is none, a piece of text.
        ("ookie", {"regex": 1}, ["sessions"]),
        ("rs256", {"regex": 1}, ["jwt_tokens"]),
        ("(zzz", {"regex": 1}, ["sessions"]),
        ("(?=AHEAD)", {"regex": 1}, ["deploy"]),  # RE2 has no lookahead
        ("pons", {"regex": 2}, ["jwt_tokens", "sessions"]),  # of an edge's text
        ("nowhere", {"regex": 0}, []),
        ("no.where", {"regex": 0}, []),
    ],
)
def test_C06_patterns_run_where_the_query_is_one_or_nothing_else_finds(
    text: str, counts: dict[str, int], keys: list[str]
) -> None:
    edges = [Edge(1, ("sessions", "jwt_tokens"), "uses", "relies upon responses")]
    hits = build(FALLBACK, edges).ask(text)
    assert hits.n_candidates == counts
    assert sorted(hits.keys) == keys
    assert all(hit.arm_rank("regex") is not None for hit in hits) or counts["regex"] < len(keys)


def test_C06_nothing_falls_back_where_cosine_finds() -> None:
    world = build(FALLBACK)
    hits = world.ask("ookie", QUERY)
    assert hits.keys == ["near"]
    assert hits.n_candidates == {"description": 0, "vector": 1, "edges": 0, "regex": 0}
    assert world.ask("ookie", cosine_of(-1)).keys == ["sessions"]


def test_C07_by_force_only_patterns_run_ordered_by_column_then_key(effort: Effort) -> None:
    rng = np.random.default_rng(7)
    patterns = [*WORDS, *(word.upper() for word in WORDS), "^oak_0", "(fir|yew).*(elm|ash)", "note",
                "[a-f]ir", r"\d7$", "^$", "o.k$", "LARCH_?", "nowhere"]  # fmt: skip
    places: set[int] = set()
    for seed in range(effort.cases(quick=3, full=100)):
        nodes, edges = drawn(seed, 60)
        columns = {
            node.key: (
                [node.key],
                [node.description],
                [text for edge in edges for text in (edge.label, edge.description)
                 if node.key in edge.participants and edge.cell == "home"],
                [node.data],
            )
            for node in nodes
            if node.cell == "home"
        }  # fmt: skip
        world = build(nodes, edges)
        for pattern in patterns:
            vector = rng.standard_normal(len(QUERY))
            hits = world.ask(pattern, vector, recipe=by_force, limit=100)
            found = re.compile(pattern, re.IGNORECASE)
            expected = []
            for key, texts in columns.items():
                matching = [any(found.search(text) for text in column) for column in texts]
                expected += [(matching.index(True), key)] if any(matching) else []
            assert [hit.key for hit in hits] == [key for _, key in sorted(expected)]
            assert hits.n_candidates == {"regex": len(expected)}
            places |= {place for place, _ in expected}
    assert places == {0, 1, 2, 3}


def test_C07_keys_decide_among_all_that_match() -> None:
    nodes = [Node(f"n{at:04}") for at in range(1000)]
    for order in (nodes, nodes[::-1]):
        hits = build(order).ask("N0.*", recipe=by_force, limit=3)
        assert hits.keys == ["n0000", "n0001", "n0002"]
        assert hits.n_candidates == {"regex": 1000}


@pytest.mark.parametrize("pattern", ["(", "[a", "*x", "a{3,1}", "(?=a)", r"(a)\1", "a{1001}"])
def test_C08_a_bad_pattern_is_refused_by_force_and_sought_as_text_otherwise(pattern: str) -> None:
    world = build([Node("plain"), Node("holds", data=f"x {pattern.upper()} y")])
    with pytest.raises(hr.OptionError) as caught:
        world.recall(["x", pattern], recipe=by_force)
    message = f"text['regex'][1]: expected {PATTERN_WISH}, got {pattern!r}"
    assert str(caught.value).startswith(message)
    hits = world.recall([pattern])
    assert hits[0].keys == ["holds"]
    assert any("is no pattern, searched as text" in note for note in hits.trace.notes)


@pytest.mark.parametrize(("end", "matches"), [("", True), ("!", False)])
def test_C09_a_catastrophic_pattern_takes_linear_time(end: str, *, matches: bool) -> None:
    world = build([Node(f"n{at}", data="a" * 1000 + end) for at in range(10_000)])
    for recipe in (by_force, hypergraph):
        spent = []
        for _ in range(5):
            began = time.perf_counter()
            hits = world.ask("(a+)+$", recipe=recipe, limit=10)
            spent.append(time.perf_counter() - began)
            assert len(hits) == (10 if matches else 0)
        assert min(spent) < 0.25  # the least of five: other work on the machine is not its


@pytest.mark.parametrize("blank", ["", "   ", "\n\t", "　"])
@pytest.mark.parametrize("recipe", [hypergraph, by_force], ids=lambda recipe: recipe.name)
def test_C23_an_empty_query_is_refused(blank: str, recipe: hr.Recipe) -> None:
    world = build([Node("a", "tea")])
    with pytest.raises(ValueError, match=r"text\[0\]: expected words") as caught:
        world.ask(blank, recipe=recipe)
    assert isinstance(caught.value, hr.OptionError)
    with pytest.raises(ValueError, match=r"text\[1\]: expected words"):
        world.recall(["tea", blank], [QUERY, QUERY], recipe=recipe)
