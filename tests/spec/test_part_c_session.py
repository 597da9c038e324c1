"""Acceptance rows C: what a conversation met before, how it weighs, and what is recorded of it."""

from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest

import hyrecall as hr
from laws.effort import Effort
from seams import Phase, SessionSignals
from spec.hypergraph_world import (
    DIM,
    NOW,
    QUERY,
    WORDS,
    Edge,
    Node,
    World,
    ago,
    build,
    cosine_of,
    drawn,
    drawn_session,
    hypergraph,
)

STAGE = next(stage for stage in hypergraph.shaping if isinstance(stage, SessionSignals))
DEFAULT = {0: ("early", 0.8, 0.1, 0.1), 3: ("mid", 0.6, 0.2, 0.2), 10: ("deep", 0.5, 0.25, 0.25)}


def named(names: str) -> list[Node]:
    return [Node(name, "node") for name in names]


def weights(phase: Phase | None) -> tuple[str, float, float, float]:
    assert phase is not None
    return phase.name, phase.general, phase.topical, phase.session


# ---- what has been met


def test_C11_half_of_the_session_score_is_gone_in_1800_seconds() -> None:
    assert STAGE.half_life == "1800s"
    ages = {"a": 0.0, "b": 1800.0, "c": 3600.0, "d": 900.0, "e": 0.5, "f": 86_399.0, "g": -1.0,
            "h": -1e6}  # fmt: skip
    world = build(named("abcdefghi"))
    session = hr.Session({key: ago(age) for key, age in ages.items()})
    found = world.signals("node", session=session)
    scores = {key: row["session_score"] for key, row in found.items()}
    assert scores == {
        "a": 1.0, "b": pytest.approx(0.5, abs=1e-9), "c": pytest.approx(0.25, abs=1e-9),
        "d": pytest.approx(2**-0.5, abs=1e-9), "e": pytest.approx(2 ** (-0.5 / 1800), abs=1e-9),
        "f": pytest.approx(2 ** (-86_399 / 1800), abs=1e-9),
        "g": 1.0, "h": 1.0,  # in the future
        "i": 0.0,  # never
    }  # fmt: skip
    naive = hr.Session({"b": ago(1800).replace(tzinfo=None)})
    assert world.signals("node", session=naive)["b"]["session_score"] == pytest.approx(0.5)


CROSSED = [
    Node("a", "oak oak oak", vector=cosine_of(0.5)),  # words rank it first, cosine second
    Node("b", "oak ash ash", vector=cosine_of(0.9)),
    Node("c", "elm"),
]


def test_C12_of_two_equal_nodes_the_one_recalled_in_this_session_comes_first() -> None:
    world = build(CROSSED)
    first = world.ask("oak", QUERY)
    assert first.keys == ["a", "b"]
    assert first[0].score == first[1].score
    earlier = world.recall(["ash"], now=ago(60))
    assert earlier[0].keys == ["b"]
    mine = hr.Session().after(earlier[0].keys, now=earlier.now)
    found = world.signals("oak", QUERY, session=mine)
    assert list(found) == ["b", "a"]
    assert found["a"]["general_score"] == found["b"]["general_score"] == 1.0
    assert found["b"]["score"] > found["a"]["score"]
    # Another conversation, in the same batch: nothing of the first is in it.
    other = hr.Session().after(["c"], now=ago(60))
    hits = world.recall(["oak"] * 3, [QUERY] * 3, session=[other, mine, None])
    assert [one.keys for one in hits] == [["a", "b"], ["b", "a"], ["a", "b"]]
    assert [hit.score for hit in hits[0]] == [0.8, 0.8]
    assert [hit.score for hit in hits[2]] == [1.0, 1.0]


CHAIN = [
    Edge(1, ("h", "a")),
    Edge(2, ("a", "b", "c")),  # all who take part are one hop apart
    Edge(3, ("c", "d")),
    Edge(4, ("d", "e")),
    Edge(5, ("x", "y")),
    Edge(6, ("k", "d")),
]


def topical(world: World, session: hr.Session) -> dict[str, float]:
    found = world.signals("node", session=session)
    return {key: row["topical_score"] for key, row in found.items()}


def test_C13_topical_score_is_halved_with_every_hop_from_hot_nodes() -> None:
    world = build(named("habcdexyzk"), CHAIN)
    assert topical(world, hr.Session({"h": NOW})) == {
        "h": 1.0, "a": 0.5, "b": 0.25, "c": 0.25, "d": 0.125,  # three hops
        "e": 0.0, "k": 0.0,  # four
        "x": 0.0, "y": 0.0, "z": 0.0,  # out of reach
    }  # fmt: skip
    # Two hot nodes, one half as warm: the larger of both counts, no sum.
    both = hr.Session({"h": NOW, "e": ago(1800)})
    assert topical(world, both) == pytest.approx(
        {"h": 1.0, "a": 0.5, "b": 0.25, "c": 0.25, "d": 0.25, "e": 0.5, "k": 0.125,
         "x": 0.0, "y": 0.0, "z": 0.0}, abs=1e-9,
    )  # fmt: skip
    assert topical(world, hr.Session({"x": ago(1800)})) == pytest.approx(
        dict.fromkeys("habcdezk", 0.0) | {"x": 0.5, "y": 0.25}, abs=1e-9
    )


def test_C13_ten_nodes_are_hot_and_none_below_a_twentieth() -> None:
    names = "abcdefghijkl"
    edges = [Edge(at, (name, name.upper())) for at, name in enumerate(names)]
    world = build(named(names + names.upper()), edges)
    times = {name: ago(60.0 * at) for at, name in enumerate(names)}
    session = hr.Session(dict(reversed(times.items())))
    found = topical(world, session)
    warm = {name: 2 ** (-60.0 * at / 1800) for at, name in enumerate(names)}
    assert {name: found[name.upper()] for name in names} == pytest.approx(
        {name: warm[name] / 2 if name < "k" else 0.0 for name in names}, abs=1e-9
    )
    # 0.05 is 1800 x log2(20) seconds ago: 7779.5.
    for seconds, is_hot in ((7779.0, True), (7780.0, False)):
        far = topical(world, hr.Session({"a": ago(seconds)}))
        assert (far["A"] > 0) == is_hot
        assert far["A"] == pytest.approx(0.025 if is_hot else 0.0, abs=1e-4)


def test_C13_what_is_out_of_scope_lets_nobody_pass() -> None:
    nodes = [*named("hab"), Node("m", "node", cell="work")]
    edges = [Edge(1, ("h", "m")), Edge(2, ("m", "a")), Edge(3, ("h", "b"), cell="work")]
    found = topical(build(nodes, edges), hr.Session({"h": NOW, "m": NOW}))
    assert found == {"h": 1.0, "a": 0.0, "b": 0.0}


# ---- how it weighs


def fused(hit: hr.Hit, arms: tuple[str, ...]) -> float:
    ranks = [rank for arm in arms if (rank := hit.arm_rank(arm)) is not None]
    return sum(sorted((1 / (60 + rank) for rank in ranks), reverse=True))


def test_C14_the_score_is_the_weighted_sum_of_three_signals(effort: Effort) -> None:
    seen: set[str] = set()
    n_topical = n_boosted = 0
    for seed in range(effort.cases(quick=8, full=200)):
        nodes, edges = drawn(seed)
        world = build(nodes, edges)
        rng = np.random.default_rng(seed)
        texts = [" ".join(rng.choice(WORDS, 2)) for _ in range(6)]
        vectors = rng.standard_normal((6, DIM)).astype(np.float32)
        sessions = [drawn_session(rng, nodes) for _ in texts]
        hits = world.recall(texts, vectors, session=sessions)
        rows = hits.to_arrow().to_pylist()
        for one, session in zip(hits, sessions, strict=True):
            name, general, topical, recent = weights(one.phase)
            assert (name, general, topical, recent) in DEFAULT.values()
            assert general + topical + recent == pytest.approx(1.0, abs=1e-15)
            best = max((fused(hit, tuple(one.n_candidates)) for hit in one), default=1.0)
            for hit in one:
                row = rows.pop(0)
                assert row["general_score"] == pytest.approx(
                    fused(hit, tuple(one.n_candidates)) / best, abs=1e-12
                )
                assert 0 < row["general_score"] <= 1
                assert (row["session_score"] > 0) == (hit.key in session.accessed)
                parts = (row["general_score"], row["topical_score"], row["session_score"])
                together = general * parts[0] + topical * parts[1] + recent * parts[2]
                assert hit.score == row["score"] == pytest.approx(together, abs=1e-9)
                assert 0 <= hit.score <= 1
                factors = hit.explain().steps[0].factors
                given = [factors[f"{part}_weight"] for part in ("general", "topical", "session")]
                assert given == [general, topical, recent]
                n_topical += 0 < parts[1] < 1
                n_boosted += parts[2] > 0
            assert [hit.score for hit in one] == sorted((hit.score for hit in one), reverse=True)
            seen.add(name)
    assert seen == {"early", "mid", "deep"}
    assert n_topical > 100 < n_boosted


@pytest.mark.parametrize(
    ("earlier", "phase"),
    [(0, 0), (1, 0), (2, 0), (3, 3), (4, 3), (9, 3), (10, 10), (11, 10), (5000, 10)],
)
def test_C15_the_phase_is_chosen_by_earlier_recalls(earlier: int, phase: int) -> None:
    world = build(named("abc"))
    session = hr.Session({"a": NOW}, earlier)
    assert weights(world.ask("node", session=session).phase) == DEFAULT[phase]
    # The same by as many recalls, one after the other.
    if earlier <= 11:
        grown = hr.Session()
        for _ in range(earlier):
            hits = world.recall(["node"], session=grown)
            grown = grown.after(hits[0].keys, now=hits.now)
        again = world.ask("node", session=grown)
        assert grown.n_recalls == earlier
        if earlier:
            assert weights(again.phase) == DEFAULT[phase]


def test_C15_phases_are_configurable() -> None:
    own = (Phase("one", 0, 0.4, 0.0, 0.6), Phase("two", 5, 1.0, 0.0, 0.0))
    stages = (replace(STAGE, phases=own),)
    world, recipe = build(named("abc")), hypergraph.replace(shaping=stages)
    for earlier, phase in ((0, own[0]), (4, own[0]), (5, own[1])):
        hits = world.ask("node", recipe=recipe, session=hr.Session({"c": NOW}, earlier))
        assert hits.phase == phase
        assert hits.keys[0] == ("c" if phase.session else "a")


def test_C17_a_hot_node_that_no_strategy_finds_is_absent() -> None:
    world = build(
        [Node("a", "oak"), Node("hot", "elm"), Node("near", "fir")],
        [Edge(1, ("hot", "a")), Edge(2, ("near", "hot"))],
    )
    session = hr.Session({"hot": NOW, "near": NOW}, 20)
    hits = world.ask("oak", session=session)
    assert hits.keys == ["a"]
    assert hits.n_candidates == {"description": 1, "edges": 0, "regex": 0}
    assert world.ask("nowhere", session=session).keys == []
    assert world.ask("elm", session=session).keys == ["hot"]


# ---- what is recorded


def test_C16_only_what_was_returned_is_recorded_and_only_afterwards() -> None:
    world = build(
        [*named("abcdef"), Node("out", "oak"), Node("other", "elm")],
        [Edge(1, ("a", "out"), "oak"), Edge(2, ("b", "other"))],
    )
    before = hr.Session({"other": ago(600)}, 2)
    hits = world.recall(["node"], session=before, limit=3)
    shown = {one.key for hit in hits[0] for one in hit.context}
    after = before.after(hits[0].keys, now=hits.now)
    assert shown == {"out", "other"}
    assert after.n_recalls == 3
    assert dict(after.accessed) == {"other": ago(600), **dict.fromkeys(hits[0].keys, NOW)}
    assert before == hr.Session({"other": ago(600)}, 2)  # nothing is written while recalling


def boosted(
    world: World, general: dict[str, float], session: hr.Session, now: datetime
) -> dict[str, float]:
    """The scores of an early recall, by definition."""
    warm = {key: 0.5 ** ((now - at).total_seconds() / 1800) for key, at in session.accessed.items()}
    hot = sorted(warm, key=lambda key: (-warm[key], key))[:10]
    far = world.graph.distances([[key] for key in hot], scope="home")
    out = {}
    for key, score in general.items():
        near = [warm[one] * 0.5 ** hops[key] for one, hops in zip(hot, far, strict=True)
                if key in hops] + [warm[key] for one in hot if one == key]  # fmt: skip
        out[key] = 0.8 * score + 0.1 * max(near, default=0.0) + 0.1 * warm.get(key, 0.0)
    return out


def test_C16_a_repeated_query_changes_its_order_by_the_documented_boost_only(
    effort: Effort,
) -> None:
    n_changed = 0
    for seed in range(effort.cases(quick=10, full=200)):
        nodes, edges = drawn(seed)
        world = build(nodes, edges)
        rng = np.random.default_rng(seed)
        text, vector = " ".join(rng.choice(WORDS, 2)), rng.standard_normal(DIM)
        first = world.recall([text], [vector], session=hr.Session())
        for _ in range(2):  # the same session: the same reply, whatever was asked before
            again = world.recall([text], [vector], session=hr.Session())
            assert again.to_arrow().equals(first.to_arrow())
        session = hr.Session()
        for at in range(3):
            now = NOW + timedelta(seconds=400 * at)
            hits = world.recall([text], [vector], session=session, now=now)
            if at:
                expected = boosted(world, {hit.key: hit.score for hit in first[0]}, session, now)
                assert {hit.key: hit.score for hit in hits[0]} == pytest.approx(expected, abs=1e-9)
                n_changed += hits[0].keys != first[0].keys
            session = session.after(hits[0].keys[:4], now=now)
    assert n_changed > 3


def test_C20_without_a_session_general_weighs_alone() -> None:
    nodes, edges = drawn(1)
    world = build(nodes, edges)
    empty = world.recall(["oak ash"] * 2, [QUERY] * 2, session=[None, hr.Session({}, 7)])
    none = world.recall(["oak ash"], [QUERY])
    plain = world.recall(["oak ash"], [QUERY], recipe=hypergraph.replace(shaping=()))
    assert len(none[0]) > 5
    for one in (*empty, *none):
        assert weights(one.phase)[1:] == (1.0, 0.0, 0.0)
        assert one.keys == plain[0].keys
        best = plain[0][0].score
        assert [hit.score for hit in one] == [hit.score / best for hit in plain[0]]


def test_C21_without_a_vector_the_other_strategies_answer() -> None:
    nodes, edges = drawn(2)
    world = build(nodes, edges)
    session = hr.Session({nodes[0].key: datetime(2026, 6, 1, 11)}, 4)
    without = world.ask("oak (elm|ash)?", session=session)
    assert list(without.n_candidates) == ["description", "edges", "regex"]
    assert all(without.n_candidates.values())
    some = world.recall(["oak (elm|ash)?"] * 2, [None, QUERY], session=session)
    assert some[0].n_candidates == without.n_candidates | {"vector": 0}
    assert some[1].n_candidates["vector"] > 0
    assert [(h.key, h.score) for h in some[0]] == [(h.key, h.score) for h in without]
    assert len(without) > 5
