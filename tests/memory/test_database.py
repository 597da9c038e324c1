"""The database of a store: who may open it, the writer's lock, transactions, disks that fail."""

import errno
import os
import shutil
import signal
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from hyrecall.errors import (
    CorruptStoreError,
    OptionError,
    StoreError,
    StoreFormatError,
    StoreNotFoundError,
    WriterBusyError,
)
from memory.children import fork, in_child
from memory.failing_vfs import Faults, failing_vfs
from seams import (
    LOCK,
    SECONDS_FOR_READERS,
    Database,
    ReaderLock,
    WriterLock,
    check_sqlite,
    meta,
    take_sequence,
)
from seams import memory_DATABASE as DATABASE
from seams import memory_FORMAT as FORMAT

PUT = "INSERT OR REPLACE INTO models VALUES (?, ?)"


def put(database: Database, name: str, dim: int = 1) -> None:
    with database.transaction() as connection:
        connection.execute(PUT, (name, dim))
        take_sequence(connection)


def names(database: Database) -> list[str]:
    with database.reading() as connection:
        return [name for (name,) in connection.execute("SELECT model FROM models ORDER BY model")]


# ---- opening ----


def test_a_store_is_its_owners_alone(store: Database) -> None:
    put(store, "one")
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in store.folder.iterdir()}
    assert modes.keys() == {DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", "LOCK"}
    assert set(modes.values()) == {0o600}


def test_a_reader_writes_nothing(store: Database) -> None:
    reader = Database.open(store.folder, read_only=True)
    with pytest.raises(OptionError, match="opened for writing"), reader.transaction():
        pass
    with pytest.raises(StoreError), reader.reading() as connection:
        connection.execute(PUT, ("one", 1))
    assert names(reader) == []
    reader.close()


def test_a_reader_of_nothing_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreNotFoundError, match=r"expected a folder with memory\.db"):
        Database.open(tmp_path / "store", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_other_things_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(OptionError, match=r"expected a store.*got one with 'thesis.txt' in it"):
        Database.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(OptionError, match=r"thesis.txt: expected a folder, got a file"):
        Database.open(tmp_path / "thesis.txt")


@pytest.mark.parametrize("nested", [False, True])
def test_another_process_may_make_the_folder_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, nested: bool
) -> None:
    """At each moment at which it may: right after any look that found nothing there, or above."""
    folder = tmp_path / "above" / "store" if nested else tmp_path / "store"
    looks, asked = 0, Path.is_dir

    def is_dir(self: Path) -> bool:
        nonlocal looks
        there = asked(self)
        if not there and self.is_relative_to(tmp_path):
            looks += 1
            if looks == moment:
                os.makedirs(folder)
        return there

    monkeypatch.setattr(Path, "is_dir", is_dir)
    for moment in (1, 2, 3) if nested else (1, 2):
        looks = 0
        Database.open(folder).close()
        assert looks == moment
        shutil.rmtree(tmp_path / ("above" if nested else "store"))


@pytest.mark.parametrize("read_only", [True, False])
def test_a_newer_store_is_refused_and_stays_as_it_was(store: Database, *, read_only: bool) -> None:
    with store.transaction() as connection:
        connection.execute("UPDATE meta SET value = ? WHERE name LIKE 'min_%'", (FORMAT + 1,))
    connection = store._connect()
    connection.pragma("user_version", FORMAT + 1)
    connection.close()
    store.close()
    before = (store.folder / DATABASE).read_bytes()
    with pytest.raises(StoreFormatError, match=str(FORMAT + 1)):
        Database.open(store.folder, read_only=read_only)
    assert (store.folder / DATABASE).read_bytes() == before


@pytest.mark.parametrize("read_only", [True, False])
def test_a_file_that_is_no_database_is_damage(store: Database, *, read_only: bool) -> None:
    store.close()
    (store.folder / DATABASE).write_bytes(b"no database at all" * 500)
    with pytest.raises(CorruptStoreError, match="expected an SQLite database"):
        Database.open(store.folder, read_only=read_only)


def test_damage_is_found_when_the_last_writer_did_not_close(tmp_path: Path) -> None:
    def leave_a_log() -> int:
        database = Database.open(tmp_path / "store")
        for at in range(200):
            put(database, f"model {at:03} {'x' * 200}")
        assert database.checkpoint()
        put(database, "last")
        os._exit(0)

    assert in_child(leave_a_log) == 0
    path = tmp_path / "store" / DATABASE
    again = Database.open(tmp_path / "store")
    assert not again.was_clean
    assert len(names(again)) == 201
    assert again.problems(full=True) == []
    again.close()
    assert in_child(leave_a_log) == 0
    content = bytearray(path.read_bytes())
    at = content.index(b"model 100")
    content[at - 300 : at + 300] = bytes(600)
    path.write_bytes(content)
    with pytest.raises(CorruptStoreError):
        Database.open(tmp_path / "store")


def test_an_sqlite_that_may_damage_is_refused_and_a_mended_one_taken() -> None:
    for version in ("3.40.1", "3.44.5", "3.50.6", "3.51.2", "3.7.0"):
        told = f"apsw: expected one with SQLite 3.51.3 .* {version}"
        with pytest.raises(OptionError, match=told):
            check_sqlite(version)
    for version in ("3.44.6", "3.50.7", "3.51.3", "3.54.1", "4.0"):
        check_sqlite(version)


def test_the_disk_is_asked_for_all_there_is(store: Database) -> None:
    with store.transaction() as connection:
        assert connection.pragma("synchronous") == 2
        assert connection.pragma("journal_mode") == "wal"
        assert connection.pragma("secure_delete") == 1
        assert connection.pragma("foreign_keys") == 1
        with pytest.raises(apsw.Error):
            connection.load_extension("anything")


# ---- transactions ----


def test_a_block_that_raises_changes_nothing(store: Database) -> None:
    def put_and_raise() -> None:
        with store.transaction() as connection:
            connection.execute(PUT, ("one", 1))
            raise ZeroDivisionError

    def put_what_is_refused() -> None:
        with store.transaction() as connection:
            connection.executemany(PUT, [("one", 1), ("two", 0)])

    with pytest.raises(ZeroDivisionError):
        put_and_raise()
    with pytest.raises(apsw.ConstraintError):
        put_what_is_refused()
    put(store, "three")
    assert names(store) == ["three"]
    assert store.sequence() == 1


def test_errors_of_the_block_itself_keep_their_names(store: Database) -> None:
    with pytest.raises(FileNotFoundError), store.transaction():
        (store.folder / "nothing").read_bytes()
    with pytest.raises(FileNotFoundError), store.reading():
        (store.folder / "nothing").read_bytes()


def test_a_reader_sees_one_state_whatever_is_written(store: Database) -> None:
    put(store, "one")
    with store.reading() as connection:
        assert meta(connection, "sequence") == 1
        put(store, "two")
        assert connection.execute("SELECT count(*) FROM models").get == 1
        assert names(store) == ["one", "two"]  # another reading
    with store.reading() as connection:
        assert connection.execute("SELECT count(*) FROM models").get == 2


def test_a_statement_that_was_left_unfinished_shows_nobody_an_old_state(store: Database) -> None:
    for name in "abc":
        put(store, name)
    with store.reading() as connection:
        left = connection.execute("SELECT model FROM models")
        next(left)  # and a traceback, for one, keeps the cursor
    put(store, "d")
    assert names(store) == ["a", "b", "c", "d"]
    assert store.checkpoint(wait=0)


def test_a_closed_store_is_refused_by_name(store: Database) -> None:
    store.close()
    for use in (store.sequence, store.checkpoint):
        with pytest.raises(OptionError, match="expected an open store, got a closed one"):
            use()


def test_a_reading_may_outlive_the_close(store: Database) -> None:
    put(store, "one")
    with store.reading() as connection:
        assert meta(connection, "sequence") == 1
        store.close()
        assert connection.execute("SELECT model FROM models").get == "one"
    again = Database.open(store.folder)
    assert names(again) == ["one"]
    again.close()


# ---- the log ----


def test_a_full_disk_is_told_and_what_was_there_stays(tmp_path: Path) -> None:
    store = Database.open(tmp_path / "store")
    put(store, "one")
    with store.transaction() as connection:
        pages = connection.pragma("page_count")
        connection.pragma("max_page_count", pages + 2)
    with pytest.raises(StoreError, match="expected room on the disk") as caught:
        put(store, "x" * 50_000)
    assert caught.value.errno == errno.ENOSPC
    assert names(store) == ["one"]
    put(store, "two")
    assert names(store) == ["one", "two"]
    store.close()


def test_a_failed_sync_is_an_error_of_the_caller(tmp_path: Path) -> None:
    faults = Faults(verbs=("sync",))
    with failing_vfs(faults) as vfs:
        store = Database.open(tmp_path / "store", vfs=vfs)
        put(store, "one")
        synced = len(faults.done)
        put(store, "two")
        assert len(faults.done) > synced, "a commit syncs"
        faults.fail_at = len(faults.done) + 1
        before = store._writer
        with pytest.raises(StoreError, match="expected a disk without faults") as caught:
            put(store, "three")
        assert caught.value.errno == errno.EIO
        assert store._writer is not before, "the connection is made anew"
        put(store, "four")
        assert {"one", "two", "four"} <= set(names(store))
        store.close()


def test_a_commit_without_its_sync_would_be_seen(tmp_path: Path) -> None:
    """The control: with synchronous=OFF a commit asks the disk for nothing."""
    faults = Faults(verbs=("sync",))
    with failing_vfs(faults) as vfs:
        store = Database.open(tmp_path / "store", vfs=vfs)
        with store.transaction() as connection:
            connection.execute(PUT, ("one", 1))
        with store._writing:
            assert store._writer is not None
            store._writer.pragma("synchronous", "OFF")
        synced = len(faults.done)
        put(store, "two")
        assert len(faults.done) == synced
        store.close()


def try_to_take(folder: Path) -> int:
    try:
        WriterLock.take(folder).release()
    except WriterBusyError:
        return 1
    return 0


def test_a_second_writer_is_told_who_the_first_is(tmp_path: Path) -> None:
    lock = WriterLock.take(tmp_path)
    told = f"no other writer, got one at work .pid {os.getpid()}"
    with pytest.raises(WriterBusyError, match=told) as caught:
        WriterLock.take(tmp_path)
    assert vars(caught.value)["remedy"] == "read_only=True, or wait= so many seconds"
    assert stat.S_IMODE((tmp_path / LOCK).stat().st_mode) == 0o600
    assert in_child(lambda: try_to_take(tmp_path)) == 1
    lock.release()
    lock.release()
    assert in_child(lambda: try_to_take(tmp_path)) == 0
    WriterLock.take(tmp_path).release()


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("kept")
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / LOCK).symlink_to(other)
    with pytest.raises(OSError, match="LOCK"):
        WriterLock.take(folder)
    assert other.read_text() == "kept"


def test_a_writer_may_wait_for_the_other_to_leave(tmp_path: Path) -> None:
    lock = WriterLock.take(tmp_path)
    began = time.monotonic()  # first: this thread may be held up before the next line
    threading.Timer(0.1, lock.release).start()
    WriterLock.take(tmp_path, wait=10).release()
    assert 0.05 < time.monotonic() - began < 5


def test_waiting_ends(tmp_path: Path) -> None:
    lock = WriterLock.take(tmp_path)
    began = time.monotonic()
    with pytest.raises(WriterBusyError):
        WriterLock.take(tmp_path, wait=0.1)
    assert 0.1 <= time.monotonic() - began < 2
    lock.release()


def test_a_killed_writer_leaves_no_lock(tmp_path: Path) -> None:
    def hold_and_die() -> int:
        WriterLock.take(tmp_path)
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    assert in_child(hold_and_die) == -signal.SIGKILL
    WriterLock.take(tmp_path).release()


def shared(folder: Path) -> ReaderLock:
    lock = ReaderLock.take(folder)
    assert lock is not None
    return lock


def test_readers_keep_writers_out_and_a_writer_keeps_readers_out(tmp_path: Path) -> None:
    writer = WriterLock.take(tmp_path)
    assert ReaderLock.take(tmp_path) is None
    writer.release()
    readers = [shared(tmp_path), shared(tmp_path)]
    for one in readers:
        assert in_child(lambda: try_to_take(tmp_path)) == 1
        one.release()
        one.release()
    assert in_child(lambda: try_to_take(tmp_path)) == 0


def test_a_writer_waits_a_little_for_readings_to_end_and_says_so_if_they_do_not(
    tmp_path: Path,
) -> None:
    WriterLock.take(tmp_path).release()
    reader = shared(tmp_path)
    began = time.monotonic()
    with pytest.raises(WriterBusyError, match="no reading that keeps writers out, got one that"):
        WriterLock.take(tmp_path)
    assert time.monotonic() - began >= SECONDS_FOR_READERS
    threading.Timer(0.1, reader.release).start()
    writer = WriterLock.take(tmp_path)
    began = time.monotonic()
    with pytest.raises(WriterBusyError, match="no other writer"):  # for which nobody waits unasked
        WriterLock.take(tmp_path)
    assert time.monotonic() - began < SECONDS_FOR_READERS
    writer.release()


@pytest.mark.parametrize("take", [WriterLock.take, shared])
def test_a_child_that_outlives_its_parents_lock_holds_nothing(
    tmp_path: Path, take: Callable[[Path], WriterLock | ReaderLock]
) -> None:
    WriterLock.take(tmp_path).release()
    lock = take(tmp_path)
    ready, go = os.pipe(), os.pipe()
    child = fork()
    if child == 0:
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    try:
        lock.release()  # in the parent; the child still lives
        WriterLock.take(tmp_path).release()
    finally:
        os.write(go[1], b"x")
        os.waitpid(child, 0)


@pytest.mark.parametrize("take", [WriterLock.take, shared])
def test_a_child_cannot_free_its_parents_lock(
    tmp_path: Path, take: Callable[[Path], WriterLock | ReaderLock]
) -> None:
    WriterLock.take(tmp_path).release()
    lock = take(tmp_path)

    def release() -> int:
        lock.release()
        return 0

    assert in_child(release) == 0
    with pytest.raises(WriterBusyError):
        WriterLock.take(tmp_path)
    lock.release()
