"""Turns a caller and its read policy into the cells it may see; in doubt into fewer."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Literal, TypeAlias

import apsw

from hyrecall.ask.scope import Scope
from hyrecall.base.arguments import check_keywords
from hyrecall.errors import DTypeError, OptionError, ScopeError, error
from hyrecall.memory.data.matches import Reading, ReadPolicyFault
from hyrecall.memory.data.types import check_user
from hyrecall.memory.sql.codec import (
    Cell,
    cells_of,
    cells_of_user,
    find_cells,
    has_named_users,
    lookup_order,
)
from hyrecall.memory.sql.reading import ReadPolicy, agents_of_group, read_policy

_log = logging.getLogger("hyrecall.memory")


class _Everyone(Enum):
    EVERYONE = "EVERYONE"

    def __repr__(self) -> str:
        return "hyrecall.memory.EVERYONE"


EVERYONE: Final = _Everyone.EVERYONE
"""Every user of an org and workspace: for those who administer a store, where a call takes it.

Recall never does. It must not come from a request.
"""

User: TypeAlias = "str | Literal[_Everyone.EVERYONE] | None"
"""A user, None for the anonymous one, or all users of a partition."""

Policy: TypeAlias = Literal["isolated", "shared", "group"]


@check_keywords
@dataclass(frozen=True)
class Partition:
    """A user of an org and workspace: one of those that a search goes through.

    Parameters
    ----------
    user_id, org, workspace : str, optional

    Examples
    --------
    >>> Partition("ann", org="acme", workspace="lab").org
    'acme'
    """

    user_id: str | None = None
    org: str | None = None
    workspace: str | None = None


@dataclass(frozen=True)
class AskedBy:
    """A caller: a user, who reads own memories, or an agent, whose read policy may admit more."""

    org: str | None = None
    workspace: str | None = None
    user: str | Literal[_Everyone.EVERYONE] | None = None
    is_agent: bool = False
    others: tuple[AskedBy, ...] = ()


@dataclass(frozen=True)
class Audience:
    """What a caller may see."""

    cells: dict[int, Cell]
    readings: tuple[Reading, ...]
    faults: tuple[ReadPolicyFault, ...] = ()
    has_named_users: bool = False

    @property
    def scope(self) -> Scope:
        """The cells as a scope of the index; without cells it admits no document."""
        return Scope([tuple(cell) for cell in self.cells.values()])


def read_partition(org: object, workspace: object, user: object) -> AskedBy:
    """Check the names of a partition and a user in it."""
    return AskedBy(
        None if org is None else check_user("org", org),
        None if workspace is None else check_user("workspace", workspace),
        check_user("user_id", user),
    )


def read_owner(org: object, workspace: object, user: object) -> AskedBy:
    """Check the names of a partition and a user in it, or ``EVERYONE`` of the partition."""
    if user is not EVERYONE:
        return read_partition(org, workspace, user)
    around = read_partition(org, workspace, None)
    return AskedBy(around.org, around.workspace, EVERYONE)


def read_caller(user: object, org: object, workspace: object, partitions: object) -> AskedBy:
    """Check a user in a partition, or several partitions in place of these."""
    if partitions is None:
        return read_partition(org, workspace, user)
    if (user, org, workspace) != (None, None, None):
        wish = "none beside user_id=, org= or workspace="
        raise error(OptionError, "partitions", wish, "both")
    return read_partitions(partitions)


def read_partitions(given: object) -> AskedBy:
    """Check the partitions that a search goes through: one or more, each once."""
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise error(DTypeError, "partitions", "a sequence of Partition", repr(given))
    for one in given:
        if not isinstance(one, Partition):
            raise error(DTypeError, "partitions", "a sequence of Partition", repr(one))
    if not given:
        raise error(OptionError, "partitions", "one or more", "none")
    asked = (read_partition(one.org, one.workspace, one.user_id) for one in given)
    first, *others = dict.fromkeys(asked)
    return replace(first, others=tuple(others))


def read_agent(agent: object, org: object, workspace: object) -> AskedBy:
    """Check the names of an agent; one with a blank name sees no other user's memories."""
    for name, given in (("org", org), ("workspace", workspace)):
        if not isinstance(given, str) or not given.strip():
            wish = "a name: an agent has an org and a workspace"
            raise error(ScopeError, name, wish, repr(given))
    blank = isinstance(agent, str) and not agent.strip()
    who = "" if blank else check_user("agent", agent)
    return AskedBy(check_user("org", org), check_user("workspace", workspace), who, is_agent=True)


def audience(connection: apsw.Connection, asked: AskedBy) -> Audience:
    """Return the cells that a caller may see, read in one transaction."""
    # How long it takes does not tell how many others there are, but where a policy admits them all.
    if asked.others:
        parts = [audience(connection, one) for one in (replace(asked, others=()), *asked.others)]
        return Audience(
            {number: cell for part in parts for number, cell in part.cells.items()},
            tuple(reading for part in parts for reading in part.readings),
            tuple(fault for part in parts for fault in part.faults),
            any(part.has_named_users for part in parts),
        )
    org, workspace, user = asked.org, asked.workspace, asked.user
    if user is EVERYONE:
        return Audience(cells_of(connection, org, workspace), (Reading(org, workspace, None),))
    own = cells_of_user(connection, org, workspace, user)
    if not asked.is_agent:
        named = user is None and has_named_users(connection, org, workspace)
        return Audience(own, (Reading(org, workspace, user),), (), named)
    policy, group, faults = _policy(connection, asked, user)
    others = _others(connection, asked, policy, group)
    return Audience(own | others, (Reading(org, workspace, user, policy),), faults)


def own_first(cells: Mapping[int, Cell], by: AskedBy) -> list[tuple[int, Cell]]:
    """Return cells in the order in which an id is looked up: own before others', private first."""
    return sorted(cells.items(), key=lambda one: (one[1].user != by.user, lookup_order(*one)))


def _policy(
    connection: apsw.Connection, asked: AskedBy, user: str | None
) -> tuple[Policy, str | None, tuple[ReadPolicyFault, ...]]:
    """Return the policy in force and its group; a fault in its settings selects the closed one."""
    entry: ReadPolicy | None = None
    if user is None or not user.strip():
        reason = "a blank agent"
    else:
        entry = read_policy(connection, asked.org, asked.workspace, user)
        if entry is None:
            return "isolated", None, ()
        match entry.policy:
            case "isolated" | "shared" | "group" as known:
                return known, entry.policy_group, ()
        reason = "an unknown policy"
    said = None if entry is None else entry.policy
    _log.warning("a read policy is not followed: %s", reason)
    return "isolated", None, (ReadPolicyFault(asked.org, asked.workspace, user, said, reason),)


def _others(
    connection: apsw.Connection, asked: AskedBy, policy: Policy, group: str | None
) -> dict[int, Cell]:
    """Return the cells of others that a policy admits: global ones only."""
    org, workspace = asked.org, asked.workspace
    if policy == "shared":
        return cells_of(connection, org, workspace, visibility="global")
    if policy == "isolated" or group is None or not group.strip():
        return {}
    members = agents_of_group(connection, org, workspace, group)
    return _known(connection, (Cell(org, workspace, one, "global") for one in members))


def _known(connection: apsw.Connection, cells: Iterable[Cell]) -> dict[int, Cell]:
    """Return the cells, of every table, in which something was ever kept."""
    return {number: one for cell in cells for number, one in find_cells(connection, cell).items()}
