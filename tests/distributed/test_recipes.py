"""Recipes, stages and arms over shards give the replies of one index, bit for bit."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.placement import ApartShard, index_of, laid_out
from hyrecall.arms import Listed, Newest, Regex
from hyrecall.distributed import ShardedIndex
from hyrecall.recipe import Dense, Fill, Lexical, Recipe, TieBreak
from laws.effort import Effort
from laws.engine import ipc_bytes
from seams import merging

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
WORDS = ("oak", "ash", "elm", "fir", "yew", "pine")
TIMES = ("occurred_at", "updated_at", "created_at", "last_accessed")
SCHEMA = hr.Schema(
    key="id", cell=("user", "table"), text="text", vector="v", thread="session", place="turn",
    attributes=("tags", *TIMES, "importance", "pinned", "source"),
    stored=("text", "data"), cluster="occurred_at",
)  # fmt: skip


def documents(seed: int, n: int = 60) -> pa.Table:
    """Random rows of two users in three tables, in sessions of some length, with clones."""
    rng = np.random.default_rng(seed)

    def words(most: int) -> str:
        return " ".join(rng.choice(WORDS, rng.integers(1, most + 1)))

    def times() -> list[datetime | None]:
        return [None if rng.random() < 0.1 else NOW - timedelta(hours=int(rng.integers(-9, 50)))
                for _ in range(n)]  # fmt: skip

    centres = rng.standard_normal((5, 4))
    vectors = centres[rng.integers(5, size=n)] + 0.2 * rng.integers(0, 2, (n, 1))
    texts = [None if rng.random() < 0.1 else words(5) for _ in range(n)]
    sources = rng.choice(["memory", "summary", "session"], n)
    columns: dict[str, Any] = {
        "id": [f"k{at:02}" for at in rng.permutation(n)],
        "user": rng.choice(["ann", "bob"], n),
        "table": sources,
        "text": [None if t is None else f"{t} {WORDS[0]}-{at % 3}" for at, t in enumerate(texts)],
        "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.astype("f4").reshape(-1)), 4),
        "data": [f"({words(1)})" for _ in range(n)],
        "tags": [rng.choice(WORDS, rng.integers(0, 3)).tolist() for _ in range(n)],
        "importance": rng.integers(0, 11, n),
        "pinned": rng.random(n) < 0.3,
        "source": sources,
        "session": [None if rng.random() < 0.3 else f"s{rng.integers(6)}" for _ in range(n)],
        "turn": rng.integers(0, 20, n),
    }
    columns |= {name: pa.array(times(), pa.timestamp("us", "UTC")) for name in TIMES}
    return pa.table(columns)


@dataclass
class World:
    one: hr.Index
    shards: ShardedIndex
    joined: ShardedIndex

    def same(self, **options: Any) -> int:
        """All give the same bytes; return how many hits there were."""
        want = self.one.recall(now=NOW, **options)
        for index in (self.shards, self.joined):
            got = index.recall(now=NOW, **options)
            assert ipc_bytes(got.to_arrow()) == ipc_bytes(want.to_arrow()), options
            assert got.trace.degraded == want.trace.degraded == ()
            assert [hits.keys for hits in got] == [hits.keys for hits in want]
            assert set(got.trace.notes) == set(want.trace.notes)
        return want.to_arrow().num_rows


def built(table: pa.Table, first: int) -> hr.Index:
    return hr.Index.build(table, SCHEMA, first_seq=first, device="cpu")


@lru_cache(maxsize=8)  # a recall changes nothing in them
def indexes(seed: int) -> tuple[hr.Index, list[hr.Index]]:
    """One index, and the same documents in shards."""
    table = documents(seed)
    one = built(table, 0)
    rows = table.select(["user", "table", "session"]).to_pylist()
    threads = [at if row["session"] is None else tuple(row.values())
               for at, row in enumerate(rows)]  # fmt: skip
    n_shards = (2, 3, 7, 1)[seed % 4]
    shards = laid_out(table, built, n_shards, random.Random(seed), threads)
    gone = table["id"].to_pylist()[::7]
    everyone = hr.Scope.matching(user=hr.ANY, table=hr.ANY)
    for index in (one, *shards):
        index.delete(gone, scope=[everyone] * len(gone))
    return one, shards


def worlds(seeds: Sequence[int], *, wire: bool = True) -> Iterator[World]:
    for seed in seeds:
        one, shards = indexes(seed)
        apart = index_of(shards, wire=wire, kind=ApartShard)
        yield World(one, apart, index_of(shards, wire=False))


def asked(seed: int) -> dict[str, Any]:
    """A batch of queries, of which some are exact, blank or without a match."""
    rng = np.random.default_rng(seed)
    texts = ["oak ash", "fir", '"oak ash"', "oak-1", "nowhere", "  ", "elm yew pine", "e.m"]
    user = [hr.Scope.matching(user=str(rng.choice(["ann", "bob"])), table=hr.ANY) for _ in texts]
    vectors = rng.standard_normal((len(texts), 4)).astype(np.float32)
    return {"text": texts, "vectors": vectors, "scope": user, "limit": 12}


def no_blank(given: dict[str, Any]) -> dict[str, Any]:
    return given | {"text": [one if one.strip() else "oak" for one in given["text"]]}


MINE = (
    Recipe(
        name="words", arms=(Lexical(bm25=hr.BM25(k1=0.9, b=(0.2, 0.7))),), fusion=hr.RRF(),
        fill=Fill("occurred_at", when="always"), on_empty="newest",
    ),
    Recipe(
        name="sum", arms=(Lexical(weight=0.3), Dense(weight=0.7, min_score=0.1)),
        fusion=hr.WeightedSum(), depth=60, normalize=True,
        shaping=(hr.Recency("updated_at", half_life="3d"), hr.Budget(40)),
    ),
    Recipe(
        name="fallback", arms=(Lexical(mode="all"),), fusion=hr.RRF(),
        on_no_match=(Regex(("text", "data"), name="pattern", on_bad="literal"),),
        tie_break=(TieBreak("id"),),
    ),
    Recipe(
        name="newest", arms=(Lexical(),), more=(Newest("created_at"),),
        fusion=hr.DBSF(), on_no_match=(Newest("updated_at"),), fill=Fill("occurred_at"),
        tie_break=(TieBreak("importance", descending=True),),
    ),
)  # fmt: skip
PUBLISHED = ("loom", "l0", "honeycomb", "default", "conversation", "hypergraph", "hebb")


def published(name: str) -> Recipe:
    """A recipe of hyrecall.recipes, without what reads a graph or tags."""
    recipe: Recipe = getattr(hr.recipes, name)
    if name == "l0":
        return recipe.replace(analyzer=None)
    if name == "hebb":
        return recipe.replace(analyzer=None, more=(), expansion=())
    if name == "hypergraph":
        pattern = Regex(("text", "data"), only_patterns=True)
        return recipe.replace(
            more=(pattern,), on_no_match=(Regex(("text", "data"), on_bad="literal"),),
            shaping=(), expansion=(), tie_break=(TieBreak("id"),),
        )  # fmt: skip
    return recipe


RECIPES = {recipe.name: recipe for recipe in (*MINE, *map(published, PUBLISHED))}


@pytest.mark.plain_cases(4)
@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe(name: str, effort: Effort) -> None:
    n = effort.cases(quick=4, full=60)
    for seed, world in enumerate(worlds(range(n))):
        given = asked(seed)
        if RECIPES[name].on_empty == "error":
            given = no_blank(given)
        assert world.same(**given, recipe=RECIPES[name], columns=("text",)) > 0
        assert world.same(**given, recipe=RECIPES[name], offset=3) > 0


def test_a_recipe_for_each_query(effort: Effort) -> None:
    for seed, world in enumerate(worlds(range(effort.cases(quick=4, full=60)))):
        rng = random.Random(seed)
        given = no_blank(asked(seed))
        chosen = [RECIPES[rng.choice(sorted(RECIPES))] for _ in given["text"]]
        assert world.same(**given, recipe=chosen) > 0


STAGES = {
    "dedup and mmr": (hr.Dedup(0.9), hr.MMR(0.6)),
    "clones within a budget": (hr.Dedup(0.95, scale="unit"), hr.MMR(0.4), hr.Budget(30)),
    "time and rating": (
        hr.Provenance("source", {"memory": 1.0, "session": 0.4}),
        hr.Recency("created_at", half_life="2d", by="source", half_lives={"memory": "9d"}),
    ),
    "composite": (hr.Composite(time="last_accessed", half_life="5d", rating="importance"),),
    "rerank by cosine": (hr.Rerank(window=6), hr.Gate(0.005)),
    "around and features": (
        hr.Around((0.2, 0.1), thread=0.3, length=0.1),
        hr.Linear(
            {
                "fused": 1.0,
                "text_score": 0.3,
                "source=memory": 0.2,
                "v_rank": 0.1,
                "text_before_1": 0.1,
                "data=(oak)": 0.1,
                "recency(created_at, 2d)": 0.1,
            }
        ),
    ),
    "prior": (hr.Prior("source", {"memory": 0.2, "session": -0.1}),),
    "sessions": (hr.Budget(25, column="data"),),
}


@pytest.mark.plain_cases(5)
@pytest.mark.parametrize("name", STAGES)
def test_every_stage(name: str, effort: Effort) -> None:
    for seed, world in enumerate(worlds(range(effort.cases(quick=4, full=60)))):
        given = asked(seed)
        assert world.same(**given, shaping=STAGES[name]) > 0
        assert world.same(**given, shaping=STAGES[name], group="thread", fusion=hr.RRF()) > 0


def test_sessions_without_a_graph(effort: Effort) -> None:
    stage = hr.SessionSignals(phases=(hr.Phase("all", 0, general=0.6, topical=0.0, session=0.4),))
    met = hr.Session({f"k{at:02}": NOW - timedelta(minutes=at) for at in range(0, 60, 3)})
    for seed, world in enumerate(worlds(range(effort.cases(quick=4, full=60)))):
        given = asked(seed)
        own = [met if at % 2 else None for at in range(len(given["text"]))]
        assert world.same(**given, shaping=stage, session=own, fusion=hr.RRF()) > 0


def test_a_reranker_that_is_a_function_runs_once_after_the_merge() -> None:
    def by_length(query: str, texts: Sequence[str]) -> list[float]:
        calls.append((query, tuple(texts)))
        return [float(len(text)) for text in texts]

    for world in worlds([0, 1, 2], wire=False):
        calls: list[tuple[str, tuple[str, ...]]] = []
        given = asked(3) | {"shaping": (hr.RerankBy(by_length, window=8),)}
        world.one.recall(now=NOW, **given)
        alone = calls
        for index in (world.shards, world.joined):
            calls = []
            index.recall(now=NOW, **given)
            assert calls == alone
        assert world.same(**given) > 0


ARMS: dict[str, dict[str, Any]] = {
    "newest": {"arms": (Newest("occurred_at"),)},
    "newest above": {"arms": (Newest("updated_at"),), "min_score": {"newest": hr.Above(0.04)}},
    "patterns": {"arms": (Regex(("text", "data"), on_bad="literal"),)},
    "listed": {
        "arms": (Listed("hints"),),
        "candidates": {"hints": [["k01", "k02", "k03"], None, {"k04": 2.0}, *[["k05"]] * 5]},
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ARMS)
def test_every_arm(name: str, effort: Effort) -> None:
    for seed, world in enumerate(worlds(range(effort.cases(quick=4, full=60)))):
        for fusion in (hr.RRF(), hr.WeightedSum(), hr.Max(), None):
            assert world.same(**asked(seed), **ARMS[name], fusion=fusion) > 0
            # Lists that are cut: an arm scores nothing that its joined list lacks.
            assert world.same(**asked(seed), **ARMS[name], fusion=fusion, depth=12) > 0


def test_places_of_the_newest_in_each_shard_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "with_ranks", lambda pools, *_: pools)
    world = next(worlds([1]))
    with pytest.raises(AssertionError):
        world.same(**asked(0), arms=(Newest("occurred_at"),))


def test_filters_queries_and_keys_cross_the_wire() -> None:
    filters = [
        hr.Filter(importance=(2, 8)) | ~hr.Filter(source="memory"),
        hr.Filter(occurred_at=(NOW - timedelta(hours=30), None)),
        hr.Filter(tags=hr.AllOf("oak")) & hr.Filter(pinned=hr.NotNull()),
        None,
    ]
    texts = [hr.Any(hr.Phrase("oak ash", slop=1), hr.Boost("fir", 2.0)), hr.Prefix("o"),
             hr.All("oak", "ash"), None]  # fmt: skip
    one = hr.Scope([("ann", "memory"), ("ann", "session")])
    for world in worlds([0, 1, 2, 3]):
        given = {"text": {"text": texts}, "scope": [one] * 4, "filter": filters}
        assert world.same(**given, query_keys=["a", "b", "c", "d"]) > 0
        vectors = [None, [1, 0, 0, 0.5], [0.25, 1, 1, 1], None]
        floors = {"text": hr.Above(0.1), "v": 0.2}
        assert world.same(**given, vectors=vectors, fusion=hr.RRF(), min_score=floors) > 0
        assert world.same(vectors=[None] * 4, scope=[one] * 4) == 0
