"""What becomes of a store's rows in an index: columns by recipe, tables by the definition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import recipes
from hyrecall.errors import OptionError
from hyrecall.memory import Fact, MemorySync
from memory.small_store import DIM as SMALL_DIM
from memory.small_store import NOW, cell, episode, link, rebuilt, remember
from memory.stores import DIM, open_store
from seams import (
    ANALYZER,
    EDGES,
    Database,
    IndexColumn,
    Layout,
    layout_of,
    norms,
    projection,
    serves,
    vector_checksum,
)
from seams import layout as layouts

SCOPE = tuple(cell())


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with_some = Database.open(tmp_path / "store")
    remember(
        with_some,
        episode(1, input="who?", text="ann bakes bread", tags=("food", "home")),
        episode(2, input=" ", text="bo sails", source="session", session_id="s"),
        episode(3, input="cy", text="", importance=None, metadata={"plane": "bread"}),
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
    for recipe in (recipes.loom, recipes.default, recipes.honeycomb, stating, recipes.hypergraph):
        assert serves(layout, recipe), recipe.name
    for recipe in (recipes.hebb, recipes.l0):
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
    assert rows["e2"]["text"] == "bo sails"  # a blank half is left out, as in Episode.full_text
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
    assert ready.index.stats()["dims"] == {"embedding": SMALL_DIM}


def test_hypergraph_finds_a_pattern_in_the_data_of_a_node(database: Database) -> None:
    ready = rebuilt(database, layout_of(recipes.hypergraph))
    recipe = recipes.hypergraph_regex.without_graphs()
    hits = ready.index.recall_one(text="pl.ne", scope=SCOPE, recipe=recipe)
    assert hits.keys == ["e3"]


LAYOUTS = [
    layout_of(hr.recipes.default),
    layout_of(hr.recipes.l0),
    layout_of(hr.recipes.hypergraph),
]

NUMBERS = {
    "sound": [1.0] * DIM,
    "not a number": [float("nan"), *[1.0] * (DIM - 1)],
    "infinite": [float("-inf"), *[1.0] * (DIM - 1)],
    "of norm 0": [0.0] * DIM,
    "too large": [1e25, *[0.0] * (DIM - 1)],
    "too small": [1e-30, *[0.0] * (DIM - 1)],
}


def store(n: int) -> MemorySync:
    """A store of episodes with and without each field, facts, edges, and what was forgotten."""
    memory = open_store()
    memory.remember_batch(
        [
            episode(
                number,
                user=("alice", "bob", None)[number % 3],
                tags=() if number % 2 else ("näh", "b", "\N{GRINNING FACE}"),
                importance=None if number % 4 else 0.5,
                source=None if number % 3 else "web",
                session_id="s" if number % 5 else None,
                metadata={} if number % 2 else {"a": number, "b": [True, "x"]},
                pinned=number % 7 == 0,
            )
            for number in range(n)
        ]
    )
    if n > 3:
        memory.remember_fact(Fact(subject="alice", predicate="likes", object="tea"))
        memory.forget("e3", user_id="alice")
        memory.link(["e0", "e6"], "friends", user_id="alice")
        memory.link(["e1", "e4"], "rivals", description="at chess", user_id="bob")
    return memory


def expected_table(
    columns: dict[str, IndexColumn], key: str, rows: Sequence[dict[str, Any]], wanted: set[Any]
) -> pa.Table:
    """Each column by a call of its own, of the rows whose key is wanted."""
    live = [row for row in rows if row[key] in wanted]
    return pa.table(
        [column.array([row[name] for row in live]) for name, column in columns.items()],
        names=list(columns),
    )


def read(
    memory: MemorySync, columns: dict[str, IndexColumn], tables: str, more: str = ""
) -> list[dict[str, Any]]:
    wanted = ", ".join(column.sql for column in columns.values())
    number = "e.changed" if columns is EDGES else "d.changed"
    with memory._store.database.reading() as connection:
        found = connection.execute(f"SELECT {wanted} {more} FROM {tables} ORDER BY {number}")
        names = [*columns, "blob", "model", "checksum"]
        return [dict(zip(names, row, strict=False)) for row in found]


def expected_vectors(rows: Sequence[dict[str, Any]]) -> list[list[float] | None]:
    """One row after the other."""
    out: list[list[float] | None] = []
    for row in rows:
        blob, model, checksum = row["blob"], row["model"], row["checksum"]
        is_whole = blob is not None and checksum in (None, vector_checksum(blob, model))
        vector = np.frombuffer(blob, "<f4") if is_whole else np.full(DIM, np.nan, np.float32)
        is_taken = bool(np.isfinite(vector).all()) and bool(norms(vector[None])[1][0])
        out.append(vector.tolist() if is_taken else None)
    return out


def documents(memory: MemorySync, layout: Layout) -> projection.ChangeTables:
    with memory._store.database.reading() as connection:
        (batch,) = projection.documents(connection, layout, model=None, dim=DIM)
    return batch


@pytest.mark.parametrize("layout", LAYOUTS, ids=["default", "l0", "hypergraph"])
@pytest.mark.parametrize("n", [1, 2, 60])
def test_rows_become_the_columns_that_each_column_makes_of_its_own_values(
    layout: Layout, n: int
) -> None:
    with store(n) as memory:
        more = ", v.embedding, v.embedding_model, v.embedding_checksum"
        rows = read(memory, layout.columns, projection._DOCUMENTS, more)
        batch = documents(memory, layout)
    gone = {key for key, _ in batch.gone}
    assert gone == ({"e3"} if n > 3 else set())
    live = {row[layout.key] for row in rows} - gone
    expected = expected_table(layout.columns, layout.key, rows, live)
    found = batch.live.drop_columns(["embedding", "unembedded"])
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert found.equals(expected)
    kept = [row for row in rows if row[layout.key] in live]
    assert batch.live.column("embedding").to_pylist() == expected_vectors(kept)
    assert batch.live.num_rows == n  # of many, one is forgotten and one is a fact


def test_edges_become_the_columns_that_each_column_makes_of_its_own_values() -> None:
    with store(10) as memory:
        rows = read(memory, EDGES, projection._EDGES)
        with memory._store.database.reading() as connection:
            (batch,) = projection.edges(connection)
    expected = expected_table(EDGES, "id", rows, {row["id"] for row in rows})
    assert batch.live.equals(expected)
    assert batch.live.schema.equals(expected.schema, check_metadata=True)
    assert batch.live.num_rows == 2


def put_vector(
    memory: MemorySync, key: str, numbers: Sequence[float], checksum: int | None
) -> None:
    blob = np.array(numbers, "<f4").tobytes()
    update = "UPDATE versions SET embedding = ?, embedding_checksum = ? WHERE id = ?"
    with memory._store.database.transaction() as connection:
        connection.execute(update, (blob, checksum, key))


@pytest.mark.parametrize("name", NUMBERS)
def test_a_vector_that_an_index_does_not_take_is_null_and_the_others_stay(name: str) -> None:
    with store(3) as memory:
        before = documents(memory, LAYOUTS[0]).live.column("embedding").to_pylist()
        put_vector(memory, "e1", NUMBERS[name], None)
        batch = documents(memory, LAYOUTS[0])
    keys = batch.live.column("id").to_pylist()
    found = dict(zip(keys, batch.live.column("embedding").to_pylist(), strict=True))
    is_taken = name in ("sound", "of norm 0")
    assert found["e1"] == (NUMBERS[name] if is_taken else None)
    assert [found["e0"], found["e2"]] == [before[0], before[2]]
    hidden = batch.live.column("embedding").combine_chunks().values
    assert np.isfinite(hidden.to_numpy()).all()


def shifted(read: Callable[..., pa.Table]) -> Callable[..., pa.Table]:
    """Two columns of one type in each other's place."""

    def table(self: projection._SelectReader, live: Sequence[tuple[Any, ...]]) -> pa.Table:
        made = read(self, live)
        names = made.column_names
        if "input" not in names:
            return made
        at, other = names.index("input"), names.index("output")
        return made.set_column(at, "input", made.column(other)).set_column(
            other, "output", made.column(at)
        )

    return table


def test_columns_in_each_others_place_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection._SelectReader, "table", shifted(projection._SelectReader.table))
    with pytest.raises(AssertionError):
        test_rows_become_the_columns_that_each_column_makes_of_its_own_values(LAYOUTS[0], 60)
