"""Keeping a store: moving it out and in, embedding what has no vector, looking it over."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from hyrecall.base.arguments import read_path
from hyrecall.base.output import check_outside, replaced
from hyrecall.base.progress import ProgressFunction, read_progress
from hyrecall.errors import DTypeError, HyrecallError, OptionError, error
from hyrecall.memory.data.fields import flag
from hyrecall.memory.derived.backfill import Reembedded, reembed
from hyrecall.memory.derived.readiness import IndexNotReadyError
from hyrecall.memory.faces.foreign import read_l0
from hyrecall.memory.faces.rescue import rescue_lines
from hyrecall.memory.faces.transfer import (
    Imported,
    Numbered,
    export_lines,
    import_lines,
    read_lines,
)
from hyrecall.memory.recall.audience import EVERYONE, AskedBy, audience
from hyrecall.memory.sql.cells import every_cell
from hyrecall.memory.sql.doctor import Check, Report, examine
from hyrecall.memory.store import Store

__all__ = ["Compacted", "Exported", "File", "rescue"]

File = str | os.PathLike[str] | IO[str]
Exported = int | list[dict[str, Any]]


def export_store(store: Store, file: File | None, by: AskedBy, *, history: bool) -> Exported:
    """Write lines of what somebody has; without a file, give them."""
    flag("history", history)
    with store.database.reading() as connection:
        lines = export_lines(connection, cells_of_upkeep(connection, by), history=history)
        if file is None:
            return [json.loads(line) for line in lines]
        return _write(file, lines, store.database.folder)


def _write(file: File, lines: Iterable[str], folder: Path | None) -> int:
    """Write lines; never into the folder of the store, where it has one."""
    if not isinstance(file, str | os.PathLike):
        return _write_to(file, lines)
    path = read_path(file)
    if folder is not None:
        check_outside("file", path, folder)
    n_lines = 0
    # Only its owner reads what was only its owner's.
    with replaced("file", path, mode=0o600) as out:
        for line in lines:
            out.write(f"{line}\n".encode())
            n_lines += 1
    return n_lines


def _write_to(out: IO[str], lines: Iterable[str]) -> int:
    is_binary = isinstance(out, io.RawIOBase | io.BufferedIOBase)
    if is_binary or not callable(getattr(out, "write", None)):
        raise error(DTypeError, "file", "a path, or a text file to write to", type(out).__name__)
    n_lines = 0
    for line in lines:
        out.write(f"{line}\n")
        n_lines += 1
    return n_lines


def rescue(path: str | os.PathLike[str], file: File) -> int:
    """Write the rows that a saved index holds and its damaged store has lost; give how many.

    Parameters
    ----------
    path : path-like
        Folder of the store, which is not opened: it may be refused.
    file : path or text file
        Of lines that :func:`import_store` reads.

    Raises
    ------
    CorruptStoreError
        No index is saved there, or it is damaged too.
    OptionError, OSError
        The file cannot be written, or lies in the store.
    """
    folder = read_path(path)
    return _write(file, rescue_lines(folder), folder) - 1  # the first line is the format's


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
        return _merged(store, read_lines(_text_lines(file)), progress)
    # A line that is no UTF-8 is refused alone: the others are taken.
    with read_path(file).open(encoding="utf-8", errors="surrogateescape") as given:
        return _merged(store, read_lines(given), progress)


def _text_lines(file: object) -> Iterator[str]:
    """Return the lines of a text file, or of any iterable of them."""
    wish = "a path, or a text file or its lines"
    if not isinstance(file, Iterable) or isinstance(file, bytes):
        raise error(DTypeError, "file", wish, type(file).__name__)
    for line in file:
        if not isinstance(line, str):
            raise error(DTypeError, "file", wish, f"a line that is a {type(line).__name__}")
        yield line


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


@dataclass(frozen=True)
class Compacted:
    """What a compaction did.

    Attributes
    ----------
    bytes_before, bytes_after : int
        Size of the database and its write-ahead log.
    wal_truncated : bool
        Whether the log was emptied too. If not, a reader still sees the state before; the file
        shrinks after it has left.
    """

    bytes_before: int
    bytes_after: int
    wal_truncated: bool


def compact_store(store: Store) -> Compacted:
    """Free room that nothing uses any more."""
    before = store.database.size()
    store.database.vacuum()
    is_empty = store.database.checkpoint()
    if not is_empty:
        store.background.until_done(partial(store.database.checkpoint, wait=0.0))
    return Compacted(before, store.database.size(), is_empty)


def look_over(store: Store, *, full: bool) -> Report:
    """Return a report on database, index and embedder; nothing in it was kept or asked."""
    flag("full", full)
    return examine(store.database, full=full, more=list(_checks(store, full=full)))


def _checks(store: Store, *, full: bool) -> Iterator[Check]:
    try:
        store.follower.catch_up()
        report = store.follower.report()
    except IndexNotReadyError as fault:
        yield Check("index", False, str(fault))
    except HyrecallError as fault:
        yield Check("index", False, type(fault).__name__)
    else:
        behind, failed = report.get("behind"), report.get("failed")
        told = f"it could not be made: {failed}" if failed else ""
        yield Check("index", not failed and not behind, told or json.dumps(report, default=str))
    is_left = store.follower.may_hold_erased(full=full)
    told = "what was erased may be in the saved index: hyrecall doctor --repair"
    yield Check("erased", not is_left, told if is_left else "")
    state = store.guard.state()
    yield Check("embedder", True, json.dumps(state, default=str))


def cells_of_upkeep(connection: Any, by: AskedBy) -> tuple[int, ...]:
    """Return the cells of a user, of a partition, or, where none is named, of the store."""
    if by == AskedBy(None, None, EVERYONE):
        return tuple(every_cell(connection))
    return tuple(audience(connection, by).cells)
