"""Reads a collection of a Chroma folder, with the package chromadb."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hyrecall.errors import OptionError, error
from hyrecall.migrate.records import PAGE, Options, Record, Source, as_vector, needs_package, one_of

_INCLUDED = ["documents", "metadatas", "embeddings", "uris"]


@contextmanager
def read(path: Path, options: Options) -> Iterator[Source]:
    """Open a collection; without ``collection``, the only one."""
    # A document is a text, an embedding a vector. Chroma itself opens the folder, so that a newer
    # chromadb may bring its files to its own format.
    with needs_package("chromadb", "chromadb"):
        import chromadb
        from chromadb.config import Settings
    if not (path / "chroma.sqlite3").is_file():  # Chroma would make one
        raise error(OptionError, "path", "a folder of Chroma, with chroma.sqlite3", repr(str(path)))
    try:
        client = chromadb.PersistentClient(str(path), settings=Settings(anonymized_telemetry=False))
    except ValueError:  # a process has one client of a folder, whose settings are the first's
        wish = "a folder that no other client of this process has open"
        raise error(OptionError, "path", wish, repr(str(path))) from None
    try:
        names = [one.name for one in client.list_collections()]
        name = one_of("collection", names, options.collection)
        # Nothing is embedded: the collection's own function is neither needed nor loaded.
        collection = client.get_collection(name, embedding_function=None)
        yield Source("chroma", collection.count(), _records(collection))
    finally:
        getattr(client, "close", lambda: None)()  # older versions have none


def _records(collection: Any) -> Iterator[Record]:
    at = 0
    while (page := collection.get(limit=PAGE, offset=at, include=_INCLUDED))["ids"]:
        at += len(page["ids"])
        embeddings = page["embeddings"]
        for place, key in enumerate(page["ids"]):
            yield Record(
                id=key,
                text=page["documents"][place],
                vector=None if embeddings is None else as_vector(embeddings[place]),
                metadata=page["metadatas"][place] or {},
                dropped=("uri",) if page["uris"][place] else (),
            )
