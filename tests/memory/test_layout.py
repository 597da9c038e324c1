"""What becomes of a store's rows in an index, recipe by recipe."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import hyrecall as hr
from hyrecall import recipes
from hyrecall.errors import OptionError
from memory.small_store import DIM, NOW, cell, episode, link, rebuilt, remember
from seams import ANALYZER, Database, Layout, layout_of, serves
from seams import layout as layouts

SCOPE = tuple(cell())


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with_some = Database.open(tmp_path / "store")
    remember(
        with_some,
        episode(1, input="who?", output="ann bakes bread", tags=("food", "home")),
        episode(2, input=" ", output="bo sails", source="session", session_id="s"),
        episode(3, input="cy", output="", importance=None, metadata={"plane": "bread"}),
    )
    link(with_some, "edge", ["e1", "e2"])
    yield with_some
    with_some.close()


def test_recipes_that_read_the_same_share_a_layout() -> None:
    made = [layout_of(one) for one in (recipes.default, recipes.honeycomb)]
    made.append(layout_of(recipes.loom, hr.Analyzer(ANALYZER)))
    assert len({one.hash for one in made}) == 1
    others = [layout_of(one) for one in (recipes.loom, recipes.hebb, recipes.l0)]
    others.append(layout_of(recipes.hypergraph))
    assert len({one.hash for one in others}) == 4
    assert layout_of(recipes.hypergraph_regex) == layout_of(recipes.hypergraph)
    assert layout_of(recipes.loom.replace(depth=7)) == layout_of(recipes.loom)
    assert layout_of(recipes.loom.replace(name="mine")) == layout_of(recipes.default)


def test_a_recipe_that_states_no_analyzer_is_served_by_any() -> None:
    layout = layout_of(recipes.default, hr.Analyzer("snowball:german"))
    stating = recipes.default.replace(analyzer="snowball:german")
    for recipe in (recipes.loom, recipes.default, recipes.honeycomb, stating):
        assert serves(layout, recipe), recipe.name
    for recipe in (recipes.hebb, recipes.l0, recipes.hypergraph):
        assert not serves(layout, recipe), recipe.name
    assert not serves(layout, recipes.default.replace(analyzer="word"))


def test_a_recipe_that_reads_what_no_memory_has_is_refused() -> None:
    recipe = recipes.loom.replace(tie_break=hr.recipe.TieBreak("colour"))
    with pytest.raises(OptionError, match=r"recipe: expected columns of .*, got 'colour'"):
        layout_of(recipe)


def test_whatever_makes_other_rows_makes_another_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Layout()
    changed = [
        Layout(analyzer=hr.Analyzer("porter")),
        Layout(analyzer=hr.Analyzer(ANALYZER, stopwords="english")),
        Layout(texts=("output",)),
        Layout(stored=("row",)),
        Layout(key="key"),
    ]
    assert len({plain.hash, *(one.hash for one in changed)}) == 6
    monkeypatch.setattr(layouts, "_REVISION", 2)
    assert Layout().hash != plain.hash


def test_columns_hold_what_the_store_does(database: Database) -> None:
    ready = rebuilt(database)
    names = [name for name in ready.index.schema.row_columns if name != "id"]
    hits = ready.index.recall(
        arms=hr.arms.Newest("occurred_at"), scope=SCOPE, columns=names, limit=9
    )
    rows = {row["key"]: row for row in hits.to_arrow().to_pylist()}
    assert rows["e1"]["text"] == "who?\nann bakes bread"
    assert rows["e2"]["text"] == "bo sails"  # a blank half is left out, as in Episode.text
    assert rows["e1"]["tags"] == ["food", "home"]
    at = episode(1).occurred_at
    times = ("occurred_at", "created_at", "last_accessed")
    assert [rows["e1"][name] for name in times] == [at, at, at]
    assert rows["e1"]["updated_at"] == NOW
    assert (rows["e2"]["source"], rows["e2"]["session_id"]) == ("session", "s")
    assert rows["e3"]["importance"] is None
    assert (rows["e1"]["pinned"], rows["e1"]["version"], rows["e1"]["row"]) == (False, 1, 1)
    assert (rows["e1"]["valid_from"], rows["e1"]["valid_to"]) == (None, None)
    assert [rows["e1"][name] for name in ("org", "user", "visibility")] == [
        None,
        "alice",
        "private",
    ]
    assert ready.index.stats()["dims"] == {"embedding": DIM}


def test_hypergraph_finds_a_pattern_in_the_data_of_a_node(database: Database) -> None:
    ready = rebuilt(database, layout_of(recipes.hypergraph))
    recipe = recipes.hypergraph_regex.without_graphs()
    hits = ready.index.recall_one(text="pl.ne", scope=SCOPE, recipe=recipe)
    assert hits.keys == ["e3"]
