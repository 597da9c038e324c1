"""Many random stores in one index."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import hyrecall as hr
from hyrecall import recipes

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
WORDS = ("ash", "bay", "elm", "fir", "oak", "yew", "fig", "ivy", "pea", "rye", "tea", "zen")
SCHEMA = hr.Schema(
    key="id", cell="user", text="text", vector="v", attributes=("occurred_at", "kind")
)
Matrix = npt.NDArray[np.float32]


def times(hours_ago: Sequence[float | None]) -> pa.Array:
    """Times before NOW."""
    given = [None if hours is None else NOW - timedelta(hours=hours) for hours in hours_ago]
    return pa.array(given, pa.timestamp("us", "UTC"))


@dataclass(frozen=True)
class Stores:
    """Random stores, a user each, in one index; store i has documents first[i] to first[i + 1]."""

    index: hr.Index
    users: list[str]
    first: list[int]
    texts: list[str]
    vectors: Matrix
    hours_ago: list[float]
    queries: list[str]
    query_vectors: Matrix

    def __len__(self) -> int:
        """The number of stores."""
        return len(self.users)

    def documents(self, store: int) -> range:
        """The keys of a store's documents, which are their places in texts and vectors."""
        return range(self.first[store], self.first[store + 1])

    def ask(self, *, text: bool = True, vector: bool = True, **options: Any) -> hr.Hits:
        """One query to each store; by default by loom's recipe."""
        return self.index.recall(
            text=self.queries if text else None,
            vectors=self.query_vectors if vector else None,
            scope=list(self.users),
            now=NOW,
            **({"recipe": recipes.loom} | options),
        )


def stores(n_stores: int, *, seed: int, largest: int = 30, dim: int = 6) -> Stores:
    """Random stores full of ties: few words, few times, and half of the vectors on a lattice."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, largest + 1, n_stores)
    n = int(sizes.sum())
    texts = [" ".join(rng.choice(WORDS, rng.integers(1, 9))) for _ in range(n)]
    users = [f"s{at}" for at in range(n_stores)]
    vectors, query_vectors = (_vectors(rng, rows, dim) for rows in (n, n_stores))
    hours_ago = rng.integers(0, 5, n).astype(float).tolist()
    table = pa.table(
        {
            "id": np.arange(n),
            "user": np.repeat(users, sizes),
            "text": texts,
            "kind": ["episodic"] * n,
            "occurred_at": times(hours_ago),
        }
    )
    index = hr.Index.build(table, SCHEMA, vectors={"v": vectors}, analyzer=hr.Analyzer("word"))
    queries = [" ".join(rng.choice(WORDS, rng.integers(1, 5))) for _ in users]
    first = [0, *np.cumsum(sizes).tolist()]
    return Stores(index, users, first, texts, vectors, hours_ago, queries, query_vectors)


def _vectors(rng: np.random.Generator, n: int, dim: int) -> Matrix:
    lattice = rng.choice([-1.0, 0.0, 1.0, 2.0], (n, dim))
    lattice[~lattice.any(axis=1)] = 1.0
    smooth = rng.standard_normal((n, dim))
    return np.where(rng.random((n, 1)) < 0.5, lattice, smooth).astype(np.float32)
