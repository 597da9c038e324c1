"""Random documents with edges: one index, and the same documents in shards, each with a graph."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

import hyrecall as hr
from distributed.placed import placed_index, placed_shards, placement_of
from distributed.placement import WireShard, index_of, laid_out
from hyrecall.distributed import ShardedIndex
from laws.engine import ipc_bytes
from seams import LocalShard

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
USERS = ("ann", "bob", "cy")
WORDS = ("oak", "ash", "elm", "fir", "yew", "pine")
SCHEMA = hr.Schema(
    key="key", cell="user", text="description", vector="v", attributes="n",
    stored=("description", "data"),
)  # fmt: skip
GRAPH = hr.GraphSchema(key="id", cell="user", text="label", participants="who")


def words(rng: np.random.Generator, most: int) -> str:
    return " ".join(rng.choice(WORDS, rng.integers(1, most + 1)))


def documents(seed: int, n: int = 60) -> pa.Table:
    """Random documents of three users, whose keys repeat between users, with clones."""
    rng = np.random.default_rng(seed)
    pairs = dict.fromkeys((f"k{rng.integers(0, n // 2)}", str(rng.choice(USERS))) for _ in range(n))
    n = len(pairs)
    vectors = rng.integers(-1, 2, (n, 4)).astype(np.float32)
    return pa.table(
        {
            "key": [key for key, _ in pairs],
            "user": [user for _, user in pairs],
            "description": [None if rng.random() < 0.1 else words(rng, 3) for _ in range(n)],
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), 4),
            "n": rng.integers(0, 9, n),
            "data": [f"({words(rng, 1)})" for _ in range(n)],
        }
    )


def edges(seed: int, n: int = 50, n_keys: int = 34) -> pa.Table:
    """Random edges of the users; some participants exist nowhere, or only for other users."""
    rng = np.random.default_rng([seed, 1])
    who = [[f"k{one}" for one in rng.integers(0, n_keys, rng.integers(1, 4))] for _ in range(n)]
    return pa.table(
        {
            "id": pa.array(range(n), pa.int64()),
            "user": rng.choice(USERS, n),
            "label": [words(rng, 3) for _ in range(n)],
            "who": who,
        }
    )


def built(table: pa.Table, first: int) -> hr.Index:
    return hr.Index.build(table, SCHEMA, first_seq=first, device="cpu")


def around(hits: hr.Hits) -> list[Any]:
    """What stands beside each hit."""
    return [[hit.context for hit in one] for one in hits]


@dataclass
class GraphWorld:
    """One index and its shards, with a graph over each."""

    one: hr.Index
    shards: ShardedIndex
    graph: hr.Graph
    sharded: hr.Graph

    def replies(
        self, make: Callable[[hr.Graph], dict[str, Any]], **options: Any
    ) -> tuple[hr.Hits, hr.Hits]:
        """Return the replies of both; ``make`` returns the options that have a graph."""
        want = self.one.recall(now=NOW, **make(self.graph), **options)
        return want, self.shards.recall(now=NOW, **make(self.sharded), **options)

    def same(self, make: Callable[[hr.Graph], dict[str, Any]], **options: Any) -> int:
        """Both give the same bytes and neighbours; return how many hits there were."""
        return compare(*self.replies(make, **options))


def compare(want: hr.Hits, got: hr.Hits) -> int:
    assert ipc_bytes(got.to_arrow()) == ipc_bytes(want.to_arrow())
    assert around(got) == around(want)
    assert got.trace.degraded == want.trace.degraded == ()
    assert set(got.trace.notes) == set(want.trace.notes)
    return want.to_arrow().num_rows


def new_world(seed: int, schema: hr.GraphSchema = GRAPH) -> GraphWorld:
    """Return a world of 1, 2, 3 or 7 shards, by chance or by cell, some of them over bytes."""
    table, chance = documents(seed), random.Random(seed)
    n_shards = (2, 3, 7, 1)[seed % 4]
    one = built(table, 0)
    kind: type[LocalShard] = WireShard if seed % 3 else LocalShard
    if seed % 2:
        placement = placement_of(table, SCHEMA, n_shards)
        own = placed_shards(table, SCHEMA, built, placement, n_shards)
        shards = placed_index(own, placement, kind)
    else:
        own = laid_out(table, built, n_shards, chance)
        shards = index_of(own, wire=kind is WireShard)
    gone = [f"k{at}" for at in range(0, 30, 7)]
    everyone = hr.Scope.matching(user=hr.ANY)
    for index in (one, *own):
        index.delete(gone, scope=[everyone] * len(gone))
    made = edges(seed)
    if schema.index_schema.cell_columns == ():
        made = made.drop_columns(["user"])
    graphs = [hr.Graph.build(made, schema, nodes=nodes) for nodes in (one, shards)]
    for graph in graphs:
        graph.delete([3, 4], scope=everyone if schema is GRAPH else None)
    return GraphWorld(one, shards, *graphs)


world_of = lru_cache(maxsize=8)(new_world)  # a recall changes nothing in it


def asked(seed: int) -> dict[str, Any]:
    """A batch of queries in several scopes, of which some are patterns or find nothing."""
    rng = np.random.default_rng([seed, 2])
    texts = ["oak ash", "fir", "e.m", "nowhere", "k1.", "elm yew pine", "oak", "ash pine"]
    scopes = [
        *("ann", "ann", hr.Scope(["ann", "bob"]), "cy", hr.Scope.matching(user=hr.ANY)),
        *("nobody", "bob", hr.Scope(["ann", "bob"])),
    ]
    vectors = rng.integers(-1, 2, (len(texts), 4)).astype(np.float32) + 0.25
    return {"text": texts, "vectors": vectors, "scope": scopes, "limit": 12}


def sessions(seed: int) -> list[hr.Session | None]:
    """What the conversation of each query has seen."""
    rng = np.random.default_rng([seed, 3])
    return [
        None if at == 1 else hr.Session(
            {f"k{key}": NOW - timedelta(minutes=int(rng.integers(0, 90)))
             for key in rng.integers(0, 34, 6)},
            n_recalls=int(rng.integers(0, 12)),
        )
        for at in range(8)
    ]  # fmt: skip
