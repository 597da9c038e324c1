"""Stores where nothing can be written: every committed row is read, nothing is changed."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hyrecall.embed import HashEmbedder
from hyrecall.errors import StoreError, WriterBusyError
from hyrecall.memory import MemorySync
from memory.children import in_child
from memory.copies import copy_store
from memory.stores import DIM, folder, open_store
from seams import LOCK, LOG, Database, ReaderLock, WriterLock
from seams import memory_DATABASE as DATABASE

SHARED_MEMORY = f"{DATABASE}-shm"
N = 30


# ---- places where nothing can be written ----


def give_up_rights() -> None:
    """Take from this thread, and those it starts, root's right to write everywhere."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3 of the interface, this thread
    none = (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None, use_errno=True).capset(header, none) == 0, ctypes.get_errno()


@pytest.fixture
def no_permission(tmp_path: Path) -> Iterator[Callable[[Path], Path]]:
    """Make a folder one that its owner may not write; tests read it in a child without rights."""
    made: list[Path] = []

    def close(store: Path) -> Path:
        folders = [store, *(path for path in store.rglob("*") if path.is_dir())]
        for one in folders:
            one.chmod(0o500)
        made.extend(folders)
        return store

    yield close
    for one in made:
        one.chmod(0o700)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[Path], Path]]:
    """Mount a folder read-only in a second place."""
    made: list[Path] = []

    def mount(store: Path) -> Path:
        view = tmp_path / f"view{len(made)}"
        view.mkdir()
        bind = ["mount", "--bind", str(store), str(view)]
        if os.geteuid() != 0 or subprocess.run(bind, check=False, capture_output=True).returncode:
            pytest.skip("no right to mount a folder")
        made.append(view)
        subprocess.run(["mount", "-o", "remount,ro,bind", str(view)], check=True)
        with pytest.raises(OSError, match="Read-only"):
            (view / "any").touch()
        return view

    yield mount
    for view in made:
        subprocess.run(["umount", "-l", str(view)], check=True)


@pytest.fixture(params=["no_permission", "mounted"])
def closed_to_writers(request: pytest.FixtureRequest) -> Callable[[Path], Path]:
    place: Callable[[Path], Path] = request.getfixturevalue(request.param)
    return place


# ---- stores as their writers leave them ----


def filled(path: Path) -> MemorySync:
    memory = open_store(path)
    for n in range(N):
        memory.remember(f"oak and elm {n}", id=f"e{n}", user_id="ann")
    memory.forget("e0", user_id="ann")
    return memory


def as_closed(path: Path) -> None:
    filled(path).close()


def as_killed(path: Path) -> None:
    """Everything is in the log alone, and the file of shared memory is there."""
    with filled(path.with_name("living")):
        copy_store(path.with_name("living"), path)


def as_killed_and_copied(path: Path) -> None:
    """A copy, or another machine, has no file of shared memory."""
    as_killed(path)
    (path / SHARED_MEMORY).unlink()


def as_killed_later(path: Path) -> None:
    """Rows are in the database and in the log, and the saved index lacks those of the log."""
    as_closed(path)
    with open_store(path) as memory:
        for n in range(N, N + 5):
            memory.remember(f"oak and elm {n}", id=f"e{n}", user_id="ann")
        copy_store(path, path.with_name("copy"))
    shutil.rmtree(path)
    path.with_name("copy").rename(path)
    (path / SHARED_MEMORY).unlink()


def as_database_alone(path: Path) -> None:
    as_closed(path)
    (path / LOCK).unlink()


MAKERS = (as_closed, as_killed, as_killed_and_copied, as_killed_later, as_database_alone)


def what_is_there(path: Path) -> dict[str, Any]:
    """What a reader is told; it reads twice, so that connections are used again."""
    given = {"embedder": HashEmbedder(DIM), "recall_timeout": 30.0}
    with MemorySync.open(path, read_only=True, **given) as memory:
        found = [
            [(one.episode.id, one.score) for one in memory.search("oak", user_id="ann", limit=99)]
            for _ in range(2)
        ]
        assert found[0] == found[1]
        return {
            "found": found[0],
            "listed": [one.id for one in memory.list(user_id="ann")],
            "history": len(memory.history("e0", user_id="ann")),
            "degraded": memory.search("oak", user_id="ann").degraded,
            "doctor": [one.name for one in memory.doctor(full=True).checks if not one.ok],
            "how": memory._store.opened.how,
        }


def content(path: Path) -> dict[str, bytes]:
    files = (file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def read_without_rights(path: Path, out: Path) -> dict[str, Any]:
    def work() -> int:
        give_up_rights()
        assert not os.access(path, os.W_OK)
        out.write_text(json.dumps(what_is_there(path)))
        return 0

    out.touch()
    assert in_child(work) == 0
    return json.loads(out.read_text())  # type: ignore[no-any-return]


@pytest.mark.plain_cases(4)
@pytest.mark.parametrize("make", MAKERS)
def test_a_store_where_nothing_can_be_written_is_read_whole(
    make: Callable[[Path], None], closed_to_writers: Callable[[Path], Path], tmp_path: Path
) -> None:
    path = folder()
    make(path)
    expected = copy_store(path, tmp_path / "writable")
    wanted = json.loads(json.dumps(what_is_there(expected)))
    assert len(wanted["listed"]) >= N - 1
    assert wanted["degraded"] is False
    before = content(path)
    assert read_without_rights(closed_to_writers(path), tmp_path / "out") == wanted
    after = content(path)
    if make is as_killed:  # SQLite may write the shared memory that is there: it holds no data
        before.pop(SHARED_MEMORY), after.pop(SHARED_MEMORY)
    assert after == before


def test_a_saved_index_is_used_where_nothing_can_be_written(
    closed_to_writers: Callable[[Path], Path], tmp_path: Path
) -> None:
    path = folder()
    as_closed(path)
    assert read_without_rights(closed_to_writers(path), tmp_path / "out")["how"] == "snapshot"


PROGRAM = """
import sys
from hyrecall.memory import MemorySync
with MemorySync.open(sys.argv[1], embedder=None, read_only=True) as reader:
    for line in sys.stdin:
        print(len(reader.list(user_id="ann")), flush=True)
"""


class Elsewhere:
    """A reader in a process of its own, as a forked one would share SQLite's locks."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self) -> None:
        print("?", file=self._process.stdin, flush=True)

    def told(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def end(self) -> int:
        self._process.communicate()
        return self._process.returncode


@pytest.mark.slow
def test_a_reader_on_a_read_only_mount_follows_a_writer_elsewhere(
    mounted: Callable[[Path], Path],
) -> None:
    path = folder()
    memory = filled(path)
    reader = Elsewhere(mounted(path))

    def n_listed() -> int:
        reader.ask()
        return reader.told()

    assert n_listed() == N - 1
    memory.remember("late", id="late", user_id="ann")
    assert n_listed() == N
    memory.close()
    assert n_listed() == N
    with open_store(path) as again:
        again.remember("later", id="later", user_id="ann")
        assert n_listed() == N + 1
    assert n_listed() == N + 1
    assert reader.end() == 0


@pytest.mark.slow
def test_a_reader_on_a_read_only_mount_waits_for_a_writer_that_opens_or_closes(
    mounted: Callable[[Path], Path],
) -> None:
    path = folder()
    as_closed(path)
    reader = Elsewhere(mounted(path))
    reader.ask()
    assert reader.told() == N - 1
    for _ in range(200):
        reader.ask()
    for _ in range(30):
        Database.open(path).close()
    assert {reader.told() for _ in range(200)} == {N - 1}
    assert reader.end() == 0


def test_a_writer_is_refused_where_nothing_can_be_written(
    closed_to_writers: Callable[[Path], Path],
) -> None:
    path = folder()
    as_closed(path)
    place = closed_to_writers(path)

    def work() -> int:
        give_up_rights()
        with pytest.raises(StoreError):
            MemorySync.open(place, embedder=None)
        return 0

    assert in_child(work) == 0


def test_writers_are_kept_out_while_a_log_is_read_as_it_is(mounted: Callable[[Path], Path]) -> None:
    path = folder()
    as_killed_and_copied(path)
    with open_store(mounted(path), embedder=None, read_only=True) as reader:
        with reader._store.database.reading(), pytest.raises(WriterBusyError):
            WriterLock.take(path)
        WriterLock.take(path).release()


def test_where_a_writer_may_come_a_missing_lock_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ReaderLock.take(tmp_path)


def test_a_cut_log_is_noticed_where_nothing_can_be_written(
    mounted: Callable[[Path], Path],
) -> None:
    path = folder()
    as_killed_and_copied(path)
    os.truncate(path / LOG, (path / LOG).stat().st_size - 5000)
    with pytest.raises(StoreError, match="every change up to"):
        open_store(mounted(path), embedder=None, read_only=True)
