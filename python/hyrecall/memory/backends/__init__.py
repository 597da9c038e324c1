"""Other stores with the interface of a memory, wrappers, and tests of that interface."""

from hyrecall.memory.backends.neutral_scores import RecallOnly, default_recall_scored
from hyrecall.memory.backends.ranked_backend import ChromaMemory, PostgresMemory, RedisMemory
from hyrecall.memory.backends.wrappers import AutoExtract, Lazy

__all__ = [
    "AutoExtract",
    "ChromaMemory",
    "Lazy",
    "PostgresMemory",
    "RecallOnly",
    "RedisMemory",
    "default_recall_scored",
]
