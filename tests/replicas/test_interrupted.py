"""A push or pull that ends at any request: a follower sees the state before or the state after."""

import errno
import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

import hyrecall as hr
from hyrecall.errors import HyrecallError
from hyrecall.replicas import prune, pull, push
from replicas.world import (
    Killed,
    Meddled,
    give,
    index_versions,
    lagging_store,
    new_index,
    next_index,
    next_store,
    open_store,
    store_versions,
)
from seams import (
    FolderRemote,
    object_of,
    open_remote,
    read_generation,
    read_head,
    sources,
    targets,
    transfer,
)

NOW = timedelta(0)


class Dying:
    """Ends everything at the n-th request."""

    def __init__(self, nth: int) -> None:
        self.left = nth

    def __call__(self, kind: str, name: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed


class HeadFirst(FolderRemote):
    """The planted bug: HEAD is written before what it names."""

    def __init__(self, plain: Any) -> None:
        super().__init__(plain._root)
        self._later: list[tuple[str, bytes]] = []

    def put(self, name: str, content: bytes) -> None:
        self._later.append((name, content))

    def replace_head(self, content: bytes, tag: str | None) -> None:
        super().replace_head(content, tag)
        for name, one in self._later:
            self.before("late put", name)
            super().put(name, one)

    before: Callable[[str, str], object]


def die_in_pushes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Any, Dying], Any]
) -> int:
    """Push a version again and again, each time a request further; pull after each."""
    url = (folder / "remote").as_uri()
    new_index(folder / "source")
    push(folder / "source", url)
    pull(url, folder / "copy")
    n_ended = 0
    for version in range(1, 100):
        next_index(folder / "source", version)
        dying = Dying(version - 1)
        with monkeypatch.context() as patched:
            give(patched, lambda plain, dying=dying: make(plain, dying))
            try:
                push(folder / "source", url)
            except Killed:
                n_ended += 1
        before = index_versions(folder / "copy")
        pull(url, folder / "copy")
        after = index_versions(folder / "copy")
        assert len(after) == 1
        assert before[0] <= after[0] <= version
        if dying.left >= 0:  # none ends early any more
            assert after == [version]
            return n_ended
    raise AssertionError("pushes never end")


def test_a_push_that_ends_at_any_request_leaves_one_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_ended = die_in_pushes(tmp_path, monkeypatch, Meddled)
    assert n_ended >= 8
    url = (tmp_path / "remote").as_uri()
    pruned = prune(url, keep=1, older_than=NOW)
    assert pruned.n_removed > 0, "interrupted pushes left objects"
    pull(url, tmp_path / "new")
    assert index_versions(tmp_path / "new") == index_versions(tmp_path / "copy")


def test_a_head_that_is_published_before_its_chunks_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(plain: Any, dying: Dying) -> Any:
        late = HeadFirst(plain)
        late.before = dying
        return Meddled(late, dying)

    with pytest.raises(HyrecallError, match="an object of generation"):
        die_in_pushes(tmp_path, monkeypatch, make)


def test_a_pull_that_ends_at_any_request_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = (tmp_path / "remote").as_uri()
    new_index(tmp_path / "source")
    next_index(tmp_path / "source", 1)
    pushed = push(tmp_path / "source", url)
    fetched = n_ended = 0
    for n_requests in range(100):
        dying = Dying(n_requests)
        with monkeypatch.context() as patched:
            give(patched, lambda plain, dying=dying: Meddled(plain, dying))
            try:
                fetched = pull(url, tmp_path / "copy").n_fetched
                break
            except Killed:
                n_ended += 1
        assert not (tmp_path / "copy" / "MANIFEST").exists()
    assert n_ended >= 4
    assert fetched < pushed.n_sent, "chunks that had arrived were fetched again"
    assert index_versions(tmp_path / "copy") == [1]
    assert not list((tmp_path / "copy").glob("*.part"))


def test_a_store_whose_pull_ends_at_any_request_is_never_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = (tmp_path / "remote").as_uri()
    next_store(tmp_path / "source", 0)
    push(tmp_path / "source", url)
    pull(url, tmp_path / "copy")
    for version in range(1, 40):
        next_store(tmp_path / "source", version)
        push(tmp_path / "source", url)
        dying = Dying(version - 1)
        before = store_versions(tmp_path / "copy")
        with monkeypatch.context() as patched:
            give(patched, lambda plain, dying=dying: Meddled(plain, dying))
            try:
                pull(url, tmp_path / "copy")
            except Killed:
                assert store_versions(tmp_path / "copy") == before
        if dying.left >= 0:
            break
    else:
        raise AssertionError("pulls never end")
    assert version > 8
    assert store_versions(tmp_path / "copy") == store_versions(tmp_path / "source")


@pytest.mark.parametrize("n_done", [0, 1])
def test_a_pull_that_ends_between_database_and_index_answers_from_the_database(
    n_done: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, copy = (tmp_path / "remote").as_uri(), tmp_path / "copy"
    for version in range(3):
        next_store(tmp_path / "source", version)
    push(tmp_path / "source", url)
    pull(url, copy)
    next_store(tmp_path / "source", 3)  # erases rows of version 1
    push(tmp_path / "source", url)
    commit, left = targets._commit_index, [n_done]

    def ending(folder: Path, text: bytes) -> None:
        if not left[0]:
            raise Killed
        left[0] -= 1
        commit(folder, text)

    with monkeypatch.context() as patched:
        patched.setattr(targets, "_commit_index", ending)
        with pytest.raises(Killed):
            pull(url, copy)
    with open_store(copy, read_only=True) as memory:
        assert "erased" in [one.name for one in memory.doctor(full=True).checks if not one.ok]
    assert store_versions(copy, is_cut=True) == store_versions(tmp_path / "source") == {0, 2, 3}
    pull(url, copy)
    assert store_versions(copy) == {0, 2, 3}


def damage_each_chunk(folder: Path) -> int:
    """Change a byte of each chunk in turn; return how many pulls took it for good."""
    url = (folder / "remote").as_uri()
    new_index(folder / "source")
    push(folder / "source", url)
    n_taken = 0
    for at, path in enumerate(sorted((folder / "remote" / "chunks").rglob("*-*"))):
        whole = path.read_bytes()
        for damaged in (whole[:-1], bytes([whole[0] ^ 1]) + whole[1:], whole + b"x", b""):
            path.write_bytes(damaged)
            try:
                pull(url, folder / f"copy-{at}")
            except HyrecallError:
                pass
            else:
                n_taken += 1
            path.write_bytes(whole)
        pull(url, folder / f"copy-{at}")
        assert index_versions(folder / f"copy-{at}") == [0]
    return n_taken


def test_every_damaged_chunk_is_refused_and_the_pull_goes_on_later(tmp_path: Path) -> None:
    assert damage_each_chunk(tmp_path) == 0


def test_a_pull_that_does_not_compare_hashes_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer.Transfer, "_check", lambda *_: None)
    try:
        n_taken = damage_each_chunk(tmp_path)
    except HyrecallError:  # the index itself finds the byte when it is opened
        return
    assert n_taken > 0


def pull_a_failure_beside_a_late_chunk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Fail at one chunk of a file while another arrives; return whether its file was still open."""
    url = (folder / "remote").as_uri()
    monkeypatch.setattr(sources, "INDEX_CHUNK", 2**22)
    hr.Index.build(
        pa.table({"id": ["a", "b"], "user": ["ann"] * 2, "text": ["x" * 2**22, "y" * 2**22]}),
        hr.Schema(key="id", cell="user", text="text"),
    ).save(folder / "source")
    push(folder / "source", url)
    head = read_head(open_remote(url))
    assert head is not None
    files = read_generation(open_remote(url), head[0].number, head[0].manifest).files
    first, second = (object_of(one) for one in next(f.chunks for f in files if f.size > 2**22)[:2])
    late, failed = threading.Event(), threading.Event()
    open_at_writes = []
    write_at = transfer._write_at

    def get(kind: str, name: str) -> None:
        if name == first:
            assert late.wait(30)
            failed.set()
            raise Killed
        if name == second:
            late.set()
            assert failed.wait(30)
            time.sleep(0.2)  # so that whoever does not wait has closed the file

    def note(handle: int, content: bytes, at: int) -> None:
        try:
            os.fstat(handle)
        except OSError:
            open_at_writes.append(False)
            return
        open_at_writes.append(True)
        write_at(handle, content, at)

    with monkeypatch.context() as patched:
        patched.setattr(transfer, "_write_at", note)
        give(patched, lambda plain: Meddled(plain, get))
        with pytest.raises(Killed):
            pull(url, folder / "copy")
    assert failed.is_set()
    return open_at_writes


def test_a_pull_that_fails_writes_nothing_after_it_has_closed_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of a closed file may be that of another file by then."""
    assert set(pull_a_failure_beside_a_late_chunk(tmp_path, monkeypatch)) == {True}


def test_a_pull_that_does_not_wait_for_its_threads_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer.Transfer, "_give_up", lambda _: None)
    assert False in pull_a_failure_beside_a_late_chunk(tmp_path, monkeypatch)


def test_a_full_disk_is_told_with_the_file_and_the_pull_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = lagging_store(tmp_path)

    def fill(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(transfer, "_write_at", fill)
        with pytest.raises(OSError, match=r"No space left on device: .*\.part"):
            pull(url, tmp_path / "copy")
    assert store_versions(tmp_path / "copy") == {0}
    pull(url, tmp_path / "copy")
    assert store_versions(tmp_path / "copy") == {0, 1}
