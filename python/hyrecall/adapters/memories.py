"""What adapters for agents share: the memories of one user, and what a model reads of them.

A store is a :class:`hyrecall.memory.Memory`, whose methods are awaited, or a
:class:`hyrecall.memory.MemorySync`, whose methods run on a thread here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

from hyrecall.adapters.degraded import warn_if_degraded
from hyrecall.adapters.extras import at_least_1
from hyrecall.errors import DTypeError, ScopeError, error
from hyrecall.memory import EpisodeMatch, Matches, Memory, MemorySync
from hyrecall.memory.data.matches import is_answerable, known_confidence
from hyrecall.memory.data.types import check_id

Store: TypeAlias = Memory | MemorySync

ALL: Final = 2**31 - 1  # the limit of a list that has no limit

TOLD_OF_RECALL: Final = (
    "Search what is remembered of this user: facts, preferences, earlier conversations."
)


class OwnsStore:
    """Closes its store if it opened the store itself, not if the store was passed in."""

    _opened: MemorySync | None = None

    def close(self) -> None:
        """Close the store if ``open`` has opened it. Closing twice is fine."""
        if self._opened is not None:
            self._opened.close()

    def __enter__(self) -> Self:
        """Return the object."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close it."""
        self.close()


def read_store(memory: object) -> Store:
    """Return the store; refuse anything else by name."""
    if isinstance(memory, Memory | MemorySync):
        return memory
    wish = "a hyrecall.memory.Memory or MemorySync"
    raise error(DTypeError, "memory", wish, type(memory).__name__)


def read_user(user_id: object) -> str:
    """Return the user whose memories a call may see: no default, and None and "" are nobody."""
    if isinstance(user_id, str) and user_id.strip():
        return user_id
    wish = "the id of the user whose memories these are, a str that is not blank"
    raise error(ScopeError, "user_id", wish, repr(user_id))


def check_limit_and_kind(limit: object, kind: object) -> None:
    """Refuse, when a tool is made, a limit or a kind that every call of it would refuse."""
    at_least_1("limit", limit)
    if kind is not None:
        check_id("kind", kind)


@dataclass(frozen=True)
class UserMemories:
    """The memories of one user, in an org and workspace; each call runs off the event loop."""

    memory: Store
    user_id: str
    org: str | None = None
    workspace: str | None = None

    def __post_init__(self) -> None:
        """Check the store and the user."""
        read_store(self.memory)
        read_user(self.user_id)

    @property
    def owner(self) -> dict[str, str | None]:
        """The user and the partition, as options of a call."""
        return {"user_id": self.user_id, "org": self.org, "workspace": self.workspace}

    async def call(self, method: str, *args: Any, **options: Any) -> Any:
        """Call a method of the store for this user."""
        return await self.call_for_all(method, *args, **self.owner, **options)

    async def call_for_all(self, method: str, *args: Any, **options: Any) -> Any:
        """Call a method of the store whose arguments say whose memories they are."""
        function = getattr(self.memory, method)
        if isinstance(self.memory, Memory):
            return await function(*args, **options)
        return await asyncio.to_thread(function, *args, **options)

    async def search(self, query: str, **options: Any) -> list[EpisodeMatch]:
        """Search the memories of this user, and return those that match the query."""
        return without_fills(await self.call("search", query, **options))

    async def recall(self, query: str, **options: Any) -> str:
        """Search, and return what a model reads of the matches."""
        matches: Matches = await self.call("search", query, **options)
        sure = await asyncio.to_thread(known_confidence, matches)
        return as_lines(without_fills(matches), sure)


def memories_of(
    memory: object, user_id: Any, org: str | None, workspace: str | None
) -> Callable[[Any], UserMemories]:
    """Return whose memories a run of a tool sees: those of a user, or of what a function says."""
    store = read_store(memory)
    if callable(user_id):
        return lambda run: UserMemories(store, user_id(run), org, workspace)
    fixed = UserMemories(store, user_id, org, workspace)
    return lambda run: fixed


def without_fills(matches: Matches) -> list[EpisodeMatch]:
    """Return the matches of a query without the fill of Loom's recipe; degraded ones warn."""
    warn_if_degraded(matches.reasons)
    return [one for one in matches if not one.is_fill]


def as_lines(matches: Iterable[EpisodeMatch], sure: float | None) -> str:
    """Return what a model reads of matches: a line with the day for each, and whether to doubt."""
    said = ((one.episode.occurred_at, " ".join(one.episode.full_text.split())) for one in matches)
    lines = [f"- {time.date().isoformat()}: {text}" for time, text in said if text]
    if lines and sure is not None and not is_answerable(sure):
        lines.append(f"Probably nothing here answers (confidence {sure:.2f}).")
    return "\n".join(lines) or "No memories were found."
