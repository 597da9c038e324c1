"""Writes, syncs, locks and reads the files of a saved index so that they survive a power cut.

A power cut may drop, tear or reorder all writes that were not synced. So the order is fixed: sync
the file's bytes, sync its folder, rename the file that makes the version valid, sync the folder
again. A named file is never changed or truncated: a reader may have mapped it, and what it reads
beyond the new end is lost. Removing a name is harmless: the bytes stay until the last mapping is
gone.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import json
import mmap
import os
import re
import secrets
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pyarrow as pa
import xxhash

from hyrecall import _core
from hyrecall.base.forks import Birth, kept_from_children, locked
from hyrecall.base.malformed import MALFORMED
from hyrecall.errors import (
    CorruptIndexError,
    CorruptRemoteError,
    OptionError,
    WriterBusyError,
    error,
)

# ---- One file of a saved index as its MANIFEST lists it: name, size and checksums ----

FILE_NAME = re.compile(r"[0-9a-f]{16}-[a-z]+(-[0-9a-f]{1,16})?\.arrow")
"""The only names a MANIFEST may hold: none of them leaves the folder."""

CHECKSUM = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class FileEnd:
    """The length and the xxh3_64 checksum of the first or the last bytes of a file."""

    size: int
    checksum: str


@dataclass(frozen=True)
class FileEntry:
    """One file: its name, its size in bytes, and checksums."""

    name: str
    size: int
    blocks: tuple[str, ...]
    ends: tuple[FileEnd, ...] = ()

    def __post_init__(self) -> None:
        check_text("file name", self.name, FILE_NAME)
        check_int(f"size of {self.name}", self.size, 1, 2**63 - 1)
        for block in self.blocks:
            check_text(f"checksum of {self.name}", block, CHECKSUM)
        if len(self.ends) not in (0, 2):
            raise ValueError(f"{len(self.ends)} ends of {self.name}")
        for end in self.ends:
            check_int(f"size of an end of {self.name}", end.size, 1, 2**63 - 1)
            check_text(f"checksum of an end of {self.name}", end.checksum, CHECKSUM)


def check_int(what: str, value: object, low: int, high: int) -> None:
    """Raise ValueError unless a value is an int in [low, high]."""
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{what} {value!r}")


def check_text(what: str, value: object, pattern: re.Pattern[str] | None = None) -> None:
    """Raise ValueError unless a value is a string that matches the pattern."""
    if not isinstance(value, str) or (pattern is not None and not pattern.fullmatch(value)):
        raise ValueError(f"{what} {value!r}")


# ---- Writes, syncs, locks and reads the files of a saved index so that they survive a power cut

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


def sync(handle: int) -> None:
    """Sync an open file or folder; macOS does so only where it is asked for a full one."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        try:
            fcntl.fcntl(handle, full)
        except OSError as fault:  # a file system that has none
            if fault.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise
        else:
            return
    os.fsync(handle)


def sync_folder(path: Path) -> None:
    """Sync a folder, so that the names in it survive a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync(handle)
    finally:
        os.close(handle)


@contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """Hold the folder's only writer lock, among threads and processes; a crash releases it."""
    with ExitStack() as held:
        # The file is never removed: later writers could not see a lock on an unnamed file.
        how = os.O_RDWR | os.O_CREAT
        try:
            held.enter_context(locked(folder / LOCK, how, 0o644, wait=0.0))
        except BlockingIOError:
            raise error(WriterBusyError, str(folder), "no other writer", "an active one") from None
        yield


class _HashedFile(io.RawIOBase):
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
    path: Path, write: Callable[[BinaryIO], object], *, mode: int = 0o644
) -> tuple[int, tuple[str, ...]]:
    """Write and sync a file; return its size and the checksums of its blocks."""
    # An existing file of that name (left by a crash, used by no version) is unlinked first, so its
    # bytes are not overwritten.
    with suppress(FileNotFoundError):
        os.unlink(path)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        sink = _HashedFile(handle)
        with kept_from_children(handle), io.BufferedWriter(sink, WRITE_BYTES) as buffered:
            write(buffered)
        sync(handle)
        return sink.size, sink.blocks()
    finally:
        os.close(handle)


def prepare(folder: Path, name: str, content: bytes) -> None:
    """Write the temporary file that :func:`commit` renames, and sync the folder."""
    write_file(folder / f"{name}.tmp", lambda file: file.write(content))
    sync_folder(folder)


def commit(folder: Path, name: str) -> None:
    """Rename the file that :func:`prepare` wrote to `name`, atomically, and sync the folder."""
    os.replace(folder / f"{name}.tmp", folder / name)
    sync_folder(folder)


def put(folder: Path, name: str, content: bytes) -> None:
    """Write or replace a file, atomically and durably."""
    prepare(folder, name, content)
    commit(folder, name)


def sealed(text: bytes, kind: str = "xxh3_64") -> bytes:
    """Return a text, and a last line with its checksum, of :mod:`hashlib` if not XXH3-64."""
    made = xxhash.xxh3_64(text) if kind == "xxh3_64" else hashlib.new(kind, text)
    return text + f"{kind} {made.hexdigest()}\n".encode()


def unsealed(content: bytes, kind: str = "xxh3_64") -> bytes | None:
    """Return the text of :func:`sealed`; None: it is damaged."""
    text = content[: content.rfind(b"\n", 0, -1) + 1]
    return text if sealed(text, kind) == content else None


def remove(paths: Iterable[Path]) -> None:
    """Remove unused files; a later save removes those that could not be removed now."""
    for path in paths:
        with suppress(OSError):
            os.unlink(path)


# ---- reading ----


_NO_FILES = {
    errno.ENXIO: "a pipe, a socket or a device",
    errno.EOPNOTSUPP: "a socket",
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
                    if hasattr(os, "posix_fadvise"):  # macOS reads when it is read from
                        os.posix_fadvise(handle, begin, n_bytes, os.POSIX_FADV_WILLNEED)
            return buffer
        return _read_whole(handle, size, path)
    finally:
        os.close(handle)


def _read_whole(handle: int, size: int, path: Path) -> pa.Buffer:
    memory = mmap.mmap(-1, size)
    # Random rows are 2-3x faster from huge pages; some kernels do not have them.
    with suppress(AttributeError, OSError):
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
        self._left: Callable[[], None] | None = check

    def __call__(self) -> None:
        """Check unless an earlier call found all good; raise for damage every time."""
        if self._left is None:
            return
        with _CHECKS:
            if self._left is not None:
                self._left()
                self._left = None


# ---- Writes files at paths that a user chose: atomically, and never over files of a
# store or an index
# The data goes to a new file with a random name beside the target, which is renamed when it is
# complete. The random file is created with O_EXCL, so no other existing file is ever touched.


@contextmanager
def open_replacement(argument: str, path: Path, *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces the target if the block ends without an error."""
    target = resolve_target(argument, path)
    if path.exists() and not path.is_file():  # a pipe or a device: its name must stay
        with path.open("wb") as out:
            yield out
        return
    birth = Birth()
    # A short name, so that a target whose name has the greatest length can be replaced too.
    part = target.with_name(f".hyrecall-{secrets.token_hex(16)}.tmp")
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except OSError as fault:
        fault.filename = str(path)  # the name that the caller knows
        raise
    try:
        with kept_from_children(handle), open(handle, "wb") as out:
            yield out
            out.flush()
            sync(handle)
        os.replace(part, target)
    except BaseException:
        if birth.is_here:  # else the file is that of the process that forked this one
            with suppress(OSError):
                os.unlink(part)
        raise
    sync_folder(target.parent)


def check_outside(argument: str, path: Path, folder: Path) -> None:
    """Refuse a target inside `folder`, or one that is a link to a file inside it."""
    # Files are compared by device and inode, so links and mounts make no difference.
    target = _followed(argument, path)
    own = [_identity(one) for one in (folder, *folder.rglob("*"))]
    if any(_identity(one) in own for one in (target, *target.parents)):
        raise error(OptionError, argument, f"a file outside {folder}", repr(str(path)))


def resolve_target(argument: str, path: Path) -> Path:
    """Return the file that a path leads to through all symbolic links."""
    target = _followed(argument, path)
    if target.is_dir():
        raise error(OptionError, argument, "a file", f"the folder {path}")
    return target


def _followed(argument: str, path: Path) -> Path:
    try:
        path.resolve(strict=True)  # only then does every version of Python tell of a loop
    except (OSError, RuntimeError) as fault:
        if isinstance(fault, RuntimeError) or fault.errno == errno.ELOOP:
            raise error(OptionError, argument, "a file", f"a loop of links {path}") from None
    return path.resolve()


def is_one_file(one: Path, *others: Path) -> bool:
    """Return whether a path leads where one of the others leads; a file need not exist."""
    # Before Python 3.13 `Path.resolve` raises a RuntimeError on a loop of links.
    return os.path.realpath(one) in map(os.path.realpath, others)


def _identity(path: Path) -> tuple[int, int] | Path:
    """Return device and inode of a file, or its path if it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return path
    return found.st_dev, found.st_ino


# ---- The file REMOTE in a folder: where it is pushed to, or which pushed generation it
# is a copy of
# A folder is a *source* or a *replica* of one remote place. A source notes which generations it has
# published, so that it does not replace those of others. A replica notes which one it holds. Both
# note a new generation before they begin with it, so that an interruption at any point leaves a
# true file: the version of the content tells which of the noted generations is there.

Made = TypeVar("Made")
MARK = "REMOTE"
FORMAT = 1
SOURCE, REPLICA = "source", "replica"

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class RemoteVersion:
    """One generation of a remote place."""

    url: str
    number: int
    manifest: str
    version: str
    pushed_at: str
    line: str

    def __post_init__(self) -> None:
        check_text("url", self.url)
        check_int("generation", self.number, 1, 2**63 - 1)
        check_text("manifest", self.manifest, _SHA256)
        check_text("version", self.version)
        check_text("line", self.line)
        read_utc(self.pushed_at)

    @property
    def pushed(self) -> datetime:
        """When the generation was published."""
        return read_utc(self.pushed_at)


@dataclass(frozen=True)
class Mark:
    """The content of the file REMOTE of a replica."""

    role: str
    noted: tuple[RemoteVersion, ...]

    def __post_init__(self) -> None:
        check_text("role", self.role, re.compile(f"{SOURCE}|{REPLICA}"))
        if not self.noted:
            raise ValueError("no generation")

    def knows(self, manifest: str) -> bool:
        """Return whether a generation is among those noted."""
        return any(one.manifest == manifest for one in self.noted)

    def holds(self, version: str) -> RemoteVersion | None:
        """Return the oldest noted generation whose content has this version."""
        # Of two generations of a store with one version, a pull that was interrupted may have
        # brought the first only.
        return next((one for one in self.noted if one.version == version), None)

    def with_coming(self, coming: RemoteVersion) -> Mark:
        """Return the mark with one more generation, which a push or pull begins with."""
        others = tuple(one for one in self.noted if one.manifest != coming.manifest)
        return replace(self, noted=(*others, coming))

    def settled(self, done: RemoteVersion) -> Mark:
        """Return the mark with one generation of its place, which a push or pull ended with."""
        others = tuple(one for one in self.noted if one.url != done.url)
        return replace(self, noted=(*others, done) if self.role == SOURCE else (done,))


def read_mark(folder: Path) -> Mark | None:
    """Read REMOTE of a folder; None: the folder was neither pushed nor pulled."""
    path = folder / MARK
    try:
        body = unsealed(read_bytes(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    if body is None:
        raise error(CorruptRemoteError, str(path), "a body with its checksum", "another body")

    def make(data: dict[str, Any]) -> Mark:
        return Mark(noted=tuple(RemoteVersion(**one) for one in data.pop("noted")), **data)

    return read_fields(body, str(path), MARK, FORMAT, make)


def read_fields(
    text: bytes, where: str, what: str, known: int, make: Callable[[dict[str, Any]], Made]
) -> Made:
    """Read JSON with a number of its format; ``where`` and ``what`` are for messages."""
    try:
        data: dict[str, Any] = json.loads(text)
        found = data.pop("format")
        if found == known:
            return make(data)
    except MALFORMED as fault:
        raise error(CorruptRemoteError, where, f"the fields of {what}", fault) from fault
    raise error(CorruptRemoteError, where, f"format {known}", f"format {found!r}")


def replica_mark(folder: Path) -> Mark | None:
    """Read REMOTE of a folder if the folder is a replica, else return None."""
    mark = read_mark(folder)
    return mark if mark is not None and mark.role == REPLICA else None


def write_mark(folder: Path, mark: Mark) -> None:
    """Write REMOTE of a folder, durably."""
    text = json.dumps({"format": FORMAT, **asdict(mark)}, separators=(",", ":")) + "\n"
    put(folder, MARK, sealed(text.encode()))


def read_utc(text: str) -> datetime:
    """Read an ISO 8601 time in UTC."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"time without a zone {text!r}")
    try:
        return found.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"time outside the years 1 to 9999 {text!r}") from None
