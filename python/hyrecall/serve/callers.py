"""Says who calls: a token becomes a `Caller` on the server, and a body can only narrow it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Protocol, TypeAlias

from fastapi import Depends, Request
from starlette.datastructures import Headers

from hyrecall.serve.errors import ServiceError
from hyrecall.serve.identity import ANYBODY, RIGHTS, Caller, Right, free_names

__all__ = [
    "ANYBODY",
    "RIGHTS",
    "Caller",
    "CallerOf",
    "Editor",
    "Keeper",
    "Reader",
    "Right",
    "Tokens",
    "Writer",
    "caller",
    "identify",
    "narrow",
    "require",
]


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


async def _reader(who: CallerOf) -> Caller:
    return require(who, "read")


async def _writer(who: CallerOf) -> Caller:
    return require(who, "write")


async def _editor(who: CallerOf) -> Caller:
    return require(require(who, "write"), "read")


async def _keeper(who: CallerOf) -> Caller:
    return require(who, "upkeep")


Reader: TypeAlias = Annotated[Caller, Depends(_reader)]
Writer: TypeAlias = Annotated[Caller, Depends(_writer)]
Editor: TypeAlias = Annotated[Caller, Depends(_editor)]
Keeper: TypeAlias = Annotated[Caller, Depends(_keeper)]
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
