"""A store is shared as a folder: pickling one is refused, and the error says what to do instead."""

import asyncio
import copy
import pickle

import pytest

from hyrecall.errors import DTypeError
from hyrecall.memory import Memory, MemorySync

TOLD = (
    "pickle: expected a folder that each process opens, got an open store; "
    "in each process MemorySync.open(path)"
)


def test_a_store_and_an_agents_view_refuse_to_be_pickled_and_say_what_to_do() -> None:
    with MemorySync.in_memory(embedder=None) as memory:
        for shared in (memory, memory.agent("planner", org="acme", workspace="lab")):
            for take in (pickle.dumps, copy.deepcopy):
                with pytest.raises(DTypeError) as raised:
                    take(shared)
                assert str(raised.value) == TOLD


def test_an_asynchronous_store_refuses_to_be_pickled_too() -> None:
    async def main() -> list[str]:
        told = []
        async with Memory.in_memory(embedder=None) as memory:
            for shared in (memory, memory.agent("planner", org="acme", workspace="lab")):
                with pytest.raises(DTypeError) as raised:
                    pickle.dumps(shared)
                told.append(str(raised.value))
        return told

    assert asyncio.run(main()) == [TOLD, TOLD]
