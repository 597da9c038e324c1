"""Says who calls: a token becomes a `Caller` on the server, and a request can only narrow it.

What a route gets is the store of that caller (:mod:`hyrecall.serve.verbs`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, TypeAlias

from fastapi import Depends, Query, Request
from pydantic import BaseModel, ConfigDict
from starlette.datastructures import Headers

from hyrecall.ask.recipe import Recipe
from hyrecall.errors import OptionError
from hyrecall.memory import Memory
from hyrecall.serve.errors import ServiceError
from hyrecall.serve.options import ANYBODY, Caller, Right, free_names
from hyrecall.serve.tokens import TokenFile
from hyrecall.serve.verbs import CallersStore


async def caller(request: Request) -> Caller:
    """Return who calls, as the dependency of every route."""
    if request.app.state.tokens is None:
        return ANYBODY
    found = identify(request.app.state.tokens, request.headers)
    request.scope["hyrecall.caller"] = found.name  # for the log
    return found


def identify(tokens: TokenFile, headers: Headers) -> Caller:
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


def narrow(who: Caller, asked: Mapping[str, Any] | object) -> dict[str, Any]:
    """Return ``user_id``, ``org`` and ``workspace`` of a request: the caller's, narrowed by it."""
    found: dict[str, Any] = {}
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


# ---- the store of who calls ----

Name: TypeAlias = Annotated[str | None, Query(max_length=512)]


def memory_of(request: Request) -> Memory:
    """Return the store that is served."""
    memory: Memory | None = request.app.state.memory
    if memory is None:
        raise ServiceError(503, "Unavailable", "the store is not open", retry_after=1)
    return memory


def store_of(request: Request, who: Caller, asked: Any) -> CallersStore:
    """Return the store of a caller, narrowed by a body or a query string."""
    return CallersStore(memory_of(request), replace(who, **narrow(who, asked)))


def _store_for(caller_of: Any) -> Any:
    async def store(
        request: Request,
        who: Caller = caller_of,
        user_id: Name = None,
        org: Name = None,
        workspace: Name = None,
    ) -> CallersStore:
        return store_of(request, who, {"user_id": user_id, "org": org, "workspace": workspace})

    return Depends(store)


ReadStore: TypeAlias = Annotated[CallersStore, _store_for(_READS)]
WriteStore: TypeAlias = Annotated[CallersStore, _store_for(_WRITES)]
EditStore: TypeAlias = Annotated[CallersStore, _store_for(_EDITS)]
"""The store of a route whose documents have no field for a scope: a query string may narrow it."""


def recipe_for(store: CallersStore, wanted: Recipe) -> Recipe:
    """Return the store's own recipe where it is a form of the wanted one, else the wanted one."""
    # So a store that was opened with other weights or half-lives keeps them.
    opened = store.opened
    if opened.recipe.name == wanted.name:
        return opened.recipe
    try:
        return opened.check_recipe(wanted)
    except OptionError:
        message = f"this route needs a store that is served with the recipe {wanted.name!r}"
        raise ServiceError(409, "RecipeMismatch", message) from None


class ScopeParams(BaseModel):
    """A query string that may narrow the token's scope."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    user_id: str | None = None
    org: str | None = None
    workspace: str | None = None
