"""Reads a collection of a local folder of Qdrant, with the package qdrant-client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hyrecall.errors import OptionError, error
from hyrecall.migrate.reading import PAGE, Reading, one_of
from hyrecall.migrate.records import Record, Source, as_vector, field_of, needs_package

__all__ = ["read"]


@contextmanager
def read(path: Path, options: Reading) -> Iterator[Source]:
    """Open a collection; without ``collection``, the only one.

    The text is the field "text" of the payload, unless another is named. Without ``vector_field``,
    the only dense vector is read; sparse vectors and lists of vectors have no place here.

    Raises
    ------
    OptionError
        No local folder of Qdrant; no such collection or vector, or several and none is named.
    MissingExtraError
        The package qdrant-client is not installed.
    """
    with needs_package("qdrant_client", "qdrant-client"):
        from qdrant_client import QdrantClient
    if not (path / "meta.json").is_file():  # the client would make one
        wish = "a local folder of qdrant-client, with meta.json (a snapshot is read by a server)"
        raise error(OptionError, "path", wish, repr(str(path)))
    client = QdrantClient(path=str(path))
    try:
        names = [one.name for one in client.get_collections().collections]
        name = one_of("collection", names, options.collection)
        named = client.get_collection(name).config.params.vectors
        vector = options.vector_field
        if isinstance(named, Mapping):
            dense = [key for key, one in named.items() if one.multivector_config is None]
            vector = one_of("vector_field", dense, vector) if dense or vector else ""
        elif vector is not None:
            raise error(OptionError, "vector_field", "none: the vector has no name", repr(vector))
        records = _records(client, name, options.text_field or "text", vector)
        yield Source("qdrant", client.count(name).count, records)
    finally:
        client.close()


def _records(client: Any, name: str, text: str, vector: str | None) -> Iterator[Record]:
    at = None
    while True:
        points, at = client.scroll(
            name, limit=PAGE, offset=at, with_payload=True, with_vectors=True
        )
        for point in points:
            payload = point.payload or {}
            found, others = _vector_of(point.vector, vector)
            yield Record(
                id=point.id,
                text=field_of(payload, text),
                vector=found,
                metadata={key: one for key, one in payload.items() if key != text},
                dropped=others,
            )
        if at is None:
            return


def _vector_of(given: Any, name: str | None) -> tuple[Any, tuple[str, ...]]:
    """Return the vector of a name, and the names of the other vectors of a point.

    A vector without a name has the name "" where a point has named ones beside it.
    """
    if not isinstance(given, Mapping):
        return as_vector(given), ()
    own = name or ""
    others = tuple(f"vector {key!r}" for key in given if key != own)
    return as_vector(given.get(own)), others
