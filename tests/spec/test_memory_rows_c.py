"""Rows of part C (hm_recall) through a store of hypergraph: strategies, signals, phases."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from hyrecall import recipes
from hyrecall.memory import MemorySync
from memory.stores import NOON, Clock, FixedEmbedder, episode, open_store


def opened(
    vectors: dict[str, Sequence[float]] | None = None, clock: Clock | None = None
) -> MemorySync:
    """A store of hypergraph; with vectors by text, or without an embedder."""
    embedder = None if vectors is None else FixedEmbedder(vectors)
    return open_store(
        recipe=recipes.hypergraph, embedder=embedder, recall_timeout=30.0, clock=clock or Clock()
    )


def keep(memory: MemorySync, **texts: str) -> None:
    """Keep nodes by key and description."""
    for key, text in texts.items():
        memory.remember(episode(0, text, id=key))


def ask(memory: MemorySync, query: str, **options: Any) -> Any:
    return memory.search(query, **({"user_id": "alice", "limit": 50} | options))


def ids(matches: Any) -> list[str]:
    return [match.episode.id for match in matches]


def test_C02_each_of_four_strategies_finds_and_is_counted() -> None:
    vectors = {"oak.*": [1.0, 0.0], "cables": [0.9, 0.1]}
    with opened(vectors) as memory:
        keep(memory, words="an oak tree", meaning="cables", end="a garden", other="a street")
        memory.remember(episode(0, "a house", id="data", metadata={"wood": "oaken"}))
        memory.link(["end", "other"], "oak", user_id="alice")
        matches = ask(memory, "oak.*")
        assert matches.tiers == {"text": 1, "embedding": 1, "edges": 2, "regex": 4}
        tiers = {match.episode.id: set(match.parts.tiers) for match in matches}
        assert tiers == {
            "words": {"text", "regex"}, "meaning": {"embedding"}, "data": {"regex"},
            "end": {"edges", "regex"}, "other": {"edges", "regex"},
        }  # fmt: skip


def test_C03_words_are_sought_in_descriptions_and_not_in_data() -> None:
    with opened() as memory:
        keep(memory, a="the oak by the river", c="an elm")
        memory.remember(episode(0, "a garden", id="b", metadata={"tree": "oak"}))
        matches = ask(memory, "oak")
        assert ids(matches) == ["a"]
        assert matches.tiers["regex"] == 0


def test_C04_a_cosine_of_035_is_a_candidate_and_less_is_not() -> None:
    vectors: dict[str, Sequence[float]] = {
        "nowhere": [1.0, 0, 0, 0, 0],
        "exact": [7.0, 18.0, 5.0, 1.0, 1.0],  # of length 20: the cosine is 7 / 20
        "below": [0.3499, (1 - 0.3499**2) ** 0.5, 0, 0, 0],
        "above": [0.3501, (1 - 0.3501**2) ** 0.5, 0, 0, 0],
    }
    embedder = FixedEmbedder(vectors, dim=5)
    with open_store(
        recipe=recipes.hypergraph, embedder=embedder, recall_timeout=30.0, clock=Clock()
    ) as memory:
        keep(memory, exact="exact", below="below", above="above")
        assert ids(ask(memory, "nowhere")) == ["above", "exact"]


def test_C05_an_edge_that_matches_brings_all_its_participants() -> None:
    with opened() as memory:
        keep(memory, **{key: f"node {key}" for key in "abcdef"})
        memory.link(["a", "b"], "decided by", user_id="alice")
        memory.link(["c", "d", "e"], "met", description="they decided together", user_id="alice")
        memory.link(["e", "f"], "likes", user_id="alice")
        assert set(ids(ask(memory, "decided"))) == set("abcde")


def test_C06_patterns_run_where_the_query_is_one_or_nothing_else_finds() -> None:
    with opened() as memory:
        keep(memory, sessions="cookies in the browser", jwt="tokens", deploy="blue green deploy")
        memory.remember(episode(0, "a house", id="data", metadata={"alg": "RS256 (?=ahead)"}))
        memory.link(["jwt", "sessions"], "uses", user_id="alice", description="upon responses")
        for query, n_regex, keys in (
            ("cookies", 0, ["sessions"]),
            ("uses", 0, ["jwt", "sessions"]),
            ("ookie", 1, ["sessions"]),  # no word of it: the fallback
            ("cook.*", 1, ["sessions"]),
            ("t.kens|nothing", 1, ["jwt"]),
            ("R[ST]256", 1, ["data"]),
            ("rs256 (", 1, ["data"]),  # no pattern, and no word: a piece of text
            ("deploy (", 0, ["deploy"]),
            ("(?=AHEAD)", 1, ["data"]),  # RE2 has no lookahead
            ("pons", 2, ["jwt", "sessions"]),  # of the edge's text
            ("no.where", 0, []),
        ):
            matches = ask(memory, query)
            assert (matches.tiers["regex"], sorted(ids(matches))) == (n_regex, keys), query


@pytest.mark.parametrize(("seconds", "expected"), [(0, 1.0), (1800, 0.5), (3600, 0.25)])
def test_C11_half_of_the_session_score_is_gone_in_1800_seconds(
    seconds: int, expected: float
) -> None:
    clock = Clock()
    with opened(clock=clock) as memory:
        keep(memory, a="oak")
        ask(memory, "oak", session_id="chat")
        keep(memory, never="oak tree")
        clock.now = NOON + timedelta(seconds=seconds)
        matches = ask(memory, "oak", session_id="chat")
        found = {match.episode.id: match.parts.session for match in matches}
        assert found == {"a": pytest.approx(expected, abs=1e-9), "never": 0.0}


def chain(memory: MemorySync) -> None:
    """h - a - b - c - d, and x apart; only h has the word oak."""
    keep(memory, h="oak node", **dict.fromkeys("abcdx", "node"))
    for first, second in ("ha", "ab", "bc", "cd"):
        memory.link([first, second], "beside", user_id="alice")


def test_C13_the_topical_score_is_halved_with_every_hop_up_to_three() -> None:
    with opened() as memory:
        chain(memory)
        ask(memory, "oak", session_id="chat")
        matches = ask(memory, "node", session_id="chat")
        assert {match.episode.id: match.parts.topical for match in matches} == {
            "h": 1.0, "a": 0.5, "b": 0.25, "c": 0.125, "d": 0.0, "x": 0.0,
        }  # fmt: skip


def test_C14_the_score_is_the_weighted_sum_of_three_signals() -> None:
    with opened() as memory:
        chain(memory)
        ask(memory, "oak", session_id="chat")
        for _ in range(12):
            matches = ask(memory, "node", session_id="chat")
            phase = matches.phase
            assert phase.general + phase.topical + phase.session == pytest.approx(1.0)
            for match in matches:
                parts = match.parts
                expected = (
                    phase.general * parts.general
                    + phase.topical * parts.topical
                    + phase.session * parts.session
                )
                assert match.score == pytest.approx(expected, abs=1e-9)


def test_C15_the_phase_is_chosen_by_earlier_recalls() -> None:
    with opened() as memory:
        keep(memory, a="oak")
        phases = [ask(memory, "oak", session_id="chat").phase for _ in range(12)]
        names = [phase.name for phase in phases]
        assert names == ["early"] * 3 + ["mid"] * 7 + ["deep"] * 2
        weights = {phase.name: (phase.general, phase.topical, phase.session) for phase in phases}
        assert weights == {
            "early": (0.8, 0.1, 0.1), "mid": (0.6, 0.2, 0.2), "deep": (0.5, 0.25, 0.25),
        }  # fmt: skip


def test_C17_a_hot_node_that_no_strategy_finds_is_absent() -> None:
    with opened() as memory:
        keep(memory, a="oak", hot="elm", near="fir")
        memory.link(["hot", "a"], "beside", user_id="alice")
        ask(memory, "elm", session_id="chat")
        assert ids(ask(memory, "oak", session_id="chat")) == ["a"]
        assert ids(ask(memory, "nowhere", session_id="chat")) == []
