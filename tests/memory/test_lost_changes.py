"""A store that has lost acknowledged changes says so, and is left as it is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from hyrecall.errors import CorruptStoreError, StoreFormatError, StoreNotFoundError
from hyrecall.memory import Episode, MemorySync
from laws.effort import Effort
from memory.children import in_child
from memory.copies import copy_store
from memory.stores import lasting, open_store
from seams import HEADER, INDEX, LOCK, LOG, Database, Witness, witnesses
from seams import memory_DATABASE as DATABASE

WITNESS = Witness("0123456789abcdef" * 2, 57)


def keep(memory: MemorySync, first: int, n: int) -> None:
    memory.remember_batch(
        [
            Episode(id=f"e{at}", user_id="ann", output=f"words {at}")
            for at in range(first, first + n)
        ]
    )


def ids(path: Path, **options: bool) -> list[str]:
    with open_store(path, embedder=None, **options) as memory:
        return sorted(one.id for one in memory.list(user_id="ann"))


def refused(path: Path, match: str) -> CorruptStoreError:
    """Open a store for writing and for reading; nothing of it is changed."""
    before = lasting(path)
    with pytest.raises(CorruptStoreError, match=match) as caught:
        open_store(path, embedder=None)
    with pytest.raises(CorruptStoreError, match=match):
        open_store(path, embedder=None, read_only=True)
    assert lasting(path) == before
    return caught.value


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A store of three memories that was closed."""
    with open_store(tmp_path / "store", embedder=None) as memory:
        keep(memory, 0, 3)
    return tmp_path / "store"


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A store whose writer was killed: three memories in the database and its index, two later."""
    path = tmp_path / "store"
    with open_store(path, embedder=None) as memory:
        keep(memory, 0, 3)
    with open_store(path, embedder=None) as memory:
        keep(memory, 3, 2)
        return copy_store(path, tmp_path / "killed")


# ---- the note in LOCK ----


def test_a_note_is_read_as_it_was_written() -> None:
    assert Witness.of_note(WITNESS.to_note()) == WITNESS
    assert len(WITNESS.to_note()) == len(Witness(WITNESS.store_id, 2**62).to_note())


def test_a_damaged_note_is_none() -> None:
    for at in range(len(WITNESS.to_note())):
        note = bytearray(WITNESS.to_note())
        note[at] ^= 1
        assert Witness.of_note(bytes(note)) is None, at
        assert Witness.of_note(bytes(note[:at])) is None, at


def test_each_commit_is_noted_and_the_note_outlives_the_writer(tmp_path: Path) -> None:
    database = Database.open(tmp_path / "store")
    assert witnesses(database.folder) == []
    for number in (1, 2):
        with database.transaction() as connection:
            connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'sequence'")
        assert [one.sequence for one in witnesses(database.folder)] == [number]
    fails = "UPDATE meta SET value = 99 WHERE name = 'sequence'; INSERT INTO meta VALUES (1, NULL)"
    with pytest.raises(apsw.ConstraintError), database.transaction() as connection:
        connection.execute(fails)
    database.close()
    assert [one.sequence for one in witnesses(database.folder)] == [2]
    Database.open(database.folder).close()
    assert [one.sequence for one in witnesses(database.folder)] == [2]


def test_a_commit_reads_the_last_change_in_one_statement(tmp_path: Path) -> None:
    database = Database.open(tmp_path / "store")
    ran: list[str] = []

    def trace(event: dict[str, str]) -> None:
        ran.append(event["sql"])

    with database.transaction() as connection:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, trace)
    assert [one.partition(" ")[0] for one in ran] == ["SELECT", "COMMIT"]
    database.close()


# ---- a database that is not there ----


def gone(path: Path) -> None:
    (path / DATABASE).unlink()


def emptied(path: Path) -> None:
    (path / DATABASE).write_bytes(b"")


MISSING = {"missing": gone, "emptied": emptied}


@pytest.mark.parametrize("name", MISSING)
@pytest.mark.parametrize("left", ["everything", "the index", "LOCK", "the log"])
def test_a_missing_database_is_no_new_store(killed: Path, name: str, left: str) -> None:
    MISSING[name](killed)
    if left != "everything":
        for path, what in ((LOG, "the log"), (f"{INDEX}/{HEADER}", "the index")):
            if what != left:
                (killed / path).unlink()
        if left != "LOCK":
            (killed / LOCK).write_bytes(b"")
    fault = refused(killed, r"expected the database of the store.*Put a copy of it back")
    assert "hyrecall doctor --rescue FILE" in str(fault)
    assert vars(fault)["remedy"] == "accept_loss=True"


@pytest.mark.parametrize("left", ["the log", "the index"])
def test_an_emptied_database_is_refused_to_a_reader_that_accepts_losses(
    killed: Path, left: str
) -> None:
    emptied(killed)
    (killed / LOCK).write_bytes(b"")
    (killed / (f"{INDEX}/{HEADER}" if left == "the log" else LOG)).unlink()
    before = lasting(killed)
    with pytest.raises(CorruptStoreError, match="Put a copy of it back") as caught:
        Database.open(killed, read_only=True, accept_loss=True)
    assert vars(caught.value)["remedy"] == "read_only=False"
    assert lasting(killed) == before


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_database_that_is_accepted_is_a_new_store(killed: Path, name: str) -> None:
    MISSING[name](killed)
    assert ids(killed, accept_loss=True) == []
    assert ids(killed) == []
    with open_store(killed, embedder=None) as memory:
        assert memory.doctor(full=True).ok
        keep(memory, 7, 1)
    assert ids(killed) == ["e7"]


def killed_while_it_is_made(path: Path, statement: int) -> int:
    """Die before the n-th statement of a store that is being made."""
    plain = apsw.Connection
    left = [statement]

    class Dying(plain):  # type: ignore[misc, valid-type]
        def execute(self, *given: object, **options: object) -> object:
            left[0] -= 1
            if left[0] == 0:
                os._exit(7)
            return super().execute(*given, **options)

        def pragma(self, *given: object, **options: object) -> object:
            left[0] -= 1
            if left[0] == 0:
                os._exit(7)
            return super().pragma(*given, **options)

    apsw.Connection = Dying  # type: ignore[misc]
    Database.open(path).close()
    return 0


def test_a_store_that_was_made_half_way_is_made_anew(tmp_path: Path, effort: Effort) -> None:
    for statement in range(1, 100, effort.cases(quick=3, full=1)):
        path = tmp_path / f"{statement}"
        code = in_child(lambda path=path, n=statement: killed_while_it_is_made(path, n))
        assert ids(path) == []
        if code == 0:  # it had no more statements
            assert statement > 10
            return
        assert code == 7
    raise AssertionError("it never ends")


def test_an_empty_folder_and_a_lock_without_a_note_are_new_stores(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert ids(tmp_path / "a") == []
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / LOCK).write_bytes(b"pid 12, since 2026-03-01 12:00:00 UTC\n")
    with pytest.raises(StoreNotFoundError):
        open_store(tmp_path / "b", read_only=True)
    (tmp_path / "b" / DATABASE).touch()
    with pytest.raises(StoreFormatError):
        open_store(tmp_path / "b", read_only=True)
    assert ids(tmp_path / "b") == []


# ---- a database that ends too early ----


def cut(path: Path) -> None:
    with (path / LOG).open("r+b") as file:
        file.truncate(file.seek(0, 2) * 2 // 3)


def damaged(path: Path) -> None:
    log = bytearray((path / LOG).read_bytes())
    log[len(log) // 2] ^= 4
    (path / LOG).write_bytes(log)


def log_gone(path: Path) -> None:
    (path / LOG).unlink()


LOSSES: dict[str, Callable[[Path], None]] = {"cut": cut, "damaged": damaged, "gone": log_gone}


@pytest.mark.parametrize("name", LOSSES)
def test_a_damaged_log_is_told_of(killed: Path, name: str) -> None:
    LOSSES[name](killed)
    refused(killed, r"expected every change up to 6.*got a database that ends at change [45]")
    (killed / LOCK).write_bytes(b"")
    assert ids(killed) == ["e0", "e1", "e2"], "the control: without the note nobody knows"


def test_a_log_that_is_lost_with_everything_is_told_of(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", embedder=None) as memory:
        keep(memory, 0, 3)
        path = copy_store(tmp_path / "store", tmp_path / "killed")
    (path / LOG).write_bytes(b"")
    refused(path, "a database with nothing in it: its log is lost")


def test_a_saved_index_alone_tells_of_a_loss(closed: Path, tmp_path: Path) -> None:
    before = copy_store(closed, tmp_path / "before")
    with open_store(closed, embedder=None) as memory:
        keep(memory, 3, 2)
    (closed / LOCK).write_bytes(b"")
    shutil.copyfile(before / DATABASE, closed / DATABASE)
    refused(closed, r"up to 6.*ends at change 4.*another memory\.db was put here")


def test_a_backup_of_the_database_is_told_of_until_it_is_accepted(
    closed: Path, tmp_path: Path
) -> None:
    backup = tmp_path / "backup.db"
    shutil.copyfile(closed / DATABASE, backup)
    with open_store(closed, embedder=None) as memory:
        keep(memory, 3, 2)
    shutil.copyfile(backup, closed / DATABASE)
    refused(closed, r"another memory\.db was put here")
    assert ids(closed, accept_loss=True, read_only=True) == ["e0", "e1", "e2"]
    refused(closed, r"another memory\.db was put here")  # who reads accepts for itself
    assert ids(closed, accept_loss=True) == ["e0", "e1", "e2"]
    assert ids(closed) == ["e0", "e1", "e2"]
    with open_store(closed, embedder=None) as memory:
        keep(memory, 8, 1)
        found = [one.episode.id for one in memory.search("words", user_id="ann")]
        assert sorted(found) == ["e0", "e1", "e2", "e8"]
        assert memory.doctor(full=True).ok
        assert memory._store.database.sequence() > 7, "no number is given twice"


def test_a_backup_of_the_whole_folder_is_no_loss(closed: Path, tmp_path: Path) -> None:
    backup = copy_store(closed, tmp_path / "backup")
    with open_store(closed, embedder=None) as memory:
        keep(memory, 3, 2)
    assert ids(backup) == ["e0", "e1", "e2"]


def test_the_database_of_another_store_is_told_of(closed: Path, tmp_path: Path) -> None:
    with open_store(tmp_path / "other", embedder=None) as memory:
        keep(memory, 50, 9)
    shutil.copyfile(tmp_path / "other" / DATABASE, closed / DATABASE)
    refused(closed, "got the database of another store")
    assert len(ids(closed, accept_loss=True)) == 9
    assert len(ids(closed)) == 9


def test_a_foreign_index_or_lock_alone_is_no_loss(closed: Path, tmp_path: Path) -> None:
    with open_store(tmp_path / "other", embedder=None) as memory:
        keep(memory, 50, 9)
    shutil.copyfile(tmp_path / "other" / LOCK, closed / LOCK)
    assert ids(closed) == ["e0", "e1", "e2"]
    shutil.rmtree(closed / INDEX)
    copy_store(tmp_path / "other" / INDEX, closed / INDEX)
    assert ids(closed) == ["e0", "e1", "e2"]


# ---- a database whose schema is damaged ----


def test_a_changed_name_in_the_schema_is_told_of(closed: Path) -> None:
    database = (closed / DATABASE).read_bytes()
    assert database.count(b"session_id TEXT") == 1
    (closed / DATABASE).write_bytes(database.replace(b"session_id TEXT", b"session_iE TEXT"))
    with pytest.raises(CorruptStoreError, match=r"the tables of a store.*no such column"):
        ids(closed)
