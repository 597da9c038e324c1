"""What a store that names no recipe recalls by, and how it marks what only fills a list."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

import hyrecall as hr
from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.errors import OptionError
from hyrecall.memory import EpisodeMatch, Fact, MemorySync, Notes
from memory.stores import DIM, Clock, FixedEmbedder, episode, open_store
from seams import check_recall, ranked

PAID, DEPLOYS, LUNCH = "The invoices were paid", "Deploys run on Friday", "Lunch was great"


def with_three(**options: Any) -> MemorySync:
    memory = MemorySync.in_memory(**({"embedder": None} | options))
    texts = (DEPLOYS, PAID, LUNCH)
    memory.remember_batch([episode(at, text) for at, text in enumerate(texts)])
    return memory


def found(matches: list[EpisodeMatch]) -> list[str]:
    return [match.episode.output for match in matches]


def test_a_search_ranks_by_the_default_recipe_where_the_store_names_none() -> None:
    by = HashEmbedder(dim=DIM)
    with with_three(embedder=by, recall_timeout=30.0) as memory:
        for query in ("when do we deploy", "invoice", '"lunch was"'):
            matches = memory.search(query, user_id="alice")
            named = memory.search(query, user_id="alice", recipe=recipes.default)
            assert list(matches) == list(named)
            assert matches.trace is not None
            assert matches.trace.stages == ()
            assert matches[0].score <= 1.0


def test_recall_scored_keeps_loom_s_formula_where_the_store_names_no_recipe() -> None:
    by = FixedEmbedder({DEPLOYS: (1, 0), PAID: (1, 1), "invoice": (1, 0)})
    with with_three(embedder=by, recall_timeout=30.0) as memory:
        matches = memory.recall_scored("invoice", user_id="alice")
        assert list(matches) == list(
            memory.search("invoice", user_id="alice", limit=5, recipe=recipes.loom)
        )
        assert [match.score for match in matches] == [1 / 61 + 1 / 62, 1 / 61]
        assert found(memory.recall_scored("", user_id="alice")) == [LUNCH, PAID, DEPLOYS]
        assert memory.recall("invoice", user_id="alice") == [one.episode for one in matches]


def test_both_formulas_read_one_index() -> None:
    with open_store(embedder=None) as memory:
        memory.remember(episode(0, PAID))
        assert memory.search("invoice", user_id="alice")
        assert memory.recall_scored("invoice", user_id="alice")[0].bm25_score
        assert memory._store.follower.report()["rebuilds"] == 1


@pytest.mark.parametrize("recipe", [recipes.loom, recipes.default, recipes.honeycomb])
def test_a_recipe_that_the_store_names_is_that_of_every_recall(recipe: hr.Recipe) -> None:
    with with_three(recipe=recipe, clock=Clock()) as memory:
        for query in ("deploys on friday", "invoices", " "):
            searched = memory.search(query, user_id="alice", limit=5)
            assert list(memory.recall_scored(query, user_id="alice")) == list(searched)


def test_a_blank_search_finds_nothing_by_default_and_list_gives_the_newest() -> None:
    with with_three() as memory:
        matches = memory.search("  ", user_id="alice")
        assert list(matches) == []
        assert not matches.degraded
        assert [one.output for one in memory.list(user_id="alice")] == [LUNCH, PAID, DEPLOYS]
        assert found(memory.search("", user_id="alice", recipe=recipes.loom))[0] == LUNCH


def test_equal_scores_keep_the_order_in_which_memories_were_kept() -> None:
    with MemorySync.in_memory(embedder=None) as memory:
        memory.remember_batch([episode(at, "the same words", id=f"e{9 - at}") for at in range(9)])
        names = [match.episode.id for match in memory.search("same words", user_id="alice")]
        assert names == [f"e{9 - at}" for at in range(9)]


def test_a_changed_memory_stands_behind_its_equals_and_only_l0_ranks_a_pinned_one_first() -> None:
    for recipe, wanted in ((recipes.default, ["b", "c", "a"]), (recipes.l0, ["a", "c", "b"])):
        with MemorySync.in_memory(recipe=recipe, embedder=None) as memory:
            for name in "abc":
                memory.remember("tea", id=name, kind="note")
            memory.pin("a")
            assert [one.episode.id for one in memory.search("tea")] == wanted


def test_facts_are_recalled_by_the_default_recipe_and_a_blank_query_lists_those_that_hold() -> None:
    with MemorySync.in_memory(embedder=None) as memory:
        memory.remember_fact(Fact(subject="ann", predicate="pays", object="invoices"))
        memory.remember_fact(Fact(subject="bo", predicate="likes", object="tea"))
        assert [one.object for one in memory.recall_facts("invoice")] == ["invoices"]
        assert [one.object for one in memory.recall_facts("")] == ["tea", "invoices"]


@pytest.mark.parametrize("name", ["default", "loom", "hypergraph", "l0", "honeycomb", "hebb"])
def test_a_blank_query_gives_the_newest_facts_that_hold_by_every_recipe(name: str) -> None:
    with MemorySync.in_memory(embedder=None, recipe=getattr(recipes, name)) as memory:
        for year, city in ((2023, "Oslo"), (2025, "Bergen"), (9000, "Mars")):
            begin = datetime(year, 1, 1, tzinfo=UTC)
            said = {"subject": "ann", "predicate": "lives in"}
            memory.remember_fact(Fact(**said, object=city, valid_from=begin))
        tea = {"subject": "ann", "predicate": "likes", "object": "tea"}
        memory.remember_fact(Fact(**tea, valid_from=datetime(2024, 1, 1, tzinfo=UTC)))
        for blank in ("", " \n"):
            assert [one.object for one in memory.recall_facts(blank)] == ["Bergen", "tea"]
        assert [one.object for one in memory.recall_facts("", limit=1)] == ["Bergen"]
        then = memory.recall_facts("", valid_at=datetime(2024, 7, 1, tzinfo=UTC))
        assert [one.object for one in then] == ["tea", "Oslo"]


def test_notes_need_a_store_that_was_opened_with_their_recipe() -> None:
    with (
        MemorySync.in_memory(embedder=None) as memory,
        pytest.raises(OptionError, match="recipe: expected a recipe that shares an index with def"),
    ):
        Notes(memory)


# ---- fill ----


@pytest.mark.parametrize("recipe", [None, recipes.default, recipes.honeycomb])
def test_nothing_fills_a_search_of_a_recipe_without_fill(recipe: hr.Recipe | None) -> None:
    with with_three(recipe=recipe) as memory:
        matches = memory.search("invoices paid", user_id="alice")
        assert found(matches) == [PAID]
        assert [match.is_fill for match in matches] == [False]
        assert memory.search("xylophone", user_id="alice") == []


def test_rows_that_a_recipe_s_fill_added_are_marked() -> None:
    with with_three() as memory:
        matches = memory.recall_scored("invoice", user_id="alice")
        assert found(matches) == [PAID, LUNCH, DEPLOYS]
        assert [match.is_fill for match in matches] == [False, True, True]
        assert list(matches.origins) == ["hit", "fill", "fill"]
        assert all(match.is_fill for match in memory.recall_scored("", user_id="alice"))


def test_what_a_blank_query_gets_is_marked_where_there_is_no_index(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from seams import DegradedReason, IndexNotReadyError

    def none(**_: object) -> None:
        raise IndexNotReadyError(DegradedReason.INDEX_NOT_READY, "as asked")

    with with_three(recipe=recipes.loom) as memory:
        monkeypatch.setattr(memory._store.follower, "ready", none)
        blank = memory.recall_scored("", user_id="alice")
        assert [match.is_fill for match in blank] == [True, True, True]
        assert [match.is_fill for match in memory.recall_scored("lunch", user_id="alice")] == [
            False
        ]


def test_adapters_mark_what_fills_a_list() -> None:
    episodes = [episode(0, PAID), episode(1, LUNCH)]
    matches = ranked(episodes, check_recall("invoices"))
    assert [(match.episode.output, match.is_fill) for match in matches] == [
        (PAID, False),
        (LUNCH, True),
    ]


def test_a_match_without_the_mark_is_none_that_fills() -> None:
    match = EpisodeMatch.model_validate({"episode": {"output": "tea"}, "score": 1.0})
    assert match.is_fill is False
