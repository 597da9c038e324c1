"""Memories with tags, ratings and times of access, in partitions."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

import hyrecall as hr
from hyrecall import recipes
from seams import Recipe

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DIM = 4
QUERY = [1.0, 0.0, 0.0, 0.0]
hebb = recipes.hebb
COMPOSITE = next(stage for stage in hebb.shaping if isinstance(stage, hr.Composite))
WORDS = ("deploy", "green", "blue", "cluster", "coffee", "beans", "meeting", "notes")
TAGS = ("deploy", "cluster", "coffee", "office", "garden", "music", "travel", "health")


@dataclass(frozen=True)
class Memory:
    id: str
    text: str = "nothing"
    vector: Sequence[float] | None = None
    tags: tuple[str, ...] = ()
    importance: float | None = 5.0
    last_accessed: datetime | None = NOW
    partition: str = "home"


def table(memories: Sequence[Memory]) -> pa.Table:
    plain = {name: [getattr(m, name) for m in memories] for name in ("id", "text", "partition")}
    return pa.table(
        {
            **plain,
            "importance": pa.array([m.importance for m in memories], pa.float64()),
            "tags": pa.array([list(m.tags) for m in memories], pa.list_(pa.string())),
            "last_accessed": pa.array(
                [m.last_accessed for m in memories], pa.timestamp("us", "UTC")
            ),
        }
    )


def matrix(memories: Sequence[Memory]) -> Any:
    """A zero row has no vector."""
    return np.array([[0.0] * DIM if m.vector is None else m.vector for m in memories], np.float32)


def build(memories: Sequence[Memory]) -> hr.Index:
    schema = hr.Schema(
        key="id", cell="partition", text="text", vector="vector",
        attributes=("tags", "importance", "last_accessed"),
    )  # fmt: skip
    return hr.Index.build(
        table(memories),
        schema,
        vectors={"vector": matrix(memories)},
        analyzer=hr.Analyzer("porter"),
    )


def search(
    index: hr.Index, query: str, vector: Any = None, *, recipe: Recipe = hebb, **options: Any
) -> hr.Hits:
    options = {"scope": "home", "now": NOW, "limit": 100} | options
    if vector is not None:
        options["vectors"] = np.array([vector], np.float32)
    return index.recall(text=[query], recipe=recipe, **options)


def found(hits: hr.Hits, column: str) -> dict[str, Any]:
    """Key -> what a column of the reply says, in the order of the hits."""
    made = hits.to_arrow()
    return dict(zip(made["key"].to_pylist(), made[column].to_pylist(), strict=True))


def cosine_of(value: float, axis: int = 1) -> list[float]:
    """A vector with this cosine to QUERY."""
    out = [0.0] * DIM
    out[0], out[axis] = value, float(np.sqrt(1 - value**2))
    return out


def random_memories(rng: np.random.Generator, n: int) -> list[Memory]:
    return [
        Memory(
            f"m{at}",
            " ".join(rng.choice(WORDS, rng.integers(1, 9))),
            None if rng.random() < 0.3 else rng.standard_normal(DIM).tolist(),
            tuple(rng.choice(TAGS, rng.integers(0, 4), replace=False).tolist()),
            None if rng.random() < 0.2 else float(rng.integers(-3, 14)),
            None if rng.random() < 0.1 else NOW - int(rng.integers(-50, 500)) * HOUR,
        )
        for at in range(n)
    ]


def show() -> str:
    """What fixed searches over a sparse graph of tags give: the same in every process."""
    rng = np.random.default_rng(8)
    drawn = rng.integers(0, 60, (150, 2))
    index = build([Memory(f"m{at}", tags=(f"t{a}", f"t{b}")) for at, (a, b) in enumerate(drawn)])
    out = []
    for depth in range(1, 6):
        recipe = hebb.replace(more=(hr.arms.Tags("tags", depth=depth),))
        for tag in range(0, 60, 5):
            hits = search(index, f"t{tag} t{tag + 1}", recipe=recipe, limit=90)
            out.append(repr([(hit.key, hit.score) for hit in hits[0]]))
            out.append(repr(hr.arms.related(hits, "tags")))
    return "\n".join(out)


if __name__ == "__main__":
    print(show())
