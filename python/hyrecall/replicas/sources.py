"""Captures one state of a folder for a push: a saved index, or a store with its saved index."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import xxhash

from hyrecall.base import disk
from hyrecall.base.disk import BLOCK_BYTES
from hyrecall.base.file_entry import FileEntry
from hyrecall.errors import CorruptIndexError, IndexNotFoundError, error
from hyrecall.replicas.generation import DATABASE, HEADER, INDEX, STORE, hash_of
from hyrecall.segments.manifest import MANIFEST, SHARDS, Manifest, seal_of

__all__ = ["INDEX_CHUNK", "STORE_CHUNK", "Captured", "SourceFile", "captured", "kind_of"]

INDEX_CHUNK = 2 * BLOCK_BYTES
"""Chunk size of files that never change: few requests, and little memory for each."""

STORE_CHUNK = 2**20
"""Chunk size of a database. If a page changes, its whole chunk is sent."""

_TRIES = 5


@dataclass(frozen=True)
class SourceFile:
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
    files: tuple[SourceFile, ...]


class _ReplacedError(Exception):
    """A save replaced the files while they were opened."""


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
        if kind == INDEX:
            yield _capture_index(folder, opened)
        else:
            yield _capture_store(folder, opened)


def _capture_index(folder: Path, opened: ExitStack) -> Captured:
    seal, files = _index_files(folder, "", opened)
    return Captured(INDEX, {"seal": seal}, files)


def _capture_store(folder: Path, opened: ExitStack) -> Captured:
    from hyrecall.memory.sql.copying import copied_database

    header, files = _saved_index(folder / "index", opened)
    copy = opened.enter_context(copied_database(folder))
    state = asdict(copy.state)
    known = None if header is None else (header["store_id"], header["erasures"])
    if known != (state["store_id"], state["erasures"]):
        files = ()  # they belong to another store, or have rows that were erased since
    read = partial(_read, copy.handle)
    database = SourceFile(DATABASE, copy.size, "", STORE_CHUNK, read)
    return Captured(STORE, state, (database, *files))


def _saved_index(
    folder: Path, opened: ExitStack
) -> tuple[dict[str, str | int] | None, tuple[SourceFile, ...]]:
    """Open the saved index of a store; None and () if there is no complete one."""
    from hyrecall.memory.sql.index_header import PARTS, StaleError, read_header

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
) -> tuple[str, tuple[SourceFile, ...]]:
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


def _file(folder: Path, prefix: str, entry: FileEntry, opened: ExitStack) -> SourceFile:
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
    return SourceFile(f"{prefix}{entry.name}", size, mark, INDEX_CHUNK, read)


def _in_memory(name: str, content: bytes) -> SourceFile:
    def read(at: int, n_bytes: int) -> bytes:
        return content[at : at + n_bytes]

    return SourceFile(name, len(content), "", INDEX_CHUNK, read)


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
