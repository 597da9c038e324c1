"""Reads a collection of Qdrant, of a local folder or a server, with qdrant-client."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hyrecall.errors import OptionError, error
from hyrecall.migrate.records import (
    PAGE,
    Options,
    Record,
    Source,
    as_vector,
    field_of,
    needs_package,
    one_of,
)

API_KEY = "QDRANT_API_KEY"
"""The variable of the environment with the key of a server."""

_SECONDS = 60  # that a server has for a reply


@contextmanager
def read(path: Path | str, options: Options) -> Iterator[Source]:
    """Open a collection; without ``collection``, the only one."""
    # A str is the URL of a server. The text is the field "text" of the payload, unless another is
    # named. Without ``vector_field``, the only dense vector is read; sparse vectors and lists of
    # vectors have no place here.
    client = _client(path)
    try:
        with _answers(path):
            names = [one.name for one in client.get_collections().collections]
        name = one_of("collection", names, options.collection)
        with _answers(path):
            named = client.get_collection(name).config.params.vectors
            n_points = client.count(name).count
        vector = options.vector_field
        if isinstance(named, Mapping):
            dense = [key for key, one in named.items() if one.multivector_config is None]
            vector = one_of("vector_field", dense, vector) if dense or vector else ""
        elif vector is not None:
            raise error(OptionError, "vector_field", "none: the vector has no name", repr(vector))
        records = _records(_points(client, name, path), options.text_field or "text", vector)
        yield Source("qdrant", n_points, records)
    finally:
        client.close()


def _client(path: Path | str) -> Any:
    """Open a local folder, or a server."""
    with needs_package("qdrant_client", "qdrant-client"):
        from qdrant_client import QdrantClient
    if isinstance(path, str):
        with _answers(path):
            return QdrantClient(
                url=path, api_key=os.environ.get(API_KEY) or None, timeout=_SECONDS,
                check_compatibility=False,
            )  # fmt: skip
    if not (path / "meta.json").is_file():  # the client would make one
        wish = "a local folder of qdrant-client (with meta.json), or a server's URL"
        raise error(OptionError, "path", wish, repr(str(path)))
    try:
        return QdrantClient(path=str(path))
    except Exception as fault:  # in use, or damaged: RuntimeError, KeyError, JSONDecodeError
        wish = "a folder that qdrant-client can open, and that no other client has open"
        got = f"{type(fault).__name__} ({str(path)!r})"
        raise error(OptionError, "path", wish, got) from fault


def _points(client: Any, name: str, path: Path | str) -> Iterator[Any]:
    at = None
    while True:
        with _answers(path):
            points, at = client.scroll(
                name, limit=PAGE, offset=at, with_payload=True, with_vectors=True
            )
        yield from points
        if at is None:
            return


@contextmanager
def _answers(path: Path | str) -> Iterator[None]:
    """Name a server that does not answer, or refuses; nothing of its reply is told but the
    status.
    """
    # A local folder raises none of these errors, and what else it raises is its own.
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
    from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

    if isinstance(path, Path):
        yield
        return
    try:
        yield
    except (ApiException, ResourceExhaustedResponse, ValueError) as fault:
        wish = f"a Qdrant server that answers at {_address(path)}"
        got = type(fault).__name__  # a ValueError: no URL, or a reply that is no JSON
        if isinstance(fault, UnexpectedResponse):
            got = f"status {fault.status_code} (a key is read from {API_KEY})"
        elif isinstance(fault, ResourceExhaustedResponse):
            got = "status 429 (too many requests: try again later)"
        raise error(OptionError, "path", wish, got) from None


def _address(url: str) -> str:
    """Return the scheme, host and port of a URL: what stands before an @ may be a password."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{re.split('[/?#]', rest.rpartition('@')[2])[0]}"


def _records(points: Iterator[Any], text: str, vector: str | None) -> Iterator[Record]:
    for point in points:
        payload = point.payload or {}
        found, others = _vector_of(point.vector, vector)
        yield Record(
            id=point.id if isinstance(point.id, int) else str(point.id),
            text=field_of(payload, text),
            vector=found,
            metadata={key: one for key, one in payload.items() if key != text},
            dropped=others,
        )


def _vector_of(given: Any, name: str | None) -> tuple[Any, tuple[str, ...]]:
    """Return the vector of a name, and the names of what else a point has, such as lists of
    rows.
    """
    # A vector without a name has the name "" where a point has named ones beside it.
    own = name or ""
    every = given if isinstance(given, Mapping) else {own: given}
    row = as_vector(every.get(own))
    others = [key for key, one in every.items() if key != own or (row is None and one is not None)]
    return row, tuple(f"vector {key!r}" for key in others)
