"""Copies files to and from a remote place in chunks."""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import xxhash

from hyrecall.base import disk
from hyrecall.base.disk import BLOCK_BYTES, FILE_NAME, FileEntry
from hyrecall.base.progress import ProgressFunction
from hyrecall.errors import (
    CorruptIndexError,
    CorruptRemoteError,
    HyrecallError,
    IndexNotFoundError,
    OptionError,
    WriterBusyError,
    error,
)
from hyrecall.replicas.generation import (
    DATABASE,
    HEADER,
    INDEX,
    INDEX_PARTS,
    STORE,
    Generation,
    PushedFile,
    hash_of,
    object_of,
)
from hyrecall.replicas.remote import Remote
from hyrecall.segments.manifest import MANIFEST, SHARDS, Manifest, read_seal, seal_of

# ---- Captures one state of a folder for a push: a saved index, or a store with its saved index

INDEX_CHUNK = 2 * BLOCK_BYTES
"""Chunk size of files that never change: few requests, and little memory for each."""

STORE_CHUNK = 2**20
"""Chunk size of a database. If a page changes, its whole chunk is sent."""

_TRIES = 5


@dataclass(frozen=True)
class FileToPush:
    """One file to push."""

    name: str
    size: int
    mark: str
    chunk_bytes: int
    read: Callable[[int, int], bytes]


@dataclass(frozen=True)
class Captured:
    """One state of a folder."""

    kind: str
    state: Mapping[str, str | int]
    files: tuple[FileToPush, ...]


def kind_of(folder: Path) -> str | None:
    """Return the kind of a folder's content: :data:`INDEX`, :data:`STORE`, or None."""
    if (folder / DATABASE).exists():
        return STORE
    return INDEX if (folder / MANIFEST).exists() else None


@contextmanager
def captured(folder: Path) -> Iterator[Captured]:
    """Hold one state of a folder, even if others save or write there meanwhile."""
    kind = kind_of(folder)
    if kind is None:
        wish = "the folder of a saved index or of a store"
        got = "another folder" if folder.is_dir() else f"nothing at {folder}"
        if (folder / SHARDS).is_file():
            got = "a folder of shards, which is not pushed as a whole"
        raise error(IndexNotFoundError, "path", wish, got)
    with ExitStack() as opened:
        if kind == STORE:
            yield _capture_store(folder, opened)
        else:
            seal, files = _index_files(folder, "", opened)
            yield Captured(INDEX, {"seal": seal}, files)


def _capture_store(folder: Path, opened: ExitStack) -> Captured:
    from hyrecall.memory.sql.copying import copied_database

    header, files = _saved_index(folder / "index", opened)
    copy = opened.enter_context(copied_database(folder))
    state = asdict(copy.state)
    known = None if header is None else (header["store_id"], header["erasures"])
    if known != (state["store_id"], state["erasures"]):
        files = ()  # they belong to another store, or have rows that were erased since
    read = partial(_read, copy.handle)
    database = FileToPush(DATABASE, copy.size, "", STORE_CHUNK, read)
    return Captured(STORE, state, (database, *files))


def _saved_index(
    folder: Path, opened: ExitStack
) -> tuple[dict[str, str | int] | None, tuple[FileToPush, ...]]:
    """Open the saved index of a store; None and () if there is no complete one."""
    from hyrecall.memory.sql.lost_changes import PARTS, StaleError, read_header

    for _ in range(_TRIES):
        with ExitStack() as tried:
            try:
                header = read_header(folder)
                text = disk.read_bytes(folder / "HEADER")
                files = [_in_memory(HEADER, text)]
                for part in PARTS:
                    files += _index_files(folder / part, f"index/{part}/", tried)[1]
                if read_header(folder) != header:
                    continue
            except (StaleError, CorruptIndexError, OSError):
                continue
            opened.push(tried.pop_all())
            return {"store_id": header.store_id, "erasures": header.erasures}, tuple(files)
    return None, ()


def _index_files(
    folder: Path, prefix: str, opened: ExitStack
) -> tuple[str, tuple[FileToPush, ...]]:
    """Open the files of the current version of an index; return its seal and the files."""
    path = folder / MANIFEST
    while True:
        text = disk.read_bytes(path)
        manifest, seal = Manifest.from_bytes(text, path), seal_of(text, path)
        with ExitStack() as tried:
            try:
                files = [_file(folder, prefix, one, tried) for one in manifest.files.values()]
            except CorruptIndexError:
                if disk.read_bytes(path) == text:
                    raise
                continue  # a save replaced this version, and removed its files
            opened.push(tried.pop_all())
        return seal, (_in_memory(f"{prefix}{MANIFEST}", text), *files)


def _file(folder: Path, prefix: str, entry: FileEntry, opened: ExitStack) -> FileToPush:
    path = folder / entry.name
    try:
        handle = disk.open_to_read(path)
    except FileNotFoundError:
        wish = f"a file of {entry.size} bytes"
        raise error(CorruptIndexError, str(path), wish, "no file") from None
    opened.callback(os.close, handle)
    size = os.fstat(handle).st_size
    if size != entry.size:
        raise error(CorruptIndexError, str(path), f"{entry.size} bytes", f"{size} bytes")
    mark = hash_of(json.dumps([entry.size, entry.blocks]).encode())
    read = partial(_read_checked, handle, path, entry)
    return FileToPush(f"{prefix}{entry.name}", size, mark, INDEX_CHUNK, read)


def _in_memory(name: str, content: bytes) -> FileToPush:
    def read(at: int, n_bytes: int) -> bytes:
        return content[at : at + n_bytes]

    return FileToPush(name, len(content), "", INDEX_CHUNK, read)


def _read(handle: int, at: int, n_bytes: int) -> bytes:
    parts = []
    while n_bytes:
        part = os.pread(handle, n_bytes, at)
        if not part:
            break
        parts.append(part)
        at += len(part)
        n_bytes -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _read_checked(handle: int, path: Path, entry: FileEntry, at: int, n_bytes: int) -> bytes:
    """Read whole blocks of a file and compare their checksums, so that damage is not published."""
    content = _read(handle, at, n_bytes)
    view = memoryview(content)
    for begin in range(0, n_bytes, BLOCK_BYTES):
        wish = entry.blocks[(at + begin) // BLOCK_BYTES]
        found = xxhash.xxh3_64_hexdigest(view[begin : begin + BLOCK_BYTES])
        if found != wish:
            told = f"checksum {wish} of the block at byte {at + begin}"
            raise error(CorruptIndexError, str(path), told, found)
    return content


# ---- Moves chunks between files and a remote place, several at a time, and counts what moved ----

THREADS = 8
_MOST_WAITING = 2 * THREADS  # chunks that may lie in memory

T = TypeVar("T")


class Transfer:
    """One push or pull."""

    def __init__(self, remote: Remote, total: int, tell: ProgressFunction | None) -> None:
        self._remote, self.url = remote, remote.url
        self._total = total
        self._done = 0
        self._tell = tell
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="hyrecall-transfer")
        self._guard = threading.Lock()
        self._taken: set[str] = set()
        self._waiting: Collection[Future[Any]] = ()
        self.n_moved = self.bytes_moved = 0

    def __enter__(self) -> Transfer:
        return self

    def __exit__(self, *fault: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    # ---- to the place ----

    def send(self, file: FileToPush, held: Mapping[str, str], epoch: str) -> PushedFile:
        """Send the chunks of a file that the place lacks."""
        begins = range(0, file.size, file.chunk_bytes)
        jobs = (partial(self._send_chunk, file, held, epoch, at) for at in begins)
        names = []
        for name, n_bytes, is_sent in self._run(jobs):
            names.append(name)
            self._count(n_bytes, is_moved=is_sent)
        return PushedFile(file.name, file.size, file.mark, file.chunk_bytes, tuple(names))

    def _send_chunk(
        self, file: FileToPush, held: Mapping[str, str], epoch: str, at: int
    ) -> tuple[str, int, bool]:
        content = file.read(at, min(file.chunk_bytes, file.size - at))
        digest = hash_of(content)
        if digest in held:
            return held[digest], len(content), False
        name = f"{digest}-{epoch}"
        with self._guard:  # one thread sends it; if that fails, the push fails
            is_taken = name in self._taken
            self._taken.add(name)
        # A push that was interrupted may have sent it.
        is_missing = not is_taken and not self._remote.has(object_of(name))
        if is_missing:
            self._remote.put(object_of(name), content)
        return name, len(content), is_missing

    # ---- from the place ----

    def fetch(self, file: PushedFile, handle: int, *, is_fresh: bool) -> None:
        """Write a file; chunks that it already holds are kept."""
        os.ftruncate(handle, file.size)
        first: dict[str, int] = {}
        for number, chunk in enumerate(file.chunks):
            first.setdefault(chunk, number)
        again = [number for number, chunk in enumerate(file.chunks) if first[chunk] != number]
        fetches = (
            partial(self._fetch_chunk, file, handle, number, is_fresh=is_fresh)
            for number in first.values()
        )
        # Repeated chunks, such as empty pages, are fetched once and then copied.
        copies = (
            partial(self._copy_chunk, file, handle, first[file.chunks[number]], number)
            for number in again
        )
        try:
            for jobs in (fetches, copies):
                for n_bytes, is_fetched in self._run(jobs):
                    self._count(n_bytes, is_moved=is_fetched)
        except BaseException:
            self._give_up()
            raise

    def _fetch_chunk(
        self, file: PushedFile, handle: int, number: int, *, is_fresh: bool
    ) -> tuple[int, bool]:
        n_bytes, at = file.length_of(number), number * file.chunk_bytes
        digest = file.chunks[number].partition("-")[0]
        if not is_fresh and hash_of(os.pread(handle, n_bytes, at)) == digest:
            return n_bytes, False
        content = self._remote.get(object_of(file.chunks[number]))
        self._check(file.chunks[number], content, n_bytes, digest)
        _write_at(handle, content, at)
        return n_bytes, True

    def _copy_chunk(
        self, file: PushedFile, handle: int, first: int, number: int
    ) -> tuple[int, bool]:
        n_bytes = file.length_of(number)
        content = os.pread(handle, n_bytes, first * file.chunk_bytes)
        self._check(file.chunks[number], content, n_bytes, file.chunks[number].partition("-")[0])
        _write_at(handle, content, number * file.chunk_bytes)
        return n_bytes, False

    def _check(self, chunk: str, content: bytes, n_bytes: int, digest: str) -> None:
        where = f"{self._remote.url}/{object_of(chunk)}"
        if len(content) != n_bytes:
            raise error(CorruptRemoteError, where, f"{n_bytes} bytes", f"{len(content)} bytes")
        found = hash_of(content)
        if found != digest:
            raise error(CorruptRemoteError, where, f"SHA-256 {digest}", found)

    # ---- both ----

    def keep(self, n_bytes: int) -> None:
        """Count bytes that need not be moved."""
        self._count(n_bytes, is_moved=False)

    def _count(self, n_bytes: int, *, is_moved: bool) -> None:
        self._done += n_bytes
        self.n_moved += is_moved
        self.bytes_moved += n_bytes * is_moved
        if self._tell is not None:
            self._tell(self._done, self._total)

    def _run(self, jobs: Iterable[Callable[[], T]]) -> Iterator[T]:
        """Run jobs on the threads and yield their results in order."""
        waiting: deque[Future[T]] = deque()
        self._waiting = waiting
        for job in jobs:
            waiting.append(self._pool.submit(job))
            if len(waiting) >= _MOST_WAITING:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _give_up(self) -> None:
        """Return when no job runs any more, before the caller closes the file."""
        # A job that is still running would write to the next file with the same descriptor.
        for one in self._waiting:
            one.cancel()
        wait([one for one in self._waiting if not one.cancelled()])


def _write_at(handle: int, content: bytes, at: int) -> None:
    view = memoryview(content)
    while view:
        n_bytes = os.pwrite(handle, view, at)
        view, at = view[n_bytes:], at + n_bytes


# ---- Writes a generation into a folder: new files beside the old ones, then one rename
# or transaction
# A file is written as ``NAME.part``, and renamed when it is complete and synced. Readers of the
# folder see the previous generation or the new one, never a mixture.

PART = ".part"


def put_index(
    folder: Path, generation: Generation, transfer: Transfer, *, over: str | None
) -> None:
    """Write the index of a generation to a folder."""
    with disk.writer_lock(folder):
        path = folder / MANIFEST
        if (read_seal(path) if path.exists() else None) != over:
            raise error(WriterBusyError, str(folder), "no save beside a pull", "a saved index")
        text = _fetch_index(folder, {file.name: file for file in generation.files}, transfer)
        _commit_index(folder, text)


def put_store(folder: Path, generation: Generation, transfer: Transfer) -> None:
    """Write the store of a generation to a folder."""
    # The database is written first, then the saved index, which records the store and the state
    # that it belongs to. So an index is never ahead of its database.
    from hyrecall.memory.derived.derived_index import drop_snapshot
    from hyrecall.memory.sql.copying import put_database
    from hyrecall.memory.sql.lock import WriterLock
    from hyrecall.memory.sql.lost_changes import HEADER as HEADER_NAME

    files = {file.name: file for file in generation.files}
    with ExitStack() as held:
        held.callback(WriterLock.take(folder).release)
        check_store(folder, generation)
        index = folder / "index"
        manifests = {}
        if HEADER in files:
            for part in INDEX_PARTS:
                disk.make_folder(index, mode=0o700)
                disk.make_folder(index / part, mode=0o700)
                manifests[part] = _fetch_index(index / part, _within(files, part), transfer)
            header = _fetch_small(index / HEADER_NAME, files[HEADER], transfer)
        database = _fetch_database(folder, files[DATABASE], transfer)
        _check_received(database, generation, transfer)
        put_database(folder, database)
        if not manifests:
            drop_snapshot(index)
            return
        for part, text in manifests.items():
            _commit_index(index / part, text)
        disk.put(index, HEADER_NAME, header)
        disk.remove([index / f"{HEADER_NAME}{PART}"])


def tidy_store(folder: Path) -> None:
    """Empty the log of a replica that holds the newest generation."""
    from hyrecall.memory.sql.connecting import LOG
    from hyrecall.memory.sql.copying import empty_log
    from hyrecall.memory.sql.lock import WriterLock

    log = folder / LOG
    if log.exists() and log.stat().st_size:
        with ExitStack() as held:
            held.callback(WriterLock.take(folder).release)
            empty_log(folder)


def drop_parts(folder: Path) -> None:
    """Remove the files of an interrupted pull; the caller holds the lock for pushes and pulls."""
    # They may hold texts that are erased later, and only the next pull would remove them.
    index = folder / "index"
    for one in (folder, index, *(index / part for part in INDEX_PARTS)):
        disk.remove(one.glob(f"*{PART}"))


def check_store(folder: Path, generation: Generation) -> None:
    """Refuse a folder that holds another store than the generation, or a later state."""
    from hyrecall.memory.sql.copying import state_of

    found = state_of(folder)
    if found is None:
        return
    wish = "a replica of the pushed store, at the pushed state or before"
    if found.store_id != generation.state["store_id"]:
        raise error(OptionError, "path", wish, "one of another store; pull into a new folder")
    if found.sequence > int(generation.state["sequence"]):
        got = f"change {found.sequence} after {generation.state['sequence']}"
        raise error(OptionError, "path", wish, f"{got}; pull into a new folder")


def _check_received(path: Path, generation: Generation, transfer: Transfer) -> None:
    """Refuse a database that this version cannot read, or whose state is not the generation's."""
    # The folder then keeps its present database.
    from hyrecall.memory.sql.copying import received_state

    found, told = asdict(received_state(path)), dict(generation.state)
    if found != told:
        where = f"{transfer.url}/{generation.number}"
        raise error(CorruptRemoteError, where, f"a database of the state {told}", found)


def _within(files: Mapping[str, PushedFile], part: str) -> dict[str, PushedFile]:
    begin = f"index/{part}/"
    return {
        name.removeprefix(begin): file for name, file in files.items() if name.startswith(begin)
    }


# ---- an index ----


def _fetch_index(folder: Path, files: Mapping[str, PushedFile], transfer: Transfer) -> bytes:
    """Fetch the files of an index that a folder lacks; return the new MANIFEST, not yet written."""
    # A file without ``.part`` is complete: names of files are unique, and given after the sync.
    text = _fetch_small(folder / MANIFEST, files[MANIFEST], transfer)
    try:
        listed = Manifest.from_bytes(text, folder / MANIFEST).files
    except CorruptIndexError as fault:
        raise error(CorruptRemoteError, MANIFEST, "one that this version reads", fault) from fault
    sizes = {name: file.size for name, file in files.items() if name != MANIFEST}
    if sizes != {name: entry.size for name, entry in listed.items()}:
        wish, got = "the files that its MANIFEST names", "others"
        raise error(CorruptRemoteError, MANIFEST, wish, got)
    for name in listed:
        path = folder / name
        if path.exists() and path.stat().st_size == sizes[name]:
            transfer.keep(sizes[name])
        else:
            disk.remove([path])
            _fetch(path, files[name], transfer)
    disk.sync_folder(folder)
    return text


def _commit_index(folder: Path, text: bytes) -> None:
    """Write the new MANIFEST, and remove the files that it does not name."""
    disk.put(folder, MANIFEST, text)
    listed = Manifest.from_bytes(text, folder / MANIFEST).files
    for path in list(folder.iterdir()):
        is_old = FILE_NAME.fullmatch(path.name) and path.name not in listed
        if is_old or path.name.endswith(PART):
            disk.remove([path])


# ---- a database ----


def _fetch_database(folder: Path, file: PushedFile, transfer: Transfer) -> Path:
    """Write the new database beside the present one: reuse equal chunks, fetch the others."""
    from hyrecall.memory.sql.copying import copy_to

    part = folder / f"{DATABASE}{PART}"
    if not part.exists() and (folder / DATABASE).exists():
        copy_to(folder, part)
    is_fresh = not part.exists()
    _write(part, file, transfer, is_fresh=is_fresh, mode=0o600)
    return part


# ---- one file ----


def _fetch(path: Path, file: PushedFile, transfer: Transfer) -> None:
    part = path.with_name(path.name + PART)
    _write(part, file, transfer, is_fresh=not part.exists(), mode=0o644)
    os.replace(part, path)


def _fetch_small(path: Path, file: PushedFile, transfer: Transfer) -> bytes:
    """Fetch a file as ``NAME.part``; return its content."""
    part = path.with_name(path.name + PART)
    _write(part, file, transfer, is_fresh=not part.exists(), mode=0o600)
    return part.read_bytes()


def _write(part: Path, file: PushedFile, transfer: Transfer, *, is_fresh: bool, mode: int) -> None:
    handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
    try:
        transfer.fetch(file, handle, is_fresh=is_fresh)
        disk.sync(handle)
    except HyrecallError:
        raise
    except OSError as fault:  # an error of the disk, which does not name the file
        raise OSError(fault.errno, fault.strerror, str(part)) from fault
    finally:
        os.close(handle)
