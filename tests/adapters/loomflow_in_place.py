"""A plugin of pytest: loomflow's tests of its memories run against ours, one class for three."""

from typing import Any

import loomflow
from loomflow.memory import inmemory, sqlite, vector

from hyrecall.embed import HashEmbedder
from hyrecall.systems.loom.loomflow import HyrecallMemory

MADE: list[HyrecallMemory] = []


def _ours(path: Any, embedder: Any) -> HyrecallMemory:
    MADE.append(HyrecallMemory.open(path, embedder=embedder))
    return MADE[-1]


class InMemoryMemory(HyrecallMemory):
    """Ours in memory, by words alone."""

    def __init__(self, **options: Any) -> None:
        if unknown := options.keys() - {"fact_store"}:
            raise TypeError(f"ours takes no {sorted(unknown)}")
        vars(self).update(vars(_ours(":memory:", None)))


class VectorMemory(HyrecallMemory):
    """Ours in memory, by words and vectors."""

    def __init__(self) -> None:
        vars(self).update(vars(_ours(":memory:", HashEmbedder(dim=64))))


class SqliteMemory(HyrecallMemory):
    """Ours on the disk; a second one of a path shares the first one's store."""

    def __init__(self, path: Any, *, with_facts: bool = True) -> None:
        vars(self).update(vars(_ours(path, HashEmbedder(dim=64))))


for theirs in (InMemoryMemory, VectorMemory, SqliteMemory):
    for module in (loomflow, loomflow.memory, inmemory, sqlite, vector):
        if hasattr(module, theirs.__name__):
            setattr(module, theirs.__name__, theirs)


def pytest_unconfigure() -> None:
    """Close the stores, for which the interpreter would wait."""
    for one in reversed(MADE):
        one.close()
