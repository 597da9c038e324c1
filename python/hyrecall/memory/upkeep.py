"""Upkeep of a store: export, import, new embeddings, checks, room on the disk, saving the index.

The functions are methods of :class:`hyrecall.memory.MemorySync`, which passes the store.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from hyrecall.base.disk import MARK, replica_mark
from hyrecall.base.progress import ProgressFunction, read_progress
from hyrecall.errors import CorruptRemoteError, OptionError, OwnerError, error
from hyrecall.memory.changes import SetVectors, import_lines
from hyrecall.memory.data.types import flag
from hyrecall.memory.derived import backfill
from hyrecall.memory.derived.backfill import Reembedded
from hyrecall.memory.faces.transfer import File, Imported, export_lines, lines_of, write_lines
from hyrecall.memory.keeping import Compacted, Owner
from hyrecall.memory.recall.audience import EVERYONE, AskedBy, User, audience, read_owner
from hyrecall.memory.sql.codec import every_cell
from hyrecall.memory.sql.doctor import DoctorCheck, Report, examine
from hyrecall.memory.sql.edge_rows import Asker
from hyrecall.memory.store import Store

__all__ = [
    "Compacted",
    "Exported",
    "compact",
    "doctor",
    "export",
    "import_",
    "reembed",
    "replica_checks",
]


# ---- The check of ``doctor`` that says how old a replica is ----


def replica_checks(store: Store) -> Iterator[DoctorCheck]:
    """Tell which pushed generation a replica holds, and how many seconds ago it was published."""
    folder = store.database.folder
    try:
        mark = None if folder is None else replica_mark(folder)
    except CorruptRemoteError as fault:
        yield DoctorCheck("replica", False, str(fault))
        return
    if mark is None:
        return
    noted = mark.holds(str(store.database.sequence()))
    if noted is None:
        yield DoctorCheck("replica", False, f"{MARK} does not name the state that the database has")
        return
    age = (store.now() - noted.pushed).total_seconds()
    told = {"url": noted.url, "generation": noted.number, "pushed_at": noted.pushed_at, "age": age}
    yield DoctorCheck("replica", True, json.dumps(told))


# ---- Upkeep of a store: export, import, new embeddings, checks, room on the disk, saving the index

_TIME = "%Y-%m-%d %H:%M:%S UTC"

Exported = int | list[dict[str, Any]]


def export(
    store: Store,
    file: File | None = None,
    *,
    user_id: User = None,
    org: str | None = None,
    workspace: str | None = None,
    history: bool = False,
) -> Exported:
    """Write memories, facts, edges and feedback as JSON lines.

    Parameters
    ----------
    file : path or text file, optional
        Without one the lines are given, as dicts. A file of that name is replaced when the new
        one is whole; a file in the store's own folder is refused.
    user_id : str or None or EVERYONE
        Whose. ``EVERYONE`` without org and workspace is all that the store has.
    org, workspace : str, optional
    history : bool, default False
        Every version, also of what is deleted, but not of what is erased.

    Returns
    -------
    int or list of dict
        How many lines were written, or the lines.

    Raises
    ------
    OSError
        The file cannot be written.

    Notes
    -----
    One state of the store, line by line; without a file all lines are in memory. A new file is
    its owner's alone. The first line names the format; vectors, read policies and what users said
    that helped go along, of the feedback only what names a live memory of the export.

    Examples
    --------
    >>> import io, tempfile
    >>> from hyrecall.memory import MemorySync
    >>> from hyrecall.recipes import loom
    >>> file = io.StringIO()
    >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
    ...     kept = memory.remember("Tea at four", user_id="ann")
    ...     memory.export(file, user_id="ann")
    2
    >>> at = file.seek(0)
    >>> with MemorySync.in_memory(recipe=loom, embedder=None) as other:
    ...     done = other.import_(file)
    ...     done.imported, other.get(kept.id, user_id="ann").text
    (1, 'Tea at four')
    """
    by = read_owner(org, workspace, user_id)
    flag("history", history)
    with store.database.reading() as connection:
        cells = cells_of_upkeep(connection, by)
        lines = export_lines(connection, cells, askers=partial(_is_of, by), history=history)
        if file is None:
            return [json.loads(line) for line in lines]
        return write_lines(file, lines, store.database.folder)


def import_(
    store: Store, file: File, *, system: str = "hyrecall", progress: ProgressFunction | None = None
) -> Imported:
    """Merge an export ("hyrecall") or another program's database ("l0") into the store.

    What is there already stays, and what was deleted stays deleted; lines that cannot be kept
    are named and left out.

    Parameters
    ----------
    file : path or text file
        Of an export; of another program's database the path.
    system : {"hyrecall", "l0"}, default "hyrecall"
    progress : callable, optional
        ``progress(done, seen)``, in lines, after each page of them.

    Returns
    -------
    Imported
        How many lines were new, how many the store had, and the errors of others.

    Raises
    ------
    OptionError, DTypeError
        Another system; a file that is no export; a closed or read-only store.
    StoreFormatError
        The export is newer than this version knows, or the database is none of l0.
    StoreNotFoundError
        There is no such database.
    StoreError
        The disk or SQLite fails; the pages before are kept.
    OSError
        The file cannot be read.

    Notes
    -----
    Pages of 500 lines, a transaction each; to import the same again skips what is there.
    Nothing is embedded: :meth:`reembed` does that.
    """
    if system not in ("hyrecall", "l0"):
        raise error(OptionError, "system", "'hyrecall' or 'l0'", repr(system))
    read_progress(progress)
    try:
        with lines_of(file, system) as lines:
            return import_lines(store.write, lines, now=store.now(), progress=progress)
    finally:
        store.follow()


def reembed(
    store: Store,
    *,
    force: bool = False,
    user_id: User = EVERYONE,
    org: str | None = None,
    workspace: str | None = None,
    progress: ProgressFunction | None = None,
) -> Reembedded:
    """Embed memories without a vector of the embedder's model and length; with ``force``, all.

    Parameters
    ----------
    force : bool, default False
        Whatever has one too. What was interrupted goes on.
    user_id : str or None or EVERYONE, default EVERYONE
        Whose. ``EVERYONE`` without org and workspace is all that the store has.
    org, workspace : str, optional
    progress : callable, optional
        ``progress(done, total)``, in memories, after each page of them.

    Returns
    -------
    Reembedded
        What was done, what failed, and why it stopped if it did.

    Raises
    ------
    OptionError, DTypeError
        There is no embedder, or the store is read-only or closed; nothing is changed.
    StoreError
        The disk or SQLite fails; the pages before are kept.

    Notes
    -----
    Pages of 64 memories: a call of the embedder, of at most 60 seconds, and a transaction each.
    Where a page fails, its memories are tried one by one, if any of them could fare better. An
    endpoint's length is known from its first reply on: name it by ``open(dim=)``, or ``force``.
    """
    by = read_owner(org, workspace, user_id)
    flag("force", force)
    read_progress(progress)
    with store.database.reading() as connection:
        cells = cells_of_upkeep(connection, by)
    done = backfill.reembed(
        store.database, store.guard, cells, force=force, progress=progress,
        write=lambda *page: store.write(SetVectors(*page)),
    )  # fmt: skip
    store.settle()
    store.follow()
    return done


def doctor(store: Store, *, full: bool = False) -> Report:
    """Check the store and return a report, which contains no stored text and no query.

    Parameters
    ----------
    full : bool, default False
        Compare the database's own indexes with its tables, and read every vector.

    Returns
    -------
    Report
        Checks by name, each with what is wrong, and counts.

    Notes
    -----
    SQLite reads the whole database either way. The index is brought up to date first.

    Examples
    --------
    >>> from hyrecall.memory import MemorySync
    >>> from hyrecall.recipes import loom
    >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
    ...     report = memory.doctor()
    >>> report.checks[0], report.counts["memories"]
    (DoctorCheck(name='database', ok=True, detail=''), 0)
    """
    flag("full", full)
    more = list(_checks(store, full=full))
    if any(one.name == "files" and not one.ok for one in more):
        return Report(tuple(more), {})
    return examine(
        store.database, full=full, more=more, empty_log=lambda: store.keeper.run(Owner.empty_log)
    )


def wait_until_ready(store: Store, timeout: float = 60.0) -> bool:
    """Wait until recalls can use the index and the embedder.

    The index of a large store may be built on a thread after the store was opened, and the
    model of an embedder is loaded on one; answers are degraded until then.

    Parameters
    ----------
    timeout : float, default 60
        Seconds to wait at most, in [0, 86400]; 0 only asks.

    Returns
    -------
    bool
        True: the index has every change that was committed before the call, and the embedder
        is loaded, or there is none. False: not so within ``timeout``, or the index cannot be
        made; recalls then say why they are degraded.

    Raises
    ------
    OptionError, DTypeError
        A timeout that is no number of seconds; a closed store.
    StoreMismatchError
        Another process owns the store, with an index that the recipe cannot search.

    Notes
    -----
    An embedder that was not to be loaded at once (``warm=False``) is loaded now. No endpoint is
    asked: whether one answers is seen by the first recall. Changes that are not in the index
    yet are applied, as a recall does; that is finished once it is begun.

    Examples
    --------
    >>> from hyrecall.memory import MemorySync
    >>> from hyrecall.recipes import loom
    >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
    ...     memory.wait_until_ready(timeout=10)
    True
    """
    return store.wait_until_ready(timeout)


def compact(store: Store) -> Compacted:
    """Free unused space on the disk, as after a large erase.

    An erase overwrites what it removes, and the database keeps the room for what comes next.

    Returns
    -------
    Compacted
        The size before and after, and whether readers let the file shrink at once.

    Raises
    ------
    OptionError
        A closed or read-only store.

    Notes
    -----
    The whole database is written anew, in SQLite's temporary folder and in the log: each takes
    as much room as what is kept. Readers read on; writers of this handle wait.

    Examples
    --------
    >>> from hyrecall.memory import MemorySync
    >>> from hyrecall.recipes import loom
    >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
    ...     kept = memory.remember("tea" * 100_000, user_id="ann")
    ...     gone = memory.forget(kept.id, user_id="ann", erase=True)
    ...     done = memory.compact()
    >>> done.bytes_before > 300_000 > done.bytes_after, done.wal_truncated
    (True, True)
    """
    return store.keeper.run(Owner.compact)


def snapshot(store: Store) -> bool:
    """Save the index now, so that the next opening need not make it.

    Returns
    -------
    bool
        Whether there was something to save, and it was. What went wrong is logged: the rows
        are in the database.

    Notes
    -----
    It writes what is new. It is done without being asked when a store is closed, and after
    ``snapshot_every`` changes or a quiet minute.
    """
    return store.keeper.run(Owner.snapshot)


def _checks(store: Store, *, full: bool) -> Iterator[DoctorCheck]:
    yield from store.keeper.run(Owner.check_index, full)
    state = store.guard.state()
    yield DoctorCheck("embedder", True, json.dumps(state, default=str))
    yield from _owner(store)
    yield from replica_checks(store)


def _owner(store: Store) -> Iterator[DoctorCheck]:
    """Tell who owns the store and who uses it, where processes share it."""
    try:
        state = store.owner_state()
    except OwnerError as fault:
        yield DoctorCheck("owner", False, str(fault))
        return
    if state is not None:
        clients = [
            {"pid": one.pid, "since": f"{one.since:{_TIME}}", "requests": one.requests}
            for one in state.clients
        ]
        told = {"pid": state.pid, "since": f"{state.since:{_TIME}}", "clients": clients}
        yield DoctorCheck("owner", True, json.dumps(told))


def _is_of(by: AskedBy, asker: Asker) -> bool:
    """Return whether a user, of feedback or a policy, is the caller or one that it speaks for."""
    if by == AskedBy(None, None, EVERYONE):
        return True
    own = (by.org, by.workspace) if by.user is EVERYONE else (by.org, by.workspace, by.user)
    return asker[: len(own)] == own


def cells_of_upkeep(connection: Any, by: AskedBy) -> tuple[int, ...]:
    """Return the cells of a user, of a partition, or, where none is named, of the store."""
    if by == AskedBy(None, None, EVERYONE):
        return tuple(every_cell(connection))
    return tuple(audience(connection, by).cells)
