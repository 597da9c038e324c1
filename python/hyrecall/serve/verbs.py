"""Answers the verbs of :mod:`hyrecall.memory.ops` for a caller, as plain data, at every door."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hyrecall.errors import KeyConflictError, NotFoundError, OptionError, ScopeError, error
from hyrecall.memory import AgentMemorySync, MemorySync
from hyrecall.memory.ops import Op, as_call, with_needed
from hyrecall.memory.replies import REPLIES
from hyrecall.memory.view import View
from hyrecall.serve.options import Caller


@dataclass(frozen=True)
class CallersStore:
    """The store as a caller sees it; its methods block.

    Attributes
    ----------
    memory : MemorySync
    caller : Caller
        Narrowed by what the call asks. An agent's calls go by its read policy.
    """

    memory: MemorySync
    caller: Caller

    @property
    def of_agent(self) -> AgentMemorySync:
        """The store as the agent sees it, which the store refuses without a partition."""
        one: Any = self.caller
        return self.memory.agent(one.agent, org=one.org, workspace=one.workspace)

    @property
    def view(self) -> View:
        """The store's view of the caller."""
        one = self.caller
        if one.agent is not None:
            return self.of_agent._view
        return self.memory._view(one.user_id, one.org, one.workspace)

    def answer(self, op: Op, given: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a verb as plain data. Long lists are iterators."""
        if "agent" in op.parameters:
            given = {**given, "agent": self._agent_meant(op, given.get("agent"))}
        found = self._call(op, given)
        if op.name == "get" and found is None:
            raise error(NotFoundError, "id", op.missing, "none")
        return REPLIES[op.name][1](found, given, self.view)

    def answer_once(self, op: Op, given: Mapping[str, Any], key: str) -> dict[str, Any]:
        """Answer a verb that keeps a memory, or tell again what was kept under a key.

        The key and who calls make the id of the memory, where the call names none.
        """
        name = "new_id" if op.name == "supersede" else "id"
        if given.get(name) is not None:
            return self.answer(op, given)
        made = self.id_of(op.name, key, {one: it for one, it in given.items() if it is not None})
        try:
            return self.kept_as(made) or self.answer(op, {**given, name: made})
        except (KeyConflictError, NotFoundError):  # the same call came twice at once
            kept = self.kept_as(made)
            if kept is None:
                raise
            return kept

    def id_of(self, verb: str, key: str, given: object) -> str:
        """Return the id of what a call keeps under a key: of the key, then of what is given."""
        one = self.caller
        who = (one.user_id, one.org, one.workspace, one.agent)
        parts = ([*who, verb, key], given)
        texts = (json.dumps(part, sort_keys=True, default=str) for part in parts)
        first, second = (hashlib.sha256(text.encode("utf-8", "replace")) for text in texts)
        return f"once_{first.hexdigest()[:24]}{second.hexdigest()[:8]}"

    def kept_as(self, made: str) -> dict[str, Any] | None:
        """Return what was replied when an id of :meth:`id_of` was kept; None: it was not."""
        kept = self.view.kept_under(made[:-8])
        if kept is None:
            return None
        if kept[0] != made:
            wish = "another one for another call"
            raise error(OptionError, "Idempotency-Key", wish, "one that was used")
        return {"id": made, "version": 1, "embedded": kept[1], "reasons": []}

    def _call(self, op: Op, given: Mapping[str, Any]) -> Any:
        """Return what the method of a verb returns."""
        one = self.caller
        if op.is_of_all and not one.may_name_any:
            raise error(ScopeError, op.name, "a caller that may name any user", "another")
        if one.agent is not None and "agent" not in op.parameters:
            if not op.is_at("agent"):
                raise error(ScopeError, op.name, "a user: agents do not do this", "an agent")
            method = getattr(self.of_agent, op.name)
            return method(**as_call(op, with_needed(op, "agent", given), {}))
        scope = {name: getattr(one, name) for name in op.scope}
        return op.method(self.memory, **as_call(op, given, scope))

    def _agent_meant(self, op: Op, agent: str | None) -> str:
        """Return the agent that a call is about: each caller may read its own policy."""
        one = self.caller
        own = one.user_id if one.agent is None else one.agent
        names_any = one.may_name_any
        if not names_any and op.effect != "reads":
            raise error(ScopeError, "caller", "one that may name any user", "another")
        meant = own if agent is None else agent
        if meant is None:
            raise error(OptionError, "agent", "the name of an agent", "none")
        if not names_any and meant != own:
            raise error(ScopeError, "agent", "the caller's own, or none", "another")
        return meant
