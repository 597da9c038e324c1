"""The owner of a store: the process that has the writer's database and the index."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from typing import TypeVar

from hyrecall.base.progress import ProgressFunction
from hyrecall.embed.guard import Guard
from hyrecall.memory.changes.change import Change
from hyrecall.memory.derived.background import Background
from hyrecall.memory.derived.follower import INDEX, Follower
from hyrecall.memory.derived.layout import Layout
from hyrecall.memory.derived.readiness import OpenReport
from hyrecall.memory.keeping.filling import FILLING, Filling
from hyrecall.memory.keeping.group_commit import GroupCommit
from hyrecall.memory.keeping.keeper import Task
from hyrecall.memory.keeping.tasks import SCRUB, TakeVectors, scrub
from hyrecall.memory.recall.index_search import IndexSearch
from hyrecall.memory.recall.joined_search import Joining
from hyrecall.memory.recall.question import FoundRows, Question
from hyrecall.memory.sql.applied_writes import check_write_id
from hyrecall.memory.sql.database import Database

__all__ = ["Owner"]

Reply = TypeVar("Reply")


class Owner:
    """Keeps a store in this process. Threads may share it."""

    # A handle that only reads has one too: its database refuses changes, and its index
    # follows those
    # of the process that writes.

    def __init__(
        self,
        database: Database,
        layout: Layout,
        *,
        model: str | None,
        dim: int,
        clock: Callable[[], datetime],
        joining: Joining,
        snapshot_every: int = 10_000,
        device: str = "cpu",
        threads: int | None = None,
        progress: ProgressFunction | None = None,
        opens_soon: bool = False,
        guard: Guard | None = None,
        fills_at_once: bool = True,
    ) -> None:
        """Open the index and start the thread that follows the store."""
        self.database, self.layout = database, layout
        folder = database.folder
        self.follower = Follower(
            database,
            None if folder is None else folder / INDEX,
            layout,
            model=model,
            dim=dim,
            may_save=not database.read_only,
            device=device,
            threads=threads,
        )
        self.opened: OpenReport | None = None
        if opens_soon:
            self.follower.open_soon()
        else:
            self.opened = self.follower.open(progress=progress, background=True)
        self.background = Background(self.follower, snapshot_every=snapshot_every)
        self._search = IndexSearch(self.follower, joining)
        self.filling: Filling | None = None
        if guard is not None and guard.off is None and not database.read_only:
            self.filling = Filling(
                database, guard, self.follower, self.write, self._take_dim, at_once=fills_at_once
            )
        self._group = GroupCommit(database, self.follower, self._follow, clock)
        self._follow()
        self.background.start()
        if opens_soon:  # the last owner may have ended between an erasure and its scrubbing
            self.background.until_done(SCRUB, partial(scrub, self))

    def write(
        self, change: Change[Reply], *, write_id: bytes | None = None, now: datetime | None = None
    ) -> Reply:
        """Commit a change, as :meth:`hyrecall.memory.keeping.keeper.Keeper.write`."""
        if write_id is not None:
            check_write_id(write_id)
        return self._group.write(change, write_id=write_id, now=now)

    def search_index(self, question: Question) -> FoundRows:
        """Rank rows, as :meth:`hyrecall.memory.keeping.keeper.Keeper.search_index`."""
        return self._search(question)

    def run(self, task: Task[Reply]) -> Reply:
        """Do a task, as :meth:`hyrecall.memory.keeping.keeper.Keeper.run`."""
        return task.run(self)

    def _follow(self) -> None:
        """Let the index follow a change, which may lack a vector."""
        self.background.poke()
        if self.filling is not None:
            self.background.until_done(FILLING, self.filling.due)

    def _take_dim(self, dim: int) -> None:
        TakeVectors(self.follower.model, dim).run(self)

    def close(self) -> None:
        """Save the index and let go of everything. Closing twice is fine."""
        with ExitStack() as held:  # each is let go of, the last here first, whatever the others do
            held.callback(self.database.close)
            held.callback(self.follower.close)
            held.callback(self.background.close)
            if self.filling is not None:
                held.callback(self.filling.close)
