"""The asynchronous store: each call runs on a thread of the handle."""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

from hyrecall.base.arguments import check_keywords
from hyrecall.base.forks import Birth
from hyrecall.base.threads import off_thread
from hyrecall.errors import NotOpenError, OptionError, error
from hyrecall.memory.agent_memory import AgentMemory
from hyrecall.memory.faces.browse import Browse
from hyrecall.memory.methods import MADE, NamedMethods, awaited
from hyrecall.memory.sync import MemorySync

P_ = ParamSpec("P_")
T_ = TypeVar("T_")

THREADS = 16
"""Calls at a time; none waits longer for an embedder than its ``embed_timeout``."""


class Opening:
    """A store that opens when it is awaited or entered by ``async with``."""

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
            # The thread opens the store all the same, and nobody else would release its lock.
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

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse what the open store has, and say how it is opened."""
        if hasattr(Memory, name):
            raise _not_open(name)
        raise AttributeError(f"'Opening' object has no attribute {name!r}")

    def __enter__(self) -> NoReturn:
        """Refuse ``with``: this store opens by ``async with``."""
        raise _not_open("with")

    def __exit__(self, *exc: object) -> None:
        """Close nothing."""


def _not_open(name: str) -> NotOpenError:
    wish, remedy = "an open store", "memory = await Memory.open(path), or MemorySync.open(path)"
    return error(NotOpenError, name, wish, "one that is not awaited", remedy)


def _close_unclaimed(job: Future[MemorySync]) -> None:
    if not job.cancelled() and job.exception() is None:
        job.result().close()


_RETURNS = re.compile(r"(?<=^Returns\n-------\n).*?(?=\n\n)", re.DOTALL | re.MULTILINE)
_OPENING = """Opening
    To be awaited, or entered by ``async with``; both give a :class:`Memory`."""


def opening(
    open_it: Callable[P_, MemorySync],
) -> Callable[Concatenate[type[Memory], P_], Opening]:
    """Return the function of a class method that opens a store when its reply is awaited."""

    @functools.wraps(open_it)
    def prepare(cls: type[Memory], /, *args: P_.args, **options: P_.kwargs) -> Opening:
        return Opening(functools.partial(open_it, *args, **options))

    setattr(prepare, MADE, True)
    given = inspect.signature(open_it)
    cls = inspect.Parameter("cls", inspect.Parameter.POSITIONAL_ONLY)
    shown = given.replace(parameters=[cls, *given.parameters.values()], return_annotation="Opening")
    vars(prepare)["__signature__"] = shown
    prepare.__annotations__["return"] = "Opening"
    prepare.__doc__ = _RETURNS.sub(_OPENING, inspect.getdoc(open_it) or "")
    return prepare


@check_keywords
class Memory(NamedMethods):
    """A durable store that recalls.

    Its methods are those of :class:`hyrecall.memory.MemorySync`, to be awaited; their examples show
    that class. ``memory = await Memory.open(path)`` opens a store, and so does
    ``async with Memory.open(path) as memory:``. Cancelling a call drops its reply. If a call is
    cancelled, its write may still be committed.

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
    ...         return [match.episode.text for match in matches]
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
        self._birth = Birth()
        self._is_closed = False
        self._closing: Future[None] | None = None

    open = classmethod(opening(MemorySync.open))
    in_memory = classmethod(opening(MemorySync.in_memory))

    async def _run(self, function: Callable[P_, T_], /, *args: P_.args, **options: P_.kwargs) -> T_:
        """Call a function on a thread of this handle, with the context of the caller."""
        if self._is_closed:
            raise error(OptionError, "memory", "an open store", "a closed one")
        self._birth.check(repr(self._sync._store))
        return await off_thread(self._pool, functools.partial(function, *args, **options))

    remember = awaited(MemorySync.remember, writes=True)
    remember_batch = awaited(MemorySync.remember_batch, writes=True)
    remember_fact = awaited(MemorySync.remember_fact, writes=True)
    end_fact = awaited(MemorySync.end_fact, writes=True)
    update = awaited(MemorySync.update, writes=True)
    update_many = awaited(MemorySync.update_many, writes=True)
    supersede = awaited(MemorySync.supersede, writes=True)
    forget = awaited(MemorySync.forget, writes=True)
    pin = awaited(MemorySync.pin, writes=True)
    link = awaited(MemorySync.link, writes=True)
    unlink = awaited(MemorySync.unlink, writes=True)
    recall = awaited(MemorySync.recall)
    recall_scored = awaited(MemorySync.recall_scored)
    recall_facts = awaited(MemorySync.recall_facts)
    list_facts = awaited(MemorySync.list_facts)
    search = awaited(MemorySync.search)
    get = awaited(MemorySync.get)
    history = awaited(MemorySync.history)
    list = awaited(MemorySync.list)
    count = awaited(MemorySync.count)
    list_users = awaited(MemorySync.list_users)
    list_sessions = awaited(MemorySync.list_sessions)
    list_agents = awaited(MemorySync.list_agents)
    links = awaited(MemorySync.links)
    set_policy = awaited(MemorySync.set_policy, writes=True)
    get_policy = awaited(MemorySync.get_policy)
    feedback = awaited(MemorySync.feedback, writes=True)
    list_feedback = awaited(MemorySync.list_feedback)
    export = awaited(MemorySync.export)
    import_ = awaited(MemorySync.import_, writes=True)
    reembed = awaited(MemorySync.reembed, writes=True)
    doctor = awaited(MemorySync.doctor)
    wait_until_ready = awaited(MemorySync.wait_until_ready)
    compact = awaited(MemorySync.compact)
    snapshot = awaited(MemorySync.snapshot)

    def browse(
        self,
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
    ) -> Browse:
        """Return files to read, without await, as :meth:`hyrecall.memory.MemorySync.browse`."""
        return self._sync.browse(user_id=user_id, org=org, workspace=workspace)

    def agent(self, agent: str, *, org: str, workspace: str) -> AgentMemory:
        """Return the store as an agent sees it, as :meth:`hyrecall.memory.MemorySync.agent`."""
        return AgentMemory(self._sync.agent(agent, org=org, workspace=workspace), self._run)

    async def close(self) -> None:
        """Save the index and let go of the store; calls under way end first. Twice is fine.

        Cancelling drops the wait only: the store is closed all the same. A forked child leaves the
        store to its parent.
        """
        if not self._birth.is_here:
            return
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
