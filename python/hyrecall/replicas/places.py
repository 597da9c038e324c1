"""Opens a remote place by its URL."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.replicas.folder_remote import FolderRemote
from hyrecall.replicas.object_remote import (
    ObjectRemote,
    hide_passwords,
    open_object_remote,
    without_password,
)
from hyrecall.replicas.remote import Place, Remote

__all__ = ["open_remote"]


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
    return open_object_remote(place)
