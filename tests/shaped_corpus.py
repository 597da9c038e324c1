"""Random scoped documents with clones, gaps and times, for tests of shaping."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

import hyrecall as hr
from oracle import shaping as oracle

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
WORDS = ("ash", "oak", "elm", "fir", "yew", "bay")
SOURCES = ("memory", "summary", "session", None)
SCHEMA = hr.Schema(
    key="id", cell="user", text="text", vector="v", attributes=("at", "rating", "source")
)


@dataclass(frozen=True)
class Corpus:
    """Random documents with clones, missing vectors and missing times, and queries to them."""

    index: hr.Index
    docs: dict[int, dict[str, Any]]
    texts: list[str | None]
    vectors: Any

    def ask(self, shaping: Any, **options: Any) -> hr.Hits:
        options = {"limit": 40, "depth": 60, "now": NOW} | options
        return self.index.recall(
            text=self.texts, vectors=self.vectors, scope="ana", shaping=shaping, **options
        )

    def before(self, query: int) -> oracle.Ranked:
        """The whole fused list, as the first stage gets it."""
        hits = self.index.recall(
            text=self.texts, vectors=self.vectors, scope="ana", limit=60, depth=60
        )[query]
        return [(self.docs[hit.key], hit.score) for hit in hits]


def corpus(seed: int) -> Corpus:
    rng = np.random.default_rng(seed)
    n, dim = int(rng.integers(5, 50)), 8
    centres = rng.standard_normal((6, dim))
    rows = centres[rng.integers(6, size=n)] + rng.standard_normal((n, dim)) * rng.choice(
        [0.0, 0.05, 0.8], size=(n, 1)
    )
    rows = rows.astype(np.float32)
    rows[rng.random(n) < 0.1] = 0  # a zero row has no vector
    docs = {
        key: {
            "id": key,
            "vector": rows[key],
            "text": " ".join(rng.choice(WORDS, size=rng.integers(1, 30))),
            "at": None
            if rng.random() < 0.1
            else NOW - timedelta(hours=float(rng.integers(-100, 5000))),
            "rating": None if rng.random() < 0.2 else int(rng.integers(-2, 14)),
            "source": SOURCES[rng.integers(4)],
        }
        for key in range(n)
    }
    names = ("id", "text", "at", "rating", "source")
    table = pa.table({name: [doc[name] for doc in docs.values()] for name in names}).append_column(
        "user", pa.array(["ana" if rng.random() < 0.9 else "bob" for _ in range(n)])
    )
    table = table.set_column(
        names.index("at"), "at", table["at"].cast(pa.timestamp("us", "UTC"))
    ).set_column(names.index("rating"), "rating", table["rating"].cast(pa.int64()))
    order = rng.permutation(n)
    for seq, key in enumerate(order.tolist()):
        docs[key]["seq"] = seq
    cut = n // 2
    index = hr.Index.build(table.take(order[:cut]), SCHEMA, vectors={"v": rows[order[:cut]]})
    index.add(table.take(order[cut:]), vectors={"v": rows[order[cut:]]})
    queries = centres[:3].astype(np.float32) + rng.standard_normal((3, dim)).astype(np.float32) / 4
    return Corpus(index, docs, ["ash oak", "elm fir yew", None], queries)


def tokens(doc: oracle.Doc) -> int:
    return max(1, -(-len(doc["text"].strip()) // 4))


def preference(doc: oracle.Doc) -> int:
    return (
        ("session", "memory").index(doc["source"]) if doc["source"] in ("session", "memory") else 2
    )


WEIGHTS = {"memory": 1.0, "session": 0.4}
