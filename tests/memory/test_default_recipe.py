"""What a store recalls by: its recipe, the default one, and the analyzer of its texts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import hyrecall as hr
from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.errors import OptionError
from hyrecall.memory import EpisodeMatch, Fact, MemorySync
from hyrecall.systems.l0 import Notes
from memory.stores import DIM, FixedEmbedder, episode, folder, open_store
from seams import TokenFunction, check_recall, ranked

PAID, DEPLOYS, LUNCH = "The invoices were paid", "Deploys run on Friday", "Lunch was great"


def with_three(**options: Any) -> MemorySync:
    memory = MemorySync.in_memory(**({"embedder": None} | options))
    texts = (DEPLOYS, PAID, LUNCH)
    memory.remember_batch([episode(at, text) for at, text in enumerate(texts)])
    return memory


def found(matches: list[EpisodeMatch]) -> list[str]:
    return [match.episode.text for match in matches]


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


def test_a_blank_search_finds_nothing_by_default_and_list_gives_the_newest() -> None:
    with with_three() as memory:
        matches = memory.search("  ", user_id="alice")
        assert list(matches) == []
        assert not matches.degraded
        assert [one.text for one in memory.list(user_id="alice")] == [LUNCH, PAID, DEPLOYS]
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
    assert [(match.episode.text, match.is_fill) for match in matches] == [
        (PAID, False),
        (LUNCH, True),
    ]


def outputs(memory: MemorySync, query: str) -> list[str]:
    return [match.episode.text for match in memory.search(query, user_id="alice")]


def with_two(path: Path, **options: Any) -> MemorySync:
    memory = open_store(path, embedder=None, **options)
    memory.remember_batch([episode(0, PAID), episode(1, DEPLOYS)])
    return memory


def reopened(path: Path, **options: Any) -> tuple[MemorySync, tuple[str, ...]]:
    """Open a store again; say why its index was made anew."""
    memory = open_store(path, embedder=None, **options)
    return memory, memory._store.follower.report()["rebuild_reasons"]


def test_a_store_of_words_finds_other_forms_of_a_word() -> None:
    with with_two(folder()) as memory:
        assert outputs(memory, "invoice") == [PAID]
        assert outputs(memory, "when do we deploy") == [DEPLOYS]
        best = memory.recall_scored("when do we deploy", user_id="alice")[0]
        assert (best.episode.text, best.is_fill) == (DEPLOYS, False)


def test_the_default_analyzer_keeps_identifiers_accents_and_scripts_without_spaces() -> None:
    with MemorySync.in_memory(embedder=None) as memory:
        texts = ("INV-2026-0042 is due", "Café in Łódź", "東京都に住んでいます", "Книги оплачены")
        memory.remember_batch([episode(at, text) for at, text in enumerate(texts)])
        for query, text in zip(("inv-2026-0042", "cafe lodz", "京都", "книги"), texts, strict=True):
            assert outputs(memory, query) == [text]


@pytest.mark.parametrize(
    ("recipe", "name"),
    [
        (None, "unicode:english"),
        (recipes.default, "unicode:english"),
        (recipes.honeycomb, "unicode:english"),
        (recipes.hypergraph, "unicode:english"),
        (recipes.loom, "word"),
        (recipes.loom.replace(exact=True), "word"),
        (recipes.l0, "unicode61"),
        (recipes.hebb, "porter"),
    ],
)
def test_each_recipe_has_its_analyzer(recipe: hr.Recipe | None, name: str) -> None:
    with MemorySync.in_memory(recipe=recipe, embedder=None) as memory:
        memory.remember(episode(0, "tea"))
        index = memory._store.follower.ready().index
        assert index._facts.analyzers["text"] == hr.Analyzer(name)


@pytest.mark.parametrize("analyzer", ["word", hr.Analyzer("word")])
@pytest.mark.parametrize("recipe", [None, recipes.default, recipes.loom, recipes.honeycomb])
def test_a_given_analyzer_is_the_store_s(
    analyzer: hr.Analyzer | str, recipe: hr.Recipe | None
) -> None:
    with MemorySync.in_memory(recipe=recipe, analyzer=analyzer, embedder=None) as memory:
        memory.remember(episode(0, PAID))
        best = memory.search("invoices", user_id="alice", recipe=recipes.default)
        assert best[0].bm25_score
        assert memory.search("invoice", user_id="alice", recipe=recipes.default) == []


def test_an_analyzer_beside_a_recipe_that_states_another_is_refused_with_both_named() -> None:
    told = r"analyzer: expected 'porter', which the recipe 'hebb' states, got Analyzer\('unicode'\)"
    path = folder()
    with pytest.raises(OptionError, match=told) as caught:
        MemorySync.open(path, recipe=recipes.hebb, analyzer="unicode", embedder=None)
    assert caught.value.argument == "analyzer"
    assert not path.exists()
    with MemorySync.in_memory(recipe=recipes.hebb, analyzer="porter", embedder=None) as memory:
        memory.remember(episode(0, PAID))
        assert outputs(memory, "invoice") == [PAID]


def test_a_search_by_a_recipe_that_states_another_analyzer_is_refused() -> None:
    stated = recipes.default.replace(name="mine", analyzer="porter")
    with with_two(folder()) as memory:
        with pytest.raises(OptionError, match="recipe: expected a recipe that shares an index"):
            memory.search("invoice", user_id="alice", recipe=stated)
        same = recipes.default.replace(name="mine", analyzer="unicode:english")
        assert memory.search("invoice", user_id="alice", recipe=same)


def test_the_index_is_made_anew_for_another_analyzer_and_read_for_the_same() -> None:
    path = folder()
    with_two(path).close()
    memory, reasons = reopened(path)
    with memory:
        assert reasons == ()
    memory, reasons = reopened(path, analyzer="word")
    with memory:
        assert reasons == ("of another layout or model",)
        assert outputs(memory, "invoice") == []
    memory, reasons = reopened(path, analyzer=hr.Analyzer("word"))
    with memory:
        assert reasons == ()
    memory, reasons = reopened(path)
    with memory:
        assert reasons == ("of another layout or model",)
        assert outputs(memory, "invoice") == [PAID]


@pytest.mark.parametrize("kind", ["texts", "tokens"])
def test_a_callable_is_passed_at_each_opening_else_the_default_serves(kind: str) -> None:
    def initials(text: str) -> list[str]:
        return [word[0].lower() for word in text.split()]

    if kind == "texts":
        own = hr.Analyzer.from_callable(initials, name="initials", version="1")
    else:
        own = hr.Analyzer(token_function=TokenFunction(initials, name="initials", version="1"))
    path = folder()
    with with_two(path, analyzer=own) as memory:
        memory.link(["e0", "e1"], "near")
        assert outputs(memory, "iguana") == [PAID]
    memory, reasons = reopened(path, analyzer=own)
    with memory:
        assert reasons == ()
        memory.remember(episode(2, "Zebras run"))
        assert outputs(memory, "zoo") == ["Zebras run"]
    memory, reasons = reopened(path)
    with memory:
        assert reasons == ("of another layout or model",)
        assert outputs(memory, "zoo") == []
        assert outputs(memory, "zebra") == ["Zebras run"]


def test_an_analyzer_that_raises_loses_no_memory() -> None:
    def words(text: str) -> list[str]:
        if "boom" in text:
            raise ValueError("as asked")
        return text.split()

    own = hr.Analyzer.from_callable(words, name="words", version="1")
    path = folder()
    with open_store(path, embedder=None, analyzer=own) as memory:
        memory.remember(episode(0, "green tea"))
        memory.remember(episode(1, "boom"))
        assert memory.get("e1", user_id="alice") is not None
        matches = memory.search("tea", user_id="alice")
        assert [match.episode.id for match in matches] == ["e0"]
        assert matches.degraded
    memory, _ = reopened(path)
    with memory:
        assert outputs(memory, "boom") == ["boom"]
