"""The calls of hyrecall that the benchmarks time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import hyrecall as hr
from bench import THREADS

Reply = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]

_FRONT_PLANE = "HYRECALL_FRONT_PLANE"


def build(
    n: int,
    *,
    vectors: object = None,
    texts: pa.Array | None = None,
    columns: dict[str, npt.NDArray[np.int64]] | None = None,
    cell: str | None = None,
    cluster: str | None = None,
    threads: int = THREADS,
    device: str = "cpu",
) -> hr.Index:
    """Index rows whose key is their number; ``vectors`` is an array or a torch tensor."""
    columns = columns or {}
    data: dict[str, Any] = {"id": np.arange(n, dtype=np.int64), **columns}
    if texts is not None:
        data["text"] = texts
    schema = hr.Schema(
        key="id",
        cell=(cell,) if cell else None,
        text="text" if texts is not None else (),
        vector="embedding" if vectors is not None else (),
        attributes=tuple(name for name in columns if name != cell),
        cluster=cluster,
        stored=(),
    )
    return hr.Index.build(
        pa.table(data),
        schema,
        vectors=None if vectors is None else {"embedding": vectors},
        analyzer=None if texts is None else hr.Analyzer("word"),
        device=device,
        threads=threads,
    )


def arrays(hits: hr.Hits, k: int) -> Reply:
    """Return hits as two matrices, as the rivals do; short lists end in -1 and -inf."""
    table = hits.to_arrow()
    query = table["query"].to_numpy()
    ids = np.full((len(hits), k), -1, np.int64)
    scores = np.full((len(hits), k), -np.inf)
    rank = table["rank"].to_numpy() - 1
    ids[query, rank] = table["key"].to_numpy()
    scores[query, rank] = table["score"].to_numpy()
    return ids, scores


@cache
def isa() -> str:
    """Return the instruction set that indexes run on."""
    return str(build(1, vectors=np.ones((1, 1), np.float32)).stats()["isa"])


def parts(index: hr.Index) -> dict[str, int]:
    """Return the bytes of each part of an index, by its path in the statistics."""
    found: dict[str, int] = {}

    def walk(part: object, path: str) -> None:
        if isinstance(part, dict):
            for name, inner in part.items():
                walk(inner, f"{path}/{name}" if path else str(name))
        else:
            found[path] = found.get(path, 0) + int(part)  # type: ignore[call-overload]

    for segment in index.stats()["segments"]:
        walk(segment["nbytes"], "")
    return found


def nbytes(index: hr.Index) -> int:
    """Return the bytes of all parts of an index."""
    return sum(parts(index).values())


def heads(index: hr.Index) -> str:
    """Name the heads of an index's vectors, those of each segment; "none" where none would pay."""
    return ", ".join(sorted({_heads_of(column) for column in _columns(index)}))


def plane_bytes(index: hr.Index) -> int:
    """Return the bytes of the int8 planes and of the heads, directions included."""
    total = 0
    for column in _columns(index):
        arrays = list(column.int8_plane or ())
        if column.head is not None:
            directions, plane = column.head
            arrays += [directions, *plane]
        total += sum(array.nbytes for array in arrays)
    return total


def _columns(index: hr.Index) -> list[Any]:
    return [column for segment in index._state.segments for column in segment.dense.values()]


def _heads_of(column: Any) -> str:
    if column.head is None:
        return "none"
    directions, (codes, scales, _) = column.head
    n = len(directions) // column.dim
    bits = 8 if len(codes) >= len(scales) * n else 4  # one byte for each element, or half of one
    return f"{n} directions of {bits} bits"


@contextmanager
def first_pass_over(plane: str | None) -> Iterator[None]:
    """Name the plane that builds make and scans read first; None leaves the choice to hyrecall."""
    before = os.environ.get(_FRONT_PLANE)
    if plane is not None:
        os.environ[_FRONT_PLANE] = plane
    try:
        yield
    finally:
        if before is not None:
            os.environ[_FRONT_PLANE] = before
        else:
            os.environ.pop(_FRONT_PLANE, None)
