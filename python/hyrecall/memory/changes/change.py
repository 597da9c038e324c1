"""What all changes have: they run in a transaction, and reply with what a retry can repeat."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime
from typing import ClassVar, Generic, Protocol, TypeAlias, TypeVar, cast

import apsw

__all__ = ["Change", "Numbers", "Write"]

Numbers: TypeAlias = "bool | int | tuple[Numbers, ...] | None"
"""A reply without texts and ids: it is kept for a retry, also after what it tells of was erased."""

Reply = TypeVar("Reply")


class Change(ABC, Generic[Reply]):
    """A change of memories. Subclasses are frozen dataclasses of plain data."""

    # Everything that needs no database is done before: arguments are checked, texts are embedded.

    is_offered: ClassVar[bool] = True

    @abstractmethod
    def run(self, connection: apsw.Connection, now: datetime) -> Reply:
        """Make the change inside a transaction, which the caller rolls back after an error."""

    def numbers(self, reply: Reply) -> Numbers:
        """Return what is kept of a reply beside the id of its write."""
        return cast("Numbers", reply)

    def reply_of(self, numbers: Numbers) -> Reply:
        """Return the reply again, from what was kept of it."""
        return cast("Reply", numbers)


class Write(Protocol):
    """Commits a change and returns its reply: a store's ``write``, or that of a test."""

    def __call__(self, change: Change[Reply], /) -> Reply:
        """Commit the change."""
        ...
