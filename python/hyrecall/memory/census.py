"""Lists users, agents and sessions of a store, with how many memories each has.

The functions are methods of :class:`hyrecall.memory.MemorySync`, which passes the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from hyrecall.base.arguments import check_keywords
from hyrecall.memory.recall.audience import EVERYONE, audience, read_owner, read_partition
from hyrecall.memory.recall.call import read_limit
from hyrecall.memory.sql.reading import (
    Counted,
    ReadPolicy,
    policies_of,
    tally_by_cell,
    tally_by_session,
)
from hyrecall.memory.store import Store


@check_keywords
@dataclass(frozen=True)
class UserEntry:
    """A user of a partition and what it has.

    Attributes
    ----------
    user_id : str or None
        None: the anonymous one.
    memories : int
        How many it has that can be found, facts too.
    newest : datetime
        When the last of them happened.
    """

    user_id: str | None
    memories: int
    newest: datetime


@check_keywords
@dataclass(frozen=True)
class AgentEntry:
    """An agent with a read policy.

    Attributes
    ----------
    agent : str
    policy : {"isolated", "shared", "group"}
    policy_group : str or None
    memories : int
        How many it has of its own.
    """

    agent: str
    policy: str
    policy_group: str | None
    memories: int


@check_keywords
@dataclass(frozen=True)
class SessionEntry:
    """A conversation of a user.

    Attributes
    ----------
    session_id : str
    memories : int
    oldest, newest : datetime
        When the first and the last of them happened.
    """

    session_id: str
    memories: int
    oldest: datetime
    newest: datetime


def list_users(
    store: Store,
    *,
    org: str | None = None,
    workspace: str | None = None,
    limit: int = 200,
    offset: int = 0,
) -> list[UserEntry]:
    """Return the users of a partition that have memories, by name; for those who keep the store.

    Parameters
    ----------
    org, workspace : str, optional
        The partition.
    limit, offset : int, default 200, 0
        Each in [0, 2^31).

    Returns
    -------
    list of UserEntry
        The anonymous one first. Agents are users, too.

    Examples
    --------
    >>> from hyrecall.memory import MemorySync
    >>> from hyrecall.recipes import loom
    >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
    ...     for user in ("bob", "ann", "bob"):
    ...         kept = memory.remember("Tea at four", user_id=user)
    ...     [(one.user_id, one.memories) for one in memory.list_users()]
    [('ann', 1), ('bob', 2)]
    """
    first, most = read_limit("offset", offset), read_limit("limit", limit)
    found: dict[str | None, Counted] = {}
    for user, own in _by_user(store, org, workspace):
        had = found.get(user, Counted(0, own.oldest, own.newest))
        n, newest = had.memories + own.memories, max(had.newest, own.newest)
        found[user] = Counted(n, min(had.oldest, own.oldest), newest)
    names = sorted(found, key=lambda name: (name is not None, name or ""))
    page = names[first : first + most]
    return [UserEntry(name, found[name].memories, found[name].newest) for name in page]


def list_agents(
    store: Store,
    *,
    org: str | None = None,
    workspace: str | None = None,
    limit: int = 200,
    offset: int = 0,
) -> list[AgentEntry]:
    """Return the agents of a partition that have a read policy, by name.

    Parameters
    ----------
    org, workspace : str, optional
        The partition.
    limit, offset : int, default 200, 0
        Each in [0, 2^31).

    Returns
    -------
    list of AgentEntry

    Examples
    --------
    >>> from hyrecall.memory import MemorySync
    >>> from hyrecall.recipes import loom
    >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
    ...     memory.set_policy("planner", org="acme", workspace="lab", policy="shared")
    ...     [(one.agent, one.policy) for one in memory.list_agents(org="acme", workspace="lab")]
    [('planner', 'shared')]
    """
    first, most = read_limit("offset", offset), read_limit("limit", limit)
    own: dict[str | None, int] = {}
    for user, tally in _by_user(store, org, workspace):
        own[user] = own.get(user, 0) + tally.memories
    by = read_owner(org, workspace, EVERYONE)
    with store.database.reading() as connection:
        policies: dict[str, ReadPolicy] = policies_of(connection, by.org, by.workspace)
    page = list(policies)[first : first + most]
    return [AgentEntry(name, *policies[name], own.get(name, 0)) for name in page]


def _by_user(
    store: Store, org: str | None, workspace: str | None
) -> list[tuple[str | None, Counted]]:
    """Return user and tally of each cell of a partition."""
    with store.database.reading() as connection:
        cells = audience(connection, read_owner(org, workspace, EVERYONE)).cells
        return [(cells[at].user, tally) for at, tally in tally_by_cell(connection, cells).items()]


def list_sessions(
    store: Store,
    *,
    user_id: str | None = None,
    org: str | None = None,
    workspace: str | None = None,
    limit: int = 200,
    offset: int = 0,
) -> list[SessionEntry]:
    """Return the conversations of a user, the one with the newest memory first.

    Parameters
    ----------
    user_id, org, workspace : str, optional
        The user and its partition.
    limit, offset : int, default 200, 0
        Each in [0, 2^31).

    Returns
    -------
    list of SessionEntry

    Examples
    --------
    >>> from hyrecall.memory import MemorySync
    >>> from hyrecall.recipes import loom
    >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
    ...     for text in ("Tea at four", "With milk"):
    ...         kept = memory.remember(text, user_id="ann", session_id="monday")
    ...     [(one.session_id, one.memories) for one in memory.list_sessions(user_id="ann")]
    [('monday', 2)]
    """
    page = read_limit("limit", limit), read_limit("offset", offset)
    with store.database.reading() as connection:
        cells = audience(connection, read_partition(org, workspace, user_id)).cells
        found = tally_by_session(connection, cells, *page)
    return [SessionEntry(name, *tally) for name, tally in found.items()]
