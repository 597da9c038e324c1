"""A store as one agent sees it, for programs with an event loop."""

from __future__ import annotations

from hyrecall.base.keywords import check_keywords
from hyrecall.memory.awaited import Awaiting, Runner, awaited
from hyrecall.memory.faces.browse import Browse
from hyrecall.memory.view import AgentMemorySync

__all__ = ["AgentMemory"]


@check_keywords
class AgentMemory(Awaiting):
    """The store as one agent sees it, which :meth:`hyrecall.memory.Memory.agent` returns.

    Its methods are those of :class:`hyrecall.memory.AgentMemorySync`, to be awaited. If a call is
    cancelled, its write may still be committed.
    """

    def __init__(self, sync: AgentMemorySync, run: Runner) -> None:
        """Hold the object whose methods are run, and what runs them off the event loop.

        Parameters
        ----------
        sync : AgentMemorySync
        run : Runner
        """
        self._sync, self._run = sync, run

    search = awaited(AgentMemorySync.search)
    recall_facts = awaited(AgentMemorySync.recall_facts)
    get = awaited(AgentMemorySync.get)
    history = awaited(AgentMemorySync.history)
    list = awaited(AgentMemorySync.list)
    links = awaited(AgentMemorySync.links)
    remember = awaited(AgentMemorySync.remember, writes=True)
    update = awaited(AgentMemorySync.update, writes=True)
    forget = awaited(AgentMemorySync.forget, writes=True)

    def browse(self) -> Browse:
        """Return files without await, as :meth:`hyrecall.memory.AgentMemorySync.browse`."""
        return self._sync.browse()

    def __repr__(self) -> str:
        """Show who it is."""
        return repr(self._sync)
