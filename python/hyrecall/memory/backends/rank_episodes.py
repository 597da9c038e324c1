"""Ranks episodes of one partition as a store of ``recipes.loom`` does, without a kept index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.index import Index
from hyrecall.memory.data.types import Episode, EpisodeMatch
from hyrecall.memory.derived.layout import Layout, layout_of
from hyrecall.memory.recall.audience import AskedBy
from hyrecall.memory.recall.call import Ask, TimeRange, read_ask
from hyrecall.recipes import loom
from hyrecall.table.schema import Schema, Text

__all__ = ["check_recall", "ranked"]

_TIME = pa.timestamp("us", "UTC")
_TEXT = pa.large_string()

Rows = npt.NDArray[np.float32]


def check_recall(
    query: object,
    *,
    kind: str | None = "episodic",
    limit: int = 5,
    time_range: TimeRange | None = None,
    alpha: float = 0.5,
    vector: object = None,
) -> Ask:
    """Check the arguments of ``recall``, as a store does."""
    return read_ask(
        query, AskedBy(), loom, kind=kind, limit=limit, time_range=time_range, alpha=alpha,
        vector=vector, deepen=True,
    )  # fmt: skip


def ranked(
    episodes: Sequence[Episode], ask: Ask, vectors: Rows | None = None
) -> list[EpisodeMatch]:
    """Rank the episodes of one partition, which all may be seen."""
    if not episodes:
        return []
    layout: Layout = layout_of(loom)
    names = {"id": _TEXT, "input": _TEXT, "output": _TEXT, "kind": _TEXT, "occurred_at": _TIME}
    columns = {
        name: pa.array([getattr(one, name) for one in episodes], kind)
        for name, kind in names.items()
    }
    # Ids may repeat, so the key is the place in the list.
    columns["place"] = pa.array(range(len(episodes)), pa.int64())
    columns["tags"] = pa.array([list(one.tags) for one in episodes], pa.list_(_TEXT))
    schema = Schema(
        key="place",
        cell=None,
        text={"text": Text(*layout.texts)},
        vector="embedding" if vectors is not None else (),
        attributes=("id", "kind", "occurred_at", "tags"),
        stored=(),
    )
    index = Index.build(
        pa.table(columns),
        schema,
        vectors=None if vectors is None else {"embedding": vectors},
        analyzer=layout.analyzer,
        device="cpu",
        threads=1,
    )
    asks_vectors = vectors is not None and ask.vector is not None and ask.uses_vector
    asks_words = vectors is not None and ask.recipe.has_words_alone
    hits = index.recall(
        text=[ask.query],
        vectors=[ask.vector] if asks_vectors else None,
        filter=ask.filter,
        limit=ask.limit,
        offset=ask.offset,
        recipe=ask.recipe if asks_vectors or asks_words else ask.by_words,
    )
    return [
        EpisodeMatch(
            episode=episodes[row["key"]],
            score=row["score"],
            vector_score=row.get("embedding_score"),
            bm25_score=row["text_score"],
            is_fill=row.get("origin") == "fill",
            is_exact=hit.is_exact,
        )
        for row, hit in zip(hits.to_arrow().to_pylist(), hits[0], strict=True)
    ]
