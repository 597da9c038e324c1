"""A disk that fails under the database: the caller is told, and what was acknowledged stays."""

import errno
from pathlib import Path

import pytest

from hyrecall.errors import StoreError
from memory.failing_vfs import Faults, failing_vfs
from memory.test_database import PUT, names, put
from seams import Database


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
