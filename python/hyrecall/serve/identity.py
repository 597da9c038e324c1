"""Who calls, and what it may do: plain data, for a service over HTTP and over MCP alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

__all__ = ["ANYBODY", "RIGHTS", "Caller", "Right", "free_names"]

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


def free_names(who: Caller) -> tuple[str, ...]:
    """Return which of ``user_id``, ``org`` and ``workspace`` a request of a caller may name."""
    # They are those that the caller leaves open and may choose; an agent leaves no user open.
    may = {"user_id": who.may_choose_user and who.agent is None}
    may |= dict.fromkeys(("org", "workspace"), who.may_choose_partition)
    return tuple(name for name, is_free in may.items() if is_free and getattr(who, name) is None)


ANYBODY = Caller(rights=RIGHTS, may_choose_user=True, may_choose_partition=True, cells=None)
"""Who calls a service without tokens, which only this machine can reach."""
