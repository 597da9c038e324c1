"""Moves records of Chroma, LanceDB, Qdrant, mem0 and LangChain into a store or an index."""

from hyrecall.migrate.records import SYSTEMS, LeftOut, Migrated, Record, Source, open_source
from hyrecall.migrate.to_store import into_index, into_store

__all__ = [
    "SYSTEMS",
    "LeftOut",
    "Migrated",
    "Record",
    "Source",
    "into_index",
    "into_store",
    "open_source",
]
