"""An erase that is interrupted leaves nothing behind, or the doctor says what it left."""

from __future__ import annotations

import itertools
import linecache
import random
import shutil
import threading
from collections import Counter
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from hyrecall.errors import StoreError, error
from hyrecall.memory import MemorySync
from laws.effort import Effort
from memory.copies import copy_store
from memory.faults.interrupting import Lines, interrupted
from memory.faults.test_erase_whole import put_canaries, traces
from memory.stores import open_store
from seams import Database, Follower, erase
from seams import memory_DATABASE as DATABASE

WHO = "canary user"
LONG = 60


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of canaries and of bob's memories, with its index saved."""
    path = tmp_path_factory.mktemp("saved") / "store"
    with open_store(path) as memory:
        put_canaries(memory)
    return path


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for readers a moment only."""
    monkeypatch.setattr("hyrecall.memory.keeping.erase", partial(erase, wait=0.05))


def n_erasures(path: Path) -> int:
    reader = Database.open(path, read_only=True)
    try:
        with reader.reading() as connection:
            return int(connection.execute("SELECT value FROM meta WHERE name = 'erasures'").get)
    finally:
        reader.close()


def failed(path: Path) -> set[str]:
    """The checks that fail in a handle that only reads."""
    with open_store(path, read_only=True) as memory:
        return {check.name for check in memory.doctor(full=True).checks if not check.ok}


def erased_until(memory: MemorySync, lines: Lines, *, beside_reader: bool) -> None:
    """Erase all canaries, interrupted at a line, perhaps beside a reader of the state before."""
    reader = Database.open(Path(repr(memory._store)), read_only=True)
    with reader.reading() as connection:
        if beside_reader:
            assert connection.execute("SELECT count(*) FROM versions").get
        try:
            with interrupted(lines):
                memory.forget(user_id=WHO, everything=True, erase=True)
        except KeyboardInterrupt:
            assert lines.n_run == lines.at
    reader.close()


def outcome(path: Path, at: int, *, beside_reader: bool) -> str:
    """What a store is after an erase that was interrupted at a line, when it is closed."""
    memory = open_store(path)
    lines = Lines(at)
    erased_until(memory, lines, beside_reader=beside_reader)
    n_bob = len(memory.search("plain words", user_id="bob", limit=40))
    memory.close()
    assert n_bob == 30, lines.where
    if not n_erasures(path):
        return "not erased"
    if left := traces(path):
        assert failed(path), f"{left} after {lines.where}, and the doctor says nothing"
        return "told by doctor"
    assert not failed(path), lines.where
    return "nothing left"


def test_an_erase_that_is_interrupted_anywhere_leaves_nothing(
    saved: Path, tmp_path: Path, effort: Effort
) -> None:
    draw = random.Random(13)
    counts: Counter[str] = Counter()
    n_points = effort.cases(quick=6, full=LONG)
    n_points -= n_points % 2  # half of them beside a reader
    for beside_reader in (False, True):
        numbers = itertools.count()
        whole = Lines()
        path = copy_store(saved, tmp_path / f"whole {beside_reader}")
        with open_store(path) as memory:
            erased_until(memory, whole, beside_reader=beside_reader)
        for at in sorted(draw.sample(range(1, whole.n_run), n_points // 2)):
            path = tmp_path / f"{beside_reader} {next(numbers)}"
            copy_store(saved, path)
            counts[outcome(path, at, beside_reader=beside_reader)] += 1
            shutil.rmtree(path)
    print(f"D10: {n_points} erases interrupted at random lines: {dict(counts)}")
    assert counts["nothing left"] + counts["not erased"] == n_points


def test_no_line_that_is_interrupted_leaves_a_lock_held(saved: Path, tmp_path: Path) -> None:
    """The end of a ``with`` block is none, as no signal comes between it and the lock's release."""
    path = copy_store(saved, tmp_path / "store")
    met: list[str] = []

    class Noted(Lines):
        def __call__(self, frame: FrameType, event: str, given: Any) -> Any:
            before = self.n_run
            super().__call__(frame, event, given)
            if event == "line":
                file, number = frame.f_code.co_filename, frame.f_lineno
                text = linecache.getline(file, number).strip()
                met.append(f"{text} {'counts' if self.n_run > before else 'ends'}")
            return self

    with open_store(path) as memory:
        erased_until(memory, Noted(), beside_reader=False)
    held = Counter(line for line in met if line.startswith("with self._lock:"))
    assert held["with self._lock: counts"] == held["with self._lock: ends"] > 0


def test_an_erase_that_is_interrupted_in_its_wait_is_finished_in_the_background(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy_store(saved, tmp_path / "store")
    is_done = threading.Event()
    plain = Follower.reconcile

    def interrupt(self: Database, *, wait: float = 5.0) -> bool:
        monkeypatch.undo()
        raise KeyboardInterrupt

    def reconcile(self: Follower) -> int:
        n_dropped = plain(self)
        is_done.set()
        return n_dropped

    with open_store(path) as memory:
        monkeypatch.setattr(Database, "checkpoint", interrupt)
        with pytest.raises(KeyboardInterrupt):
            memory.forget(user_id=WHO, everything=True, erase=True)
        Follower.reconcile = reconcile  # type: ignore[method-assign]
        try:
            memory._store.background.poke()
            assert is_done.wait(20)
        finally:
            Follower.reconcile = plain  # type: ignore[method-assign]
    assert traces(path) == set()


def test_a_change_after_an_interrupted_erase_does_not_save_the_erased_text(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a process whose background thread died: the next snapshot compacts."""
    path = copy_store(saved, tmp_path / "store")
    memory = open_store(path)
    with monkeypatch.context() as patch:
        patch.setattr("hyrecall.memory.keeping.Owner.scrub", lambda _: True)
        assert memory.forget(user_id=WHO, everything=True, erase=True) == 31
    memory.remember("plain words", user_id="bob")
    assert memory.search("plain", user_id="bob"), "the index has dropped what was erased"
    assert traces(path)
    assert "erased" in {one.name for one in memory.doctor().checks if not one.ok}
    memory.snapshot()
    assert traces(path) == set()
    assert memory.doctor(full=True).ok
    memory.close()
    assert traces(path) == set()


def test_doctor_finds_erased_rows_in_a_snapshot_that_says_it_has_none(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stores that were saved by a version that did not compact; also the planted bug."""
    path = copy_store(saved, tmp_path / "store")
    with monkeypatch.context() as patch:
        patch.setattr("hyrecall.memory.keeping.Owner.scrub", lambda _: True)
        patch.setattr("hyrecall.memory.derived.derived_index.compact", lambda held: held)
        with open_store(path) as memory:
            memory.forget(user_id=WHO, everything=True, erase=True)
    for _ in range(2):
        assert {name.partition("/")[0] for name in traces(path)} == {"index"}
        assert failed(path) == {"erased"}
        with open_store(path):
            pass
    with open_store(path) as memory:
        store = memory._store
        store.follower.relayout(store.layout, model=store.guard.model, dim=store.dim)
    assert traces(path) == set()
    assert failed(path) == set()


# ---- a full disk ----


def refuse(self: Database, *, wait: float = 5.0) -> bool:
    raise error(StoreError, DATABASE, "room on the disk", "none")


def test_an_erase_whose_checkpoint_meets_a_full_disk_is_done_and_says_what_is_left(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy_store(saved, tmp_path / "store")
    with open_store(path) as memory:
        with monkeypatch.context() as patch:
            patch.setattr(Database, "checkpoint", refuse)
            assert memory.forget(user_id=WHO, everything=True, erase=True) == 31
            assert memory.list(user_id=WHO) == []
            assert not any(name.startswith("index/") for name in traces(path))
        assert memory._store.owner.scrub()
        assert traces(path) == set()


def test_an_erase_without_room_to_save_the_index_removes_the_saved_one(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy_store(saved, tmp_path / "store")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with open_store(path) as memory, monkeypatch.context() as patch:
        patch.setattr("hyrecall.memory.derived.follower.keep_snapshot", full)
        assert memory.forget(user_id=WHO, everything=True, erase=True) == 31
        assert traces(path) == set()
        assert memory.doctor(full=True).ok
        memory.close()
    assert traces(path) == set()
