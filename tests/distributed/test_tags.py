"""The arm Tags and shared tags over shards give the replies of one index, bit for bit."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.placed import placed_index, placed_shards, placement_of
from distributed.placement import WireShard, index_of, laid_out
from distributed.planted_tags import PLANTED
from hyrecall.arms import Tags, related
from hyrecall.distributed import ShardedIndex
from hyrecall.recipe import Lexical, Recipe
from laws.effort import Effort
from laws.engine import ipc_bytes
from seams import LocalShard, Lookup

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
TAGS = ("tea", "green tea", "kettle", "teapot", "milk", "éclair", "cake", "oven", "rain", "sea")
USERS = ("ann", "bob", "cay", "dan")
SCHEMA = hr.Schema(
    key="id", cell="user", text="text", vector="v",
    attributes=("tags", "kind", "last_accessed", "importance"),
)  # fmt: skip
SHARDS = (1, 2, 3, 7)


def documents(seed: int, n: int = 70) -> pa.Table:
    """Random rows of four users; most tags are rare, so that hops lead from row to row."""
    rng = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, len(TAGS) + 1)

    def some() -> list[str] | None:
        if rng.random() < 0.1:
            return None
        return rng.choice(TAGS, rng.integers(0, 4), p=weights / weights.sum()).tolist()

    accessed = [NOW - timedelta(hours=int(rng.integers(0, 900))) for _ in range(n)]
    kinds = [None if rng.random() < 0.2 else str(rng.choice(TAGS)) for _ in range(n)]
    vectors = rng.integers(-2, 3, (n, 3)).astype("f4")
    columns: dict[str, Any] = {
        "id": [f"k{at % 40:02}" for at in range(n)],  # two users may have the same key
        "user": [USERS[at // 40 * 2 + int(rng.integers(2))] for at in range(n)],
        "text": [" ".join(rng.choice(TAGS, rng.integers(1, 4))) for _ in range(n)],
        "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), 3),
        "tags": pa.array([some() for _ in range(n)], pa.list_(pa.string())),
        "kind": pa.array(kinds, pa.string()),
        "last_accessed": pa.array(accessed, pa.timestamp("us", "UTC")),
        "importance": rng.integers(0, 11, n),
    }
    return pa.table(columns)


def built(table: pa.Table, first: int) -> hr.Index:
    analyzer = hr.Analyzer("porter")
    return hr.Index.build(table, SCHEMA, analyzer=analyzer, first_seq=first, device="cpu")


@dataclass
class World:
    one: hr.Index
    shards: ShardedIndex

    def same(self, **options: Any) -> int:
        """Both give the same bytes, notes and related documents; return how many there were."""
        want = self.one.recall(now=NOW, **options)
        got = self.shards.recall(now=NOW, **options)
        assert ipc_bytes(got.to_arrow()) == ipc_bytes(want.to_arrow()), options
        assert [hits.related for hits in got] == [hits.related for hits in want], options
        assert got.trace.notes == want.trace.notes
        assert got.trace.degraded == want.trace.degraded == ()
        return want.to_arrow().num_rows + sum(len(hits.related) for hits in want)


def new_world(seed: int, *, is_placed: bool = False) -> World:
    table = documents(seed)
    one = built(table, 0)
    n_shards, kind = SHARDS[seed % 4], WireShard if seed % 3 == 0 else LocalShard
    if is_placed:
        placement = placement_of(table, SCHEMA, n_shards)
        own = placed_shards(table, SCHEMA, built, placement, n_shards)
    else:
        own = laid_out(table, built, n_shards, random.Random(seed))
    gone = table.slice(0, 60).take(pa.array(range(0, 60, 7)))
    for index in (one, *own):
        for key, user in zip(*(gone[name].to_pylist() for name in ("id", "user")), strict=True):
            index.delete([key], scope=user)
    if is_placed:
        return World(one, placed_index(own, placement, kind))
    return World(one, index_of(own, wire=kind is WireShard))


world_of = lru_cache(maxsize=16)(new_world)  # a recall changes nothing in it


def asked(seed: int) -> dict[str, Any]:
    """A batch whose queries differ in scope and filter."""
    rng = np.random.default_rng(1000 + seed)
    everyone = hr.Scope.matching(user=hr.ANY)
    scopes = ["ann", "bob", hr.Scope(["ann", "cay"]), hr.Scope(USERS), everyone, "nobody"]
    filters = [None, hr.Filter(importance=(3, 9)), hr.Filter(kind=hr.NotNull())]
    texts = ["tea", "a green kettle", "rain on the sea", "éclair", "te ake", "nothing here"]
    n = 8
    vectors = rng.integers(-2, 3, (n, 3)).astype("f4")
    return {
        "text": [str(rng.choice(texts)) for _ in range(n)],
        "vectors": vectors,
        "scope": [scopes[rng.integers(len(scopes))] for _ in range(n)],
        "filter": [filters[rng.integers(len(filters))] for _ in range(n)],
        "limit": int(rng.integers(1, 9)),
    }


def alone(given: dict[str, Any], arm: str = "tags") -> dict[str, Any]:
    """The same queries for an arm Tags without others."""
    kept = {name: one for name, one in given.items() if name != "vectors"}
    return kept | {"text": {arm: given["text"]}}


ARMS = (
    Tags("tags"),
    Tags("tags", depth=0),
    Tags("tags", depth=3, partial=True),
    Tags("tags", depth=5, analyzer="word"),
    Tags("kind", depth=2, name="kinds", partial=True),
)


@pytest.mark.plain_cases(8)
@pytest.mark.parametrize("is_placed", [False, True])
def test_the_recipe_hebb(is_placed: bool, effort: Effort) -> None:
    for seed in range(effort.cases(quick=8, full=80)):
        world = world_of(seed, is_placed=is_placed)
        given = asked(seed)
        assert world.same(**given, recipe=hr.recipes.hebb) > 0
        assert world.same(**given, recipe=hr.recipes.hebb, offset=2) >= 0
        assert world.same(**given | {"scope": "ann", "filter": None}, recipe=hr.recipes.hebb) > 0


@pytest.mark.plain_cases(8)
@pytest.mark.parametrize("arm", ARMS, ids=repr)
def test_the_arm(arm: Tags, effort: Effort) -> None:
    n_found = 0
    for seed in range(effort.cases(quick=8, full=80)):
        world = world_of(seed, is_placed=seed % 5 == 0)
        given = asked(seed)
        n_found += world.same(**alone(given, arm.name), arms=arm)
        n_found += world.same(**alone(given, arm.name), arms=arm, min_score=0.3)
        for fusion in (hr.RRF(), hr.Max(), None):
            n_found += world.same(**given, arms=(arm, *ARMS[-1:][: arm.name != "kinds"]),
                                  fusion=fusion, depth=20)  # fmt: skip
    assert n_found > 100


@pytest.mark.plain_cases(8)
def test_shared_tags(effort: Effort) -> None:
    n_found = 0
    for seed in range(effort.cases(quick=8, full=80)):
        world = world_of(seed, is_placed=seed % 2 == 0)
        given = asked(seed)
        for column, n in (("tags", 1), ("tags", 4), ("kind", 50)):
            for hops in (0, 1):
                part = hr.SharedTags(column, n=n, hops=hops)
                n_found += world.same(**given, expansion=(part,), offset=1)
    assert n_found > 100


MINE = (
    hr.recipes.hebb,
    Recipe(name="words", arms=(Lexical(),), fusion=hr.RRF(), expansion=(hr.SharedTags("kind"),)),
    Recipe(
        name="fallback", arms=(Lexical(mode="all"),), fusion=hr.RRF(),
        on_no_match=(Tags("tags", depth=2, partial=True),),
    ),
    Recipe(name="tags", arms=(), more=(Tags("tags", depth=2),), fusion=hr.RRF()),
)  # fmt: skip


@pytest.mark.plain_cases(8)
def test_a_recipe_for_each_query(effort: Effort) -> None:
    for seed in range(effort.cases(quick=8, full=80)):
        world = world_of(seed, is_placed=seed % 2 == 1)
        rng = random.Random(seed)
        given = asked(seed)
        assert world.same(**given, recipe=[rng.choice(MINE) for _ in given["text"]]) > 0
        for recipe in MINE[2:]:
            assert world.same(**given, recipe=recipe) >= 0
        texts = {"text": given["text"][::-1], "tags": given["text"]}
        assert world.same(**given | {"text": texts}, recipe=MINE[0]) > 0


def compare(seeds: range) -> None:
    for seed in seeds:
        world, given = new_world(seed), asked(seed)
        world.same(**given, recipe=hr.recipes.hebb)
        beside = hr.SharedTags("tags", n=100, hops=1)
        world.same(**{**given, "limit": 1, "offset": 0}, expansion=(beside,))
        world.same(**alone(given), arms=ARMS[2])


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[name](monkeypatch)
    with pytest.raises(AssertionError):
        compare(range(1, 8))


def chain(*owners: str) -> pa.Table:
    """Documents that lead from a tag to the next: t0 t1, t1 t2 and so on."""
    rows = documents(0, len(owners))
    tags = [[f"t{at}", f"t{at + 1}"] for at in range(len(owners))]
    rows = rows.set_column(rows.schema.names.index("tags"), "tags", pa.array(tags))
    rows = rows.set_column(rows.schema.names.index("user"), "user", pa.array(list(owners)))
    ids = pa.array([f"d{at}" for at in range(len(owners))])
    return rows.set_column(rows.schema.names.index("id"), "id", ids)


class Heard(WireShard):
    """Records the tags that it tells."""

    told: list[str]

    def lookup(self, lookup: Lookup) -> Any:
        found = super().lookup(lookup)
        if "tag" in found.rows.schema.names:
            self.told += found.rows["tag"].to_pylist()
        return found


def heard(table: pa.Table) -> tuple[list[str], ShardedIndex]:
    """Each row in a shard of its own, and all tags that the shards have told."""
    told: list[str] = []
    shards: list[Any] = []
    for at in range(table.num_rows):
        made = Heard(f"shard {at}", built(table.slice(at, 1), at))
        made.told = told
        shards.append(made)
    return told, ShardedIndex(shards)


def test_hops_lead_from_shard_to_shard() -> None:
    told, index = heard(chain(*["ann"] * 6))
    for depth in range(5):
        arm = Tags("tags", depth=depth)
        found = index.recall(text={"tags": ["t0"]}, scope="ann", arms=arm)
        scores = [(hit.key, round(hit.score / 0.6, 6)) for hit in found[0]]
        # The document d1 has the tag t1, which is one hop from t0.
        assert scores == [(f"d{at}", 0.5**at) for at in range(depth + 1)]
    assert set(told) == {f"t{at}" for at in range(5)}


def test_a_tag_of_another_scope_is_never_followed() -> None:
    told, index = heard(chain("ann", "bob", "ann"))
    given: dict[str, Any] = {"text": {"tags": ["t0"]}, "arms": Tags("tags", depth=5)}
    assert index.recall(**given, scope="ann")[0].keys == ["d0"]
    assert set(told) == {"t0", "t1"}  # t2 is beside t1 only for bob
    assert index.recall(**given, scope=hr.Scope(["ann", "bob"]))[0].keys == ["d0", "d1", "d2"]
    told.clear()
    asked_of = hr.Filter(importance=(100, None))  # a filter narrows what is listed, no hop
    assert index.recall(**given, scope="bob", filter=asked_of)[0].keys == []
    assert told == []
    text = {"tags": ["t1"]}
    hits = index.recall(text=text, arms=Tags("tags"), scope="ann", expansion=hr.SharedTags("tags"))
    assert hits[0].keys == ["d0"]
    assert hits[0].related == []


def test_related_documents_of_hits_that_came_from_shards_are_refused() -> None:
    hits = world_of(1).shards.recall(**asked(0))
    with pytest.raises(hr.OptionError, match="hits: expected hits of one index"):
        related(hits, "tags")
