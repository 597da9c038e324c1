"""Part F of the acceptance rows: access marks, plain SQLite, and creation that is whole."""

import subprocess
import sys
import threading
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from hyrecall import recipes
from hyrecall.errors import ShapeError
from hyrecall.memory import MemorySync
from memory.stores import DIM, NOON, Clock, episode, folder, open_store


def marks(memory: MemorySync) -> dict[str, tuple[int, int | None]]:
    with memory._store.database.reading() as connection:
        select = "SELECT id, access_count, last_accessed FROM documents"
        return {key: (count, last) for key, count, last in connection.execute(select)}


def n_rows(memory: MemorySync) -> int:
    with memory._store.database.reading() as connection:
        found: int = connection.execute("SELECT count(*) FROM versions").get
        return found


def test_F20_an_access_is_counted_when_it_is_asked_for() -> None:
    clock = Clock()
    with open_store(clock=clock, recipe=recipes.hebb) as memory:
        # No two are equal: of equals the one written last comes last, and a mark is a write.
        memory.remember_batch([episode(at, "disk " * (at + 1) + "tape") for at in range(4)])
        first = memory.search("disk", user_id="alice", alpha=0.0, limit=2)
        assert set(marks(memory).values()) == {(0, None)}
        again = memory.search("disk", user_id="alice", alpha=0.0, limit=2)
        assert [(one.episode.id, one.score) for one in again] == [
            (one.episode.id, one.score) for one in first
        ]
        clock.now = NOON + timedelta(hours=1)
        for n in (1, 2):
            found = memory.search("disk", user_id="alice", alpha=0.0, limit=2, touch=True)
            micros = int(clock.now.timestamp()) * 10**6
            touched = {one.episode.id for one in found}
            assert marks(memory) == {
                f"e{at}": (n, micros) if f"e{at}" in touched else (0, None) for at in range(4)
            }


def test_F21_the_file_is_plain_sqlite() -> None:
    """No extension, no virtual table: what Python ships reads and counts it."""
    path = folder()
    with open_store(path, recipe=recipes.hebb) as memory:
        memory.remember_batch([episode(at, f"disk {at}") for at in range(4)])
        with memory._store.database.reading() as connection:
            kinds = list(connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL"))
            assert not [sql for (sql,) in kinds if "VIRTUAL" in sql.upper()]
    program = (
        "import sqlite3, sys\n"
        "c = sqlite3.connect('file:' + sys.argv[1] + '?mode=ro', uri=True)\n"
        "print(c.execute('SELECT count(*), sum(length(embedding)) FROM versions').fetchone())\n"
        "print(c.execute('PRAGMA integrity_check').fetchone()[0])\n"
    )
    command = [sys.executable, "-c", program, str(path / "memory.db")]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert answer.splitlines() == [str((4, 4 * 4 * DIM)), "ok"]


def test_F23_what_the_index_cannot_take_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(recipe=recipes.hebb) as memory:
        memory.remember(episode(0, "disk"))

        def fail(*given: Any, **options: Any) -> Any:
            raise ZeroDivisionError

        with monkeypatch.context() as patched:
            patched.setattr("hyrecall.memory.derived.derived_index.project", fail)
            with pytest.raises(ZeroDivisionError):
                memory.remember(episode(1, "disk"))
        assert n_rows(memory) == 1
        assert len(memory.search("disk", user_id="alice")) == 1
        memory.remember(episode(1, "disk"))
        assert len(memory.search("disk", user_id="alice")) == 2


def test_F23_a_vector_of_a_wrong_length_writes_nothing() -> None:
    with open_store(recipe=recipes.hebb) as memory:
        with pytest.raises(ShapeError, match="vectors: expected shape"):
            memory.remember(episode(0, "disk"), vector=np.ones(DIM + 1, np.float32))
        with pytest.raises(ShapeError):
            memory.remember_batch([episode(0), episode(1)], vectors=np.ones((1, DIM), np.float32))
        assert n_rows(memory) == 0


def test_F23_25_creations_at_once_all_land() -> None:
    with open_store(recipe=recipes.hebb) as memory:
        begin = threading.Barrier(25)
        faults: list[BaseException] = []

        def create(at: int) -> None:
            begin.wait()
            try:
                memory.remember(episode(at, f"disk {at}"))
                assert memory.get(f"e{at}", user_id="alice") is not None
            except BaseException as fault:
                faults.append(fault)

        threads = [threading.Thread(target=create, args=(at,)) for at in range(25)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert faults == []
        found = memory.search("disk", user_id="alice", limit=25)
        assert {one.episode.id for one in found} == {f"e{at}" for at in range(25)}
