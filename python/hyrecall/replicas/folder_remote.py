"""A remote place in a folder (``file://``): objects are files, HEAD is replaced under a lock.

Needs no other package. A file is written under a temporary name and renamed, so readers see it
whole or not at all.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from hyrecall.base import disk
from hyrecall.base.forks import locked
from hyrecall.errors import OptionError, RemoteError, error
from hyrecall.replicas.remote import HEAD, AbsentError, Listed, MovedError

__all__ = ["FolderRemote"]

_LOCK = "LOCK"


class FolderRemote:
    """See :class:`hyrecall.replicas.remote.Remote`."""

    def __init__(self, root: Path) -> None:
        """Take the folder, which a push creates."""
        self._root = root
        self._changed: set[Path] = set()
        self._guard = threading.Lock()

    @property
    def url(self) -> str:
        """The address."""
        return self._root.absolute().as_uri()

    def get(self, name: str) -> bytes:
        """Read a file."""
        with self._named(name):
            try:
                return disk.read_bytes(self._root / name)
            except (FileNotFoundError, NotADirectoryError):
                raise AbsentError(name) from None

    def put(self, name: str, content: bytes) -> None:
        """Write and sync a file, then rename it."""
        with self._named(name):
            path = self._root / name
            self._make(path.parent)
            part = path.with_name(f".{secrets.token_hex(8)}.tmp")
            try:
                handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                with open(handle, "wb", buffering=0) as file:
                    _write_all(file.fileno(), content)
                    os.fsync(file.fileno())
                os.replace(part, path)
            except BaseException:
                disk.remove([part])
                raise
            with self._guard:
                self._changed.add(path.parent)

    def has(self, name: str) -> bool:
        """Return whether the file exists."""
        # An interrupted push may not have synced its folder; :meth:`settle` then does so.
        path = self._root / name
        with self._named(name):
            is_there = path.is_file()
        if is_there:
            with self._guard:
                self._changed.add(path.parent)
        return is_there

    def settle(self) -> None:
        """Sync the folders in which files were renamed."""
        with self._guard:
            changed, self._changed = self._changed, set()
        for folder in sorted(changed):
            with self._named(folder.name):
                disk.sync_folder(folder)

    def get_head(self) -> tuple[bytes, str] | None:
        """Read HEAD; its tag is its SHA-256."""
        try:
            content = self.get(HEAD)
        except AbsentError:
            return None
        return content, hashlib.sha256(content).hexdigest()

    def replace_head(self, content: bytes, tag: str | None) -> None:
        """Compare the tag and rename the file under a lock."""
        with self._named(HEAD), self._alone():
            found = self.get_head()
            if (None if found is None else found[1]) != tag:
                raise MovedError
            disk.prepare(self._root, HEAD, content)
            disk.commit(self._root, HEAD)

    def listed(self, prefix: str) -> Iterator[Listed]:
        """List files, including those that an interrupted push left."""
        with self._named(prefix):
            for folder, _, names in os.walk(self._root / prefix):
                for name in names:
                    path = Path(folder, name)
                    try:
                        found = path.stat()
                    except FileNotFoundError:
                        continue
                    when = datetime.fromtimestamp(found.st_mtime, UTC)
                    yield Listed(path.relative_to(self._root).as_posix(), found.st_size, when)

    def delete(self, names: Iterable[str]) -> None:
        """Remove files."""
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


def _write_all(handle: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(handle, view) :]
