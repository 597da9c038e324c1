"""A store and an index whose embedder has stopped working, so that their replies are degraded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import hyrecall as hr

if TYPE_CHECKING:  # absent where a framework's extra does not bring it
    from hyrecall.memory import MemorySync


class Stopping:
    """Embeds until it is told to stop."""

    model, dim = "stopping", 8
    works = True

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return vectors, or fail."""
        if not self.works:
            raise RuntimeError("no model")
        return np.ones((len(texts), self.dim), np.float32)


def degraded_store(**owner: Any) -> MemorySync:
    """Return a store in memory with a memory of ``user_id="ann"``, which words alone find."""
    from hyrecall.memory import MemorySync

    embedder = Stopping()
    store = MemorySync.in_memory(recipe=hr.recipes.default, embedder=embedder)
    store.remember("green tea", user_id="ann", **owner)
    embedder.works = False
    return store


def degraded_index() -> hr.Index:
    """Return an index with a document of ``scope="ann"``, which words alone find."""
    embedder = Stopping()
    table = pa.table({"id": ["1"], "user": ["ann"], "text": ["green tea"]})
    schema = hr.Schema(key="id", cell="user", text="text", vector="vector")
    index = hr.Index.build(table, schema, embed=embedder)
    embedder.works = False
    return index
