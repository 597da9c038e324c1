"""A followed index equals one that was built anew, however it came there."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hyrecall as hr
from memory.small_store import (
    DIM,
    MODEL,
    cell,
    episode,
    follower_of,
    forget,
    link,
    rebuilt,
    remember,
    replies,
    vector,
)
from seams import HEADER, INDEX, Database, encode_vector, layout_of, projection, writing


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database.open(tmp_path / "store")
    yield opened
    opened.close()


# ---- following ----


def test_vectors_of_another_model_or_length_are_left_out_and_counted(database: Database) -> None:
    remember(database, episode(1))
    remember(database, episode(2), model="other")
    remember(database, episode(3), dim=DIM + 1)
    remember(database, episode(4), model=None)
    with database.transaction() as connection:
        bad = "UPDATE versions SET embedding = ?, embedding_model = ? WHERE id = ?"
        remember_raw = [
            (b"\0\0\0", "e5"),
            (b"\0\0\xc0\x7f" * DIM, "e6"),
            (b"\0\0\0\x05" * DIM, "e7"),
        ]
        writing.remember(
            connection,
            [writing.NewVersion(cell(), episode(number)) for number in (5, 6, 7)],
            episode(0).occurred_at,
        )
        for blob, key in remember_raw:
            connection.execute(bad, (blob, MODEL, key))
    follower = follower_of(database)
    follower.open()
    everything = "oak ash elm fir yew bay fig nut hop rye ivy tea"
    index = follower.ready().index
    found = index.recall_one(text=everything, vector=vector(0), scope=tuple(cell()), limit=50)
    assert len(found) == 7
    dense = index.recall_one(vector=vector(0), scope=tuple(cell()), limit=50)
    assert dense.keys == ["e1"]
    assert follower.report()["without_vector"] == 6  # the damaged ones too


def test_a_vector_that_comes_later_is_followed(database: Database) -> None:
    remember(database, episode(1), model=None)
    follower = follower_of(database)
    follower.open()
    with database.transaction() as connection:
        row = connection.execute("SELECT row FROM versions").get
        writing.set_vectors(connection, [(row, encode_vector(vector(1)), MODEL)])
    dense = follower.ready().index.recall_one(vector=vector(1), scope=tuple(cell()))
    assert dense.keys == ["e1"]


def test_batches_are_cut_and_lose_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projection, "BATCH_ROWS", 7)
    follower = follower_of(database)
    follower.open()
    remember(database, *(episode(number) for number in range(21)))
    for number in range(0, 20, 3):
        forget(database, f"e{number}")
    for number in range(9):
        link(database, f"edge{number}", ["e1", f"e{number + 2}"])
    assert follower.catch_up() == 21 + 9
    assert replies(follower.ready()) == replies(rebuilt(database))
    again = follower_of(database)
    again.open()
    assert replies(again.ready()) == replies(follower.ready())


# ---- the snapshot ----


def test_H10_a_reopened_index_gives_the_same_bits_without_being_built(database: Database) -> None:
    remember(database, *(episode(number) for number in range(30)))
    link(database, "edge", ["e1", "e2"])
    first = follower_of(database)
    first.open()
    forget(database, "e7")
    before = replies(first.ready())
    first.close()
    second = follower_of(database)
    report = second.open()
    assert (report.how, report.reason) == ("snapshot", "")
    assert replies(second.ready()) == before
    assert second.report()["rebuilds"] == 0


def test_an_older_snapshot_is_brought_to_the_last_commit(database: Database) -> None:
    remember(database, *(episode(number) for number in range(30)))
    first = follower_of(database)
    first.open()
    assert first.snapshot()
    assert not first.snapshot()  # nothing changed
    remember(database, *(episode(number) for number in range(30, 40)))
    forget(database, "e3")
    second = follower_of(database)
    assert second.open().how == "snapshot"
    assert second.catch_up() == 11
    assert replies(second.ready()) == replies(rebuilt(database))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"layout": layout_of(hr.recipes.l0)}, "of another layout or model"),
        ({"model": "other"}, "of another layout or model"),
        ({"dim": DIM + 1}, "of another layout or model"),
    ],
)
def test_a_snapshot_of_something_else_is_built_anew(
    database: Database, change: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    remember(database, episode(1))
    first = follower_of(database)
    first.open()
    first.close()
    second = follower_of(database, **change)
    with caplog.at_level(logging.WARNING, logger="hyrecall"):
        report = second.open()
    assert (report.how, report.reason) == ("rebuilt", reason)
    assert reason in caplog.text
    assert not (database.folder / INDEX / HEADER).exists()  # it is of no use any more


def test_a_snapshot_that_is_ahead_of_its_store_is_never_taken(database: Database) -> None:
    """A store put back from a copy goes on from there: equal numbers then mean other changes."""
    remember(database, episode(1))
    follower = follower_of(database)
    follower.open()
    remember(database, episode(2))
    follower.close()
    with database.transaction() as connection:  # what a copy from before would be
        connection.execute("DELETE FROM documents WHERE id = 'e2'")
        connection.execute("UPDATE meta SET value = value - 1 WHERE name = 'sequence'")
    second = follower_of(database)
    assert "of a later state" in second.open().reason
    remember(database, episode(3))
    third = follower_of(database)
    assert third.open().how == "rebuilt"
    assert len(third.ready().index) == 2


def test_a_reading_process_saves_and_removes_nothing(database: Database) -> None:
    remember(database, episode(1))
    follower = follower_of(database)
    follower.open()
    follower.close()
    files = {path: path.read_bytes() for path in (database.folder / INDEX).rglob("*.arrow")}
    reader = Database.open(database.folder, read_only=True)
    other = follower_of(reader, layout_of(hr.recipes.l0))
    assert other.open().how == "rebuilt"
    assert not other.snapshot()
    other.close()
    reader.close()
    assert {path: path.read_bytes() for path in files} == files
    assert follower_of(database).open().how == "snapshot"


# ---- another layout ----
