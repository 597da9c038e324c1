"""Shards that are measured, and the questions that they are asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import hyrecall as hr
from bench import corpus

KINDS = ("dense", "lexical", "hybrid")
LIMIT, DEPTH = 10, 100
EVERYONE = hr.Scope.matching(tenant=hr.ANY)


@dataclass(frozen=True)
class Sizes:
    """How much is measured; ``TINY`` shows within seconds that all of it works."""

    dim: int
    rows: tuple[int, ...]  # of a shard
    tenants: tuple[int, ...]  # rows of tenants, in turn, until the shard is full
    questions: int
    repeats: int
    batch: int
    shards: tuple[int, ...]  # whose replies a caller merges
    shard_rows: int  # of those
    depths: tuple[int, ...]
    crowd_s: float  # how long every core answers at the same time


FULL = Sizes(
    dim=384,
    rows=(20_000, 100_000, 500_000),
    tenants=(1_000, 4_000, 15_000),
    questions=20,
    repeats=10,
    batch=256,
    shards=(1, 2, 4, 8, 16, 32),
    shard_rows=2_000,
    depths=(10, 100),
    crowd_s=2.0,
)
TINY = Sizes(
    dim=32,
    rows=(1_000, 2_000),
    tenants=(100, 400),
    questions=4,
    repeats=4,
    batch=8,
    shards=(1, 2, 4),
    shard_rows=300,
    depths=(10, 100),
    crowd_s=0.1,
)


def tenants_of(n: int, sizes: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the tenant of each row: tenants of these sizes in turn, the last one cut."""
    turns = -(-n // sum(sizes))
    return np.repeat(np.arange(turns * len(sizes)), sizes * turns)[:n]


def shard(n: int, sizes: Sizes, number: int = 0, *, threads: int = 1) -> hr.Index:
    """Build shard ``number``: clustered vectors and texts of 40 to 80 words, tenants of its own."""
    name = f"shard {number}"
    tenants = tenants_of(n, sizes.tenants) + number * n
    table = pa.table(
        {
            "id": np.arange(n) + number * n,
            "tenant": tenants,
            "text": corpus.zipf_texts(n, name=f"texts of {name}").strings,
        }
    )
    return hr.Index.build(
        table,
        hr.Schema(key="id", cell="tenant", text="text", vector="embedding"),
        vectors={"embedding": corpus.clustered_rows(n, sizes.dim, name)},
        device="cpu",
        threads=threads,
        first_seq=number * n,
    )


def folders(into: Path, n_shards: int, rows: int, sizes: Sizes) -> list[Path]:
    """Save so many shards, each in a folder."""
    made = [into / str(number) for number in range(n_shards)]
    for number, folder in enumerate(made):
        shard(rows, sizes, number).save(folder)
    return made


class Questions:
    """Questions of 4 to 8 words and a vector each; the same on every machine."""

    def __init__(self, n: int, dim: int) -> None:
        """Draw so many."""
        self.n = n
        self._texts = [corpus.spell(query) for query in corpus.text_queries(n)]
        self._vectors = corpus.clustered_rows(n, dim, "questions")

    def ask(self, kind: str, at: int, scope: object, n: int = 1) -> dict[str, Any]:
        """Return the arguments of a recall for ``n`` questions from ``at`` on."""
        picked = [one % self.n for one in range(at, at + n)]
        asked: dict[str, Any] = {"scope": scope, "limit": LIMIT}
        if kind != "dense":
            asked["text"] = [self._texts[one] for one in picked]
        if kind != "lexical":
            asked["vectors"] = self._vectors[picked]
        return asked


def by_role(folder: Path) -> Mapping[str, int]:
    """Return the bytes of a saved index by what they are: vectors, plane, terms, ..."""
    found: dict[str, int] = {}
    for path in folder.glob("*.arrow"):
        role = path.stem.split("-")[1]
        found[role] = found.get(role, 0) + path.stat().st_size
    return found
