"""An open store whose files are gone, replaced or overwritten acknowledges nothing."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from hyrecall.errors import StoreError
from hyrecall.memory import Episode, Memory, MemorySync
from hyrecall.recipes import loom
from hyrecall.serve import create_app
from memory.sharing.peer import USER, open_it, peers
from seams import LOCK, LOG, SHARED_MEMORY, SOCKET, Database
from seams import memory_DATABASE as DATABASE
from serve_client import calling

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
        memory.remember_batch([Episode(output="long " * 40_000, user_id=USER) for _ in range(40)])
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
