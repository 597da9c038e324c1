"""The writer's lock: one holder among threads and processes, and freed by the system on death."""

import os
import signal
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hyrecall.errors import WriterBusyError
from memory.children import fork, in_child
from seams import LOCK, SECONDS_FOR_READERS, ReaderLock, WriterLock


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
