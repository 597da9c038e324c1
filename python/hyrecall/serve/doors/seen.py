"""The store as the caller of a request sees it: on behalf of a user, or of an agent by its policy.

A request names its user in the query string (``?user_id=ann&org=acme&workspace=web``) where the
documents of a system have no field for it; a token may say all of that instead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from fastapi import Depends, Query, Request, Response

from hyrecall.ask.recipe import Recipe
from hyrecall.errors import OptionError
from hyrecall.memory import Browse, Episode, Matches, Memory, Remembered, Version
from hyrecall.serve.callers import Caller, may_read, may_write, narrow
from hyrecall.serve.errors import ServiceError
from hyrecall.serve.limits import check_page, check_query, check_size, options_of

__all__ = [
    "BY_REST",
    "Place",
    "ReadPlace",
    "Reader",
    "Seen",
    "WritePlace",
    "Writer",
    "bounded_limit",
    "bounded_query",
    "check_batch",
    "missing",
    "place_of",
    "recipe_for",
    "store_of",
    "tell_degraded",
]

BY_REST = "changed by a REST call"
"""The reason that is kept with a change whose request has no field for one."""

DEGRADED = "X-Hyrecall-Degraded"
"""The header that names the reasons where a document's reply has no field for them."""


Name: TypeAlias = Annotated[str | None, Query(max_length=512)]
Reader: TypeAlias = Annotated[Caller, may_read]
Writer: TypeAlias = Annotated[Caller, may_write]


@dataclass(frozen=True)
class Place:
    """On whose behalf a request reads or writes, after its token has been asked.

    Attributes
    ----------
    user_id, org, workspace : str or None
    agent : str or None
        Reads by this agent's policy, and writes its own memories; then there is no user.
    """

    user_id: str | None = None
    org: str | None = None
    workspace: str | None = None
    agent: str | None = None

    @property
    def names(self) -> dict[str, str | None]:
        """Return the keywords of a store's methods."""
        return {"user_id": self.user_id, "org": self.org, "workspace": self.workspace}


def place_of(who: Caller, asked: dict[str, str | None]) -> Place:
    """Narrow a caller to what a request names.

    Raises
    ------
    ServiceError
        403: a request that would widen the token.
    """
    names = narrow(who, asked)
    if who.agent is None:
        return Place(**names)
    if asked.get("user_id") not in (None, who.agent):
        raise ServiceError(403, "ScopeError", "user_id: expected that of the token")
    return Place(None, names["org"], names["workspace"], who.agent)


async def _place_to_read(
    who: Reader, user_id: Name = None, org: Name = None, workspace: Name = None
) -> Place:
    return place_of(who, {"user_id": user_id, "org": org, "workspace": workspace})


async def _place_to_write(
    who: Writer, user_id: Name = None, org: Name = None, workspace: Name = None
) -> Place:
    return place_of(who, {"user_id": user_id, "org": org, "workspace": workspace})


ReadPlace: TypeAlias = Annotated[Place, Depends(_place_to_read)]
WritePlace: TypeAlias = Annotated[Place, Depends(_place_to_write)]


def store_of(request: Request) -> Memory:
    """Return the store that is served.

    Raises
    ------
    ServiceError
        409: an index is served; 503: the store is not open yet.
    """
    memory: Memory | None = request.app.state.memory
    if memory is not None:
        return memory
    if request.app.state.index is not None:
        raise ServiceError(409, "NoStore", "this service serves an index, which has no memories")
    raise ServiceError(503, "Unavailable", "the store is not open", retry_after=1)


def recipe_for(memory: Memory, wanted: Recipe) -> Recipe:
    """Return the store's own recipe where it is a form of the wanted one, else the wanted one.

    So a store that was opened with other weights or half-lives keeps them.

    Raises
    ------
    ServiceError
        409: the store's index cannot answer the wanted recipe.
    """
    store = memory._sync._store
    if store.recipe.name == wanted.name:
        return store.recipe
    try:
        return store.check_recipe(wanted)
    except OptionError:
        message = f"this route needs a store that is served with the recipe {wanted.name!r}"
        raise ServiceError(409, "RecipeMismatch", message) from None


def bounded_query(request: Request, query: str) -> str:
    """Return a query that is no longer than the service allows.

    Raises
    ------
    ServiceError
        422.
    """
    check_query(options_of(request), query)
    return query


def bounded_limit(request: Request, limit: int) -> int:
    """Return a limit that the service allows.

    Raises
    ------
    ServiceError
        422.
    """
    check_page(options_of(request), limit)
    return limit


def check_batch(request: Request, n: int) -> None:
    """Refuse more memories in one request than the service allows.

    Raises
    ------
    ServiceError
        422.
    """
    check_size("memories", n, options_of(request).max_batch, "in a request")


def tell_degraded(response: Response, matches: Matches) -> None:
    """Name in a header why a reply is degraded."""
    if matches.degraded:
        response.headers[DEGRADED] = ", ".join(str(one.reason) for one in matches.reasons)


def missing(what: str = "memory") -> ServiceError:
    """Return the 404 of what the caller does not have, whoever else may have one."""
    return ServiceError(404, "NotFoundError", f"id: expected a {what} that is there")


class Seen:
    """The methods of a store that doors call, each on behalf of one place.

    Parameters
    ----------
    memory : Memory
    place : Place
    """

    def __init__(self, memory: Memory, place: Place) -> None:
        """Hold the store, and on whose behalf it is asked."""
        self.memory, self.place = memory, place

    @property
    def _agent(self) -> Any:
        place, options = self.place, {"org": self.place.org, "workspace": self.place.workspace}
        return None if place.agent is None else self.memory.agent(place.agent, **options)  # type: ignore[arg-type]

    def _call(self, name: str) -> tuple[Callable[..., Awaitable[Any]], dict[str, str | None]]:
        """Return a method, and the keywords that name the place to it."""
        agent = self._agent
        if agent is None:
            return getattr(self.memory, name), self.place.names
        return getattr(agent, name), {}

    async def search(self, query: str, **options: Any) -> Matches:
        """Recall."""
        method, place = self._call("search")
        found: Matches = await method(query, **options, **place)
        return found

    async def get(self, key: str) -> Episode:
        """Return a memory.

        Raises
        ------
        ServiceError
            404.
        """
        method, place = self._call("get")
        found: Episode | None = await method(key, **place)
        if found is None:
            raise missing()
        return found

    async def history(self, key: str) -> Sequence[Version]:
        """Return all versions of a memory; none of one that is not there."""
        method, place = self._call("history")
        found: list[Version] = await method(key, **place)
        return found

    async def list(self, **options: Any) -> Sequence[Episode]:
        """Return memories, newest first."""
        method, place = self._call("list")
        found: list[Episode] = await method(**options, **place)
        return found

    async def remember(self, text: str, **fields: Any) -> Remembered:
        """Keep a memory."""
        method, place = self._call("remember")
        kept: Remembered = await method(text, **fields, **place)
        return kept

    async def update(self, key: str, reason: str = BY_REST, **changes: Any) -> Remembered:
        """Change a memory."""
        method, place = self._call("update")
        kept: Remembered = await method(key, reason=reason, **changes, **place)
        return kept

    async def forget(self, key: str, reason: str = BY_REST) -> None:
        """Take a memory out of recall.

        Raises
        ------
        ServiceError
            404.
        """
        method, place = self._call("forget")
        if not await method(key, reason=reason, **place):
            raise missing()

    def browse(self) -> Browse:
        """Return the memories as files; their methods are plain functions."""
        agent = self._agent
        if agent is None:
            return self.memory.browse(**self.place.names)
        files: Browse = agent.browse()
        return files
