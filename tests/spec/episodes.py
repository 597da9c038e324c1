"""Episodes of a few users with fixed vectors and times, and many random stores in one index."""

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
TEXT_ONLY = hr.Schema(key="id", cell="user", text="text", attributes=("occurred_at", "kind"))
Matrix = npt.NDArray[np.float32]


def times(hours_ago: Sequence[float | None]) -> pa.Array:
    """Times before NOW."""
    given = [None if hours is None else NOW - timedelta(hours=hours) for hours in hours_ago]
    return pa.array(given, pa.timestamp("us", "UTC"))


def episodes(
    texts: Sequence[str | None],
    vectors: Any = None,
    *,
    users: Sequence[str | None] | str = "alice",
    hours_ago: Sequence[float | None] | None = None,
    kinds: Sequence[str] | str = "episodic",
    ids: Sequence[str] | None = None,
) -> hr.Index:
    """An index of these episodes; without hours_ago a later one is newer; no vectors, no arm."""
    n = len(texts)
    table = pa.table(
        {
            "id": [f"e{at}" for at in range(n)] if ids is None else list(ids),
            "user": [users] * n if isinstance(users, str) else list(users),
            "text": pa.array(texts, pa.string()),
            "kind": [kinds] * n if isinstance(kinds, str) else list(kinds),
            "occurred_at": times([n - at for at in range(n)] if hours_ago is None else hours_ago),
        }
    )
    word = hr.Analyzer("word")
    if vectors is None:
        return hr.Index.build(table, TEXT_ONLY, analyzer=word)
    rows = {"v": np.asarray(vectors, np.float32)}
    return hr.Index.build(table, SCHEMA, vectors=rows, analyzer=word)


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


def ranked(hits: hr.QueryHits) -> list[tuple[Any, float]]:
    """Key and score of each hit."""
    return [(hit.key, hit.score) for hit in hits]


def origins(hits: hr.Hits) -> list[str]:
    """Of every row of the reply: a hit, or what filled the list."""
    return list(hits.to_arrow()["origin"].to_pylist())
