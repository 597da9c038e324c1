"""A plugin of pytest: ours in the place of loomflow's memories, with a planted bug."""

from typing import Any

from adapters.loomflow_in_place import InMemoryMemory, pytest_unconfigure
from hyrecall.systems.loom.loomflow import HyrecallMemory

__all__ = ["pytest_unconfigure"]


async def _forget_every_session(self: Any, *, session_id: Any = None, **options: Any) -> int:
    return await HyrecallMemory.forget(self, **options)


InMemoryMemory.forget = _forget_every_session  # type: ignore[method-assign, assignment]
