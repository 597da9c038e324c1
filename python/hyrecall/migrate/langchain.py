"""Reads a dump of LangChain's ``InMemoryVectorStore``, which is JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hyrecall.errors import OptionError, error
from hyrecall.migrate.records import MOST_LEVELS, Options, Record, Source, as_vector, read_json


@contextmanager
def read(path: Path, options: Options) -> Iterator[Source]:
    """Read the documents of ``InMemoryVectorStore.dump(path)``."""
    # It is read as plain JSON: no object that a dump names is made.
    del options  # it has no fields to choose from
    found = read_json(path, "InMemoryVectorStore.dump")
    is_dump = isinstance(found, Mapping) and all(
        isinstance(one, Mapping) and one.keys() >= {"id", "text"} for one in found.values()
    )
    if not is_dump:
        raise error(OptionError, "path", "a dump of InMemoryVectorStore", "others")
    yield Source("langchain", len(found), iter([_record(one) for one in found.values()]))


def _record(one: Mapping[str, Any]) -> Record:
    given = one.get("metadata") or {}
    metadata = given if isinstance(given, Mapping) else {}
    lost = tuple(name for name, value in metadata.items() if _is_lost(value))
    return Record(
        id=one["id"],
        text=one["text"],
        vector=as_vector(one.get("vector")),
        metadata={name: value for name, value in metadata.items() if name not in lost},
        dropped=lost if metadata is given else ("metadata",),
    )


def _is_lost(value: object, levels: int = MOST_LEVELS) -> bool:
    """Return whether the dump has only a note of a value that it could not write."""
    # A value of too many levels is lost too.
    if isinstance(value, Mapping):
        inside = list(value.values())
    elif isinstance(value, list):
        inside = value
    else:
        return False
    is_note = isinstance(value, Mapping) and "lc" in value
    return is_note or not levels or any(_is_lost(one, levels - 1) for one in inside)
