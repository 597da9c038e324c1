"""An index follows its store, is saved and taken again; faults cost an order, never an answer."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hyrecall as hr
from hyrecall.errors import DeviceUnavailableError, StoreError
from memory.small_store import (
    DIM,
    MODEL,
    cell,
    episode,
    follower_of,
    forget,
    keys,
    link,
    rebuilt,
    remember,
    replies,
    update,
    vector,
)
from memory.stores import open_store
from seams import (
    HEADER,
    INDEX,
    LEAST_WAIT,
    PARTS,
    RETRY_SECONDS,
    Database,
    Header,
    IndexNotReadyError,
    Ready,
    StaleError,
    encode_vector,
    layout_of,
    projection,
    read_header,
    snapshots,
    write_header,
    writing,
)
from seams import derived_index as derived
from seams import index_header as headers


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


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def out_of_memory(*_: object, **__: object) -> None:
    raise MemoryError


def test_an_index_that_cannot_be_built_is_told_and_tried_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(database, episode(1, output="oak"))
    clock = Clock()
    follower = follower_of(database, clock=clock)
    with monkeypatch.context() as patch:
        patch.setattr(derived.Index, "build", out_of_memory)
        assert follower.open().how == "failed"
        with pytest.raises(IndexNotReadyError, match=r"index_unavailable \(MemoryError\)"):
            follower.ready()
    with pytest.raises(IndexNotReadyError, match="index_unavailable"):
        follower.ready()  # not at every recall
    clock.now += RETRY_SECONDS
    assert keys(follower.ready()) == ["e1"]
    assert follower.report()["failures"] == 1


def test_changes_that_failed_half_way_are_applied_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(database, *(episode(number) for number in range(9)))
    clock = Clock()
    follower = follower_of(database, clock=clock)
    follower.open()
    forget(database, "e2")
    update(database, "e1", output="oak")
    link(database, "edge", ["e3", "e4"])
    with monkeypatch.context() as patch:
        patch.setattr(hr.Graph, "upsert", out_of_memory)
        with pytest.raises(IndexNotReadyError):
            follower.ready()
    update(database, "e3", output="oak")
    clock.now += RETRY_SECONDS
    assert replies(follower.ready()) == replies(rebuilt(database))


def test_a_store_that_cannot_be_read_is_no_missing_index(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = follower_of(database)
    follower.open()
    remember(database, episode(1))

    def fail(*_: object, **__: object) -> None:
        raise StoreError("planted")

    monkeypatch.setattr(projection, "documents", fail)
    with pytest.raises(StoreError, match="planted"):
        follower.ready()


def test_a_device_that_is_not_there_is_refused_at_open(database: Database) -> None:
    with pytest.raises(DeviceUnavailableError):
        follower_of(database, device="cuda:99").open()
    follower = follower_of(database)
    follower.open()
    remember(database, episode(1))
    follower.close()
    with pytest.raises(DeviceUnavailableError):
        follower_of(database, device="cuda:99").open()
    assert follower_of(database).open().how == "snapshot"  # it was not to blame


def test_a_snapshot_that_does_not_fit_in_memory_costs_its_order_only(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(database, episode(1))
    follower = follower_of(database)
    follower.open()
    follower.close()
    monkeypatch.setattr(snapshots.Index, "open", out_of_memory)
    report = follower_of(database).open()
    assert (report.how, report.reason) == ("rebuilt", "damaged, or too large (MemoryError())")


def test_who_is_behind_waits_no_longer_than_the_budget(database: Database) -> None:
    remember(database, episode(1, output="oak"))
    reader = Database.open(database.folder, read_only=True)
    followers = [follower_of(database), follower_of(reader)]
    for follower in followers:
        follower.open()
    remember(database, episode(2, output="oak"))
    for follower in followers:
        follower._lock.acquire()
    began = time.monotonic()
    with pytest.raises(IndexNotReadyError, match="index_not_ready"):
        followers[0].ready(budget=0.05)  # its own change would be missing
    ready = followers[1].ready(budget=0.05)
    assert (keys(ready), ready.behind) == (["e1"], True)  # a state from before, whole
    assert time.monotonic() - began < 5
    timer = threading.Timer(0.05, followers[1]._lock.release)
    timer.start()
    ready = followers[1].ready()
    assert (keys(ready), ready.behind) == (["e1", "e2"], False)
    timer.join()
    reader.close()


def test_a_reader_that_is_behind_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(embedder=None, snapshot_every=10**6) as memory:
        memory.remember("the old disk", id="old", user_id="alice")
        folder = memory._store.database.folder
        with open_store(folder, embedder=None, read_only=True, recall_timeout=0.0) as reader:
            assert not reader.search("disk", user_id="alice").degraded
            follower = reader._store.follower
            lock, ready = follower._lock, follower.ready
            waits: list[float] = []

            def noted(budget: float) -> Ready:
                waits.append(budget)
                return ready(budget=budget)

            monkeypatch.setattr(follower, "ready", noted)
            with lock:  # before the changes, or the reader may follow one of them by itself
                memory.remember("the new disk", id="new", user_id="alice")
                memory.forget("old", user_id="alice")
                matches = reader.search("disk", user_id="alice")
            assert waits == [LEAST_WAIT]  # it waits once, and for one
            told = "index_not_ready (changes are being applied)"
            assert [str(reason) for reason in matches.reasons] == [told]
            assert list(matches) == []  # content is as it is now: what was forgotten is gone
            assert matches.lexical_mode == "bm25"
            found = reader.search("disk", user_id="alice")
            assert ([match.episode.id for match in found], found.degraded) == (["new"], False)


def test_a_damaged_manifest_makes_way_for_the_next_snapshot(database: Database) -> None:
    remember(database, episode(1))
    follower = follower_of(database)
    follower.open()
    assert follower.snapshot()
    (database.folder / INDEX / "nodes" / "MANIFEST").write_bytes(b"nonsense")
    remember(database, episode(2))
    follower.catch_up()
    assert follower.snapshot()
    assert follower_of(database).open().how == "snapshot"


def test_doctor_tells_of_an_index_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived.Index, "build", out_of_memory)
    with open_store(embedder=None) as memory:
        memory.remember("oak", user_id="alice")
        checks = {check.name: check for check in memory.doctor().checks}
        assert not checks["index"].ok
        assert checks["index"].detail == "index_unavailable (MemoryError)"
        assert memory.search("oak", user_id="alice").lexical_mode == "substring"


MADE = Header("store", 7, 1, "layout", "model", 4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in PARTS:
        (tmp_path / part).mkdir()
        (tmp_path / part / "MANIFEST").write_bytes(part.encode())
    write_header(tmp_path, MADE)
    return tmp_path


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"store_id": "other"}, "of another store"),
        ({"layout": "other"}, "of another layout or model"),
        ({"model": None}, "of another layout or model"),
        ({"dim": 5}, "of another layout or model"),
        ({"sequence": 6}, "of a later state (7) than the store's (6)"),
        ({"erasures": 2}, "from before an erasure"),
        ({"erasures": 0}, "from before an erasure"),
        ({}, None),
        ({"sequence": 8}, None),
    ],
)
def test_it_is_compared_with_the_store(change: dict[str, object], reason: str | None) -> None:
    assert MADE.reason_against(replace(MADE, **change)) == reason  # type: ignore[arg-type]


def test_none_at_all_and_one_that_is_newer_are_told_apart(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(headers, "FORMAT", 2)
        write_header(folder, MADE)
    with pytest.raises(StaleError, match="HEADER is of format 2"):
        read_header(folder)
    (folder / HEADER).unlink()
    with pytest.raises(StaleError, match="none there"):
        read_header(folder)
    (folder / HEADER).mkdir()
    with pytest.raises(StaleError, match="cannot be read"):
        read_header(folder)
