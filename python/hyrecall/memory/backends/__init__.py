"""Memories of other kinds behind the same two calls: shims, wrappers, adapters, their contract."""

from hyrecall.memory.backends.chroma import ChromaMemory
from hyrecall.memory.backends.postgres import PostgresMemory
from hyrecall.memory.backends.redis import RedisMemory
from hyrecall.memory.backends.shim import RecallOnly, default_recall_scored
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
