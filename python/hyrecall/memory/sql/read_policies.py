"""Reads and sets the read policies of agents: what each may read beside its own memories."""

from __future__ import annotations

from typing import NamedTuple

import apsw

from hyrecall.errors import OptionError, error
from hyrecall.memory.data.fields import check_id
from hyrecall.memory.sql.schema import take_sequence

__all__ = ["POLICIES", "ReadPolicy", "agents_of_group", "read_policy", "set_policy"]

POLICIES = ("isolated", "shared", "group")

# Null is a partition of its own. The same expressions as in the index roster_identity.
_PARTITION = (
    "ifnull(org, '') = ifnull(?1, '') AND (org IS NULL) = (?1 IS NULL) AND "
    "ifnull(workspace, '') = ifnull(?2, '') AND (workspace IS NULL) = (?2 IS NULL)"
)


class ReadPolicy(NamedTuple):
    """The read policy of an agent. A reader must treat an unknown policy as the strictest.

    Attributes
    ----------
    policy : str
        "isolated": its own; "shared": what others of the partition keep as global too; "group":
        of these, what agents of its group keep.
    policy_group : str or None
    """

    policy: str
    policy_group: str | None


def set_policy(
    connection: apsw.Connection,
    org: str | None,
    workspace: str | None,
    agent: str,
    policy: str,
    group: str | None,
) -> None:
    """Insert or replace the read policy of an agent."""
    check_id("agent", agent)
    if not isinstance(policy, str) or policy not in POLICIES:
        raise error(OptionError, "policy", " | ".join(map(repr, POLICIES)), repr(policy))
    if group is not None:
        check_id("policy_group", group)
    given = (org, workspace, agent, policy, group)
    change = f"UPDATE roster SET policy = ?4, policy_group = ?5 WHERE {_PARTITION} AND agent = ?3"
    connection.execute(change, given)
    if not connection.changes():
        insert = (
            "INSERT INTO roster (org, workspace, agent, policy, policy_group) "
            "VALUES (?, ?, ?, ?, ?)"
        )
        connection.execute(insert, given)
    take_sequence(connection)  # so that its loss would be noticed


def read_policy(
    connection: apsw.Connection, org: str | None, workspace: str | None, agent: str
) -> ReadPolicy | None:
    """Return the read policy of an agent, or None if none was set."""
    select = f"SELECT policy, policy_group FROM roster WHERE {_PARTITION} AND agent = ?3"
    found = connection.execute(select, (org, workspace, agent)).get
    return None if found is None else ReadPolicy(*found)


def agents_of_group(
    connection: apsw.Connection, org: str | None, workspace: str | None, group: str
) -> list[str]:
    """Return the agents of a partition that were entered with policy "group" and this group."""
    select = (
        f"SELECT agent FROM roster WHERE {_PARTITION} AND policy = 'group' AND policy_group = ?3 "
        "ORDER BY agent"
    )
    return [agent for (agent,) in connection.execute(select, (org, workspace, group))]
