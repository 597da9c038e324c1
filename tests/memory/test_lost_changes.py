"""A store that lost changes or its files says so; what an index still holds is rescued."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from hyrecall import recipes
from hyrecall.errors import (
    CorruptStoreError,
    OptionError,
    StoreError,
    StoreFormatError,
    StoreNotFoundError,
)
from hyrecall.memory import EVERYONE, Episode, Fact, Memory, MemorySync
from hyrecall.recipes import loom
from hyrecall.serve import create_app
from laws.effort import Effort
from memory.children import in_child
from memory.copies import copy_store
from memory.sharing.peer import USER, open_it, peers
from memory.stores import NOON, lasting, open_store
from seams import (
    HEADER,
    INDEX,
    LOCK,
    LOG,
    RESCUED_FACT,
    SHARED_MEMORY,
    SOCKET,
    Database,
    Witness,
    rescue,
    witnesses,
)
from seams import memory_DATABASE as DATABASE
from serve_client import calling

WITNESS = Witness("0123456789abcdef" * 2, 57)


def keep(memory: MemorySync, first: int, n: int) -> None:
    memory.remember_batch(
        [Episode(id=f"e{at}", user_id="ann", text=f"words {at}") for at in range(first, first + n)]
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


def fill(memory: MemorySync) -> None:
    memory.remember(
        "the answer", input="a question", id="full", user_id="ann", session_id="s", tags=("t", "u"),
        source="web", importance=3.0, occurred_at=NOON, kind="note", visibility="global",
        metadata={"a": [1]},
    )  # fmt: skip
    memory.remember("first", id="twice", user_id="ann")
    memory.update("twice", text="second", user_id="ann")
    memory.remember("gone", id="gone", user_id="ann")
    memory.forget("gone", user_id="ann")
    memory.remember("bob's", id="bob's", user_id="bob", org="acme")
    memory.link(["full", "twice"], "near", id="edge", user_id="ann", visibility="private")
    valid_from = datetime(2026, 1, 2, tzinfo=UTC)
    fact = {"subject": "ann", "predicate": "likes", "object": "tea", "valid_from": valid_from}
    memory.remember_fact(Fact(id="fact", user_id="ann", **fact))


def rescued(path: Path, file: Path) -> dict[str, Any]:
    """Import what was rescued into a new store, and give it by id."""
    with open_store(embedder=None) as other:
        done = other.import_(file)
        assert done.errors == ()
        found = {}
        for org, user in ((None, "ann"), ("acme", "bob")):
            for one in other.list(user_id=user, org=org):
                found[one.id] = one
        assert other.doctor(full=True).ok
        found |= {f"edge {edge.id}": edge for edge in other.links("full", user_id="ann")}
        return found


@pytest.mark.parametrize("recipe", [recipes.loom, recipes.l0, recipes.hypergraph])
@pytest.mark.parametrize("is_gone", [False, True])
def test_everything_live_is_rescued_where_the_database_is_lost(
    tmp_path: Path, recipe: Any, *, is_gone: bool
) -> None:
    path = tmp_path / "store"
    with open_store(path, embedder=None, recipe=recipe) as memory:
        fill(memory)
    if is_gone:
        (path / DATABASE).unlink()
    else:
        (path / DATABASE).write_bytes((path / DATABASE).read_bytes()[:5000])
    before = lasting(path)
    assert rescue(path, tmp_path / "lines") == 5
    assert lasting(path) == before
    found = rescued(path, tmp_path / "lines")
    assert found.keys() == {"full", "twice", "bob's", "fact", "edge edge"}
    full = found["full"]
    assert (full.text, full.tags, full.importance) == ("a question\nthe answer", ("t", "u"), 3.0)
    assert (full.kind, full.source, full.session_id) == ("note", "web", "s")
    assert (full.occurred_at, full.visibility) == (NOON, "global")
    assert full.metadata == ({"a": [1]} if recipe == recipes.hypergraph else {})
    assert found["twice"].text == "second"
    assert (found["fact"].text, found["fact"].kind) == ("ann likes tea", RESCUED_FACT)
    assert found["fact"].metadata == {"valid_from": "2026-01-02T00:00:00+00:00"}
    assert [one.id for one in found["edge edge"].participants] == ["full", "twice"]


@pytest.mark.parametrize("left", ["the log", "no log"])
def test_rescue_of_an_emptied_store_reads_the_index_and_keeps_the_log(
    tmp_path: Path, left: str
) -> None:
    path = tmp_path / "store"
    with open_store(path, embedder=None) as memory:
        fill(memory)
    with open_store(path, embedder=None) as memory:
        memory.remember("later", id="later", user_id="ann")
        path = copy_store(path, tmp_path / "killed")
    (path / DATABASE).write_bytes(b"")
    if left == "no log":
        (path / LOG).unlink()
    before = lasting(path)
    assert (LOG in before) == (left == "the log")
    assert rescue(path, tmp_path / "lines") == 5
    assert lasting(path) == before


def test_rescue_beside_the_database_of_another_program_reads_the_index(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with open_store(path, embedder=None) as memory:
        fill(memory)
    (path / DATABASE).unlink()
    other = apsw.Connection(str(path / DATABASE))
    other.execute("CREATE TABLE things (name TEXT)")
    other.close()
    before = lasting(path)
    assert rescue(path, tmp_path / "lines") == 5
    assert lasting(path) == before


def test_what_an_older_database_lacks_is_rescued_and_imported_into_it(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with open_store(path, embedder=None) as memory:
        memory.remember("kept", id="kept", user_id="ann")
        memory.remember("old", id="changed", user_id="ann")
    shutil.copyfile(path / DATABASE, tmp_path / "backup.db")
    with open_store(path, embedder=None) as memory:
        memory.update("changed", text="new", user_id="ann")
        memory.remember("lost", id="lost", user_id="ann")
        assert rescue(path, tmp_path / "nothing") == 0, "a store that lost nothing"
    shutil.copyfile(tmp_path / "backup.db", path / DATABASE)
    assert rescue(path, tmp_path / "lines") == 2
    with open_store(path, embedder=None, accept_loss=True) as memory:
        assert memory.import_(tmp_path / "lines").imported == 2
        texts = {one.id: one.text for one in memory.list(user_id="ann")}
        assert texts == {"kept": "kept", "changed": "new", "lost": "lost"}
    assert rescue(path, tmp_path / "again") == 0


def test_a_forgotten_or_erased_memory_is_not_rescued(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with open_store(path, embedder=None) as memory:
        for key in ("a", "b", "c"):
            memory.remember(key, id=key, user_id="ann")
        memory.snapshot()
        memory.forget("a", user_id="ann")
        memory.forget("b", user_id="ann", erase=True)
        assert rescue(path, tmp_path / "lines") == 0
    (path / DATABASE).unlink()
    assert rescue(path, tmp_path / "lines") == 1


def test_without_a_whole_index_nothing_is_rescued(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with open_store(path, embedder=None) as memory:
        fill(memory)
    with pytest.raises(OptionError, match="file"):
        rescue(path, path / "lines")
    for file in (path / "index" / "nodes").glob("*-rows.arrow"):
        file.write_bytes(file.read_bytes()[:-9])
    before = lasting(path)
    with pytest.raises(CorruptStoreError, match="expected an undamaged saved index"):
        rescue(path, tmp_path / "lines")
    assert not (tmp_path / "lines").exists()
    assert lasting(path) == before
    shutil.rmtree(path / "index")
    with pytest.raises(CorruptStoreError, match="none there"):
        rescue(path, tmp_path / "lines")
    with open_store(path, embedder=None) as memory:
        assert len(memory.list(user_id=EVERYONE)) == 3


Harm = Callable[[Path, MemorySync], object]


def filled(folder: Path, **options: bool) -> MemorySync:
    memory = open_it(str(folder), **options)
    for number in range(3):
        memory.remember(f"note {number}", id=f"n{number}", user_id=USER)
    return memory


def backup(folder: Path, memory: MemorySync) -> Path:
    """Copy a store, and change it afterwards."""
    copy = folder.with_name("backup")
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(SOCKET))
    memory.remember("note 3", id="n3", user_id=USER)
    # SQLite maps its shared memory: who reads while a copy empties the file dies of SIGBUS.
    assert memory.wait_until_ready(60)
    return copy


def restore_in_place(folder: Path, memory: MemorySync) -> None:
    shutil.copytree(backup(folder, memory), folder, dirs_exist_ok=True)


def restore_a_compacted_store(folder: Path, memory: MemorySync) -> None:
    copy = backup(folder, memory)
    memory.compact()
    shutil.copytree(copy, folder, dirs_exist_ok=True)


def restore_anew(folder: Path, memory: MemorySync) -> None:
    copy = backup(folder, memory)
    shutil.rmtree(folder)
    copy.rename(folder)


def restore_the_database(folder: Path, memory: MemorySync) -> None:
    assert memory._store.database.checkpoint()
    copy = backup(folder, memory)
    assert memory._store.database.checkpoint()
    is_as_long = (copy / DATABASE).stat().st_size == (folder / DATABASE).stat().st_size
    assert is_as_long, "another length would tell"
    shutil.copyfile(copy / DATABASE, folder / DATABASE)


def renamed_over(folder: Path, memory: MemorySync) -> None:
    (backup(folder, memory) / DATABASE).replace(folder / DATABASE)


HARMS: dict[str, Harm] = {
    "folder removed": lambda folder, _: shutil.rmtree(folder),
    "folder renamed": lambda folder, _: folder.rename(folder.with_name("elsewhere")),
    "database removed": lambda folder, _: (folder / DATABASE).unlink(),
    "log removed": lambda folder, _: (folder / LOG).unlink(),
    "log emptied": lambda folder, _: os.truncate(folder / LOG, 0),
    "log cut": lambda folder, _: os.truncate(folder / LOG, (folder / LOG).stat().st_size - 5_000),
    "log overwritten": lambda folder, _: (folder / LOG).write_bytes(bytes(10**6)),
    "shared memory removed": lambda folder, _: (folder / SHARED_MEMORY).unlink(),
    "lock removed": lambda folder, _: (folder / LOCK).unlink(),
    "backup in place": restore_in_place,
    "backup of a compacted store in place": restore_a_compacted_store,
    "backup as a new folder": restore_anew,
    "database of a backup copied": restore_the_database,
    "database of a backup renamed": renamed_over,
}


def content(folder: Path) -> dict[str, bytes]:
    """The database and its log, if they are there."""
    paths = (folder / name for name in (DATABASE, LOG))
    return {path.name: path.read_bytes() for path in paths if path.exists()}


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_nothing_is_acknowledged_by_a_store_whose_files_are_not_its_own(
    tmp_path: Path, harm: Harm, shared: bool
) -> None:
    folder = tmp_path / "s"
    memory = filled(folder, shared=shared)
    harm(folder, memory)
    after = content(folder)
    with pytest.raises(StoreError, match="expected the files that were opened, got ") as caught:
        memory.remember("lost", user_id=USER)
    assert caught.value.errno == errno.ESTALE
    changes = (
        lambda: memory.forget("n1", user_id=USER, erase=True),
        memory.compact,
        lambda: memory.remember("lost", user_id=USER),
    )
    for change in changes:
        with pytest.raises(StoreError):
            change()
    assert not memory.wait_until_ready(0)
    report = memory.doctor(full=True)
    assert not report.ok
    (told,) = (one for one in report.checks if one.name == "files")
    assert told.detail.startswith("not what was opened: ")
    memory.close()  # leaves what is there now as it is
    assert content(folder) == after


def test_a_store_goes_on_when_its_folder_is_back(tmp_path: Path) -> None:
    with filled(tmp_path / "s") as memory:
        (tmp_path / "s").rename(tmp_path / "q")
        with pytest.raises(StoreError):
            memory.remember("lost", user_id=USER)
        (tmp_path / "q").rename(tmp_path / "s")
        memory.remember("note 3", id="n3", user_id=USER)
        assert memory.wait_until_ready(60)
        assert memory.doctor(full=True).ok
    with open_it(str(tmp_path / "s")) as again:
        assert len(again.list(user_id=USER)) == 4


def test_a_store_is_found_after_a_change_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with filled(Path("s")) as memory:
        monkeypatch.chdir("/")
        memory.remember("note 3", user_id=USER)


def test_a_database_that_was_touched_or_overwritten_with_itself_is_written_on(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s" / DATABASE
    with filled(tmp_path / "s") as memory:
        for at, touch in enumerate((os.utime, lambda path: path.write_bytes(path.read_bytes()))):
            time.sleep(0.02)  # the clock of the file system goes on
            touch(path)
            assert memory._store.database.problem_of_files() == ""
            memory.remember("note", id=f"t{at}", user_id=USER)
            assert memory._store.database.checkpoint()
        memory.compact()
        os.utime(path, (1, 1))
        memory.remember("note", id="last", user_id=USER)
        select = "SELECT rootpage FROM sqlite_schema WHERE name = 'meta'"
        with memory._store.database.reading() as connection:
            place = connection.execute(select).get, connection.pragma("page_size")
        assert place == (2, 4096), "it is in what is compared"
        assert memory.doctor(full=True).ok
    with open_it(str(tmp_path / "s")) as again:
        assert len(again.list(user_id=USER)) == 6


def undone(database: Database) -> None:
    with database.transaction() as connection:
        connection.pragma("cache_size", 1)  # pages go to the log before the commit
        connection.execute("CREATE TABLE large (value)")
        for _ in range(300):
            connection.execute("INSERT INTO large VALUES (zeroblob(8000))")
        raise KeyError


def test_changes_that_are_undone_or_copied_to_the_database_raise_no_alarm(tmp_path: Path) -> None:
    with filled(tmp_path / "s") as memory:
        database = memory._store.database
        for _ in range(3):
            with pytest.raises(KeyError):
                undone(database)
            assert database.problem_of_files() == ""
            memory.remember("note", user_id=USER)
            assert database.checkpoint()
            assert database.problem_of_files() == ""
            memory.compact()
            memory.remember("note", user_id=USER)
        memory.remember_batch([Episode(text="long " * 40_000, user_id=USER) for _ in range(40)])
        assert memory.doctor(full=True).ok


def test_another_program_that_writes_as_sqlite_allows_raises_no_alarm(tmp_path: Path) -> None:
    with filled(tmp_path / "s") as memory:
        database = memory._store.database
        other = apsw.Connection(str(tmp_path / "s" / DATABASE))
        other.set_busy_timeout(10_000)
        for number in range(3):
            other.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            assert database.problem_of_files() == ""
            other.execute(f"CREATE TABLE of_a_tool_{number} (value)")
            memory.remember("note", user_id=USER)
            other.execute(f"DROP TABLE of_a_tool_{number}")
            assert database.problem_of_files() == ""
            other.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
            memory.remember("note", user_id=USER)
        other.close()
        assert database.problem_of_files() == ""


@pytest.mark.slow
def test_clients_of_a_moved_store_are_refused_too(tmp_path: Path) -> None:
    with peers(tmp_path / "s", 2) as (owner, client):
        assert client.ask("remember", "a") == "kept"
        (tmp_path / "s").rename(tmp_path / "q")
        for one in (client, owner):
            assert one.ask("remember", "b")["fault"] == "StoreError"
        owner.kill()  # the client must not take over what is not there
        told = client.ask("remember", "c")
        assert told["fault"] == "StoreError"
        assert "the files that were opened" in told["told"]
    with open_it(str(tmp_path / "q")) as again:
        assert [one.id for one in again.list(user_id=USER)] == ["a"]


@pytest.mark.slow
def test_a_client_does_not_follow_to_another_store_of_the_same_name(tmp_path: Path) -> None:
    with peers(tmp_path / "s", 2) as (owner, client):
        assert client.ask("remember", "a") == "kept"
        (tmp_path / "s").rename(tmp_path / "q")
        with open_it(str(tmp_path / "s")) as other:  # has an owner of its own
            owner.kill()
            assert client.ask("remember", "b")["fault"] == "StoreError"
            assert other.list(user_id=USER) == []
            assert (tmp_path / "s" / SOCKET).exists()


def test_the_first_of_two_owners_is_refused_and_takes_nothing_from_the_second(
    tmp_path: Path,
) -> None:
    first = filled(tmp_path / "s")
    (tmp_path / "s" / LOCK).unlink()
    with peers(tmp_path / "s", 2) as (second, client):
        with pytest.raises(StoreError, match=r"another at .*LOCK"):
            first.remember("lost", user_id=USER)
        first.close()
        assert (tmp_path / "s" / SOCKET).exists()
        assert client.ask("remember", "b") == "kept"
        assert second.ask("list") == ["b", "n0", "n1", "n2"]


@pytest.mark.slow
def test_an_owner_that_leaves_does_not_remove_the_log_of_the_store_in_its_place(
    tmp_path: Path,
) -> None:
    first = filled(tmp_path / "s")
    (tmp_path / "s").rename(tmp_path / "q")
    with peers(tmp_path / "s", 1) as (second,):
        assert second.ask("remember", "a") == "kept"
        first.close()
        assert (tmp_path / "s" / LOG).stat().st_size > 0
        second.kill()
    with open_it(str(tmp_path / "s")) as again:
        assert [one.id for one in again.list(user_id=USER)] == ["a"]
    with open_it(str(tmp_path / "q")) as moved:
        assert len(moved.list(user_id=USER)) == 3


def test_a_service_whose_store_is_gone_is_not_ready_and_answers_writes_with_503(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        app = create_app(Memory.open(tmp_path / "s", recipe=loom, embedder=None))
        async with calling(app) as client:
            body = {"text": "tea at four", "user_id": "ann"}
            assert (await client.post("/v1/memories", json=body)).status_code == 201
            until = time.monotonic() + 60
            while (await client.get("/readyz")).status_code != 200:  # the index may be behind
                assert time.monotonic() < until
            shutil.rmtree(tmp_path / "s")
            refused = await client.post("/v1/memories", json=body)
            assert refused.status_code == 503
            assert refused.json()["error"]["type"] == "StoreError"
            assert (await client.get("/readyz")).status_code == 503
            assert (await client.get("/healthz")).status_code == 200

    asyncio.run(run())
