"""Says who calls: a token becomes a `Caller` on the server, and a body can only narrow it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import Depends, Request

from hyrecall.serve.errors import ServiceError

__all__ = [
    "ANYBODY",
    "RIGHTS",
    "Caller",
    "CallerOf",
    "Right",
    "caller",
    "may_read",
    "may_upkeep",
    "may_write",
    "narrow",
    "require",
]

Right: TypeAlias = Literal["read", "write", "upkeep"]
RIGHTS: frozenset[Right] = frozenset(("read", "write", "upkeep"))
"""To recall and read; to change memories; to see numbers of the whole service."""


@dataclass(frozen=True, kw_only=True)
class Caller:
    """On whose behalf a request is answered; tokens say it, requests do not.

    Parameters
    ----------
    org, workspace, user_id : str, optional
        The user and its partition. None is the anonymous one, never "all".
    agent : str, optional
        The name of an agent, where the token is of one.
    rights : frozenset of {"read", "write", "upkeep"}
    may_choose_user : bool, default False
        Whether a request may name any user of the partition.
    may_choose_partition : bool, default False
        Whether a request may name org and workspace.
    cells : tuple of tuple, optional
        Of a served index, the cells that may be read; None: a request names them.
    name : str, default ""
        The token's public part, for logs.
    """

    org: str | None = None
    workspace: str | None = None
    user_id: str | None = None
    agent: str | None = None
    rights: frozenset[Right] = frozenset(("read",))
    may_choose_user: bool = False
    may_choose_partition: bool = False
    cells: tuple[tuple[Any, ...], ...] | None = ()
    name: str = ""


ANYBODY = Caller(rights=RIGHTS, may_choose_user=True, may_choose_partition=True, cells=None)
"""Who calls a service without tokens, which only this machine can reach."""


async def caller(request: Request) -> Caller:
    """Return who calls, as the dependency of every route.

    Raises
    ------
    ServiceError
        401: no token, or an unknown one.
    """
    tokens = request.app.state.tokens
    if tokens is None:
        return ANYBODY
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    found: Caller | None = tokens.find(token.strip()) if scheme.lower() == "bearer" else None
    if found is None:
        raise ServiceError(401, "Unauthorized", "expected the header Authorization: Bearer TOKEN")
    return found


CallerOf: TypeAlias = Annotated[Caller, Depends(caller)]


def require(who: Caller, right: Right) -> Caller:
    """Return the caller if it has a right.

    Raises
    ------
    ServiceError
        403.
    """
    if right not in who.rights:
        raise ServiceError(403, "Forbidden", f"the token lacks the right {right!r}")
    return who


async def _reader(who: CallerOf) -> Caller:
    return require(who, "read")


async def _writer(who: CallerOf) -> Caller:
    return require(who, "write")


async def _keeper(who: CallerOf) -> Caller:
    return require(who, "upkeep")


may_read, may_write, may_upkeep = Depends(_reader), Depends(_writer), Depends(_keeper)
"""Dependencies of a route that return the caller, or refuse one that lacks the right."""


def narrow(who: Caller, asked: Mapping[str, Any] | object) -> dict[str, str | None]:
    """Return ``user_id``, ``org`` and ``workspace`` of a request: the caller's, narrowed by it.

    Parameters
    ----------
    who : Caller
    asked : mapping or object
        The body, with some of ``user_id``, ``org`` and ``workspace``; None or absent: not named.

    Returns
    -------
    dict
        For methods of a store.

    Raises
    ------
    ServiceError
        403: another user or partition than the token's. The message does not name it.
    """
    found: dict[str, str | None] = {}
    for name in ("user_id", "org", "workspace"):
        own: str | None = getattr(who, name)
        wanted = asked.get(name) if isinstance(asked, Mapping) else getattr(asked, name, None)
        is_free = who.may_choose_user if name == "user_id" else who.may_choose_partition
        if wanted is None or wanted == own:
            found[name] = own
        elif is_free and own is None:
            found[name] = wanted
        else:
            raise ServiceError(403, "ScopeError", f"{name}: expected that of the token")
    return found
