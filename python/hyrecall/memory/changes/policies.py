"""The change of an agent's read policy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

import apsw

from hyrecall.memory.changes.change import Change
from hyrecall.memory.sql import read_policies

__all__ = ["SetPolicy"]


@dataclass(frozen=True)
class SetPolicy(Change[None]):
    """Set what an agent may read beside its own memories."""

    is_offered: ClassVar[bool] = False  # it changes no document

    org: str | None
    workspace: str | None
    agent: str
    policy: str
    policy_group: str | None = None

    def run(self, connection: apsw.Connection, now: datetime) -> None:
        """Insert or replace the entry of the agent."""
        del now
        read_policies.set_policy(
            connection, self.org, self.workspace, self.agent, self.policy, self.policy_group
        )
