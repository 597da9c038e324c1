"""The thread behind a store applies changes, saves snapshots, and ends when it is told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hyrecall.errors import StoreError
from memory.children import in_child
from memory.small_store import episode, follower_of, remember
from seams import Background, Database, Follower
from seams import derived_index as derived
from seams import follower as following


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database.open(tmp_path / "store")
    yield opened
    opened.close()


@pytest.fixture
def follower(database: Database) -> Follower:
    made = follower_of(database)
    made.open()
    return made


def soon(holds: Callable[[], bool]) -> bool:
    """Wait until something holds."""
    until = time.monotonic() + 20
    while not holds() and time.monotonic() < until:
        time.sleep(0.005)
    return holds()


def test_commits_are_applied_before_anybody_asks(database: Database, follower: Follower) -> None:
    background = Background(follower)
    background.start()
    remember(database, episode(1, output="oak"))
    background.poke()
    assert soon(lambda: follower.report()["behind"] == 0)
    assert follower.report()["snapshots"] == 0
    background.close()
    background.close()


@pytest.mark.parametrize(("options", "n"), [({"snapshot_every": 5}, 9), ({"quiet": 0.05}, 1)])
def test_a_snapshot_is_saved_after_so_many_changes_and_after_a_quiet_while(
    database: Database, follower: Follower, options: dict[str, Any], n: int
) -> None:
    background = Background(follower, **options)
    background.start()
    remember(database, *(episode(number) for number in range(n)))
    background.poke()
    assert soon(lambda: follower.report()["snapshots"] == 1)
    background.close()
    assert follower.n_unsaved == 0


def test_a_fault_does_not_end_it(
    database: Database, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(following, "RETRY_SECONDS", 0.0)
    background = Background(follower)
    background.start()
    with monkeypatch.context() as patch:
        patch.setattr(derived.Index, "upsert", fail)
        remember(database, episode(1))
        background.poke()
        assert soon(lambda: follower.report()["failures"] > 0)
    background.poke()
    assert soon(lambda: follower.report()["behind"] == 0)
    background.close()


def test_it_leaves_no_thread_and_its_child_none_to_wait_for(follower: Follower) -> None:
    before = set(threading.enumerate())
    background = Background(follower)
    background.start()

    def child() -> int:
        background.close()
        follower.close()
        return 0

    assert in_child(child) == 0
    background.close()
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("fault", [StoreError, MemoryError, OSError])
def test_what_is_due_is_tried_until_it_is_done(
    fault: type[Exception], follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyrecall.memory.derived.follower.BACKGROUND_RETRY_SECONDS", 0.01)
    background = Background(follower)
    background.start()
    tried: list[str] = []

    def fails_then_waits() -> bool:
        tried.append("first")
        if len(tried) == 1:
            raise fault("as asked")
        return len(tried) == 4

    background.until_done("one", fails_then_waits)
    assert soon(lambda: len(tried) == 4)

    def is_done_at_once() -> bool:
        tried.append("second")
        return True

    background.until_done("one", is_done_at_once)
    assert soon(lambda: tried[4:] == ["second"])
    time.sleep(0.05)
    assert tried == ["first"] * 4 + ["second"]
    background.until_done("one", lambda: False)
    background.close()
    assert not background._thread.is_alive()


def test_all_that_is_due_is_tried_whatever_comes_later(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyrecall.memory.derived.follower.BACKGROUND_RETRY_SECONDS", 0.01)
    background = Background(follower)
    background.start()
    tried: set[str] = set()
    may_end = threading.Event()

    def due(name: str) -> Callable[[], bool]:
        def run() -> bool:
            tried.add(name)
            if name == "fails" and not may_end.is_set():
                raise StoreError("as asked")
            return may_end.is_set()

        return run

    for name in ("fails", "replaced", "waits"):
        background.until_done(name, due(name))
    assert soon(lambda: tried == {"fails", "replaced", "waits"})
    background.until_done("replaced", due("replaces"))
    assert soon(lambda: "replaces" in tried)
    tried.clear()
    assert soon(lambda: tried == {"fails", "replaces", "waits"})
    may_end.set()
    assert soon(lambda: not background._dues)
    background.close()
