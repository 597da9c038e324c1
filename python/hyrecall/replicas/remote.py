"""The interface of a remote place that pushes, pulls and prunes use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeAlias

__all__ = ["HEAD", "AbsentError", "Listed", "MovedError", "Place", "Remote"]

HEAD = "HEAD"
"""The only object that changes: it names the newest generation."""

Place: TypeAlias = Any
"""A URL, or a store of obstore."""


class AbsentError(Exception):
    """The object does not exist. Raised inside the package only."""


class MovedError(Exception):
    """HEAD was changed by another push or prune. Raised inside the package only."""


@dataclass(frozen=True)
class Listed:
    """One object of a remote place."""

    name: str
    size: int
    modified: datetime


class Remote(Protocol):
    """Named objects that are written as a whole, and a HEAD that is replaced on a condition."""

    # Every method raises RemoteError if the place cannot be reached or refuses the request. Threads
    # may share a remote.

    @property
    def url(self) -> str:
        """The address, without a password."""

    def get(self, name: str) -> bytes:
        """Read an object, or raise AbsentError."""

    def put(self, name: str, content: bytes) -> None:
        """Write an object; readers see it whole or not at all."""

    def has(self, name: str) -> bool:
        """Return whether an object of this name exists."""

    def settle(self) -> None:
        """Return when all objects that were put survive a power cut."""

    def get_head(self) -> tuple[bytes, str] | None:
        """Read HEAD and its tag; None: there is none."""

    def replace_head(self, content: bytes, tag: str | None) -> None:
        """Write HEAD if it still has this tag (None: if there is none), or raise MovedError."""

    def listed(self, prefix: str) -> Iterator[Listed]:
        """List the objects whose names begin with a folder's name."""

    def delete(self, names: Iterable[str]) -> None:
        """Remove objects; an object that does not exist is no error."""
