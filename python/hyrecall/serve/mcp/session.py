"""Carries out the calls of one caller on a store: every read and write goes through here.

A `CallerSession` adds the caller's user, agent and partition to each call, so that no tool can
forget them, and checks the right to write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from hyrecall import recipes
from hyrecall.ask.recipe import Recipe
from hyrecall.errors import DTypeError, NotFoundError, OptionError, ScopeError, error
from hyrecall.memory import (
    AgentMemory,
    Browse,
    Episode,
    Matches,
    Memory,
    Remembered,
    Version,
)
from hyrecall.memory.changes import TEXT_FIELDS
from hyrecall.memory.data.types import check_id
from hyrecall.memory.derived.layout import serves
from hyrecall.memory.sql.reading import Accesses
from hyrecall.serve.options import Caller, Right, free_names
from hyrecall.serve.verbs import CallersStore

DEFAULT_USER: Final = "user"
"""Whose memories the tools of l0 keep where nobody is named: l0's own default scope."""


def served_recipes(memory: Memory) -> dict[str, Recipe]:
    """Return the recipes that share the index of a store, by name."""
    store = memory._sync._store
    named = {name: getattr(recipes, name) for name in recipes.__all__}
    served = {name: one for name, one in named.items() if serves(store.layout, one)}
    return served | {store.recipe.name: store.recipe}  # which may have weights of its own


@dataclass(frozen=True)
class CallerSession:
    """A store and a caller.

    Attributes
    ----------
    memory : Memory
    caller : Caller
    """

    memory: Memory
    caller: Caller

    @property
    def is_free(self) -> bool:
        """Whether a call may name any user of the partition."""
        return "user_id" in free_names(self.caller)

    def narrowed(self, asked: Mapping[str, Any]) -> CallerSession:
        """Return the session of the user, org and workspace that a call names."""
        free = free_names(self.caller)
        for name, value in asked.items():
            if not isinstance(value, str):
                raise error(DTypeError, name, "a string", type(value).__name__)
            if name not in free:
                raise error(ScopeError, name, "the caller's own, or none", "another")
            check_id(name, value)
        return CallerSession(self.memory, replace(self.caller, **asked)) if asked else self

    def of_user(self, user_id: str) -> CallerSession:
        """Return the session of a user that a call names as its scope."""
        if user_id == self.user_id:
            return self
        if not self.is_free:
            raise error(ScopeError, "scope", "the caller's own, or none", "another")
        return self.narrowed({"user_id": user_id})

    @property
    def user_id(self) -> str | None:
        """Whose memories are read and written."""
        return self.caller.agent if self.caller.agent is not None else self.caller.user_id

    @property
    def where(self) -> dict[str, Any]:
        """The user and its partition, as the methods of a store take them."""
        one = self.caller
        return {"user_id": one.user_id, "org": one.org, "workspace": one.workspace}

    @property
    def agent(self) -> AgentMemory | None:
        """The store as the agent sees it, if the caller is one."""
        one = self.caller
        if one.agent is None:
            return None
        return self.memory.agent(one.agent, org=one.org or "", workspace=one.workspace or "")

    # ---- reading ----

    async def search(self, text: str, *, recipe: str | None = None, **options: Any) -> Matches:
        """Recall, by a recipe that the store serves.

        Raises
        ------
        OptionError
            A recipe of another index.
        """
        chosen = None if recipe is None else self.recipe(recipe)
        found: Matches = await self._call("search", text, recipe=chosen, **options)
        return found

    def recipe(self, name: str) -> Recipe:
        """Return a recipe by its name.

        Raises
        ------
        OptionError
            The store's index does not serve it.
        """
        served = served_recipes(self.memory)
        if name not in served:
            raise error(OptionError, "recipe", f"one of {', '.join(served)}", repr(name[:80]))
        return served[name]

    async def get(self, key: str) -> Episode | None:
        """Return a memory, or None."""
        found: Episode | None = await self._call("get", key)
        return found

    async def newest(self, **options: Any) -> list[Episode]:
        """Return memories, newest first."""
        found: list[Episode] = await self._call("list", **options)
        return found

    async def history(self, key: str) -> tuple[Version, ...]:
        """Return the versions of a memory, oldest first."""
        return tuple(await self._call("history", key))

    async def accesses(self, keys: Sequence[str]) -> dict[str, Accesses]:
        """Return the accesses of memories, and when each was last written."""
        view = CallersStore(self.memory._sync, self.caller).view
        return await self.memory._run(view.accesses, keys)

    async def ends(self, episodes: Sequence[Episode]) -> list[datetime | None]:
        """Return when each memory ends, if it is a fact."""
        view = CallersStore(self.memory._sync, self.caller).view
        return await self.memory._run(view.ends, episodes)

    async def browse(self, method: str, *args: Any, **options: Any) -> Any:
        """Call a method of :class:`Browse` on a thread."""
        agent = self.agent
        files: Browse = self.memory.browse(**self.where) if agent is None else agent.browse()
        return await self.memory._run(getattr(files, method), *args, **options)

    # ---- writing ----

    async def remember(self, text: str, **fields: Any) -> Remembered:
        """Keep a memory."""
        kept: Remembered = await self._write("remember", text, author="agent", **fields)
        return kept

    async def update(self, key: str, reason: str | None, changes: Mapping[str, Any]) -> Remembered:
        """Change a memory. An agent has to give a reason."""
        said = {} if TEXT_FIELDS.isdisjoint(changes) else {"author": "agent"}
        kept: Remembered = await self._write("update", key, reason=reason, **changes, **said)
        return kept

    async def forget(self, key: str, reason: str | None) -> int:
        """Take a memory out of recall. An agent has to give a reason."""
        n_gone: int = await self._write("forget", key, reason=reason)
        return n_gone

    def check_right(self, right: Right) -> None:
        """Refuse a caller that lacks a right."""
        if right not in self.caller.rights:
            raise error(ScopeError, "caller", f"the right to {right}", "a caller without it")

    async def _call(self, method: str, *args: Any, **options: Any) -> Any:
        if (agent := self.agent) is not None:
            return await getattr(agent, method)(*args, **options)
        return await getattr(self.memory, method)(*args, **self.where, **options)

    async def _write(self, method: str, *args: Any, **options: Any) -> Any:
        self.check_right("write")
        if self.caller.agent is not None and options.get("reason", "") is None:
            raise error(OptionError, "reason", "a reason, which agents have to give", "none")
        return await self._call(method, *args, **options)


def missing() -> Exception:
    """Return the error of a memory that the caller does not have, whoever else may have one."""
    return error(NotFoundError, "id", "a memory of the caller", "none")
