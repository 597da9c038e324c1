"""How the texts of a store become words: the default, a given analyzer, and a change of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hyrecall as hr
from hyrecall import recipes
from hyrecall.errors import OptionError
from hyrecall.memory import MemorySync
from memory.stores import episode, folder, open_store
from seams import TokenFunction

PAID, DEPLOYS = "The invoices were paid", "Deploys run on Friday"


def found(memory: MemorySync, query: str) -> list[str]:
    return [match.episode.output for match in memory.search(query, user_id="alice")]


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
        assert found(memory, "invoice") == [PAID]
        assert found(memory, "when do we deploy") == [DEPLOYS]
        best = memory.recall_scored("when do we deploy", user_id="alice")[0]
        assert (best.episode.output, best.is_fill) == (DEPLOYS, False)


def test_the_default_analyzer_keeps_identifiers_accents_and_scripts_without_spaces() -> None:
    with MemorySync.in_memory(embedder=None) as memory:
        texts = ("INV-2026-0042 is due", "Café in Łódź", "東京都に住んでいます", "Книги оплачены")
        memory.remember_batch([episode(at, text) for at, text in enumerate(texts)])
        for query, text in zip(("inv-2026-0042", "cafe lodz", "京都", "книги"), texts, strict=True):
            assert found(memory, query) == [text]


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


def test_a_store_of_loom_has_loom_s_words() -> None:
    with with_two(folder(), recipe=recipes.loom) as memory:
        assert [match.bm25_score for match in memory.recall_scored("invoice", user_id="alice")] == [
            0.0,
            0.0,
        ]
        assert found(memory, "invoices")[0] == PAID


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


def test_a_given_analyzer_holds_in_the_async_store() -> None:
    import asyncio

    from hyrecall.memory import Memory

    async def main() -> list[int]:
        async with (
            Memory.in_memory(analyzer="word", embedder=None) as one,
            Memory.open(folder(), analyzer="unicode:german", embedder=None) as other,
        ):
            counts = []
            for memory in (one, other):
                await memory.remember(episode(0, "Die Rechnungen sind bezahlt"))
                matches = await memory.search("Rechnung", user_id="alice")
                counts.append(len(matches))
            return counts

    assert asyncio.run(main()) == [0, 1]


def test_an_analyzer_beside_a_recipe_that_states_another_is_refused_with_both_named() -> None:
    told = r"analyzer: expected 'porter', which the recipe 'hebb' states, got Analyzer\('unicode'\)"
    path = folder()
    with pytest.raises(OptionError, match=told) as caught:
        MemorySync.open(path, recipe=recipes.hebb, analyzer="unicode", embedder=None)
    assert caught.value.argument == "analyzer"
    assert not path.exists()
    with MemorySync.in_memory(recipe=recipes.hebb, analyzer="porter", embedder=None) as memory:
        memory.remember(episode(0, PAID))
        assert found(memory, "invoice") == [PAID]


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
        assert found(memory, "invoice") == []
    memory, reasons = reopened(path, analyzer=hr.Analyzer("word"))
    with memory:
        assert reasons == ()
    memory, reasons = reopened(path)
    with memory:
        assert reasons == ("of another layout or model",)
        assert found(memory, "invoice") == [PAID]


def test_a_reader_with_another_analyzer_leaves_the_saved_index_as_it_is() -> None:
    path = folder()
    with_two(path).close()
    memory, reasons = reopened(path, analyzer="word", read_only=True)
    with memory:
        assert reasons == ("of another layout or model",)
        assert found(memory, "invoice") == []
    memory, reasons = reopened(path)
    with memory:
        assert reasons == ()


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
        assert found(memory, "iguana") == [PAID]
    memory, reasons = reopened(path, analyzer=own)
    with memory:
        assert reasons == ()
        memory.remember(episode(2, "Zebras run"))
        assert found(memory, "zoo") == ["Zebras run"]
    memory, reasons = reopened(path)
    with memory:
        assert reasons == ("of another layout or model",)
        assert found(memory, "zoo") == []
        assert found(memory, "zebra") == ["Zebras run"]


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
        assert found(memory, "boom") == ["boom"]
