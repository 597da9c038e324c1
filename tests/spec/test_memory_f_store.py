"""Part F of the acceptance rows: access marks, plain SQLite, and creation that is whole."""

import subprocess
import sys
from datetime import timedelta

import pytest

from hyrecall import recipes
from hyrecall.errors import OptionError
from hyrecall.memory import MemorySync
from memory.stores import DIM, NOON, Clock, episode, folder, open_store

DAY = timedelta(days=1)


def marks(memory: MemorySync) -> dict[str, tuple[int, int | None]]:
    with memory._store.database.reading() as connection:
        select = "SELECT id, access_count, last_accessed FROM documents"
        return {key: (count, last) for key, count, last in connection.execute(select)}


def test_F20_an_access_is_counted_when_it_is_asked_for() -> None:
    clock, path = Clock(), folder()
    with open_store(path, clock=clock, recipe=recipes.hebb) as memory:
        # No two are equal: of equals the one written last comes last, and a mark is a write.
        memory.remember_batch([episode(at, "disk " * (at + 1) + "tape") for at in range(4)])
        first = memory.search("disk", user_id="alice", alpha=0.0, limit=2)
        assert set(marks(memory).values()) == {(0, None)}
        again = memory.search("disk", user_id="alice", alpha=0.0, limit=2)
        assert [(one.episode.id, one.score) for one in again] == [
            (one.episode.id, one.score) for one in first
        ]
        assert {one.parts.recency for one in first} == {1.0}
        clock.now = NOON + timedelta(hours=1)
        for n in (1, 2):
            found = memory.search("disk", user_id="alice", alpha=0.0, limit=2, touch=True)
            micros = int(clock.now.timestamp()) * 10**6
            touched = {one.episode.id for one in found}
            assert marks(memory) == {
                f"e{at}": (n, micros) if f"e{at}" in touched else (0, None) for at in range(4)
            }
        # A later reply knows of it: the access is newer than the memory.
        after = memory.search("disk", user_id="alice", alpha=0.0, limit=2, now=NOON + DAY)
        assert [one.parts.recency for one in after] == [pytest.approx(0.99**23)] * 2
    reader = open_store(path, read_only=True, recipe=recipes.hebb)
    with reader, pytest.raises(OptionError, match="touch"):
        reader.search("disk", user_id="alice", touch=True)


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
