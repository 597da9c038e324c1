"""Reads a snapshot of Qdrant, of a collection or of a shard, with the package qdrant-edge-py.

A snapshot of a shard is a tar with the folders ``segments`` and ``wal``; that of a collection has
such folders for each of its shards: ``0/segments``, ``1/segments``.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from hyrecall.base.forks import temporary_folder
from hyrecall.errors import OptionError, error
from hyrecall.migrate.reading import PAGE
from hyrecall.migrate.records import needs_package

__all__ = ["Points", "open_snapshot"]


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
        yield Points(n_points, dense, _points(shards))


def _points(shards: list[Any]) -> Iterator[Any]:
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
