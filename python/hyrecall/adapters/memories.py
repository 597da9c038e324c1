"""What adapters over a store share: the user whom every call names, and calls of either kind.

A store is a :class:`hyrecall.memory.Memory`, whose methods are awaited, or a
:class:`hyrecall.memory.MemorySync`, whose methods run on a thread here.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from hyrecall.base.workers import off_loop
from hyrecall.errors import DTypeError, ScopeError, error
from hyrecall.memory import Matches, Memory, MemorySync, Remembered

__all__ = ["Store", "read_store", "read_user", "remember", "search"]

Store: TypeAlias = Memory | MemorySync


def read_store(memory: object) -> Store:
    """Return the store; refuse anything else by name."""
    if isinstance(memory, Memory | MemorySync):
        return memory
    wish = "a hyrecall.memory.Memory or MemorySync"
    raise error(DTypeError, "memory", wish, type(memory).__name__)


def read_user(user_id: object) -> str:
    """Return the user whose memories a call may see: there is no default, and None is nobody."""
    if isinstance(user_id, str):
        return user_id
    wish = "the name of the user whose memories these are, a str"
    raise error(ScopeError, "user_id", wish, repr(user_id))


async def search(memory: Store, query: str, **options: Any) -> Matches:
    """Search a store of either kind off the event loop; options are those of ``search``."""
    if isinstance(memory, Memory):
        return await memory.search(query, **options)
    return await off_loop(memory.search, {"query": query, **options})


async def remember(memory: Store, text: str, **options: Any) -> Remembered:
    """Keep a text in a store of either kind off the event loop; options are Episode's fields."""
    if isinstance(memory, Memory):
        return await memory.remember(text, **options)
    return await off_loop(memory.remember, {"episode": text, **options})
