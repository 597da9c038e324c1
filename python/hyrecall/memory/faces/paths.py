"""Maps memories to paths and back, and ids to names of files.

/index.md
/memories/<kind>/<id>.md          one's own, private
/shared/<user>/<kind>/<id>.md     global ones, of oneself and of whom a read policy admits
/sessions/<session_id>.md
/facts/<subject>.md
/graph/<id>.md                    the edges of a memory
/pinned/                          lists where the pinned ones are
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias
from urllib.parse import quote, unquote

from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.memory.data.types import Episode

__all__ = [
    "FOLDERS",
    "Place",
    "PlaceKind",
    "folder_name",
    "memory_path",
    "name_of",
    "path_of",
    "read_place",
    "user_name",
]

PlaceKind: TypeAlias = Literal["folder", "index", "memory", "session", "fact", "graph"]

FOLDERS: Final = ("memories", "shared", "sessions", "facts", "graph", "pinned")
_FILES: Final[dict[str, PlaceKind]] = {"sessions": "session", "facts": "fact", "graph": "graph"}
_LONGEST: Final = 8_192
_MOUNT: Final = "memory"
_NO_MOUNT: Final = "%6Demory"

# Names that no quoted id has: quote() leaves neither a bare percent sign nor a NUL an id may hold.
_NOBODY: Final = "%00"
_EMPTY: Final = "%"


@dataclass(frozen=True)
class Place:
    """What a path names, whether or not it exists."""

    kind: PlaceKind
    top: str = ""
    user: str | None = None
    memory_kind: str | None = None
    id: str | None = None
    has_user: bool = False


def read_place(path: object) -> Place:  # noqa: PLR0911
    """Return what a path names; ignores the mount point up to the last ``/memory/``."""
    if not isinstance(path, str):
        raise error(DTypeError, "path", "a str", type(path).__name__)
    if len(path) > _LONGEST:
        raise error(OptionError, "path", f"at most {_LONGEST} characters", len(path))
    try:
        path.encode()
    except UnicodeEncodeError as fault:
        raise error(OptionError, "path", "valid Unicode", fault.reason) from None
    inside = path.rpartition(f"/{_MOUNT}/")[2]
    parts = [part for part in inside.split("/") if part not in ("", ".")]
    if not parts:
        return Place("folder")
    top, *rest = parts
    if top == "index.md" and not rest:
        return Place("index")
    if top == "memories":
        return _memory(top, rest)
    if top == "shared":
        if not rest:
            return Place("folder", top)
        return _memory(top, rest[1:], user=_user_of(rest[0]), has_user=True)
    if top in FOLDERS and not rest:
        return Place("folder", top)
    if top in _FILES and len(rest) == 1 and rest[0].endswith(".md"):
        return Place(_FILES[top], top, id=_named(rest[0]))
    return Place("memory", top)  # there is none: it reads as empty


def _memory(top: str, rest: list[str], *, user: str | None = None, has_user: bool = False) -> Place:
    match rest:
        case []:
            return Place("folder", top, user, has_user=has_user)
        case [kind]:
            return Place("folder", top, user, unquote(kind), has_user=has_user)
        case [kind, name] if name.endswith(".md"):
            return Place("memory", top, user, unquote(kind), _named(name), has_user=has_user)
    return Place("memory", top, user, has_user=has_user)


def memory_path(episode: Episode) -> str:
    """Return the path of a memory."""
    inside = f"{folder_name(episode.kind)}/{name_of(episode.id)}"
    if episode.visibility == "private":
        return f"/memories/{inside}"
    return f"/shared/{user_name(episode.user_id)}/{inside}"


def path_of(place: Place) -> str:
    """Return the path of a file."""
    if place.kind == "index" or place.id is None:
        return "/index.md"
    name = name_of(place.id)
    if place.kind != "memory":
        return f"/{place.top}/{name}"
    folder = "/memories" if not place.has_user else f"/shared/{user_name(place.user)}"
    return f"{folder}/{folder_name(place.memory_kind or '')}/{name}"


def name_of(key: str) -> str:
    """Return the name of the file of an id."""
    return f"{quote(key, safe='')}.md"


def _named(name: str) -> str:
    """Return the id that a file is named after."""
    return unquote(name.removesuffix(".md"))


def user_name(user: str | None) -> str:
    """Return the folder of a user; the anonymous one and the one without a letter have theirs."""
    if user is None:
        return _NOBODY
    return folder_name(user) or _EMPTY


def _user_of(folder: str) -> str | None:
    if folder == _NOBODY:
        return None
    return "" if folder == _EMPTY else unquote(folder)


def folder_name(name: str) -> str:
    """Quote a name; one of dots alone would be a way out of the folder, and "memory" a mount."""
    if name == _MOUNT:
        return _NO_MOUNT
    quoted = quote(name, safe="")
    return quoted.replace(".", "%2E") if not quoted.strip(".") else quoted
