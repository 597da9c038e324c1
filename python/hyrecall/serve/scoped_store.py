"""Binds the store to the caller of a request, so that no route or door can leave the scope out.

A token, narrowed by the request, gives a `RequestScope`; a `ScopedStore` adds it to every call of
the store. An agent's scope leads to the agent's own view of the store, with its read policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Protocol, TypeAlias, TypeVar

from fastapi import Depends, Query, Request
from pydantic import BaseModel, ConfigDict
from starlette.datastructures import Headers

from hyrecall.ask.recipe import Recipe
from hyrecall.errors import NotFoundError, OptionError, error
from hyrecall.memory import AgentMemorySync, Browse, Episode, Memory
from hyrecall.memory.sql.reading import Accesses
from hyrecall.memory.store import Store
from hyrecall.memory.view import View
from hyrecall.serve.errors import ServiceError
from hyrecall.serve.options import ANYBODY, Caller, Right, free_names
from hyrecall.serve.verbs import CallersStore

# ---- Says who calls: a token becomes a `Caller` on the server, and a body can only narrow it ----


class Tokens(Protocol):
    """Knows tokens, as :class:`hyrecall.serve.tokens.TokenFile` does."""

    def find(self, token: str) -> Caller | None:
        """Return whose it is, or None."""


async def caller(request: Request) -> Caller:
    """Return who calls, as the dependency of every route."""
    if request.app.state.tokens is None:
        return ANYBODY
    found = identify(request.app.state.tokens, request.headers)
    request.scope["hyrecall.caller"] = found.name  # for the log
    return found


def identify(tokens: Tokens, headers: Headers) -> Caller:
    """Return whose token the headers have."""
    given = headers.getlist("authorization")
    scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    if scheme.lower() != "bearer" or not token.strip():
        raise ServiceError(401, "Unauthorized", "expected the header Authorization: Bearer TOKEN")
    found = tokens.find(token.strip())
    if found is None:
        message = "Authorization: expected a token that this service knows, got another"
        raise ServiceError(401, "Unauthorized", message)
    return found


CallerOf: TypeAlias = Annotated[Caller, Depends(caller)]


def require(who: Caller, right: Right) -> Caller:
    """Return the caller if it has a right."""
    if right not in who.rights:
        raise ServiceError(403, "Forbidden", f"the token lacks the right {right!r}")
    return who


def _caller_with(*rights: Right) -> Any:
    async def checked(who: CallerOf) -> Caller:
        for right in rights:
            require(who, right)
        return who

    return Depends(checked)


_READS, _WRITES, _EDITS = _caller_with("read"), _caller_with("write"), _caller_with("write", "read")

Reader: TypeAlias = Annotated[Caller, _READS]
Writer: TypeAlias = Annotated[Caller, _WRITES]
Editor: TypeAlias = Annotated[Caller, _EDITS]
Keeper: TypeAlias = Annotated[Caller, _caller_with("upkeep")]
"""The caller of a route; one that lacks the right is refused.

An editor writes, and the reply shows what the store holds, so that it has to have both rights."""


def narrow(who: Caller, asked: Mapping[str, Any] | object) -> dict[str, str | None]:
    """Return ``user_id``, ``org`` and ``workspace`` of a request: the caller's, narrowed by it."""
    found: dict[str, str | None] = {}
    free = free_names(who)
    for name in ("user_id", "org", "workspace"):
        own: str | None = getattr(who, name)
        wanted = asked.get(name) if isinstance(asked, Mapping) else getattr(asked, name, None)
        if wanted is None or wanted == own:
            found[name] = own
        elif name in free:
            found[name] = wanted
        else:
            raise ServiceError(403, "ScopeError", f"{name}: expected that of the token")
    return found


# ---- Binds the store to the caller of a request, so that no route or door can leave the scope out

T_ = TypeVar("T_")

Name: TypeAlias = Annotated[str | None, Query(max_length=512)]


@dataclass(frozen=True)
class RequestScope:
    """The user, agent and partition of a request, from its token and its parameters."""

    user_id: str | None = None
    org: str | None = None
    workspace: str | None = None
    agent: str | None = None

    @property
    def names(self) -> dict[str, str | None]:
        """Return the keywords of a store's methods."""
        return {"user_id": self.user_id, "org": self.org, "workspace": self.workspace}


def scope_of(who: Caller, asked: Any) -> RequestScope:
    """Narrow a caller to what a request names in its body or its query string."""
    names = narrow(who, asked)
    if who.agent is None:
        return RequestScope(**names)
    return RequestScope(None, names["org"], names["workspace"], who.agent)


def _scope_for(caller_of: Any) -> Any:
    async def scope(
        who: Caller = caller_of, user_id: Name = None, org: Name = None, workspace: Name = None
    ) -> RequestScope:
        return scope_of(who, {"user_id": user_id, "org": org, "workspace": workspace})

    return Depends(scope)


ReadScope: TypeAlias = Annotated[RequestScope, _scope_for(_READS)]
WriteScope: TypeAlias = Annotated[RequestScope, _scope_for(_WRITES)]
EditScope: TypeAlias = Annotated[RequestScope, _scope_for(_EDITS)]
"""The scope of a route whose documents have no field for it: its query string may narrow it."""


class ScopeParams(BaseModel):
    """A query string that may narrow the token's scope."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    user_id: str | None = None
    org: str | None = None
    workspace: str | None = None


def memory_of(request: Request) -> Memory:
    """Return the store that is served."""
    memory: Memory | None = request.app.state.memory
    if memory is None:
        raise ServiceError(503, "Unavailable", "the store is not open", retry_after=1)
    return memory


class ScopedStore:
    """The store, bound to one scope."""

    def __init__(self, memory: Memory, scope: RequestScope) -> None:
        self.memory, self.scope = memory, scope

    @property
    def opened(self) -> Store:
        """What the store's handle holds: its recipe, its layout."""
        return self.memory._sync._store

    async def run(self, work: Callable[[ScopedStore], T_]) -> T_:
        """Call a function on a thread of the store; it uses :meth:`sync`."""
        return await self.memory._run(work, self)

    def sync(self, name: str, *args: Any, **options: Any) -> Any:
        """Call a method of the store within the scope; blocks."""
        if self.scope.agent is None:
            return getattr(self.memory._sync, name)(*args, **options, **self.scope.names)
        method = getattr(self._agent(), name, None)
        if method is None:
            raise ServiceError(403, "Forbidden", f"agents have no {name}")
        return method(*args, **options)

    async def call(self, name: str, *args: Any, **options: Any) -> Any:
        """Call a method of the store within the scope, on a thread."""
        return await self.memory._run(self.sync, name, *args, **options)

    async def call_with_records(self, name: str, *args: Any, **options: Any) -> Any:
        """Call a method that takes records, each of which holds its scope, on a thread."""
        return await self.memory._run(getattr(self.memory._sync, name), *args, **options)

    async def existing(self, key: str) -> Episode:
        """Return a memory."""
        found: Episode | None = await self.call("get", key)
        if found is None:
            raise error(NotFoundError, "id", "a memory of the caller", "none")
        return found

    async def forget(self, key: str, **options: Any) -> int:
        """Take a memory out of recall."""
        n_gone: int = await self.call("forget", key, **options)
        if not n_gone:
            raise error(NotFoundError, "id", "a memory of the caller", "none")
        return n_gone

    async def history(self, key: str) -> Any:
        """Return all versions of a memory, oldest first; none of one that is not there."""
        return await self.call("history", key)

    async def accesses(self, keys: Sequence[str]) -> dict[str, Accesses]:
        """Return the accesses of memories, and when each was last written."""
        return await self.memory._run(self.view().accesses, keys)

    def view(self) -> View:
        """Return the store's view of the scope, whose methods block."""
        return self._as_caller().view

    async def ends(self, episodes: Sequence[Episode]) -> list[datetime | None]:
        """Return when each memory ends, if it is a fact."""
        return await self.memory._run(self.view().ends, episodes)

    def browse(self) -> Browse:
        """Return the memories as files, whose methods block."""
        if self.scope.agent is not None:
            return self._agent().browse()
        return self.memory.browse(**self.scope.names)

    def recipe_for(self, wanted: Recipe) -> Recipe:
        """Return the store's own recipe where it is a form of the wanted one, else the wanted
        one.
        """
        # So a store that was opened with other weights or half-lives keeps them.
        if self.opened.recipe.name == wanted.name:
            return self.opened.recipe
        try:
            return self.opened.check_recipe(wanted)
        except OptionError:
            message = f"this route needs a store that is served with the recipe {wanted.name!r}"
            raise ServiceError(409, "RecipeMismatch", message) from None

    def _agent(self) -> AgentMemorySync:
        return self._as_caller().of_agent

    def _as_caller(self) -> CallersStore:
        return CallersStore(self.memory._sync, Caller(**vars(self.scope)))


def scoped_store(request: Request, who: Caller, asked: Any) -> ScopedStore:
    """Return the store within the caller's scope, narrowed by a body or a query string."""
    scope = scope_of(who, asked)
    return ScopedStore(memory_of(request), scope)
