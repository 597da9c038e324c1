"""The store as a caller sees it, at every door: no route and no tool can leave the scope out.

It also answers the verbs of :mod:`hyrecall.memory.ops` as plain data.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from hyrecall.errors import KeyConflictError, NotFoundError, OptionError, ScopeError, error
from hyrecall.memory import AgentMemorySync, Episode, Memory
from hyrecall.memory.ops import Op, as_call, with_needed
from hyrecall.memory.replies import REPLIES
from hyrecall.memory.sql.reading import Accesses
from hyrecall.memory.store import Store
from hyrecall.memory.view import View
from hyrecall.serve.options import Caller

T_ = TypeVar("T_")


@dataclass(frozen=True)
class CallersStore:
    """The store of a caller, whose user, agent and partition it adds to each call.

    Attributes
    ----------
    memory : Memory
    caller : Caller
        Narrowed by what the call asks. An agent's calls go by its read policy.
    """

    memory: Memory
    caller: Caller

    @property
    def where(self) -> dict[str, str | None]:
        """The user and its partition, as the methods of a store take them."""
        one = self.caller
        user = one.user_id if one.agent is None else None
        return {"user_id": user, "org": one.org, "workspace": one.workspace}

    @property
    def opened(self) -> Store:
        """What the store's handle holds: its recipe, its layout."""
        return self.memory._sync._store

    @property
    def of_agent(self) -> AgentMemorySync:
        """The store as the agent sees it, which the store refuses without a partition."""
        one: Any = self.caller
        return self.memory._sync.agent(one.agent, org=one.org, workspace=one.workspace)

    @property
    def view(self) -> View:
        """The store's view of the caller, whose methods block."""
        if self.caller.agent is not None:
            return self.of_agent._view
        return self.memory._sync._view(**self.where)

    # ---- methods of the store ----

    async def run(self, work: Callable[[], T_]) -> T_:
        """Call a function on a thread of the store."""
        return await self.memory._run(work)

    def sync(self, name: str, *args: Any, **options: Any) -> Any:
        """Call a method of the store; blocks."""
        if self.caller.agent is None:
            return getattr(self.memory._sync, name)(*args, **options, **self.where)
        return getattr(self.of_agent, name)(*args, **options)

    async def call(self, name: str, *args: Any, **options: Any) -> Any:
        """Await a method of the store."""
        one: Any = self.caller
        if one.agent is None:
            return await getattr(self.memory, name)(*args, **options, **self.where)
        agent = self.memory.agent(one.agent, org=one.org, workspace=one.workspace)
        return await getattr(agent, name)(*args, **options)

    async def get(self, key: str) -> Episode | None:
        """Return a memory, or None."""
        found: Episode | None = await self.call("get", key)
        return found

    async def existing(self, key: str) -> Episode:
        """Return a memory; refuse an id of none, whoever else may have one."""
        found = await self.get(key)
        if found is None:
            raise missing()
        return found

    async def forget(self, key: str, **options: Any) -> int:
        """Take a memory out of recall."""
        n_gone: int = await self.call("forget", key, **options)
        if not n_gone:
            raise missing()
        return n_gone

    async def accesses(self, keys: Sequence[str]) -> dict[str, Accesses]:
        """Return the accesses of memories, and when each was last written."""
        return await self.run(lambda: self.view.accesses(keys))

    async def ends(self, episodes: Sequence[Episode]) -> list[datetime | None]:
        """Return when each memory ends, if it is a fact."""
        return await self.run(lambda: self.view.ends(episodes))

    async def browse(self, method: str, *args: Any, **options: Any) -> Any:
        """Call a method of :class:`hyrecall.memory.Browse` on a thread."""
        return await self.run(lambda: getattr(self.view.browse(), method)(*args, **options))

    # ---- verbs ----

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
        return op.method(self.memory._sync, **as_call(op, given, scope))

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


def missing() -> Exception:
    """Return the error of a memory that the caller does not have."""
    return error(NotFoundError, "id", "a memory of the caller", "none")
