"""Stores for tests: small, with embedders that need nothing."""

import atexit
import functools
import shutil
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hyrecall.embed import HashEmbedder
from hyrecall.memory import Episode, MemorySync
from memory.small_store import listing
from seams import LOCK, LOG, read_note
from seams import memory_DATABASE as DATABASE

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DIM = 8


class Clock:
    """A time that is set by hand."""

    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


class FixedEmbedder:
    """Vectors by text; what is not listed has none."""

    model = "fixed"

    def __init__(self, vectors: dict[str, Sequence[float]], dim: int = 2) -> None:
        self.vectors, self.dim = vectors, dim
        self.calls: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.calls.append(list(texts))
        zero = [0.0] * self.dim
        return np.array([self.vectors.get(text, zero) for text in texts], np.float32)


class BrokenEmbedder:
    """Raises, each time."""

    model = "broken"
    dim = DIM

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        raise RuntimeError("broken as asked")


@functools.cache
def _root() -> str:
    """Where all stores of these tests are, until the tests end."""
    made = tempfile.mkdtemp(prefix="hyrecall-stores-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def folder() -> Path:
    """A place for a store that is not there yet."""
    return Path(tempfile.mkdtemp(dir=_root())) / "test.mem"


def open_store(path: Path | None = None, **options: Any) -> MemorySync:
    """A store with hashed vectors, unless another embedder is given."""
    if "embedder" not in options:  # then no answer is degraded, however slow the machine is
        options = {"embedder": HashEmbedder(dim=DIM), "recall_timeout": 30.0} | options
    return MemorySync.open(folder() if path is None else path, **options)


def episode(at: int, text: str = "", **fields: Any) -> Episode:
    """An episode of so many hours after noon, alice's."""
    given = {"id": f"e{at}", "user_id": "alice", "occurred_at": NOON + at * HOUR}
    return Episode(text=text or f"note {at}", **(given | fields))


def lasting(path: Path) -> dict[str, bytes]:
    """Every file of a store but for what each opening changes: who was there, shared memory."""
    found = {name: held for name, held in listing(path).items() if name != f"{DATABASE}-shm"}
    if not found.get(LOG):
        found.pop(LOG, None)  # whoever opens a database makes an empty one
    return found | {LOCK: read_note(path)}
