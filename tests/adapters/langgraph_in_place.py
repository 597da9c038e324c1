"""A plugin of pytest: LangGraph's tests of its store in memory run against ours."""

from typing import Any

import langgraph.store.memory

from hyrecall.adapters.langgraph import HyrecallStore
from hyrecall.memory import EVERYONE

MADE: list[HyrecallStore] = []


class InMemoryStore(HyrecallStore):
    """Ours, made as LangGraph's; by cosine alone, because its tests compare cosines."""

    def __init__(self, *, index: Any = None) -> None:
        options: dict[str, Any] = {"alpha": 1.0} if index else {"embedder": None}
        made = HyrecallStore.open(":memory:", scope=EVERYONE, index=index, **options)
        vars(self).update(vars(made))
        MADE.append(self)


def pytest_unconfigure() -> None:
    """Close the stores, for which the interpreter would wait."""
    for one in MADE:
        one.close()


langgraph.store.memory.InMemoryStore = InMemoryStore  # type: ignore[misc]
