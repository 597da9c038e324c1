"""Pulls the newest generation into a folder, which becomes a replica or already is one."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hyrecall.base import disk
from hyrecall.base.arguments import check_keywords, number, read_path
from hyrecall.base.disk import MARK, REPLICA, SOURCE, Mark, read_mark, write_mark
from hyrecall.base.progress import ProgressFunction, read_progress
from hyrecall.errors import (
    CorruptRemoteError,
    DTypeError,
    OptionError,
    RemoteError,
    RemoteNotFoundError,
    error,
)
from hyrecall.replicas.generation import INDEX, STORE, Generation, Head, read_generation, read_head
from hyrecall.replicas.remote import AbsentError, Place, Remote, folder_lock, open_remote
from hyrecall.replicas.transfer import (
    Transfer,
    check_store,
    drop_parts,
    kind_of,
    put_index,
    put_store,
    tidy_store,
)
from hyrecall.segments.manifest import MANIFEST, read_seal

# ---- Returns which generation a replica holds, and turns a replica into a source ----


@dataclass(frozen=True)
class Held:
    """The generation that a replica holds.

    Attributes
    ----------
    url : str
        URL of the place that it was pulled from, without a password.
    generation : int
    pushed_at : datetime
        When that generation was published, by the clock of the machine that pushed it.
    age : timedelta
        Time since then. Changes pushed since are missing here; if nothing was pushed since, the
        age grows too, and nothing is missing.
    """

    url: str
    generation: int
    pushed_at: datetime
    age: timedelta


@check_keywords
def held(path: str | os.PathLike[str]) -> Held | None:
    """Return which generation a replica holds; None: not a replica, or one without content yet.

    Parameters
    ----------
    path : path-like
        The folder of a replica.

    Raises
    ------
    CorruptRemoteError
        The file REMOTE of the folder is damaged.
    CorruptIndexError, StoreError
        The folder itself cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> held(tempfile.mkdtemp()) is None
    True
    """
    folder = read_path(path)
    mark = read_mark(folder)
    if mark is None or mark.role != REPLICA:
        return None
    version = version_of(folder)
    noted = None if version is None else mark.holds(version)
    if noted is None:
        return None
    return Held(noted.url, noted.number, noted.pushed, datetime.now(UTC) - noted.pushed)


@check_keywords
def promote(path: str | os.PathLike[str]) -> None:
    """Turn a replica into an index or a store that may be written and pushed.

    Use it if the source folder is lost: the next push follows the generation that the replica
    holds. If another generation was pushed by then, that push is refused.

    Parameters
    ----------
    path : path-like
        The folder of a replica that holds a generation. It is not a replica afterwards.

    Raises
    ------
    IndexNotFoundError
        The folder does not exist.
    OptionError
        The folder is not a replica, or holds nothing yet.
    WriterBusyError
        A pull is under way.
    """
    folder = read_path(path)
    with folder_lock(folder):
        mark = read_mark(folder)
        if mark is None or mark.role != REPLICA:
            raise error(OptionError, "path", "a replica", f"another folder: {folder}")
        version = version_of(folder)
        if version is None:
            raise error(OptionError, "path", "a replica that holds a generation", "an empty one")
        # An index that was saved here follows the generation that was here before. The newest
        # note may be of an interrupted pull, whose generation the next push must not replace.
        noted = mark.holds(version) or mark.noted[0]
        drop_parts(folder)
        write_mark(folder, Mark(SOURCE, (noted,)))


def version_of(folder: Path) -> str | None:
    """Return the version that a folder holds, as a generation names it; None: it holds nothing."""
    kind = kind_of(folder)
    if kind is None:
        return None
    if kind == INDEX:
        return read_seal(folder / MANIFEST)
    from hyrecall.memory.sql.copying import state_of

    state = state_of(folder)
    return None if state is None else str(state.sequence)


# ---- Pulls the newest generation into a folder, which becomes a replica or already is one ----

_FOREIGN = "a new or empty folder, or a replica"


@dataclass(frozen=True)
class Pulled:
    """The result of a pull.

    Attributes
    ----------
    generation : int
        The generation that the folder holds now.
    is_new : bool
        False: the folder already held it.
    pushed_at : str
        When it was published, ISO 8601 in UTC.
    n_bytes : int
        Size of all files.
    n_fetched, bytes_fetched : int
        Number of chunks that were fetched, and their bytes.
    """

    generation: int
    is_new: bool
    pushed_at: str
    n_bytes: int
    n_fetched: int
    bytes_fetched: int


@check_keywords
def pull(
    url: Place,
    path: str | os.PathLike[str],
    *,
    discard_changes: bool = False,
    progress: ProgressFunction | None = None,
) -> Pulled:
    """Update a folder to the newest generation of a place; only missing chunks are fetched.

    Parameters
    ----------
    url : str or obstore store
        As in :func:`push`.
    path : path-like
        A new or empty folder, which becomes a replica, or a folder that is a replica already.
        Readers may have it open: an index loads the new version by ``index.reload()``, a store by
        its next call.
    discard_changes : bool, default False
        Replace an index that was saved here since the last pull. By default that is an error.
    progress : callable, optional
        ``progress(done, total)``, in bytes of the generation's files, on this thread.

    Returns
    -------
    Pulled

    Raises
    ------
    RemoteNotFoundError
        Nothing was pushed there yet.
    OptionError
        The folder is not a replica; it is a replica of another store, of a later state, or of a
        state that a push with ``overwrite=True`` replaced; or an index with its own changes.
    CorruptRemoteError
        A file does not match its name, or is missing. The folder is unchanged.
    RemoteError
        The place cannot be reached, or refuses a request.
    StoreFormatError
        A newer version has written the store. The folder is unchanged.
    CorruptIndexError, StoreError, OSError
        The folder cannot be read, or the disk fails. The folder keeps its previous state.
    WriterBusyError
        Another pull of this folder is under way, or a writer has it open.
    MissingExtraError
        The URL needs ``obstore``.

    Notes
    -----
    The next pull continues a pull that ended early: chunks that arrived are not fetched again.
    """
    folder, remote = read_path(path), open_remote(url)
    tell = read_progress(progress)
    found = read_head(remote)
    if found is None:
        wish = "a place to which something was pushed"
        raise error(RemoteNotFoundError, remote.url, wish, "an empty one", "push(path, url)")
    _make(folder)
    with folder_lock(folder):
        _check_is_for_copies(folder)  # it may have been promoted, or filled, before the lock
        head = found[0]
        while True:
            try:
                generation = read_generation(remote, head.number, head.manifest)
                return _pull(remote, head, generation, folder, tell, discard=discard_changes)
            except AbsentError as fault:
                # A prune may have removed this generation while it was read.
                newer = read_head(remote)
                if newer is None or newer[0].manifest == head.manifest:
                    where = f"{remote.url}/{fault.args[0]}"
                    wish = f"an object of generation {head.number}"
                    raise error(CorruptRemoteError, where, wish, "none") from None
                head = newer[0]


def _make(folder: Path) -> None:
    """Create the folder, for its owner only; refuse a folder that holds other things."""
    if folder.exists() and not folder.is_dir():
        raise error(OptionError, "path", _FOREIGN, f"the file {folder}")
    if not folder.is_dir():
        disk.make_folder(folder, mode=0o700)
    _check_is_for_copies(folder)


def _check_is_for_copies(folder: Path) -> None:
    mark = read_mark(folder)
    if mark is None:
        first = next((one.name for one in sorted(folder.iterdir())), None)
        if first is not None and first != f"{MARK}.tmp":
            raise error(OptionError, "path", _FOREIGN, f"a folder with {first!r} in it")
    elif mark.role != REPLICA:
        got = f"a folder that is pushed to {mark.noted[-1].url}"
        raise error(OptionError, "path", _FOREIGN, got)


def _pull(
    remote: Remote,
    head: Head,
    generation: Generation,
    folder: Path,
    tell: ProgressFunction | None,
    *,
    discard: bool,
) -> Pulled:
    noted = generation.noted(remote.url, head.manifest)
    mark = read_mark(folder)
    kind = kind_of(folder)
    if kind is not None and kind != generation.kind:
        got = f"one of an {kind}" if kind == INDEX else f"one of a {kind}"
        raise error(OptionError, "path", f"a replica of a pushed {generation.kind}", got)
    version = version_of(folder)
    if mark is not None and mark.noted == (noted,) and version == noted.version:
        if kind == STORE:
            tidy_store(folder)
        at = generation.pushed_at
        return Pulled(head.number, False, at, generation.n_bytes, 0, 0)
    if kind == INDEX and not discard and (mark is None or mark.holds(version or "") is None):
        wish, got = "a replica as it was pulled", "an index that was saved here since"
        remedy = "pull(url, path, discard_changes=True)"
        raise error(OptionError, "path", wish, got, remedy)
    here = None
    if mark is not None and version is not None:
        # An index that was saved here follows the generation that was here before.
        here = mark.holds(version) or mark.noted[0]
        if kind == STORE:
            check_store(folder, generation)
        if kind == STORE and here.line != generation.line:
            wish = "a replica of the generations that the newest one follows"
            got = f"one of others, up to {here.number} of {here.url}; pull into a new folder"
            raise error(OptionError, "path", wish, got)
    # Noted before anything is written, so that REMOTE is correct after any interruption.
    coming = Mark(REPLICA, (noted,) if here is None else (here,)).with_coming(noted)
    write_mark(folder, coming)
    with Transfer(remote, generation.n_bytes, tell) as transfer:
        if generation.kind == INDEX:
            put_index(folder, generation, transfer, over=version)
        else:
            put_store(folder, generation, transfer)
    write_mark(folder, coming.settled(noted))
    return Pulled(
        head.number,
        True,
        generation.pushed_at,
        generation.n_bytes,
        transfer.n_moved,
        transfer.bytes_moved,
    )


# ---- Keeps a replica at the newest generation of a place ----

_log = logging.getLogger("hyrecall.replicas")
_log.addHandler(logging.NullHandler())


@check_keywords
def follow(
    url: Place,
    path: str | os.PathLike[str],
    *,
    every: float = 10.0,
    stop: threading.Event | None = None,
    progress: ProgressFunction | None = None,
) -> Iterator[Pulled]:
    """Pull repeatedly; yield each new generation when the folder holds it.

    Parameters
    ----------
    url, path, progress
        As in :func:`pull`.
    every : float, default 10
        Seconds between two pulls, in [0, 86400]. A pull without a new generation is one request.
    stop : threading.Event, optional
        Ends the iteration when it is set, even while it waits. Leaving the loop ends it too.

    Yields
    ------
    Pulled

    Raises
    ------
    OptionError, DTypeError, CorruptRemoteError, WriterBusyError, StoreError, OSError
    MissingExtraError
        As :func:`pull`. If the place cannot be reached, or is still empty, the next pull tries
        again, and a message is logged.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hyrecall.memory import MemorySync
    >>> from hyrecall.recipes import loom
    >>> from hyrecall.replicas import follow, push
    >>> folder = Path(tempfile.mkdtemp())
    >>> url = (folder / "remote").as_uri()
    >>> with MemorySync.open(folder / "store", recipe=loom, embedder=None) as memory:
    ...     pushed = push(folder / "store", url)
    ...     for pulled in follow(url, folder / "copy", every=0):
    ...         print(pulled.generation)
    ...         if pulled.generation == 2:
    ...             break
    ...         kept = memory.remember("hot tea", user_id="ann")
    ...         pushed = push(folder / "store", url)
    1
    2
    """
    seconds = number("every", every, 0.0, 86_400.0, "seconds in [0, 86400]")
    if stop is not None and not isinstance(stop, threading.Event):
        raise error(DTypeError, "stop", "a threading.Event", type(stop).__name__)
    stopped = stop or threading.Event()

    def pulls() -> Iterator[Pulled]:
        while not stopped.is_set():
            try:
                done = pull(url, path, progress=progress)
            except CorruptRemoteError:
                raise
            except RemoteError as fault:
                _log.warning("tried again in %g s: %s", seconds, fault)
            else:
                if done.is_new:
                    yield done
            stopped.wait(seconds)

    return pulls()
