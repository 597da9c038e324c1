"""Keeping a store: moving it out and in, embedding what has no vector, looking it over."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

from hyrecall import disk
from hyrecall.arguments import read_path
from hyrecall.errors import HyrecallError, OptionError, error
from hyrecall.memory.asking import flag
from hyrecall.memory.audience import EVERYONE, AskedBy, audience
from hyrecall.memory.backfill import Reembedded, reembed
from hyrecall.memory.cells import every_cell
from hyrecall.memory.doctor import Check, Report, examine
from hyrecall.memory.foreign import read_l0
from hyrecall.memory.ready import IndexNotReadyError
from hyrecall.memory.store import Store
from hyrecall.memory.transfer import Imported, Numbered, export_lines, import_lines, read_lines
from hyrecall.progress import ProgressFunction, read_progress

__all__ = ["Exported", "File"]

File = str | os.PathLike[str] | IO[str]
Exported = int | list[dict[str, Any]]


def export_store(store: Store, file: File | None, by: AskedBy, *, history: bool) -> Exported:
    """Write lines of what somebody has; without a file, give them."""
    flag("history", history)
    with store.database.reading() as connection:
        lines = export_lines(connection, cells_of_upkeep(connection, by), history=history)
        return [json.loads(line) for line in lines] if file is None else _write(file, lines)


def _write(file: File, lines: Iterable[str]) -> int:
    """Write lines; a file that is there stays as it is until the new one is whole."""
    if not isinstance(file, str | os.PathLike):
        return _write_to(file, lines)
    path: Path = read_path(file)
    if path.exists() and not path.is_file():  # a pipe or a device: its name must stay
        with path.open("w", encoding="utf-8") as out:
            return _write_to(out, lines)
    path = path.resolve()
    part = path.with_name(f"{path.name}.tmp")
    n_lines = 0

    def write(out: BinaryIO) -> None:
        nonlocal n_lines
        for line in lines:
            out.write(f"{line}\n".encode())
            n_lines += 1

    try:
        # Only its owner reads what was only its owner's.
        disk.write_file(part, write, mode=0o600)
        disk.sync_folder(path.parent)
        disk.commit(path.parent, path.name)
    except BaseException:
        disk.remove([part])
        raise
    return n_lines


def _write_to(out: IO[str], lines: Iterable[str]) -> int:
    n_lines = 0
    for line in lines:
        out.write(f"{line}\n")
        n_lines += 1
    return n_lines


def import_store(
    store: Store, file: File, source: str, progress: ProgressFunction | None
) -> Imported:
    """Merge lines, or another program's memories, into the store."""
    if source not in ("hyrecall", "l0"):
        raise error(OptionError, "source", "'hyrecall' or 'l0'", repr(source))
    read_progress(progress)
    if source == "l0":
        if not isinstance(file, str | os.PathLike):
            raise error(OptionError, "file", "the path of a database of l0", type(file).__name__)
        return _merged(store, read_l0(read_path(file)), progress)
    if not isinstance(file, str | os.PathLike):
        return _merged(store, read_lines(file), progress)
    # A line that is no UTF-8 is refused alone: the others are taken.
    with read_path(file).open(encoding="utf-8", errors="surrogateescape") as given:
        return _merged(store, read_lines(given), progress)


def _merged(store: Store, lines: Iterable[Numbered], progress: ProgressFunction | None) -> Imported:
    try:
        return import_lines(store.database, lines, now=store.now(), progress=progress)
    finally:
        store.background.poke()


def reembed_store(
    store: Store, by: AskedBy, *, force: bool, progress: ProgressFunction | None
) -> Reembedded:
    """Embed what has no vector."""
    flag("force", force)
    read_progress(progress)
    with store.database.reading() as connection:
        cells = cells_of_upkeep(connection, by)
    done = reembed(store.database, store.guard, cells, force=force, progress=progress)
    store.settle()
    store.background.poke()
    return done


def look_over(store: Store, *, full: bool) -> Report:
    """Give a report on database, index and embedder; nothing in it was kept or asked."""
    flag("full", full)
    return examine(store.database, full=full, more=list(_checks(store)))


def _checks(store: Store) -> Iterator[Check]:
    try:
        store.follower.catch_up()
    except IndexNotReadyError as fault:
        yield Check("index", False, str(fault))
    except HyrecallError as fault:
        yield Check("index", False, type(fault).__name__)
    else:
        report = store.follower.report()
        behind, failed = report.get("behind"), report.get("failed")
        told = f"it could not be made: {failed}" if failed else ""
        yield Check("index", not failed and not behind, told or json.dumps(report, default=str))
    state = store.guard.state()
    yield Check("embedder", True, json.dumps(state, default=str))


def cells_of_upkeep(connection: Any, by: AskedBy) -> tuple[int, ...]:
    """Give the cells of a user, of a partition, or, where none is named, of the store."""
    if by == AskedBy(None, None, EVERYONE):
        return tuple(every_cell(connection))
    return tuple(audience(connection, by).cells)
