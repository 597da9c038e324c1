"""A store ranks episodes with sessions by what was said around them, for each caller alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import hyrecall as hr
from hyrecall import recipes
from hyrecall.memory import EpisodeMatch, Matches, MemorySync
from memory.stores import HOUR, NOON, episode

TURNS = ("shall we paint the boat blue", "no, green", "lunch was great", "the train was late")
CHAT = tuple(episode(at, text, session_id="monday") for at, text in enumerate(TURNS))
SYSTEMS = [recipes.loom, recipes.honeycomb]


def in_memory(*batches: Sequence[Any], **options: Any) -> MemorySync:
    memory = MemorySync.in_memory(**({"embedder": None} | options))
    for batch in batches:
        memory.remember_batch(batch)
    return memory


def shown(matches: Sequence[EpisodeMatch]) -> list[tuple[str, float]]:
    return [(match.episode.text, match.score) for match in matches]


def outputs(matches: Sequence[EpisodeMatch]) -> list[str]:
    return [match.episode.text for match in matches]


def test_what_was_said_beside_the_words_of_a_query_is_found() -> None:
    with in_memory(CHAT) as memory:
        matches = memory.search("which colour is the boat", user_id="alice")
        assert outputs(matches)[:2] == ["shall we paint the boat blue", "no, green"]
        assert "is row e1" in str(matches[0].explain())
        named = memory.search("which colour is the boat", user_id="alice", recipe=recipes.default)
        assert shown(named) == shown(matches)
        conversation = recipes.conversation
        by_name = memory.search("which colour is the boat", user_id="alice", recipe=conversation)
        assert shown(by_name) == shown(matches)


def test_a_recipe_that_searches_twice_hears_sessions_too() -> None:
    looks = hr.Feedback(rows=1, terms=2)
    twice = recipes.default.replace(shaping=looks)
    named = recipes.conversation.replace(shaping=(looks, *recipes.conversation.shaping))
    with in_memory(CHAT) as memory:
        found = memory.search("lunch", user_id="alice", recipe=twice)
        assert len(found) > 1
        assert shown(found) == shown(memory.search("lunch", user_id="alice", recipe=named))


def test_a_memory_without_a_session_is_in_no_thread() -> None:
    odd = [episode(5, "boat"), episode(6, "apples"), episode(7, "pears")]
    with in_memory([*CHAT, *odd]) as memory:
        matches = {one.episode.id: one for one in memory.search("boat", user_id="alice", limit=20)}
        assert "thread" not in str(matches["e5"].explain())
        assert "e6" not in matches
        assert "e1" in matches


def test_a_session_is_one_thread_in_each_cell() -> None:
    shared = [
        episode(at, f"{text} again", id=f"g{at}", session_id="monday", visibility="global")
        for at, text in enumerate(TURNS)
    ]
    with in_memory([*CHAT, *shared]) as memory:
        found = {one.episode.id: one for one in memory.search("boat", user_id="alice", limit=20)}
        assert "is row e1" in str(found["e0"].explain())
        assert "is row g1" in str(found["g0"].explain())


@pytest.mark.parametrize("recipe", SYSTEMS, ids=lambda one: one.name)
def test_recipes_of_other_systems_hear_no_thread(recipe: hr.Recipe) -> None:
    apart = [one.model_copy(update={"session_id": None}) for one in CHAT]
    with in_memory(CHAT, recipe=recipe) as threads, in_memory(apart, recipe=recipe) as plain:
        for query in ("boat", "the train", "which colour is the boat"):
            asked: dict[str, Any] = {"user_id": "alice", "now": NOON + 9 * HOUR}
            found = [shown(memory.search(query, **asked)) for memory in (threads, plain)]
            assert found[0] == found[1]


@pytest.mark.parametrize(
    "options", [{"normalize": True}, {"alpha": 0.0}, {"token_budget": 9}, {"min_score": 0.1}]
)
def test_options_of_a_search_are_taken_beside_threads(options: dict[str, Any]) -> None:
    with in_memory(CHAT) as memory:
        matches = memory.search("boat", user_id="alice", **options)
        assert outputs(matches)[0] == "shall we paint the boat blue"
        assert not options.get("normalize") or matches[0].score == 1.0


def around(matches: Matches) -> list[tuple[str, list[str]]]:
    near = matches.around or ((),) * len(matches)
    return [
        (match.episode.id, [one.id for one in beside])
        for match, beside in zip(matches, near, strict=True)
    ]


def test_what_stands_around_a_match_is_shown_in_its_order() -> None:
    with in_memory(CHAT) as memory:
        found = memory.search("lunch", user_id="alice", around=1)
        assert around(found) == [("e2", ["e1", "e3"]), ("e0", [])]
        assert [[one.text for one in near] for near in found.around] == [
            ["no, green", "the train was late"], [],
        ]  # fmt: skip
        assert memory.search("lunch", user_id="alice").around == ()
        plain = recipes.default.replace(with_threads=None)
        found = memory.search("lunch", user_id="alice", around=2, recipe=plain)
        assert around(found) == [("e2", ["e0", "e1", "e3"])]


def test_memories_that_are_shown_around_a_match_are_told_apart_from_those_dropped() -> None:
    with in_memory(CHAT) as memory:
        matches = memory.search("lunch", user_id="alice", around=1)
        (drops,) = [one for one in matches.explain_dropped().stages if one.n_dropped]
        assert drops.stage == "surrounding"
        assert [(row.key, row.reason) for row in drops.rows] == [
            ("e3", "surrounding"), ("e1", "surrounding"),
        ]  # fmt: skip
        assert {row.kept.key for row in drops.rows if row.kept is not None} == {"e2"}


@pytest.mark.parametrize("budget", [1, 5, 8, 12, 16, 30])
def test_what_stands_around_takes_part_of_the_budget(budget: int) -> None:
    with in_memory(CHAT) as memory:
        found = memory.search("lunch", user_id="alice", around=3, token_budget=budget)
        texts = [match.episode.text for match in found]
        near = [one.text for beside in found.around for one in beside]
        spent = sum(max(1, -(-len(text) // 4)) for text in texts + near)
        assert spent <= budget or (len(texts) == 1 and not near)
        assert len(found) >= 1
