"""What a store and an index hold after a migration, and where that differs from the source."""

import base64
import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hyrecall.embed import HashEmbedder
from hyrecall.memory import MemorySync
from hyrecall.migrate import Record, Source
from hyrecall.recipes import loom
from seams import as_vector

MODEL, DIM = "the model", 4

Kept = dict[tuple[str, str], tuple[str, str, bytes | None]]
"""By user and id: the text, the metadata as JSON, the bytes of the vector."""


class Named(HashEmbedder):
    """An embedder with the model and length of the vectors in the tests."""

    def __init__(self, model: str = MODEL, dim: int = DIM) -> None:
        super().__init__(dim=dim)
        self.model = model


def store(embedder: object = None) -> MemorySync:
    """Return an empty store whose embedder has the model of the tests."""
    return MemorySync.in_memory(recipe=loom, embedder=Named() if embedder is None else embedder)


def vectors(n: int, dim: int = DIM, seed: int = 3) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((n, dim), dtype=np.float32)


def record(key: object, text: object = "tea", row: object = None, **metadata: object) -> Record:
    return Record(id=key, text=text, vector=as_vector(row), metadata={"user": "ann", **metadata})


def source(records: Iterable[Record], system: str = "chroma") -> Source:
    given = list(records)
    return Source(system, len(given), iter(given))


def many(n: int) -> list[Record]:
    """Return records of three users with metadata of every kind and vectors."""
    rows = vectors(n)
    return [
        Record(
            id=f"k{at}",
            text=f"text {at} — é",
            vector=rows[at],
            metadata={
                "user": f"u{at % 3}", "n": at, "f": at / 7, "ok": at % 2 == 0, "none": None,
                "list": [at, str(at)], "deep": {"a": {"b": [at]}}, "é": "ü",
            },
        )
        for at in range(n)
    ]  # fmt: skip


def expected(records: list[Record]) -> Kept:
    found: Kept = {}
    for r in records:
        found |= one(str(r.metadata["user"]), str(r.id), str(r.text), r.metadata, r.vector)
    return found


def one(user: str, key: str, text: str, metadata: object, row: object = None) -> Kept:
    """Return one memory in the form of :func:`in_store`."""
    blob = None if row is None else np.asarray(row, "<f4").tobytes()
    return {(user, key): (text, json.dumps(metadata, sort_keys=True), blob)}


def in_store(memory: MemorySync) -> Kept:
    """Return the live memories of all users."""
    from hyrecall.memory import EVERYONE

    found: Kept = {}
    lines = memory.export(user_id=EVERYONE)
    assert isinstance(lines, list)
    for line in lines[1:]:
        version: dict[str, Any] = line["version"]
        row = version.get("embedding")
        found |= {
            (version["user_id"], version["id"]): (
                version["content"]["text"],
                json.dumps(version["content"]["metadata"], sort_keys=True),
                None if row is None else base64.b64decode(row),
            )
        }
    return found


def plant(monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[Any], Any]) -> None:
    """Change the result of a method of ``hyrecall.migrate``: "module.Class.method"."""
    module, kind, method = name.split(".")
    place = getattr(__import__(f"hyrecall.migrate.{module}", fromlist=[kind]), kind)
    right = getattr(place, method)
    monkeypatch.setattr(place, method, lambda *given: change(right(*given)))
