"""An index that cannot be made, followed or saved costs an answer's order, never the answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import hyrecall as hr
from hyrecall.errors import DeviceUnavailableError, StoreError
from memory.small_store import (
    episode,
    follower_of,
    forget,
    keys,
    link,
    rebuilt,
    remember,
    replies,
    update,
)
from memory.stores import open_store
from seams import (
    INDEX,
    LEAST_WAIT,
    RETRY_SECONDS,
    Database,
    IndexNotReadyError,
    Ready,
    projection,
    snapshots,
)
from seams import derived_index as derived


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database.open(tmp_path / "store")
    yield opened
    opened.close()


# ---- erasures ----


# ---- what goes wrong ----


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
