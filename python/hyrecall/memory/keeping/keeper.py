"""What a store asks of whoever keeps it open: the owner in this process, or a way to another's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from hyrecall.memory.changes.change import Change
from hyrecall.memory.derived.background import Background
from hyrecall.memory.derived.follower import Follower
from hyrecall.memory.derived.layout import Layout
from hyrecall.memory.recall.question import FoundRows, Question
from hyrecall.memory.sql.database import Database

__all__ = ["Keeper", "Parts", "Task"]

Reply = TypeVar("Reply")


class Tells(Protocol):
    """Work in the background that says how far it came."""

    def told(self) -> str:
        """Say it, without a text of anybody's."""
        ...


class Parts(Protocol):
    """The parts of an owner that its tasks use."""

    database: Database
    follower: Follower
    background: Background
    layout: Layout

    @property
    def filling(self) -> Tells | None:
        """What embeds by itself; None: this process cannot."""
        ...

    def search_index(self, question: Question) -> FoundRows:
        """Rank rows, as :meth:`Keeper.search_index`."""
        ...


class Task(ABC, Generic[Reply]):
    """Upkeep that only the owner can do. Subclasses are frozen dataclasses of plain data."""

    @abstractmethod
    def run(self, owner: Parts) -> Reply:
        """Do it in the owner's process."""


class Keeper(Protocol):
    """Commits changes, searches the index and does upkeep. Threads may share it."""

    def write(
        self, change: Change[Reply], *, write_id: bytes | None = None, now: datetime | None = None
    ) -> Reply:
        """Commit a change: it is on the disk when this returns."""
        ...

    def search_index(self, question: Question) -> FoundRows:
        """Rank the rows that a caller may see."""
        ...

    def run(self, task: Task[Reply]) -> Reply:
        """Do a task of the owner."""
        ...

    def close(self) -> None:
        """Let go of everything. Closing twice is fine."""
        ...
