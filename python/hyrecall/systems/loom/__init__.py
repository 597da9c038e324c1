"""Loom: its stores, other stores with the interface of a memory, wrappers, and their tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyrecall.base.starting import lazily

if TYPE_CHECKING:
    from hyrecall.systems.loom.neutral_scores import RecallOnly as RecallOnly
    from hyrecall.systems.loom.neutral_scores import default_recall_scored as default_recall_scored
    from hyrecall.systems.loom.ranked_backend import ChromaMemory as ChromaMemory
    from hyrecall.systems.loom.ranked_backend import PostgresMemory as PostgresMemory
    from hyrecall.systems.loom.ranked_backend import RedisMemory as RedisMemory
    from hyrecall.systems.loom.vectorstore import VectorStore as VectorStore
    from hyrecall.systems.loom.wrappers import AutoExtract as AutoExtract
    from hyrecall.systems.loom.wrappers import Lazy as Lazy
else:
    __getattr__ = lazily(
        __name__,
        {
            "neutral_scores": (
                "RecallOnly",
                "default_recall_scored",
            ),
            "ranked_backend": (
                "ChromaMemory",
                "PostgresMemory",
                "RedisMemory",
            ),
            "vectorstore": ("VectorStore",),
            "wrappers": (
                "AutoExtract",
                "Lazy",
            ),
        },
    )

__all__ = [
    "AutoExtract",
    "ChromaMemory",
    "Lazy",
    "PostgresMemory",
    "RecallOnly",
    "RedisMemory",
    "VectorStore",
    "default_recall_scored",
]
