"""What a save asks of the disk: files written and synced, one rename, one lock.

A power cut may drop, tear or reorder whatever was not synced. So the order is fixed: a file's bytes
are synced, then the folder that names it, and only then the rename that makes it count, which the
folder's second sync keeps. No file is ever changed or truncated once it has its name: a reader may
have it mapped, and a shortened mapping would kill it (SIGBUS). Removing a name is harmless: the
bytes stay until the last mapping is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import mmap
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import xxhash

from hyrecall.base.file_entry import FileEntry
from hyrecall.errors import CorruptIndexError, OptionError, WriterBusyError, error

__all__ = [
    "LateCheck",
    "block_checksums",
    "check_blocks",
    "commit",
    "late_blocks",
    "make_folder",
    "prepare",
    "read_file",
    "remove",
    "write_file",
    "writer_lock",
]

BLOCK_BYTES = 4 * 2**20
WRITE_BYTES = 2**16  # smaller writes are gathered: Arrow pads each buffer with a few bytes
LOCK = "LOCK"

# ---- writing ----


def make_folder(path: Path, *, mode: int = 0o777) -> None:
    """Make a folder, and those above it, so that they outlive a power cut.

    Of what is there already that is whoever made it to see to, also if it was made a moment ago.
    """
    if path.is_dir():
        return
    parent = path.absolute().parent
    make_folder(parent)
    try:
        os.mkdir(path, mode)
    except FileExistsError:  # a file, or another process was faster
        if not path.is_dir():
            raise error(OptionError, "path", "a folder", f"the file {path}") from None
    sync_folder(parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder outlive a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """Be the only writer of a folder, among threads and processes; the system frees it on death.

    Raises
    ------
    WriterBusyError
        Another writer holds it.
    """
    # Never removed: a lock on a file without a name excludes nobody.
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise error(WriterBusyError, str(folder), "no other writer", "one at work") from None
        yield
    finally:
        os.close(handle)


class _Sink(io.RawIOBase):
    """A file under way that hashes its blocks as they pass."""

    def __init__(self, handle: int) -> None:
        self.size = 0
        self._handle = handle
        self._blocks: list[str] = []
        self._hash = xxhash.xxh3_64()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        at = 0
        while at < len(view):  # a write may be short
            room = BLOCK_BYTES - self.size % BLOCK_BYTES
            n_bytes = os.write(self._handle, view[at : at + room])
            self._hash.update(view[at : at + n_bytes])
            at += n_bytes
            self.size += n_bytes
            if self.size % BLOCK_BYTES == 0:
                self._end_block()
        return len(view)

    def _end_block(self) -> None:
        self._blocks.append(self._hash.hexdigest())
        self._hash.reset()

    def blocks(self) -> tuple[str, ...]:
        if self.size % BLOCK_BYTES:
            self._end_block()
        return tuple(self._blocks)


def write_file(
    path: Path, write: Callable[[BinaryIO], None], *, mode: int = 0o644
) -> tuple[int, tuple[str, ...]]:
    """Write and sync a file; give its size and the checksums of its blocks.

    A file of that name that no version counts on (left by a crash) makes way: its name goes, and
    the new bytes are a new file.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        sink = _Sink(handle)
        with io.BufferedWriter(sink, WRITE_BYTES) as buffered:
            write(buffered)
        os.fsync(handle)
        return sink.size, sink.blocks()
    finally:
        os.close(handle)


def prepare(folder: Path, name: str, content: bytes) -> None:
    """Write what :func:`commit` will put in place, and sync the names of all files before it."""

    def write(file: BinaryIO) -> None:
        file.write(content)

    write_file(folder / f"{name}.tmp", write)
    sync_folder(folder)


def commit(folder: Path, name: str) -> None:
    """Put what :func:`prepare` wrote in the place of the file of that name: all or nothing."""
    os.replace(folder / f"{name}.tmp", folder / name)
    sync_folder(folder)


def remove(paths: Iterable[Path]) -> None:
    """Remove files that nothing counts on; one that stays is removed by a later save."""
    for path in paths:
        with contextlib.suppress(OSError):
            os.unlink(path)


# ---- reading ----

_UNTRACKED = {"trackfd": False} if sys.version_info >= (3, 13) else {}  # costs no descriptor then


def read_file(path: Path, size: int, memory: str) -> pa.Buffer:
    """Map a file, or read it into memory of its own.

    Raises
    ------
    CorruptIndexError
        The file is not there, or not of that size.
    """
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        raise error(CorruptIndexError, str(path), f"a file of {size} bytes", "no file") from None
    try:
        found = os.fstat(handle).st_size
        if found != size:
            raise error(CorruptIndexError, str(path), f"{size} bytes", f"{found} bytes")
        if memory == "mmap":
            mapped = mmap.mmap(handle, size, access=mmap.ACCESS_READ, **_UNTRACKED)
            return pa.py_buffer(mapped)
        return _read_whole(handle, size, path)
    finally:
        os.close(handle)


def _read_whole(handle: int, size: int, path: Path) -> pa.Buffer:
    memory = mmap.mmap(-1, size)
    # Random rows are 2-3x faster from huge pages. Some kernels have none: then it is plain memory.
    with contextlib.suppress(AttributeError, OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    view = memoryview(memory)
    at = 0
    with open(handle, "rb", buffering=0, closefd=False) as file:
        while at < size:
            n_bytes = file.readinto(view[at:])
            if not n_bytes:
                raise error(CorruptIndexError, str(path), f"{size} bytes", f"{at} bytes")
            at += n_bytes
    return pa.py_buffer(memory)


def late_blocks(entry: FileEntry) -> range:
    """Return the blocks of a vector file that can wait until its vectors are read.

    All but the first and the last two: those hold the Arrow schema and the offsets of the columns,
    which are followed at open.
    """
    return range(1, max(1, len(entry.blocks) - 2))


def block_checksums(buffer: pa.Buffer) -> tuple[str, ...]:
    """Return the checksum of each block of a file's content."""
    view = memoryview(buffer)
    begins = range(0, len(view), BLOCK_BYTES)
    return tuple(xxhash.xxh3_64_hexdigest(view[at : at + BLOCK_BYTES]) for at in begins)


def check_blocks(
    path: Path, entry: FileEntry, buffer: pa.Buffer, numbers: Iterable[int] | None = None
) -> None:
    """Compare blocks of a file with their checksums; default: all of them.

    Raises
    ------
    CorruptIndexError
        A block differs; file and offset are named.
    """
    n_blocks = -(-entry.size // BLOCK_BYTES)
    if len(entry.blocks) != n_blocks:
        raise error(CorruptIndexError, str(path), f"{n_blocks} checksums", len(entry.blocks))
    view = memoryview(buffer)
    for number in range(n_blocks) if numbers is None else numbers:
        begin = number * BLOCK_BYTES
        found = xxhash.xxh3_64_hexdigest(view[begin : begin + BLOCK_BYTES])
        if found != entry.blocks[number]:
            wish = f"checksum {entry.blocks[number]} of the block at byte {begin}"
            raise error(CorruptIndexError, str(path), wish, found)


class LateCheck:
    """The check of a vector file that open left for the first reader. Threads may race for it."""

    def __init__(self, path: Path, entry: FileEntry, buffer: pa.Buffer) -> None:
        """Remember what to check."""
        self._lock = threading.Lock()
        self._left: tuple[Path, FileEntry, pa.Buffer] | None = (path, entry, buffer)

    def __call__(self) -> None:
        """Check once; a file that is damaged is refused every time."""
        if self._left is None:
            return
        with self._lock:
            if self._left is not None:
                check_blocks(*self._left, late_blocks(self._left[1]))
                self._left = None
