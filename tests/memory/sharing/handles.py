"""Handles of shared stores in one process; conftest.py closes them after each test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hyrecall.memory import MemorySync
from memory.sharing.peer import USER, open_it

HANDLES: list[MemorySync] = []
"""Those that are open."""


def opened(folder: Path, **options: Any) -> MemorySync:
    made = open_it(str(folder), **options)
    HANDLES.append(made)
    return made


def is_owner(memory: MemorySync) -> bool:
    shared = memory._store._shared
    return shared is not None and shared.owner is not None


def ids(memory: MemorySync) -> list[str]:
    return sorted(one.id for one in memory.list(user_id=USER, limit=100_000))
