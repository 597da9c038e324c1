"""Reads a collection of Qdrant: of a local folder or a server with qdrant-client, or a snapshot."""

from __future__ import annotations

import json
import os
import re
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from hyrecall.base.forks import temporary_folder
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

# ---- Reads a snapshot of Qdrant, of a collection or of a shard, with the package qdrant-edge-py
# A snapshot of a shard is a tar with the folders ``segments`` and ``wal``; that of a collection has
# such folders for each of its shards: ``0/segments``, ``1/segments``.


@dataclass(frozen=True)
class Points:
    """The points of a collection."""

    n_points: int
    dense: list[str] | None
    points: Iterator[Any]


@contextmanager
def open_snapshot(path: Path) -> Iterator[Points]:
    """Open a snapshot; it is unpacked to a temporary folder."""
    with needs_package("qdrant_edge", "qdrant-edge-py"):
        from qdrant_edge import CountRequest, EdgeShard
    with ExitStack() as stack:
        home = stack.enter_context(temporary_folder())
        shards, dense = [], None
        for at, archive in enumerate(_archives(path, home)):
            with _is_readable():
                EdgeShard.unpack_snapshot(str(archive), str(home / f"shard-{at}"))
                dense = _dense(home / f"shard-{at}")
                shards.append(EdgeShard.load(str(home / f"shard-{at}")))
            stack.callback(shards[-1].close)
        n_points = sum(one.count(CountRequest(exact=True)) for one in shards)
        yield Points(n_points, dense, _points_of_snapshot(shards))


def _points_of_snapshot(shards: list[Any]) -> Iterator[Any]:
    from qdrant_edge import ScrollRequest

    for shard in shards:
        at = None
        while True:
            asked = ScrollRequest(offset=at, limit=PAGE, with_payload=True, with_vector=True)
            with _is_readable():
                found, at = shard.scroll(asked)
            yield from found
            if at is None:
                break


def _archives(path: Path, home: Path) -> list[Path]:
    """Return the archives of the shards: the snapshot itself, or one made of each folder."""
    made: dict[str, tarfile.TarFile] = {}
    try:
        with tarfile.open(path, "r:") as whole, ExitStack() as stack:
            for member in whole:
                shard, *rest = PurePosixPath(member.name).parts or ("",)
                if shard == "segments":
                    return [path]
                if not (shard.isdecimal() and rest and member.isreg()):
                    continue
                if shard not in made:
                    made[shard] = stack.enter_context(tarfile.open(home / f"{shard}.tar", "w"))
                part = tarfile.TarInfo("/".join(rest))
                part.size = member.size
                made[shard].addfile(part, whole.extractfile(member))
    except tarfile.TarError as fault:
        raise _no_snapshot(path, type(fault).__name__) from None
    if not made:
        raise _no_snapshot(path, "a tar without the segments of a shard")
    return [home / f"{shard}.tar" for shard in sorted(made, key=int)]


def _dense(shard: Path) -> list[str] | None:
    """Return the names of the dense vectors that are one row; None for one without a name."""
    for file in sorted(shard.glob("segments/*/segment.json")):
        named = json.loads(file.read_bytes())["config"].get("vector_data", {})
        if list(named) == [""]:
            return None
        return [name for name, one in named.items() if one.get("multivector_config") is None]
    return []


@contextmanager
def _is_readable() -> Iterator[None]:
    """Turn what the package raises into an error that says what to do instead."""
    try:
        yield
    except Exception as fault:  # it raises no other
        wish = (
            "a snapshot that qdrant-edge-py reads (recover another one on a Qdrant server, and "
            "import from its URL)"
        )
        raise error(OptionError, "path", wish, str(fault)) from None


def _no_snapshot(path: Path, got: str) -> OptionError:
    wish = "a snapshot of a collection or a shard of Qdrant, or a local folder of qdrant-client"
    return error(OptionError, "path", wish, f"{got} ({str(path)!r})")


# ---- Reads a collection of Qdrant: of a local folder or a server with qdrant-client, or a snapshot

API_KEY = "QDRANT_API_KEY"
"""The variable of the environment with the key of a server."""

_SECONDS = 60  # that a server has for a reply


@contextmanager
def read(path: Path | str, options: Options) -> Iterator[Source]:
    """Open a collection; without ``collection``, the only one."""
    # A file is a snapshot, a str is the URL of a server. The text is the field "text" of the
    # payload, unless another is named. Without ``vector_field``, the only dense vector is read;
    # sparse vectors and lists of vectors have no place here.
    if isinstance(path, Path) and path.is_file():
        if options.collection is not None:
            wish = "none: a snapshot has one collection"
            raise error(OptionError, "collection", wish, repr(options.collection))
        opening = open_snapshot(path)
    else:
        opening = _collection(path, options)
    with opening as found:
        vector = options.vector_field
        if found.dense is not None:
            vector = one_of("vector_field", found.dense, vector) if found.dense or vector else ""
        elif vector is not None:
            raise error(OptionError, "vector_field", "none: the vector has no name", repr(vector))
        records = _records(found.points, options.text_field or "text", vector)
        yield Source("qdrant", found.n_points, records)


@contextmanager
def _collection(path: Path | str, options: Options) -> Iterator[Points]:
    """Open a collection of a local folder or of a server."""
    with needs_package("qdrant_client", "qdrant-client"):
        from qdrant_client import QdrantClient
    if isinstance(path, str):
        with _answers(path):
            client = QdrantClient(
                url=path, api_key=os.environ.get(API_KEY) or None, timeout=_SECONDS,
                check_compatibility=False,
            )  # fmt: skip
    elif (path / "meta.json").is_file():  # else the client would make one
        try:
            client = QdrantClient(path=str(path))
        except Exception as fault:  # in use, or damaged: RuntimeError, KeyError, JSONDecodeError
            wish = "a folder that qdrant-client can open, and that no other client has open"
            got = f"{type(fault).__name__} ({str(path)!r})"
            raise error(OptionError, "path", wish, got) from fault
    else:
        wish = "a local folder of qdrant-client (with meta.json), a snapshot, or a server's URL"
        raise error(OptionError, "path", wish, repr(str(path)))
    try:
        with _answers(path):
            names = [one.name for one in client.get_collections().collections]
        name = one_of("collection", names, options.collection)
        with _answers(path):
            named = client.get_collection(name).config.params.vectors
            n_points = client.count(name).count
        dense = None
        if isinstance(named, Mapping):
            dense = [key for key, one in named.items() if one.multivector_config is None]
        yield Points(n_points, dense, _points(client, name, path))
    finally:
        client.close()


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
