"""The store of the caller of a tool: checks of rights, and calls that tools make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from hyrecall import recipes
from hyrecall.ask.recipe import Recipe
from hyrecall.errors import DTypeError, OptionError, ScopeError, error
from hyrecall.memory import Matches, Memory, Remembered
from hyrecall.memory.changes import TEXT_FIELDS
from hyrecall.memory.data.types import check_id
from hyrecall.memory.derived.layout import serves
from hyrecall.serve.options import Right, free_names
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
class CallerSession(CallersStore):
    """The store of the caller of a tool."""

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
        if not self.caller.may_name_any:
            raise error(ScopeError, "scope", "the caller's own, or none", "another")
        return self.narrowed({"user_id": user_id})

    @property
    def user_id(self) -> str | None:
        """Whose memories are read and written."""
        return self.caller.agent if self.caller.agent is not None else self.caller.user_id

    # ---- reading ----

    async def search(self, text: str, *, recipe: str | None = None, **options: Any) -> Matches:
        """Recall, by a recipe that the store serves.

        Raises
        ------
        OptionError
            A recipe of another index.
        """
        chosen = None if recipe is None else self.recipe(recipe)
        found: Matches = await self.call("search", text, recipe=chosen, **options)
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

    async def forget(self, key: str, **options: Any) -> int:
        """Take a memory out of recall. An agent has to give a reason."""
        self._check_write(**options)
        return await super().forget(key, **options)

    def check_right(self, right: Right) -> None:
        """Refuse a caller that lacks a right."""
        if right not in self.caller.rights:
            raise error(ScopeError, "caller", f"the right to {right}", "a caller without it")

    async def _write(self, method: str, *args: Any, **options: Any) -> Any:
        self._check_write(**options)
        return await self.call(method, *args, **options)

    def _check_write(self, **options: Any) -> None:
        self.check_right("write")
        if self.caller.agent is not None and options.get("reason", "") is None:
            raise error(OptionError, "reason", "a reason, which agents have to give", "none")
