"""Queries in Parquet files over one index and its shards, and what the hits must be."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hyrecall as hr
from distributed.saved import WORDS, saved_shards, whole
from hyrecall.distributed import BatchRecall, DatasetHits

N_QUERIES = 50
ROLES: dict[str, Any] = {"key": "qid", "text": "words", "vectors": "vec", "scope": "who"}
HOW: dict[str, Any] = {"limit": 3, "fusion": hr.RRF(), "columns": ["text"]}


def queries() -> pa.Table:
    """Return queries: two of each text in different scopes, some without a text or a vector."""
    chance, rng = random.Random(4), np.random.default_rng(4)
    texts: list[str | None] = [" ".join(chance.choices(WORDS, k=2)) for _ in range(N_QUERIES // 2)]
    texts = [text for text in texts for _ in range(2)]
    vectors: list[Any] = rng.standard_normal((N_QUERIES, 8)).astype(np.float32).tolist()
    texts[7], vectors[8] = None, None
    who = [["ann"], ["bob"], ["ann", "bob"], ["nobody"]]
    return pa.table(
        {
            "other": list(range(N_QUERIES)),
            "qid": [f"q{at}" for at in range(N_QUERIES)],
            "words": texts,
            "vec": pa.array(vectors, pa.list_(pa.float32())),
            "who": [who[at % 4] for at in range(N_QUERIES)],
            "year": [None if at % 3 else [2000, 2001 + at % 7] for at in range(N_QUERIES)],
        }
    )


def hits_of(index: hr.Index, asked: pa.Table, **options: Any) -> pa.Table:
    """Return what an index replies to queries, with their keys."""
    scopes = [hr.Scope(cells) for cells in asked.column("who").to_pylist()]
    hits = index.recall(
        text=asked.column("words"), vectors=asked.column("vec"), scope=scopes, **options
    ).to_arrow()
    keys = asked.column("qid").combine_chunks().take(hits.column("query").combine_chunks())
    return hits.add_column(1, "query_key", keys).drop_columns("query")


def equal(made: pa.Table, want: pa.Table) -> bool:
    """Whether two tables have the same columns, types and values, to the last bit."""
    plain = [one.replace_schema_metadata(None).combine_chunks() for one in (made, want)]
    if plain[0].schema != plain[1].schema:
        return False
    batches = [one.to_batches() for one in plain]
    return all(a.equals(b) for a, b in zip(*batches, strict=True))


class World:
    """An index and its shards on disk, and queries in three files, one with small row groups."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.one = whole()
        self.one.save(folder / "one")
        (folder / "shards").mkdir()
        self.shards = saved_shards(folder / "shards")
        self.queries = queries()
        self.files = [folder / f"q{at}.parquet" for at in range(3)]
        for path, (begin, end, group) in zip(
            self.files, [(0, 20, 3), (20, 21, 9), (21, N_QUERIES, 50)], strict=True
        ):
            pq.write_table(self.queries.slice(begin, end - begin), path, row_group_size=group)

    def recall(self, **more: Any) -> BatchRecall:
        return BatchRecall(self.shards, **ROLES, **HOW, device="cpu", threads=1, **more)

    def want(self, **more: Any) -> pa.Table:
        return hits_of(self.one, self.queries, **HOW, **more)

    @staticmethod
    def read(done: DatasetHits) -> pa.Table:
        return pa.concat_tables([pq.read_table(one) for one in done.files])
