"""Pushes a folder: chunks that the place lacks, then the list of files, then HEAD on a condition.

HEAD is written last, so a push that ends early only leaves objects that nothing names.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hyrecall.base.arguments import as_int, check_keywords, read_path
from hyrecall.base.disk import REPLICA, SOURCE, Mark, RemoteVersion, read_mark, write_mark
from hyrecall.base.progress import ProgressFunction, read_progress
from hyrecall.base.version import __version__
from hyrecall.errors import (
    CorruptRemoteError,
    DTypeError,
    OptionError,
    PushConflictError,
    RemoteError,
    RemoteNotFoundError,
    error,
)
from hyrecall.replicas.generation import (
    CHUNKS,
    GENERATIONS,
    STORE,
    Generation,
    Head,
    PushedFile,
    epoch_of,
    hash_of,
    name_of,
    now,
    object_of,
    read_generation,
    read_head,
)
from hyrecall.replicas.remote import (
    AbsentError,
    MovedError,
    Place,
    Remote,
    folder_lock,
    open_remote,
)
from hyrecall.replicas.transfer import Captured, FileToPush, Transfer, captured

_TRIES = 5


@dataclass(frozen=True)
class Pushed:
    """The result of a push.

    Attributes
    ----------
    generation : int
        The newest generation of the place.
    is_new : bool
        False: the place already held this state, and nothing was published.
    n_bytes : int
        Size of all files.
    n_sent, bytes_sent : int
        Number of chunks that were sent, and their bytes.
    """

    generation: int
    is_new: bool
    n_bytes: int
    n_sent: int
    bytes_sent: int


@check_keywords
def push(
    path: str | os.PathLike[str],
    url: Place,
    *,
    overwrite: bool = False,
    progress: ProgressFunction | None = None,
) -> Pushed:
    """Publish the present state of a saved index or of a store; only changed chunks are sent.

    Parameters
    ----------
    path : path-like
        The folder. It may be in use: a single state of it is published, and writers go on.
    url : str or obstore store
        ``file:///folder``, ``s3://bucket/prefix``, ``gs://``, ``az://`` or ``memory://name``, or a
        store that was made with ``obstore``. One place holds one index or store.
    overwrite : bool, default False
        Replace any newest generation of the place. By default, only a generation that this folder
        has published itself may be replaced.
    progress : callable, optional
        ``progress(done, total)``, in bytes of the folder's files, on this thread.

    Returns
    -------
    Pushed

    Raises
    ------
    PushConflictError
        Another folder, or another process, has published there. This push published nothing.
    IndexNotFoundError
        The folder holds neither an index nor a store.
    OptionError
        The folder is a replica, or the URL cannot be opened.
    WriterBusyError
        Another push or pull of this folder is under way.
    CorruptIndexError, CorruptStoreError, StoreError
        The folder cannot be read. Damaged files of an index are not published; damage of a database
        is found only if SQLite notices it when it copies the pages.
    RemoteError, CorruptRemoteError
        The place cannot be reached, refuses a request, or holds something damaged.
    MissingExtraError
        The URL needs ``obstore``.

    Notes
    -----
    Files that are new since the last generation are read once; a database is read in every push.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hyrecall.memory import MemorySync
    >>> from hyrecall.recipes import loom
    >>> from hyrecall.replicas import pull, push
    >>> folder = Path(tempfile.mkdtemp())
    >>> url = (folder / "remote").as_uri()
    >>> with MemorySync.open(folder / "store", recipe=loom, embedder=None) as memory:
    ...     kept = memory.remember("hot tea", user_id="ann")
    ...     push(folder / "store", url).generation
    1
    >>> pull(url, folder / "copy").generation
    1
    >>> with MemorySync.open(folder / "copy", recipe=loom, embedder=None) as replica:
    ...     [match.episode.text for match in replica.search("tea", user_id="ann")]
    ['hot tea']
    """
    folder, remote = read_path(path), open_remote(url)
    tell = read_progress(progress)
    with folder_lock(folder):
        for _ in range(_TRIES):
            mark = read_mark(folder)
            if mark is not None and mark.role == REPLICA:
                got = f"a replica of {mark.noted[-1].url}"
                remedy = "replicas.promote(path)"
                raise error(OptionError, "path", "an index or store of its own", got, remedy)
            head = read_head(remote)
            try:
                return _push(folder, remote, mark, head, tell, overwrite=overwrite)
            except MovedError:
                continue  # a prune or another push changed HEAD: read it again
            except AbsentError as fault:
                # Another push and a prune may have replaced the newest generation meanwhile.
                newer = read_head(remote)
                if head is not None and newer is not None and newer[0] == head[0]:
                    where = f"{remote.url}/{fault.args[0]}"
                    wish = f"generation {head[0].number}, which HEAD names"
                    raise error(CorruptRemoteError, where, wish, "none") from None
        raise _conflict(remote, "one that changed again and again")


def _push(
    folder: Path,
    remote: Remote,
    mark: Mark | None,
    found: tuple[Head, bytes, str] | None,
    tell: ProgressFunction | None,
    *,
    overwrite: bool,
) -> Pushed:
    head, text, tag = (None, None, None) if found is None else found
    parent = None if head is None else read_generation(remote, head.number, head.manifest)
    broken = None
    if head is not None and parent is not None and (mark is None or not mark.knows(head.manifest)):
        broken = f"generation {head.number} of another folder, pushed at {parent.pushed_at}"
    if broken is not None and not overwrite:
        raise _conflict(remote, broken)
    with captured(folder) as source:
        if parent is not None:
            broken = broken or _gap(source, parent)
        if broken is not None and not overwrite:
            raise _conflict(remote, broken)
        with Transfer(remote, sum(file.size for file in source.files), tell) as transfer:
            files = send_files(source, parent, epoch_of(text), transfer)
    # The number of a store's last change is not enough: some fields change without a new number.
    held = (dict(source.state), files)
    if head is not None and parent is not None and held == (dict(parent.state), parent.files):
        _note_again(folder, remote, mark, parent, head.manifest)
        return Pushed(head.number, False, parent.n_bytes, 0, 0)
    number, before = (1, None) if head is None else (head.number + 1, head.manifest)
    made_by = f"hyrecall {__version__}"
    line = secrets.token_hex(8) if parent is None or broken is not None else parent.line
    made = Generation(source.kind, number, before, line, now(), made_by, source.state, files)
    noted = publish(folder, remote, mark, made, tag, prunes=0 if head is None else head.prunes)
    write_mark(folder, (mark or Mark(SOURCE, (noted,))).settled(noted))
    return Pushed(number, True, made.n_bytes, transfer.n_moved, transfer.bytes_moved)


def send_files(
    source: Captured, parent: Generation | None, epoch: str, transfer: Transfer
) -> tuple[PushedFile, ...]:
    """Send chunks that the newest generation lacks; return the files of the next one."""
    known = {} if parent is None else {file.name: file for file in parent.files}
    held = {} if parent is None else {chunk.partition("-")[0]: chunk for chunk in parent.chunks}
    sent = []
    for file in source.files:
        before = known.get(file.name)
        if before is not None and file.mark and _looks(before) == _looks(file):
            transfer.keep(before.size)
            sent.append(before)
        else:
            sent.append(transfer.send(file, held, epoch))
    return tuple(sent)


def _looks(file: PushedFile | FileToPush) -> tuple[str, int, int]:
    return file.mark, file.size, file.chunk_bytes


def publish(
    folder: Path, remote: Remote, mark: Mark | None, made: Generation, tag: str | None, prunes: int
) -> RemoteVersion:
    """Write the list of files, note it in the folder, and let HEAD name it."""
    content = made.to_bytes()
    head = Head(made.number, hash_of(content), prunes)
    noted = made.noted(remote.url, head.manifest)
    remote.put(head.object_name, content)
    remote.settle()
    # Noted before HEAD is written: if the process ends in between, the next push knows this one.
    write_mark(folder, Mark(SOURCE, (noted,)) if mark is None else mark.with_coming(noted))
    try:
        remote.replace_head(head.to_bytes(), tag)
    except MovedError:
        # If the request was sent twice, the second one finds the HEAD that the first one wrote.
        found = read_head(remote)
        if found is None or found[0].manifest != head.manifest:
            raise
    return noted


def _gap(source: Captured, parent: Generation) -> str | None:
    """Return why a folder does not follow the newest generation; None if it does."""
    if source.kind != parent.kind:
        return f"the generations of another kind of folder ({parent.kind})"
    if source.kind != STORE:
        return None
    if source.state["store_id"] != parent.state["store_id"]:
        return "the generations of another store"
    if int(source.state["sequence"]) < int(parent.state["sequence"]):
        return f"change {parent.state['sequence']}; this folder ends at {source.state['sequence']}"
    return None


def _note_again(
    folder: Path, remote: Remote, mark: Mark | None, parent: Generation, manifest: str
) -> None:
    """Record in the folder that it holds the same state as the newest generation."""
    noted = parent.noted(remote.url, manifest)
    made = (mark or Mark(SOURCE, (noted,))).settled(noted)
    if made != mark:
        write_mark(folder, made)


def _conflict(remote: Remote, got: str) -> PushConflictError:
    wish = "a place that is empty, or whose newest generation this folder has published"
    remedy = "push(path, url, overwrite=True), or push to another URL"
    return error(PushConflictError, remote.url, wish, got, remedy)


# ---- Removes the objects that the newest generations of a place do not name ----


@dataclass(frozen=True)
class Pruned:
    """The result of a prune.

    Attributes
    ----------
    n_kept : int
        Number of generations that can still be pulled.
    n_removed, bytes_removed : int
        Number of removed objects, and their bytes.
    """

    n_kept: int
    n_removed: int
    bytes_removed: int


@check_keywords
def prune(url: Place, *, keep: int = 2, older_than: timedelta = timedelta(days=1)) -> Pruned:
    """Remove objects that the newest generations do not name, such as those of interrupted pushes.

    Parameters
    ----------
    url : str or obstore store
        As in :func:`push`.
    keep : int, default 2
        Number of the newest generations that are kept; at least 1, the one that is pulled.
    older_than : timedelta, default one day
        Younger objects are kept, by the clock of the place and of this machine. With
        ``timedelta(0)`` no clock matters; together with ``keep=1``, this removes all text that was
        erased before the newest push.

    Returns
    -------
    Pruned

    Raises
    ------
    RemoteNotFoundError
        Nothing was pushed there yet.
    OptionError, DTypeError
        ``keep`` is below 1, or ``older_than`` is not a timedelta.
    RemoteError, CorruptRemoteError
        The place cannot be reached, refuses a request, or holds something damaged.

    Notes
    -----
    A push that is under way starts again, because chunks that it relies on may be removed. A pull
    whose generation is removed starts again with the newest one.
    """
    count = as_int(keep)
    if count is None or count < 1:
        raise error(OptionError, "keep", "an int >= 1", repr(keep))
    if not isinstance(older_than, timedelta):
        raise error(DTypeError, "older_than", "a timedelta", repr(older_than))
    remote = open_remote(url)
    for _ in range(_TRIES):
        found = read_head(remote)
        if found is None:
            wish = "a place to which something was pushed"
            raise error(RemoteNotFoundError, remote.url, wish, "an empty one", "push(path, url)")
        try:
            return _prune(remote, found[0], found[2], count, older_than)
        except MovedError:
            continue
    raise error(RemoteError, remote.url, "a HEAD that stays", "one that changed again and again")


def _prune(remote: Remote, head: Head, tag: str, keep: int, older_than: timedelta) -> Pruned:
    named, n_kept = _named(remote, head, keep)
    oldest_kept = _before_now(older_than)
    # Listed before HEAD changes: a push that may still be published has other names.
    gone = [
        one
        for prefix in (GENERATIONS, CHUNKS)
        for one in remote.listed(prefix)
        if one.name not in named and (oldest_kept is None or one.modified <= oldest_kept)
    ]
    if gone:
        remote.replace_head(replace(head, prunes=head.prunes + 1).to_bytes(), tag)
        remote.delete(one.name for one in gone)
    return Pruned(n_kept, len(gone), sum(one.size for one in gone))


def _before_now(age: timedelta) -> datetime | None:
    """Return the time that long ago; None: age 0, which ignores the clock of the place."""
    if age <= timedelta(0):
        return None
    try:
        return datetime.now(UTC) - age
    except OverflowError:  # before the first year
        return datetime.min.replace(tzinfo=UTC)


def _named(remote: Remote, head: Head, keep: int) -> tuple[set[str], int]:
    """Return the names of all objects of the newest generations, and their number."""
    named: set[str] = set()
    n_kept, number, manifest = 0, head.number, head.manifest
    while n_kept < keep:
        try:
            found = read_generation(remote, number, manifest)
        except AbsentError:
            if n_kept == 0:
                raise error(
                    RemoteError, remote.url, f"generation {number}, which HEAD names", "none"
                ) from None
            break  # an earlier prune removed it
        named.add(name_of(number, manifest))
        named.update(object_of(chunk) for chunk in found.chunks)
        n_kept += 1
        if found.parent is None:
            break
        number, manifest = number - 1, found.parent
    return named, n_kept
