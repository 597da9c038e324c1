"""Memories, summaries and raw dialogue in one index, each source with a text arm of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

import hyrecall as hr
from hyrecall import recipes
from seams import Dense, Lexical, Recipe

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
SOURCES = ("memory", "summary", "session")
CELL = ("org", "workspace", "source", "agent", "visibility")
DIM = 32
QUERY = np.eye(DIM, dtype=np.float32)[0]
honeycomb = recipes.honeycomb
STAGES = {type(stage): stage for stage in honeycomb.shaping}
PROVENANCE, DEDUP, RECENCY = (STAGES[kind] for kind in (hr.Provenance, hr.Dedup, hr.Recency))
SEMANTIC = ("memory_vector", "session_vector")
PER_TABLE = honeycomb.replace(
    arms=(Lexical(), Dense(arms=SEMANTIC)),
    shaping=(PROVENANCE, hr.Dedup(0.9, scale="unit", vector="vector"), RECENCY),
)
"""Cosine arms per source too; near-duplicates are compared across all."""


@dataclass(frozen=True)
class Row:
    id: str
    source: str = "memory"
    text: str = "nothing"
    vector: Sequence[float] | None = None
    created_at: datetime | None = NOW
    org: str = "acme"
    workspace: str = "main"
    agent: str = "ann"
    visibility: str = "global"
    tags: tuple[str, ...] = ()


def nth(rank: int) -> str:
    """A text that comes in this place for the query "tea": the shorter, the better."""
    return "tea" + " pad" * rank


def towards(cosine: float, axis: int) -> list[float]:
    """A vector with this cosine to QUERY, on an axis of its own."""
    out = [0.0] * DIM
    out[0], out[axis] = cosine, float(np.sqrt(1 - cosine**2))
    return out


def padded(vector: Sequence[float]) -> list[float]:
    return [*vector, *[0.0] * (DIM - len(vector))]


def matrix(rows: Sequence[Row]) -> Any:
    """A zero row has no vector; a short vector has zeros at its end."""
    return np.array([padded(row.vector or ()) for row in rows], np.float32)


def table(rows: Sequence[Row], sources: Sequence[str] = SOURCES) -> pa.Table:
    plain = {name: pa.array([getattr(row, name) for row in rows]) for name in ("id", *CELL, "text")}
    own = {
        name: pa.array([row.text if row.source == name else None for row in rows], pa.string())
        for name in sources
    }
    times = pa.array([row.created_at for row in rows], pa.timestamp("us", "UTC"))
    tags = pa.array([list(row.tags) for row in rows], pa.list_(pa.string()))
    return pa.table({**plain, **own, "created_at": times, "tags": tags})


def build(
    rows: Sequence[Row], *, sources: Sequence[str] = SOURCES, per_table: bool = False
) -> hr.Index:
    vectors = {"vector": matrix(rows)}
    if per_table:
        for arm in SEMANTIC:
            mine = np.array([row.source == arm.removesuffix("_vector") for row in rows])
            vectors[arm] = np.where(mine[:, None], vectors["vector"], np.float32(0))
    schema = hr.Schema(
        key="id", cell=CELL, text={name: name for name in sources}, vector=tuple(vectors),
        attributes=("created_at", "tags"), stored=("text",),
    )  # fmt: skip
    return hr.Index.build(table(rows, sources), schema, vectors=vectors)


def within(**parts: Any) -> Any:
    """The cells of Acme's main workspace with these parts."""
    known = {"org": "acme", "workspace": "main"}
    return hr.Scope.matching(**(dict.fromkeys(CELL, hr.ANY) | known | parts))


def ask(
    index: hr.Index,
    text: object = "tea",
    vector: Any = None,
    *,
    recipe: Recipe = honeycomb,
    **options: Any,
) -> hr.Hits:
    """One query; a vector goes to every dense arm that the recipe runs."""
    options = {"scope": within(), "now": NOW, "limit": 50} | options
    if text is not None:
        options["text"] = [text]
    if vector is not None:
        dense = [part.arms for part in recipe.arms if isinstance(part, Dense)]
        named = dense[0] if dense and dense[0] else ("vector",)
        options["vectors"] = {arm: np.array([padded(vector)], np.float32) for arm in named}
    return index.recall(recipe=recipe, **options)


def scores(hits: hr.Hits) -> list[tuple[str, str, float]]:
    """(source, id, score) of each hit of the first query."""
    return [(hit["source"], hit.key, hit.score) for hit in hits[0]]


WORDS = ("tea", "milk", "kettle", "cup", "leaf", "pot")
TAGS = ("drinks", "kitchen", "garden", "work")


def random_rows(rng: np.random.Generator, n: int, **fixed: Any) -> list[Row]:
    """Rows of all sources; every fourth has no vector, some are near each other."""
    centres = rng.standard_normal((8, DIM))
    made = []
    for at in range(n):
        near = centres[rng.integers(8)] + rng.standard_normal(DIM) * rng.choice([0.1, 1.0])
        age = np.timedelta64(int(rng.integers(-1000, 50_000)), "h").item()
        drawn: dict[str, Any] = {
            "source": str(rng.choice(SOURCES)),
            "text": " ".join(rng.choice(WORDS, rng.integers(1, 12))),
            "vector": None if at % 4 == 3 else near.tolist(),
            "created_at": None if rng.random() < 0.1 else NOW - age,
            "tags": tuple(rng.choice(TAGS, rng.integers(0, 3), replace=False).tolist()),
        }
        made.append(Row(id=f"r{at}", **(drawn | fixed)))
    return made
