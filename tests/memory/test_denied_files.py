"""What a store may not read or write is named, with the folder or file in question."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

import hyrecall
from hyrecall.errors import StoreError
from hyrecall.memory import MemorySync
from seams import disk_named


def deny(monkeypatch: pytest.MonkeyPatch, wanted: int, *places: Path) -> None:
    """Say of places what the system says to a user who may not read or write them."""
    allowed: Callable[..., bool] = os.access

    def access(path: Any, mode: int, **options: Any) -> bool:
        return not (Path(path) in places and mode & wanted) and allowed(path, mode, **options)

    monkeypatch.setattr(os, "access", access)


def told(fault: OSError, path: Path) -> str:
    with pytest.raises(StoreError) as refused, disk_named(str(path)):
        raise fault
    assert refused.value.errno == fault.errno
    return str(refused.value)


def test_the_folder_that_may_not_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deny(monkeypatch, os.W_OK, tmp_path)
    new = tmp_path / "a" / "b"
    fault = PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "a"))
    wish = f"permission to write the folder {tmp_path}, got none"
    assert told(fault, new) == f"{new}: expected {wish}"
    monkeypatch.setattr(os, "mkdir", lambda *_: (_ for _ in ()).throw(fault))
    with pytest.raises(StoreError, match="expected permission to write the folder"):
        MemorySync.open(new, embedder=None)


def test_the_file_that_may_not_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "memory.db"
    file.touch()
    deny(monkeypatch, os.R_OK, file)
    fault = PermissionError(errno.EACCES, "Permission denied", str(tmp_path))
    assert told(fault, tmp_path).endswith(f"expected permission to read the file {file}, got none")


@contextmanager
def as_nobody(folder: Path) -> Iterator[None]:
    """Give a folder to a user who is not root, and act as that user."""
    if os.geteuid() != 0:
        yield
        return
    for one in (folder, *folder.rglob("*")):
        os.chown(one, 65534, 65534)
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.mark.parametrize("read_only", [None, False, True])
@pytest.mark.parametrize("closed", ["a", "a/b"])
def test_a_folder_that_may_not_be_entered_is_named(closed: str, read_only: bool | None) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # others may not enter tmp_path
        path, place = Path(name, "a", "b"), Path(name, closed)
        MemorySync.open(path, embedder=None).close()
        with as_nobody(Path(name)):
            place.chmod(0)
            try:
                with pytest.raises(StoreError) as refused:
                    MemorySync.open(path, read_only=read_only, embedder=None)
            finally:
                place.chmod(0o700)
    wish = f"permission to read the folder {place}"
    assert (str(refused.value), refused.value.errno) == (
        f"{path}: expected {wish}, got none", errno.EACCES
    )  # fmt: skip


@pytest.mark.parametrize(
    ("code", "wish"),
    [
        (errno.ENOSPC, "room on the disk"),
        (errno.EROFS, "a disk that can be written"),
        (errno.EMFILE, "room for another open file in this process"),
        (errno.EIO, "a disk without faults"),
    ],
)
def test_each_fault_of_the_system_says_what_is_missing(
    tmp_path: Path, code: int, wish: str
) -> None:
    got = os.strerror(code)
    assert told(OSError(code, got), tmp_path) == f"{tmp_path}: expected {wish}, got {got}"


def test_a_read_only_disk_is_named(tmp_path: Path) -> None:
    """As a container's root is, which root may not write either."""
    apart = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-euc"]
    if not shutil.which("unshare") or subprocess.run([*apart, "true"], check=False).returncode:
        pytest.skip("this machine lets nobody unshare mounts")
    code = "import sys; from hyrecall.memory import MemorySync; MemorySync.open(sys.argv[1])"
    mount = 'mount -t tmpfs -o ro none "$3" && "$1" -c "$2" "$3/store"'
    done = subprocess.run(
        [*apart, mount, "sh", sys.executable, code, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path(hyrecall.__file__).parents[1])},
        stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    wish = f"expected a disk that can be written at {tmp_path}, got a read-only one"
    assert f"StoreError: {tmp_path}/store: {wish}" in done.stderr, done.stderr


def test_a_missing_parent_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone" / "memory.db"
    fault = FileNotFoundError(errno.ENOENT, "No such file or directory", str(gone))
    assert told(fault, tmp_path) == (
        f"{tmp_path}: expected the file {gone}, got No such file or directory"
    )
