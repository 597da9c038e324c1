"""Every recipe on a device, cut wherever the device's steps may end and the CPU's go on."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from emulated import Emulator
from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from laws.engine import ipc_bytes
from seams import Recipe, SessionSignals, Stage

if TYPE_CHECKING:
    from hyrecall.memory import MemorySync

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
WORDS = np.array(["tea", "milk", "cup", "pot", "jug", "hot", "cold", "INV-7"])
TABLES = ("memory", "summary", "session")
DIM = 8
N = 300
TEXTS = ["tea hot", "milk cup", '"pot jug"', "INV-7 cold", "jug", "nowhere"]
USERS = ("ana", "bob")
STAGES: tuple[Stage, ...] = (
    hr.Dedup(0.8, scale="unit"),
    hr.Recency("created_at", half_life="30d"),
    hr.MMR(0.4, relevance="minmax"),
)
"""Stages of a device and of the CPU in turn."""


@cache
def world(
    device: str, key: str, analyzer: str, *, has_tables: bool
) -> tuple[hr.Index, hr.Graph | None]:
    """An index with the columns that a recipe reads, in two segments, and a graph over it."""
    rng = np.random.default_rng(5)
    keys = [f"k{at:03}" for at in rng.permutation(N)]
    users = rng.choice(USERS, N)

    def times(share: float) -> pa.Array:
        hours = rng.integers(0, 4000, N)
        mask = rng.random(N) < share
        return pa.array([NOW - timedelta(hours=int(h)) for h in hours], mask=mask)

    table = pa.table(
        {
            key: keys, "user": users, "table": rng.choice(TABLES, N),
            "text": [" ".join(row) for row in WORDS[rng.integers(0, len(WORDS), (N, 4))]],
            "description": [" ".join(row) for row in WORDS[rng.integers(0, len(WORDS), (N, 2))]],
            "data": rng.choice(WORDS, N),
            "tags": [rng.choice(WORDS, rng.integers(0, 3)).tolist() for _ in keys],
            "source": rng.choice(TABLES, N),
            "occurred_at": times(0.1), "created_at": times(0.1), "updated_at": times(0.0),
            "last_accessed": times(0.2), "importance": rng.integers(0, 11, N),
            "pinned": rng.random(N) < 0.2, "thread": rng.integers(0, 40, N), "turn": np.arange(N),
        }
    )  # fmt: skip
    vectors = rng.standard_normal((N, DIM)).astype(np.float32)
    vectors[rng.random(N) < 0.1] = 0
    vectors[40:60] = vectors[0]  # near-duplicates
    schema = hr.Schema(
        key=key, cell=("user", "table") if has_tables else "user", text="text",
        vector=hr.Vector("v", dtype="bfloat16"),
        attributes=("tags", "source", "occurred_at", "created_at", "updated_at",
                    "last_accessed", "importance", "pinned", "thread", "turn"),
        stored=("text", "description", "data"), thread="thread", place="turn",
    )  # fmt: skip
    index = hr.Index.build(
        table.slice(0, 200),
        schema,
        vectors={"v": vectors[:200]},
        device=device,
        analyzer=hr.Analyzer(analyzer),
    )
    index.add(table.slice(200), vectors={"v": vectors[200:]})
    if has_tables:
        return index, None
    edges = pa.table(
        {
            "id": np.arange(60), "user": rng.choice(USERS, 60),
            "label": rng.choice(WORDS, 60), "description": rng.choice(WORDS, 60),
            "participants": [rng.choice(keys, 3, replace=False).tolist() for _ in range(60)],
        }
    )  # fmt: skip
    graph = hr.Graph.build(edges, hr.GraphSchema(key="id", cell="user"), nodes=index)
    return index, graph


def with_device_stages(recipe: Recipe) -> tuple[Stage, ...]:
    """The recipe's stages, and those of the device and beside it that it lacks, in their order."""
    own = {stage.phase for stage in recipe.shaping}
    more = [stage for stage in STAGES if stage.phase not in own]
    return tuple(sorted((*recipe.shaping, *more), key=lambda stage: stage.phase))


def cuts(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    """The recipe with each beginning of its stages, tie-breaks or none, fused here or there."""
    stages = with_device_stages(recipe)
    for n in range(len(stages) + 1):
        for ties in {recipe.tie_break, ()}:
            for depth in (60, 1025):  # the CPU fuses longer lists than 1,024
                if 0 < n < len(stages) and depth > 60:
                    continue
                name = f"{n} stages, {len(ties)} tie-breaks, depth {depth}"
                yield name, recipe.replace(shaping=stages[:n], tie_break=ties, depth=depth)


def ask(device: str, recipe: Recipe, *, has_tables: bool = False) -> hr.Hits:
    key = "key" if recipe.name.startswith("hypergraph") else "id"
    index, graph = world(device, key, recipe.analyzer or "unicode", has_tables=has_tables)
    rng = np.random.default_rng(8)
    vectors = rng.standard_normal((len(TEXTS), DIM)).astype(np.float32)
    any_table = {"table": hr.ANY} if has_tables else {}
    scopes = [hr.Scope.matching(user=user, **any_table) for user in (*USERS, "ana", *USERS, "eve")]
    options: dict[str, Any] = {}
    if recipe != recipe.without_graphs():
        options["graphs"] = {"graph": graph}
    if any(isinstance(stage, SessionSignals) for stage in recipe.shaping):
        met = {f"k{at:03}": NOW - timedelta(minutes=at) for at in range(0, 90, 7)}
        options["session"] = [hr.Session(met, 4)] * len(TEXTS)
    return index.recall(
        text=TEXTS, vectors=vectors, scope=scopes, recipe=recipe, limit=25, now=NOW, **options
    )


CASES = [*((name, False) for name in recipes.__all__), ("honeycomb", True), ("threads", False)]
ON_DEVICE = set(recipes.__all__) - {"hypergraph_regex"}  # whose only arm matches patterns


@pytest.mark.parametrize(("name", "has_tables"), CASES)
def test_every_recipe_cut_anywhere_has_the_bits_of_the_cpu(
    emulated: Emulator, name: str, has_tables: bool
) -> None:
    recipe = recipes.default.for_threads() if name == "threads" else getattr(recipes, name)
    seen, n_cuts = set(), 0
    for cut, recipe_cut in cuts(recipe):
        expected = ask("cpu", recipe_cut, has_tables=has_tables)
        before = emulated.n_launches()
        found = ask("cuda:0", recipe_cut, has_tables=has_tables)
        n = emulated.n_launches() - before
        assert ipc_bytes(found.to_arrow()) == ipc_bytes(expected.to_arrow()), cut
        assert n > 0 or name not in ON_DEVICE, cut
        seen.add(bytes(ipc_bytes(expected.to_arrow())))
        n_cuts += 1
    assert len(seen) > n_cuts // 3  # most cuts show in the reply


def test_a_recipe_is_fused_where_its_depth_says(emulated: Emulator) -> None:
    def launches(depth: int) -> int:
        before = emulated.n_launches()
        ask("cuda:0", recipes.default.replace(depth=depth, exact=False, shaping=()))
        return emulated.n_launches() - before

    launches(60)  # uploads
    assert launches(60) == launches(1024) == launches(1025) + 3  # join, complete, fuse


@pytest.mark.parametrize(
    ("stage", "n_more"),
    [
        (hr.Recency("created_at", half_life="30d"), 0),
        (hr.Provenance("source", {"memory": 0.5}), 0),
        (hr.Composite(time="created_at", rating="importance", half_life="30d"), 0),
        (hr.Dedup(0.8), 1),
        (hr.MMR(0.4), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_stage_that_compares_vectors_is_one_launch_more_and_another_is_none(
    emulated: Emulator, stage: Stage, n_more: int
) -> None:
    def launches(*stages: Stage) -> tuple[int, bytes]:
        before = emulated.n_launches()
        hits = ask("cuda:0", recipes.default.replace(depth=60, exact=False, shaping=stages))
        return emulated.n_launches() - before, bytes(ipc_bytes(hits.to_arrow()))

    launches()  # uploads
    (n_without, without), (n_with, with_it) = launches(), launches(stage)
    assert n_with == n_without + n_more
    assert with_it != without


# ---- a store's recipes ----


@cache
def store(device: str, name: str) -> "MemorySync":
    """A store of two users, in memory."""
    pytest.importorskip("apsw", reason="needs the extra [memory]")
    from hyrecall.memory import Episode, MemorySync
    from memory.stores import NOON, Clock

    made = MemorySync.in_memory(
        recipe=getattr(recipes, name), embedder=HashEmbedder(dim=DIM), clock=Clock(),
        device=device, recall_timeout=30.0,
    )  # fmt: skip
    rng = np.random.default_rng(6)
    made.remember_batch(
        [
            Episode(
                id=f"e{at:03}", user_id=USERS[at % 2],
                text=" ".join(WORDS[rng.integers(0, len(WORDS), 5)]),
                occurred_at=NOON - timedelta(hours=at), tags=(str(rng.choice(WORDS)),),
                importance=int(rng.integers(0, 11)),
            )
            for at in range(120)
        ]
    )  # fmt: skip
    return made


OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"diversity": 0.4},
    {"normalize": True, "min_score": 0.2},
    {"token_budget": 40},
    {"alpha": 0.3},
)


REFUSED = {"conversation": {"normalize"}}
"""Options that a recipe does not take."""


@pytest.mark.parametrize("name", recipes.__all__)
def test_every_recipe_of_a_store_cut_anywhere_has_the_matches_of_the_cpu(
    emulated: Emulator, name: str
) -> None:
    recipe = getattr(recipes, name)
    here, there = store("cpu", name), store("cuda:0", name)
    stages = tuple(one for one in with_device_stages(recipe) if not isinstance(one, hr.Recency))
    n_found, before = 0, emulated.n_launches()
    for n in range(len(stages) + 1):
        cut = recipe.replace(shaping=stages[:n])
        for options in OPTIONS if cut == recipe else OPTIONS[:1]:
            if options.keys() & REFUSED.get(name, set()):
                continue
            for text in TEXTS[:4]:
                asked: dict[str, Any] = {"user_id": "ana", "recipe": cut, "limit": 15, **options}
                expected = here.search(text, **asked)
                found = there.search(text, **asked)
                assert found.degraded == expected.degraded
                assert list(found) == list(expected), (n, options, text)
                n_found += len(found)
    assert n_found > 20
    assert emulated.n_launches() > before or name not in ON_DEVICE
