"""Remote places of copies, a folder or an object store, with one interface and a lock."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit, urlunsplit

from hyrecall.base import disk
from hyrecall.base.forks import locked
from hyrecall.errors import (
    DTypeError,
    IndexNotFoundError,
    MissingExtraError,
    OptionError,
    RemoteError,
    WriterBusyError,
    error,
)

HEAD = "HEAD"
"""The only object that changes: it names the newest generation."""

Place: TypeAlias = Any
"""A URL, or a store of obstore."""


class AbsentError(Exception):
    """The object does not exist. Raised inside the package only."""


class MovedError(Exception):
    """HEAD was changed by another push or prune. Raised inside the package only."""


@dataclass(frozen=True)
class StoredObject:
    """One object of a remote place."""

    name: str
    size: int
    modified: datetime


# ---- Lets one push or pull of a folder run at a time; saves and writes of the folder go on ----


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder for pushes and pulls; a crash releases it."""
    # The lock is on the folder itself. Writers of an index or a store lock their file LOCK instead.
    with ExitStack() as held:
        try:
            held.enter_context(locked(folder, os.O_RDONLY | os.O_DIRECTORY, wait=0.0))
        except (FileNotFoundError, NotADirectoryError):
            wish = "the folder of a saved index or of a store"
            raise error(IndexNotFoundError, "path", wish, f"nothing at {folder}") from None
        except BlockingIOError:
            wish = "no other push or pull of this folder"
            raise error(WriterBusyError, str(folder), wish, "one at work") from None
        yield


# ---- A remote place: named objects that are written as a whole, and a HEAD that is replaced on a
# condition. Every method raises RemoteError if the place cannot be reached or refuses the request.
# Threads may share a place.
# A place in a folder (``file://``) needs no other package: objects are files, and HEAD is replaced
# under a lock.

_LOCK = "LOCK"


class FolderRemote:
    """A remote place in a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._changed: set[Path] = set()
        self._guard = threading.Lock()

    @property
    def url(self) -> str:
        """The address, without a password."""
        return self._root.absolute().as_uri()

    def get(self, name: str) -> bytes:
        """Read an object, or raise AbsentError."""
        with self._named(name):
            try:
                return disk.read_bytes(self._root / name)
            except (FileNotFoundError, NotADirectoryError):
                raise AbsentError(name) from None

    def put(self, name: str, content: bytes) -> None:
        """Write an object; readers see it whole or not at all."""
        with self._named(name):
            path = self._root / name
            self._make(path.parent)
            part = path.with_name(f".{secrets.token_hex(8)}.tmp")
            try:
                handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                with open(handle, "wb") as file:
                    file.write(content)
                    file.flush()
                    disk.sync(handle)
                os.replace(part, path)
            except BaseException:
                disk.remove([part])
                raise
            with self._guard:
                self._changed.add(path.parent)

    def has(self, name: str) -> bool:
        """Return whether an object of this name exists."""
        # An interrupted push may not have synced its folder; :meth:`settle` then does so.
        path = self._root / name
        with self._named(name):
            is_there = path.is_file()
        if is_there:
            with self._guard:
                self._changed.add(path.parent)
        return is_there

    def settle(self) -> None:
        """Return when all objects that were put survive a power cut."""
        with self._guard:
            changed, self._changed = self._changed, set()
        for folder in sorted(changed):
            with self._named(folder.name):
                disk.sync_folder(folder)

    def get_head(self) -> tuple[bytes, str] | None:
        """Read HEAD and its tag, its SHA-256; None: there is none."""
        try:
            content = self.get(HEAD)
        except AbsentError:
            return None
        return content, hashlib.sha256(content).hexdigest()

    def replace_head(self, content: bytes, tag: str | None) -> None:
        """Write HEAD if it still has this tag (None: if there is none), or raise MovedError."""
        with self._named(HEAD), self._alone():
            found = self.get_head()
            if (None if found is None else found[1]) != tag:
                raise MovedError
            disk.put(self._root, HEAD, content)

    def listed(self, prefix: str) -> Iterator[StoredObject]:
        """List the objects of a folder, also those that an interrupted push left."""
        with self._named(prefix):
            for folder, _, names in os.walk(self._root / prefix):
                for name in names:
                    path = Path(folder, name)
                    try:
                        found = path.stat()
                    except FileNotFoundError:
                        continue
                    when = datetime.fromtimestamp(found.st_mtime, UTC)
                    yield StoredObject(path.relative_to(self._root).as_posix(), found.st_size, when)

    def delete(self, names: Iterable[str]) -> None:
        """Remove objects; an object that does not exist is no error."""
        for name in names:
            with self._named(name), contextlib.suppress(FileNotFoundError):
                os.unlink(self._root / name)

    def _make(self, folder: Path) -> None:
        if self._root.exists() and not self._root.is_dir():  # another thread may make it now
            raise error(OptionError, "url", "a folder", f"the file {self._root}")
        disk.make_folder(self._root, mode=0o700)
        disk.make_folder(folder, mode=0o700)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock during a replacement of HEAD, which is short."""
        self._make(self._root)
        with locked(self._root / _LOCK, os.O_RDWR | os.O_CREAT):
            yield

    @contextmanager
    def _named(self, name: str) -> Iterator[None]:
        """Turn an error of the disk into one that names the place."""
        try:
            yield
        except RemoteError:
            raise
        except OSError as fault:
            told = fault.strerror or str(fault)
            made = error(RemoteError, f"{self.url}/{name}", "a disk that works", told)
            made.errno = fault.errno or errno.EIO
            raise made from fault


# ---- A remote place in an object store, through the package ``obstore`` (extra ``[s3]``) ----

_USER = re.compile(r"""(?<=[:/"'])[^\s/"']+@""")
_QUERY = re.compile(r"""(?<=[^\s?])\?[^\s"')]+""")
_MOST_DELETED = 1000  # names in a request

_IN_MEMORY: dict[str, Any] = {}


def without_password(url: str) -> str:
    """Return a URL without the user, the password, the query and the fragment."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    path = parts.path if parts.netloc else parts.path.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, path.rstrip("/"), "", ""))


class ObjectRemote:
    """A remote place in an object store."""

    def __init__(self, store: Any, url: str) -> None:
        self._obstore = _obstore()
        self._store = store
        self.url = url
        self._is_checked = False

    def get(self, name: str) -> bytes:
        """Read an object."""
        with self._named(name):
            return bytes(self._obstore.get(self._store, name).bytes())

    def put(self, name: str, content: bytes) -> None:
        """Write an object in one request."""
        with self._named(name):
            self._obstore.put(self._store, name, content, use_multipart=False)

    def has(self, name: str) -> bool:
        """Return whether the object exists."""
        try:
            with self._named(name):
                self._obstore.head(self._store, name)
        except AbsentError:
            return False
        return True

    def settle(self) -> None:
        """Do nothing: an object store acknowledges only objects that it keeps."""

    def get_head(self) -> tuple[bytes, str] | None:
        """Read HEAD and its ETag."""
        try:
            with self._named(HEAD):
                found = self._obstore.get(self._store, HEAD)
                content = bytes(found.bytes())
                tag = found.meta["e_tag"]
        except AbsentError:
            return None
        if not tag:
            raise error(RemoteError, f"{self.url}/{HEAD}", "an object with an ETag", "none")
        return content, tag

    def replace_head(self, content: bytes, tag: str | None) -> None:
        """Write HEAD with If-Match, or with If-None-Match if there is none yet."""
        mode = "create" if tag is None else {"e_tag": tag}
        with self._named(HEAD):
            self._check_conditions()
            self._obstore.put(self._store, HEAD, content, mode=mode, use_multipart=False)

    def _check_conditions(self) -> None:
        """Refuse a server that ignores conditions: a push could silently replace another."""
        # Both conditions are tested on an object that nobody else reads.
        if self._is_checked:
            return
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        probe = "conditions"
        self._obstore.put(self._store, probe, b"", use_multipart=False)
        for mode in ("create", {"e_tag": '"00000000000000000000000000000000"'}):
            try:
                self._obstore.put(self._store, probe, b"", mode=mode, use_multipart=False)
            except (AlreadyExistsError, PreconditionError):
                continue
            wish = "a server that honours If-Match and If-None-Match of a PUT"
            raise error(RemoteError, self.url, wish, "one that overlooks them")
        self._is_checked = True

    def listed(self, prefix: str) -> Iterator[StoredObject]:
        """List objects."""
        with self._named(prefix):
            for batch in self._obstore.list(self._store, prefix):
                for one in batch:
                    yield StoredObject(one["path"], one["size"], one["last_modified"])

    def delete(self, names: Iterable[str]) -> None:
        """Remove objects, many in one request where the server can do that."""
        left = list(names)
        for begin in range(0, len(left), _MOST_DELETED):
            some = left[begin : begin + _MOST_DELETED]
            try:
                with self._named(some[0]):
                    self._obstore.delete(self._store, some)
            except AbsentError:
                for name in some:
                    with contextlib.suppress(AbsentError), self._named(name):
                        self._obstore.delete(self._store, name)

    @contextmanager
    def _named(self, name: str) -> Iterator[None]:
        """Turn an error of obstore into one that names the place."""
        from obstore.exceptions import (
            AlreadyExistsError,
            BaseError,
            NotFoundError,
            PreconditionError,
        )

        try:
            yield
        except (NotFoundError, FileNotFoundError):
            raise AbsentError(name) from None
        except (AlreadyExistsError, PreconditionError):
            raise MovedError from None
        except (BaseError, OSError) as fault:
            if isinstance(fault, RemoteError):
                raise
            got = _first_line(fault)
            # Not chained: obstore's error shows a password of the URL.
            raise error(RemoteError, f"{self.url}/{name}", "a reply", got) from None


def _first_line(fault: Exception) -> str:
    """Return the first line of an obstore error, without passwords."""
    return hide_passwords(str(fault).partition("\n")[0]) or type(fault).__name__


def hide_passwords(text: str) -> str:
    """Return a text without users, passwords and queries of URLs."""
    return _QUERY.sub("", _USER.sub("", text))


def _obstore() -> Any:
    try:
        import obstore
    except ModuleNotFoundError:
        wish = "the extra [s3] (pip install 'hyrecall[s3]'); file:// needs none"
        raise error(MissingExtraError, "url", wish, "no package obstore") from None
    return obstore


# ---- Opens a remote place by its URL ----

Remote: TypeAlias = FolderRemote | ObjectRemote


def open_remote(place: Place) -> Remote:
    """Open a remote place."""
    if isinstance(place, Path):
        got = f"the path {str(place)!r}"
        raise error(OptionError, "url", "a URL such as file:///srv/notes", got)
    if not isinstance(place, str):
        if type(place).__module__.split(".")[0] != "obstore":
            wish = "a URL (str) or a store of obstore"
            raise error(DTypeError, "url", wish, type(place).__name__)
        return ObjectRemote(place, hide_passwords(repr(place)))
    parts = urlsplit(place)
    if not parts.scheme:
        wish = "a URL such as file:///srv/notes or s3://bucket/notes"
        raise error(OptionError, "url", wish, repr(hide_passwords(place)))
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.strip("/"):
            got = repr(without_password(place))
            raise error(OptionError, "url", "file:// and an absolute path", got)
        return FolderRemote(Path(unquote(parts.path)))
    _obstore()
    from obstore.exceptions import BaseError
    from obstore.store import MemoryStore, from_url

    shown = without_password(place)
    if parts.scheme == "memory":  # lives as long as the process; equal names are the same store
        return ObjectRemote(_IN_MEMORY.setdefault(parts.netloc + parts.path, MemoryStore()), shown)
    try:
        return ObjectRemote(from_url(place), shown)  # keys and endpoint are of the environment
    except (BaseError, ValueError) as fault:
        # Not chained: obstore's error shows the password.
        raise error(OptionError, "url", "a URL that obstore opens", _first_line(fault)) from None
