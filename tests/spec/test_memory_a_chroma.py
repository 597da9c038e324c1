"""A35 with Chroma's own package, where it is installed: the contract of every backend."""

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from hyrecall.memory import Episode
from hyrecall.systems.loom import ChromaMemory
from seams import MemoryContract

chromadb = pytest.importorskip("chromadb", reason="chromadb is not installed")

_numbers = itertools.count()


class Letters(chromadb.EmbeddingFunction):  # type: ignore[misc]
    """Counts letters, so that no model is downloaded."""

    def __init__(self) -> None:
        """Need nothing."""

    def __call__(self, input: Sequence[str]) -> list[Any]:  # noqa: A002 - Chroma's name
        alphabet = "abcdefghijklmnopqrstuvwxyz"
        counts = [Counter(text.lower()) for text in input]
        return [np.array([1 + one[c] for c in alphabet], np.float32) for one in counts]

    @staticmethod
    def name() -> str:
        return "letters"

    def get_config(self) -> dict[str, Any]:
        return {}

    @staticmethod
    def build_from_config(config: dict[str, Any]) -> "Letters":
        return Letters()


class TestA35ChromaItself(MemoryContract):
    """Warnings of Chroma's are no faults of ours."""

    pytestmark = pytest.mark.filterwarnings("ignore")

    def make(self, episodes: Sequence[Episode]) -> Any:
        client = chromadb.EphemeralClient(chromadb.Settings(anonymized_telemetry=False))
        collection = client.create_collection(
            f"episodes-{next(_numbers)}", embedding_function=Letters()
        )

        async def filled() -> ChromaMemory:
            memory = ChromaMemory(collection)
            for one in episodes:
                await memory.remember(one)
            return memory

        return filled()
