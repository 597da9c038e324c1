"""A store for programs with an event loop: every call runs on a thread of the handle."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import Any, ParamSpec, TypeVar, Unpack

from hyrecall.ask.recipe import Recipe
from hyrecall.base.keywords import check_keywords
from hyrecall.base.progress import ProgressFunction
from hyrecall.errors import OptionError, error
from hyrecall.memory.agent_memory import AgentMemory
from hyrecall.memory.changing import Remembered
from hyrecall.memory.data.given_fields import Changes, EpisodeFields
from hyrecall.memory.data.sessions import SessionTracker
from hyrecall.memory.data.types import Edge, Episode, Fact, Participant, Visibility
from hyrecall.memory.derived.backfill import Reembedded
from hyrecall.memory.faces.transfer import Imported
from hyrecall.memory.memory_reads import AsyncReads
from hyrecall.memory.reads import User
from hyrecall.memory.recall.audience import EVERYONE
from hyrecall.memory.sql.doctor import Report
from hyrecall.memory.sql.in_memory import IN_MEMORY
from hyrecall.memory.store import AUTO, Clock, Given
from hyrecall.memory.sync import Kept, MemorySync
from hyrecall.memory.upkeep import Compacted, Exported, File
from hyrecall.text.analyzer import Analyzer

__all__ = ["Memory", "Opening"]

P_ = ParamSpec("P_")
T_ = TypeVar("T_")

THREADS = 16
"""Calls at a time; none waits longer for an embedder than its ``embed_timeout``."""


class Opening:
    """A store that is about to be open: ``await`` it, or enter it by ``async with``."""

    def __init__(self, open_it: Callable[[], MemorySync]) -> None:
        """Open nothing yet."""
        self._open_it = open_it
        self._memory: Memory | None = None

    def __await__(self) -> Generator[Any, None, Memory]:
        """Open it."""
        return self._open().__await__()

    async def _open(self) -> Memory:
        pool = ThreadPoolExecutor(THREADS, thread_name_prefix="hyrecall-memory")
        job = pool.submit(self._open_it)
        try:
            sync = await asyncio.wrap_future(job)
        except BaseException:
            # The thread opens the store all the same, and nobody would ever let go of its lock.
            pool.submit(_close_unclaimed, job)
            pool.shutdown(wait=False)
            raise
        return Memory(sync, pool)

    async def __aenter__(self) -> Memory:
        """Open it."""
        self._memory = await self._open()
        return self._memory

    async def __aexit__(self, *exc: object) -> None:
        """Close it."""
        if self._memory is not None:
            await self._memory.close()


def _close_unclaimed(job: Future[MemorySync]) -> None:
    if not job.cancelled() and job.exception() is None:
        job.result().close()


@check_keywords
class Memory(AsyncReads):
    """A durable store that recalls.

    Methods are those of :class:`hyrecall.memory.MemorySync`, to be awaited. Cancelling one drops
    its answer; what it was to write may be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hyrecall.recipes import loom
    >>> folder = Path(tempfile.mkdtemp()) / "agent.mem"
    >>> async def main() -> list[str]:
    ...     async with Memory.open(folder, recipe=loom, embedder=None) as memory:
    ...         await memory.remember("The build runs on Debian 12", user_id="alice")
    ...         matches = await memory.recall_scored("debian", user_id="alice")
    ...         return [match.episode.output for match in matches]
    >>> asyncio.run(main())
    ['The build runs on Debian 12']
    """

    def __init__(self, sync: MemorySync, pool: ThreadPoolExecutor) -> None:
        """Hold an open store; use :meth:`open`.

        Parameters
        ----------
        sync : MemorySync
        pool : ThreadPoolExecutor
            On which its methods run.
        """
        self._sync, self._pool = sync, pool
        self._is_closed = False
        self._closing: Future[None] | None = None

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        recipe: Recipe | None = None,
        analyzer: Analyzer | str | None = None,
        embedder: Given = AUTO,
        dim: int | None = None,
        read_only: bool = False,
        wait: float = 0.0,
        accept_loss: bool = False,
        recall_timeout: float = 1.5,
        write_timeout: float = 5.0,
        sessions: SessionTracker | None = None,
        snapshot_every: int = 10_000,
        device: str = "cpu",
        threads: int | None = None,
        progress: ProgressFunction | None = None,
        warm: bool = True,
        clock: Clock | None = None,
    ) -> Opening:
        """Open a store, as :meth:`hyrecall.memory.MemorySync.open`, when it is awaited or entered.

        ``memory = await Memory.open(path)``, or ``async with Memory.open(path) as memory:``.
        """
        return Opening(
            partial(
                MemorySync.open, path, recipe=recipe, analyzer=analyzer, embedder=embedder,
                dim=dim, read_only=read_only, wait=wait, accept_loss=accept_loss,
                recall_timeout=recall_timeout, write_timeout=write_timeout, sessions=sessions,
                snapshot_every=snapshot_every, device=device, threads=threads, progress=progress,
                warm=warm, clock=clock,
            )
        )  # fmt: skip

    @classmethod
    def in_memory(
        cls,
        *,
        recipe: Recipe | None = None,
        analyzer: Analyzer | str | None = None,
        embedder: Given = AUTO,
        dim: int | None = None,
        recall_timeout: float = 1.5,
        write_timeout: float = 5.0,
        sessions: SessionTracker | None = None,
        device: str = "cpu",
        threads: int | None = None,
        warm: bool = True,
        clock: Clock | None = None,
    ) -> Opening:
        """Open a new store in memory, as :meth:`hyrecall.memory.MemorySync.in_memory`.

        ``memory = await Memory.in_memory()``, or ``async with Memory.in_memory() as memory:``.
        """
        return cls.open(
            IN_MEMORY, recipe=recipe, analyzer=analyzer, embedder=embedder, dim=dim,
            recall_timeout=recall_timeout, write_timeout=write_timeout, sessions=sessions,
            device=device, threads=threads, warm=warm, clock=clock,
        )  # fmt: skip

    async def _run(self, function: Callable[P_, T_], /, *args: P_.args, **options: P_.kwargs) -> T_:
        """Call a method of the sync twin off the event loop."""
        if self._is_closed:
            raise error(OptionError, "memory", "an open store", "a closed one")
        call = partial(contextvars.copy_context().run, partial(function, *args, **options))
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    async def remember(
        self,
        episode: Episode | str,
        *,
        vector: object = None,
        embed_timeout: float | None = None,
        **fields: Unpack[EpisodeFields],
    ) -> Remembered:
        """Keep an episode, as :meth:`hyrecall.memory.MemorySync.remember`."""
        return await self._run(
            self._sync.remember, episode, vector=vector, embed_timeout=embed_timeout, **fields
        )

    async def remember_batch(
        self,
        episodes: Iterable[Episode],
        *,
        vectors: object = None,
        embed_timeout: float | None = None,
        progress: ProgressFunction | None = None,
    ) -> Kept:
        """Keep several episodes, as :meth:`hyrecall.memory.MemorySync.remember_batch`."""
        return await self._run(
            self._sync.remember_batch, episodes, vectors=vectors, embed_timeout=embed_timeout,
            progress=progress,
        )  # fmt: skip

    async def remember_fact(self, fact: Fact, *, embed_timeout: float | None = None) -> Remembered:
        """Keep a fact, as :meth:`hyrecall.memory.MemorySync.remember_fact`."""
        return await self._run(self._sync.remember_fact, fact, embed_timeout=embed_timeout)

    async def update(
        self,
        id: str,  # noqa: A002
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        reason: str | None = None,
        embed_timeout: float | None = None,
        **changes: Unpack[Changes],
    ) -> Remembered:
        """Change fields of an episode, as :meth:`hyrecall.memory.MemorySync.update`."""
        return await self._run(
            self._sync.update, id, user_id=user_id, org=org, workspace=workspace, reason=reason,
            embed_timeout=embed_timeout, **changes,
        )  # fmt: skip

    async def supersede(
        self,
        id: str,  # noqa: A002
        episode: Episode | str,
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        reason: str | None = None,
        embed_timeout: float | None = None,
    ) -> Remembered:
        """Replace an old episode by a new one, as :meth:`hyrecall.memory.MemorySync.supersede`."""
        return await self._run(
            self._sync.supersede, id, episode, user_id=user_id, org=org, workspace=workspace,
            reason=reason, embed_timeout=embed_timeout,
        )  # fmt: skip

    async def forget(
        self,
        id: str | None = None,  # noqa: A002
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        session_id: str | None = None,
        before: datetime | None = None,
        reason: str | None = None,
        erase: bool = False,
        everything: bool = False,
    ) -> int:
        """Take memories out of recall, as :meth:`hyrecall.memory.MemorySync.forget`."""
        return await self._run(
            self._sync.forget, id, user_id=user_id, org=org, workspace=workspace,
            session_id=session_id, before=before, reason=reason, erase=erase,
            everything=everything,
        )  # fmt: skip

    async def pin(
        self,
        id: str,  # noqa: A002
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        pinned: bool = True,
    ) -> None:
        """Pin an episode or not, as :meth:`hyrecall.memory.MemorySync.pin`."""
        await self._run(
            self._sync.pin, id, user_id=user_id, org=org, workspace=workspace, pinned=pinned,
        )  # fmt: skip

    async def link(
        self,
        nodes: Sequence[str | Participant],
        relationship: str,
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        visibility: Visibility = "private",
        id: str | None = None,  # noqa: A002
        description: str = "",
        data: dict[str, Any] | None = None,
    ) -> Edge:
        """Connect memories by their ids, as :meth:`hyrecall.memory.MemorySync.link`."""
        return await self._run(
            self._sync.link, nodes, relationship, user_id=user_id, org=org, workspace=workspace,
            visibility=visibility, id=id, description=description, data=data,
        )  # fmt: skip

    async def unlink(
        self,
        id: str,  # noqa: A002
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        reason: str | None = None,
    ) -> bool:
        """Take an edge away, as :meth:`hyrecall.memory.MemorySync.unlink`."""
        return await self._run(
            self._sync.unlink, id, user_id=user_id, org=org, workspace=workspace, reason=reason,
        )  # fmt: skip

    async def set_policy(
        self,
        agent: str,
        *,
        org: str | None = None,
        workspace: str | None = None,
        policy: str,
        policy_group: str | None = None,
    ) -> None:
        """Say what an agent may read, as :meth:`hyrecall.memory.MemorySync.set_policy`."""
        await self._run(
            self._sync.set_policy, agent, org=org, workspace=workspace, policy=policy,
            policy_group=policy_group,
        )  # fmt: skip

    async def export(
        self,
        file: File | None = None,
        *,
        user_id: User = None,
        org: str | None = None,
        workspace: str | None = None,
        history: bool = False,
    ) -> Exported:
        """Write memories as JSON lines, as :meth:`hyrecall.memory.MemorySync.export`."""
        return await self._run(
            self._sync.export, file, user_id=user_id, org=org, workspace=workspace,
            history=history,
        )  # fmt: skip

    async def import_(
        self, file: File, *, source: str = "hyrecall", progress: ProgressFunction | None = None
    ) -> Imported:
        """Merge what was exported into the store, as :meth:`hyrecall.memory.MemorySync.import_`."""
        return await self._run(self._sync.import_, file, source=source, progress=progress)

    async def reembed(
        self,
        *,
        force: bool = False,
        user_id: User = EVERYONE,
        org: str | None = None,
        workspace: str | None = None,
        progress: ProgressFunction | None = None,
    ) -> Reembedded:
        """Embed what has no vector, as :meth:`hyrecall.memory.MemorySync.reembed`."""
        return await self._run(
            self._sync.reembed, force=force, user_id=user_id, org=org, workspace=workspace,
            progress=progress,
        )  # fmt: skip

    async def doctor(self, *, full: bool = False) -> Report:
        """Look the store over, as :meth:`hyrecall.memory.MemorySync.doctor`."""
        return await self._run(self._sync.doctor, full=full)

    async def wait_until_ready(self, timeout: float = 60.0) -> bool:
        """Wait for all, as :meth:`hyrecall.memory.MemorySync.wait_until_ready`."""
        return await self._run(self._sync.wait_until_ready, timeout)

    async def compact(self) -> Compacted:
        """Free room on the disk, as :meth:`hyrecall.memory.MemorySync.compact`."""
        return await self._run(self._sync.compact)

    async def snapshot(self) -> bool:
        """Save the index now, as :meth:`hyrecall.memory.MemorySync.snapshot`."""
        return await self._run(self._sync.snapshot)

    def agent(self, agent: str, *, org: str, workspace: str) -> AgentMemory:
        """Return the store as an agent sees it, as :meth:`hyrecall.memory.MemorySync.agent`."""
        return AgentMemory(self._sync.agent(agent, org=org, workspace=workspace), self._run)

    async def close(self) -> None:
        """Save the index and let go of the store; calls under way end first. Twice is fine.

        Cancelling drops the wait only: the store is closed all the same.
        """
        self._is_closed = True
        if self._closing is None:
            closing: Future[None] = Future()
            closing.set_running_or_notify_cancel()  # who waits for one that runs cannot cancel it
            thread = threading.Thread(target=self._close, args=(closing,), name="hyrecall-close")
            thread.start()
            self._closing = closing
        await asyncio.wrap_future(self._closing)

    def _close(self, closing: Future[None]) -> None:
        try:
            self._pool.shutdown(wait=True)
            self._sync.close()
        except BaseException as fault:
            closing.set_exception(fault)
        else:
            closing.set_result(None)

    async def __aenter__(self) -> Memory:
        """Return the store."""
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Close it."""
        await self.close()

    def __repr__(self) -> str:
        """Show where it is."""
        return f"<Memory: {self._sync._store!r}>"
