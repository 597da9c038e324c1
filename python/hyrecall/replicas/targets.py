"""Writes a generation into a folder: new files beside the old ones, then one rename or transaction.

A file is written as ``NAME.part``, and renamed when it is complete and synced. Readers of the
folder see the previous generation or the new one, never a mixture.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from hyrecall.base import disk
from hyrecall.base.file_entry import FILE_NAME
from hyrecall.errors import (
    CorruptIndexError,
    CorruptRemoteError,
    HyrecallError,
    OptionError,
    WriterBusyError,
    error,
)
from hyrecall.replicas.generation import DATABASE, HEADER, INDEX_PARTS, Generation, PushedFile
from hyrecall.replicas.transfer import Transfer
from hyrecall.segments.manifest import MANIFEST, Manifest, read_seal

__all__ = ["check_store", "drop_parts", "put_index", "put_store", "tidy_store"]

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
    # The database is written first, then the saved index, which records the store and the
    # state that
    # it belongs to. So an index is never ahead of its database.
    from hyrecall.memory.derived.snapshots import drop_snapshot
    from hyrecall.memory.sql.copying import put_database
    from hyrecall.memory.sql.index_header import HEADER as HEADER_NAME
    from hyrecall.memory.sql.lock import WriterLock

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
        disk.prepare(index, HEADER_NAME, header)
        disk.commit(index, HEADER_NAME)
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
    disk.prepare(folder, MANIFEST, text)
    disk.commit(folder, MANIFEST)
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
        os.fsync(handle)
    except HyrecallError:
        raise
    except OSError as fault:  # an error of the disk, which does not name the file
        raise OSError(fault.errno, fault.strerror, str(part)) from fault
    finally:
        os.close(handle)
