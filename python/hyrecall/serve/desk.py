"""A store as the caller of one request may use it.

A :class:`Desk` binds a caller's scope to the methods of a store, so that no route can leave it out.
A token of an agent leads to the agent's own store, with its read policy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import Request

from hyrecall.memory import AgentMemorySync, Browse, Memory, MemorySync
from hyrecall.memory.store import Store
from hyrecall.serve.callers import Caller, narrow
from hyrecall.serve.errors import ServiceError

__all__ = ["Desk", "desk_of", "memory_of"]

T_ = TypeVar("T_")


def memory_of(request: Request) -> Memory:
    """Return the store that is served.

    Raises
    ------
    ServiceError
        404: an index is served. 503: the store is not open yet, or no longer.
    """
    memory: Memory | None = request.app.state.memory
    if memory is not None:
        return memory
    if request.app.state.index is not None:
        raise ServiceError(404, "NotFound", "the service serves an index, not a store")
    raise ServiceError(503, "Unavailable", "the store is not open", retry_after=1)


class Desk:
    """The store, bound to one scope.

    Attributes
    ----------
    who : Caller
    scope : dict
        ``user_id``, ``org`` and ``workspace``.
    """

    def __init__(self, memory: Memory, who: Caller, scope: dict[str, str | None]) -> None:
        """Hold them."""
        self._memory, self.who, self.scope = memory, who, scope

    @property
    def store(self) -> Store:
        """What the store's handle holds: its recipe, its layout."""
        return self._memory._sync._store

    async def run(self, work: Callable[[Desk], T_]) -> T_:
        """Call a function on a thread of the store; it uses :meth:`sync`."""
        return await self._memory._run(work, self)

    def sync(self, name: str, *args: Any, **options: Any) -> Any:
        """Call a method of the store within the scope; blocks."""
        if self.who.agent is None:
            store: MemorySync = self._memory._sync
            return getattr(store, name)(*args, **options, **self.scope)
        method = getattr(self._agent(), name, None)
        if method is None:
            raise ServiceError(403, "Forbidden", f"agents have no {name}")
        return method(*args, **options)

    async def call(self, name: str, *args: Any, **options: Any) -> Any:
        """Call a method of the store within the scope, on a thread."""
        return await self._memory._run(self.sync, name, *args, **options)

    async def call_as_owner(self, name: str, *args: Any, **options: Any) -> Any:
        """Call a method whose arguments carry the scope themselves, on a thread."""
        return await self._memory._run(getattr(self._memory._sync, name), *args, **options)

    def browse(self) -> Browse:
        """Return the files of the scope."""
        if self.who.agent is not None:
            return self._agent().browse()
        return self._memory.browse(**self.scope)

    def _agent(self) -> AgentMemorySync:
        agent, org, workspace = self.who.agent, self.who.org, self.who.workspace
        assert agent is not None
        assert org is not None
        assert workspace is not None
        return self._memory._sync.agent(agent, org=org, workspace=workspace)


def desk_of(request: Request, who: Caller, asked: Any) -> Desk:
    """Return the store as a request's caller, narrowed by its body or its query string, may use it.

    Raises
    ------
    ServiceError
        403: a wider scope than the token's.
    """
    scope = narrow(who, asked)
    if who.agent is not None:
        if scope["user_id"] not in (None, who.agent):
            raise ServiceError(403, "ScopeError", "user_id: expected that of the token")
        scope["user_id"] = who.agent
    return Desk(memory_of(request), who, scope)
