"""A remote place in an object store, through the package ``obstore`` (extra ``[s3]``)."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from hyrecall.base.forks import free_in_children
from hyrecall.errors import MissingExtraError, OptionError, RemoteError, error
from hyrecall.replicas.remote import HEAD, AbsentError, Listed, MovedError

__all__ = ["ObjectRemote", "hide_passwords", "open_object_remote", "without_password"]

_USER = re.compile(r"""(?<=[:/"'])[^\s/"']+@""")
_QUERY = re.compile(r"""(?<=[^\s?])\?[^\s"')]+""")
_MOST_DELETED = 1000  # names in a request

_IN_MEMORY: dict[str, Any] = {}
_GUARD = free_in_children(threading.Lock())


def open_object_remote(url: str) -> ObjectRemote:
    """Open an object store by its URL; credentials and endpoint come from the environment."""
    # ``memory://NAME`` lives as long as the process; equal names are the same store.
    _obstore()
    from obstore.exceptions import BaseError
    from obstore.store import MemoryStore, from_url

    parts = urlsplit(url)
    if parts.scheme == "memory":
        with _GUARD:
            store = _IN_MEMORY.setdefault(f"{parts.netloc}{parts.path}", MemoryStore())
        return ObjectRemote(store, without_password(url))
    shown = without_password(url)
    try:
        return ObjectRemote(from_url(url), shown)
    except (BaseError, ValueError) as fault:
        # Not chained: obstore's error shows the password.
        raise error(OptionError, "url", "a URL that obstore opens", _first_line(fault)) from None


def without_password(url: str) -> str:
    """Return a URL without the user, the password, the query and the fragment."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    path = parts.path if parts.netloc else parts.path.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, path.rstrip("/"), "", ""))


class ObjectRemote:
    """See :class:`hyrecall.replicas.remote.Remote`."""

    def __init__(self, store: Any, url: str) -> None:
        """Take a store of obstore."""
        self._obstore = _obstore()
        self._store = store
        self._url = url
        self._is_checked = False

    @property
    def url(self) -> str:
        """The address."""
        return self._url

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

    def listed(self, prefix: str) -> Iterator[Listed]:
        """List objects."""
        with self._named(prefix):
            for batch in self._obstore.list(self._store, prefix):
                for one in batch:
                    yield Listed(one["path"], one["size"], one["last_modified"])

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
