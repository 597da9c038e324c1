"""A disk that is full: writers are told, readers read, and room is used again (D3)."""

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyrecall.errors import StoreError, WriterBusyError
from hyrecall.memory import MemorySync
from memory.rows_of_tests import ANA, NOW, new
from seams import (
    Database,
    Selection,
    WriterLock,
    erase,
    every_cell,
    examine,
    find_cell,
    newest,
    remember,
)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no right to mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Leave no byte of room."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    return filler


def test_a_full_disk_lets_a_store_be_read(small_disk: Path) -> None:
    folder = small_disk / "store"
    with MemorySync.open(folder, embedder=None) as memory:
        memory.remember("oak", user_id="ann")
    filler = fill(small_disk)
    with pytest.raises(StoreError):
        MemorySync.open(folder, embedder=None)
    with MemorySync.open(folder, embedder=None, read_only=True) as reader:
        assert [one.episode.text for one in reader.search("oak", user_id="ann")] == ["oak"]
        with reader._store.database.reading(), pytest.raises(WriterBusyError):
            WriterLock.take(folder)  # nobody writes while the file is read as it is
        filler.unlink()
        with MemorySync.open(folder, embedder=None) as writer:
            writer.remember("elm", user_id="ann")
            assert {one.text for one in reader.list(user_id="ann")} == {"oak", "elm"}


def test_where_there_is_no_room_to_compact_nothing_changes(small_disk: Path) -> None:
    with MemorySync.open(small_disk / "store", embedder=None) as memory:
        for number in range(20):
            memory.remember("x" * 20_000, id=f"e{number}", user_id="ann")
        memory._store.database.checkpoint()
        fill(small_disk)
        with pytest.raises(StoreError) as told:
            memory.compact()
        assert told.value.errno in {errno.ENOSPC, errno.EIO}
        (small_disk / "filler").unlink()
        assert len(memory.list(user_id="ann", limit=100)) == 20
        assert memory.doctor(full=True).ok


def put_until_full(database: Database, told: list[str], begin: int) -> StoreError:
    """Keep memories of 20 kB until one is refused."""
    for at in range(begin, begin + 1000):
        key = f"{at:04}"
        try:
            with database.transaction() as c:
                remember(c, [new(key, text=key * 5000)], NOW)
        except StoreError as fault:
            return fault
        told.append(key)
    raise AssertionError("the disk is never full")


def ids(database: Database) -> list[str]:
    with database.reading() as c:
        return sorted(one.id for one in newest(c, every_cell(c), limit=9999))


def test_a_full_disk_loses_nothing_and_is_used_again(small_disk: Path) -> None:
    database = Database.open(small_disk / "store")
    told: list[str] = []
    fault = put_until_full(database, told, 0)
    assert fault.errno in {errno.ENOSPC, errno.EIO}
    assert len(told) > 10
    assert ids(database) == told
    n_told = len(told)
    second = put_until_full(database, told, 2000)
    assert second.errno in {errno.ENOSPC, errno.EIO}
    assert ids(database) == told
    database.close()
    with contextlib.suppress(StoreError):  # to open it may take room that is not there
        Database.open(small_disk / "store").close()
    reader = Database.open(small_disk / "store", read_only=True)
    assert ids(reader) == told
    reader.close()

    subprocess.run(["mount", "-o", "remount,size=6m", str(small_disk)], check=True)
    database = Database.open(small_disk / "store")
    with database.reading() as c:
        cell = find_cell(c, ANA)
    assert cell is not None
    gone = told[: len(told) // 2]
    assert erase(database, Selection([cell], ids=gone)).n == len(gone)
    del told[: len(gone)]
    assert ids(database) == told
    size = sum(path.stat().st_size for path in database.folder.iterdir())
    with database.transaction() as c:
        remember(c, [new("again", text="x" * 20_000)], NOW)
    database.checkpoint()
    assert sum(path.stat().st_size for path in database.folder.iterdir()) <= size + 40_000
    assert ids(database) == [*told, "again"]
    assert examine(database, full=True).ok
    database.close()
    print(f"\na disk of 2 MB full: {n_told} memories told of, 0 lost")
