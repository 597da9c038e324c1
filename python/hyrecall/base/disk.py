"""Writes, syncs, locks and reads the files of a saved index so that they survive a power cut.

A power cut may drop, tear or reorder all writes that were not synced. So the order is fixed: sync
the file's bytes, sync its folder, rename the file that makes the version valid, sync the folder
again. A named file is never changed or truncated: a reader may have mapped it, and what it reads
beyond the new end is lost. Removing a name is harmless: the bytes stay until the last mapping is
gone.
"""

from __future__ import annotations

import contextlib
import errno
import io
import mmap
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import xxhash

from hyrecall import _core
from hyrecall.base.file_entry import FileEntry
from hyrecall.base.forks import kept_from_children, locked
from hyrecall.errors import CorruptIndexError, OptionError, WriterBusyError, error

__all__ = [
    "LateCheck",
    "block_checksums",
    "check_blocks",
    "commit",
    "late_blocks",
    "late_checks",
    "late_ends",
    "make_folder",
    "open_to_read",
    "prepare",
    "read_bytes",
    "read_file",
    "remove",
    "write_file",
    "writer_lock",
]

BLOCK_BYTES = 4 * 2**20
WRITE_BYTES = 2**16  # smaller writes are gathered: Arrow pads each buffer with a few bytes
SMALL_BYTES = 2**16
"""A file up to this size is checked as a whole when it is opened."""
_TAIL_BYTES = 2**16  # the end of a file that opening it reads, with room to spare
_LEAST_LATE = 241  # XXH3-64 of fewer bytes is another function (csrc/core/xxh3.hpp)
LOCK = "LOCK"

# ---- writing ----


def make_folder(path: Path, *, mode: int = 0o777) -> None:
    """Make a folder and its parents, and sync each new one so that it survives a power cut."""
    # A folder that exists already is not synced: its creator does that.
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
    """Sync a folder, so that the names in it survive a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """Hold the folder's only writer lock, among threads and processes; a crash releases it."""
    with contextlib.ExitStack() as held:
        # The file is never removed: later writers could not see a lock on an unnamed file.
        how = os.O_RDWR | os.O_CREAT
        try:
            held.enter_context(locked(folder / LOCK, how, 0o644, wait=0.0))
        except BlockingIOError:
            raise error(WriterBusyError, str(folder), "no other writer", "an active one") from None
        yield


class _Sink(io.RawIOBase):
    """An output file that hashes each block as it is written."""

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
    """Write and sync a file; return its size and the checksums of its blocks."""
    # An existing file of that name (left by a crash, used by no version) is unlinked first, so its
    # bytes are not overwritten.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        sink = _Sink(handle)
        with kept_from_children(handle), io.BufferedWriter(sink, WRITE_BYTES) as buffered:
            write(buffered)
        os.fsync(handle)
        return sink.size, sink.blocks()
    finally:
        os.close(handle)


def prepare(folder: Path, name: str, content: bytes) -> None:
    """Write the temporary file that :func:`commit` renames, and sync the folder."""

    def write(file: BinaryIO) -> None:
        file.write(content)

    write_file(folder / f"{name}.tmp", write)
    sync_folder(folder)


def commit(folder: Path, name: str) -> None:
    """Rename the file that :func:`prepare` wrote to `name`, atomically, and sync the folder."""
    os.replace(folder / f"{name}.tmp", folder / name)
    sync_folder(folder)


def remove(paths: Iterable[Path]) -> None:
    """Remove unused files; a later save removes those that could not be removed now."""
    for path in paths:
        with contextlib.suppress(OSError):
            os.unlink(path)


# ---- reading ----


_NO_FILES = {
    errno.ENXIO: "a pipe, a socket or a device",
    errno.ELOOP: "a link that leads back to itself",
}


def open_to_read(path: Path) -> int:
    """Open a regular file; to read a pipe or a device in its place might never end."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as fault:
        got = _NO_FILES.get(fault.errno or 0, "")
        if not got:
            raise
        raise error(CorruptIndexError, str(path), "a file", got) from None
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return handle
    os.close(handle)
    got = "a folder" if stat.S_ISDIR(mode) else _NO_FILES[errno.ENXIO]
    raise error(CorruptIndexError, str(path), "a file", got)


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, opened as by :func:`open_to_read`."""
    with open(open_to_read(path), "rb") as file:
        return file.read()


def read_file(
    path: Path,
    size: int,
    memory: str,
    mapped: list[_core.files.MappedFile] | None = None,
    ends: tuple[int, int] = (0, 0),
) -> pa.Buffer:
    """Map a file (``memory="mmap"``), or read it into new memory."""
    # A mapped file is also appended to ``mapped``. If only its ``ends`` will be read, so many first
    # and last bytes, the system reads these ahead, and no pages around others.
    try:
        handle = open_to_read(path)
    except FileNotFoundError:
        raise error(CorruptIndexError, str(path), f"a file of {size} bytes", "no file") from None
    try:
        found = os.fstat(handle).st_size
        if found != size:
            raise error(CorruptIndexError, str(path), f"{size} bytes", f"{found} bytes")
        if memory == "mmap":
            file = _core.files.MappedFile(os.fsencode(path), handle, size)
            if mapped is not None:
                mapped.append(file)
            buffer = pa.py_buffer(file)
            if any(ends):
                file.read_apart(buffer.address, size)
                for begin, n_bytes in (0, ends[0]), (max(0, size - ends[1]), ends[1]):
                    os.posix_fadvise(handle, begin, n_bytes, os.POSIX_FADV_WILLNEED)
            return buffer
        return _read_whole(handle, size, path)
    finally:
        os.close(handle)


def _read_whole(handle: int, size: int, path: Path) -> pa.Buffer:
    memory = mmap.mmap(-1, size)
    # Random rows are 2-3x faster from huge pages; some kernels do not have them.
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
    """Return the blocks of a file that may be checked when they are first read."""
    # Opening a file follows the Arrow schema and the places of its columns, which lie at both ends.
    # Where these have checksums of their own, no block need be checked, but for a last one that is
    # too short for a late check. Else the first block and the last are, and the one before if the
    # last is so short that some of that may lie before it. A small file is checked as a whole.
    n_blocks = len(entry.blocks)
    n_last = entry.size - BLOCK_BYTES * (n_blocks - 1)
    if any(late_ends(entry)):
        return range(n_blocks if n_last >= _LEAST_LATE else n_blocks - 1)
    return range(1, max(1, n_blocks - (2 if n_last < _TAIL_BYTES else 1)))


def late_ends(entry: FileEntry) -> tuple[int, int]:
    """Return how many first and last bytes of a file an open compares in the place of blocks."""
    # (0, 0) if it compares blocks.
    if not entry.ends or entry.size <= SMALL_BYTES:
        return 0, 0
    return entry.ends[0].size, entry.ends[1].size


def late_checks(path: Path, entry: FileEntry, buffer: pa.Buffer) -> _core.files.BlockChecks | None:
    """Check what opening a file reads; return the checks of its blocks, if any are left."""
    if any(late_ends(entry)):
        _check_ends(path, entry, buffer)
    left = late_blocks(entry)
    now = [number for number in range(len(entry.blocks)) if number not in left]
    check_blocks(path, entry, buffer, now)
    if not left:
        return None
    sums = np.frombuffer(bytes.fromhex("".join(entry.blocks)), ">u8").astype(np.uint64)
    return _core.files.BlockChecks(os.fsencode(path), buffer, sums, BLOCK_BYTES, now)


def _check_ends(path: Path, entry: FileEntry, buffer: pa.Buffer) -> None:
    """Compare what lies before the columns of a file and behind them with its checksum."""
    view = memoryview(buffer)
    first, last = entry.ends
    for end, begin in (first, 0), (last, entry.size - last.size):
        if end.size > entry.size:
            raise error(CorruptIndexError, str(path), f"an end of {end.size} bytes", entry.size)
        found = xxhash.xxh3_64_hexdigest(view[begin : begin + end.size])
        if found != end.checksum:
            wish = f"checksum {end.checksum} of the {end.size} bytes at byte {begin}"
            raise error(CorruptIndexError, str(path), wish, found)


def block_checksums(buffer: pa.Buffer) -> tuple[str, ...]:
    """Return the checksum of each block of a file's content."""
    view = memoryview(buffer)
    begins = range(0, len(view), BLOCK_BYTES)
    return tuple(xxhash.xxh3_64_hexdigest(view[at : at + BLOCK_BYTES]) for at in begins)


def check_blocks(
    path: Path, entry: FileEntry, buffer: pa.Buffer, numbers: Iterable[int] | None = None
) -> None:
    """Compare blocks of a file with their checksums, by default all blocks."""
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


# Of all late checks: a fork waits for the one that runs, so that no child meets a lock that is held
# or a column that is half checked. A lock for many would have to be found by the fork.
_CHECKS = threading.RLock()
os.register_at_fork(
    before=_CHECKS.acquire, after_in_parent=_CHECKS.release, after_in_child=_CHECKS.release
)


class LateCheck:
    """A delayed check, run by the first who needs it; thread-safe, one in a process at a time."""

    def __init__(self, check: Callable[[], None]) -> None:
        """Keep the check."""
        self._left: Callable[[], None] | None = check

    def __call__(self) -> None:
        """Check unless an earlier call found all good; raise for damage every time."""
        if self._left is None:
            return
        with _CHECKS:
            if self._left is not None:
                self._left()
                self._left = None
