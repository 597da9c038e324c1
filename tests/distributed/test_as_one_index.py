"""Shards of one process answer all that one index answers, with the same bits: what is explained,
what stands around a hit, what a graph or a tag leads to, and what a second search finds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.placement import index_of, laid_out
from distributed.test_damaged_shards import damage
from distributed.test_recipes import NOW, WORDS, asked, built, documents
from hyrecall.arms import EdgeLexical, Edges, Regex, Tags, related
from hyrecall.distributed import ShardedIndex
from hyrecall.embed import HashEmbedder
from laws.effort import Effort
from laws.engine import ipc_bytes
from seams import disk, shards_module

EVERYONE = hr.Scope.matching(user=hr.ANY, table=hr.ANY)
EDGE_SCHEMA = hr.GraphSchema(key="id", cell=None, text="label", participants="who")
CALLS: dict[str, Callable[[hr.Graph], dict[str, Any]]] = {
    "plain": lambda _: {"fusion": hr.RRF()},
    "default": lambda _: {"recipe": hr.recipes.default},
    "surrounding": lambda _: {"surrounding": 2, "fusion": hr.RRF()},
    "threads": lambda _: {"group": "thread", "surrounding": 1, "fusion": hr.RRF()},
    "feedback": lambda _: {"shaping": (hr.Feedback(), hr.MMR(0.5)), "fusion": hr.RRF()},
    "tags": lambda _: {"arms": Tags("tags"), "fusion": hr.RRF()},
    "edges": lambda graph: {
        "arms": (EdgeLexical(graph), Regex(("text", Edges(graph)))), "fusion": hr.RRF(),
        "expansion": hr.Context(graph),
    },
    "graphs by name": lambda graph: {
        "arms": EdgeLexical("net"), "graphs": {"net": graph}, "fusion": hr.RRF(),
    },
    "hypergraph": lambda graph: {
        "recipe": hr.recipes.hypergraph.replace(
            more=(EdgeLexical("graph"), Regex(("text", Edges("graph")), only_patterns=True)),
            on_no_match=(Regex(("text", Edges("graph")), on_bad="literal"),), tie_break=(),
        ),
        "graphs": {"graph": graph},
    },
    "hebb": lambda _: {"recipe": hr.recipes.hebb.replace(analyzer=None)},
    "a recipe for each query": lambda _: {
        "recipe": [hr.recipes.default, hr.recipes.hebb.replace(analyzer=None)] * 4
    },
}  # fmt: skip


def edges(seed: int) -> pa.Table:
    """Random edges between documents."""
    rng = np.random.default_rng(seed)
    n = 40
    who = [[f"k{at:02}" for at in rng.choice(60, rng.integers(2, 4), replace=False)]
           for _ in range(n)]  # fmt: skip
    labels = [" ".join(rng.choice(WORDS, 2)) for _ in range(n)]
    return pa.table({"id": list(range(n)), "label": labels, "who": who})


@lru_cache(maxsize=6)  # a recall changes nothing in them
def indexes(seed: int, n_shards: int) -> tuple[hr.Index, ShardedIndex]:
    """One index, and the same documents in shards; threads may be torn."""
    table = documents(seed)
    one = built(table, 0)
    shards = laid_out(table, built, n_shards, random.Random(seed))
    gone = table["id"].to_pylist()[::7]
    for index in (one, *shards):
        index.delete(gone, scope=[EVERYONE] * len(gone))
    return one, index_of(shards, wire=False)


def said(index: Any, name: str, seed: int) -> list[object]:
    """What an index answers to a call: the table, and all that is said of its hits."""
    graph = hr.Graph.build(edges(seed), EDGE_SCHEMA, nodes=index)
    given = asked(seed)
    given |= {"text": [one if one.strip() else "oak" for one in given["text"]]}
    options = CALLS[name](graph)
    hits = index.recall(now=NOW, columns=("text",), **given, **options)
    assert not hits.degraded
    out: list[object] = [ipc_bytes(hits.to_arrow()), set(hits.trace.notes)]
    if not any(isinstance(value, list) for value in options.values()):
        out.append(str(related(hits, "tags")))
    for query in hits:
        out.append(str(query.explain_dropped().to_list()))
        for hit in query:
            around = [(row.key, row.step, row.text) for row in hit.surrounding]
            threads = [(row.key, row.score) for row in hit.thread_rows]
            told = [str(hit.explain()), str(hit["data"]), around, threads]
            out.append((hit.key, hit.text, told))
    one = index.recall_one(text="oak ash", vector=[1, 0, 0, 1], scope=EVERYONE, now=NOW)
    out.append([(hit.key, hit.score, str(hit.explain())) for hit in one])
    return [*out, graph.neighbours([["k01", "k05"]], scope=EVERYONE)]


def check(name: str, seeds: Sequence[int]) -> None:
    for seed in seeds:
        one, shards = indexes(seed, (1, 2, 5)[seed % 3])
        want = said(one, name, seed)
        assert said(shards, name, seed) == want
        assert len(want) > 12


@pytest.mark.plain_cases(3)
@pytest.mark.parametrize("name", CALLS)
def test_every_call_and_all_that_is_said_of_its_hits(name: str, effort: Effort) -> None:
    check(name, range(effort.cases(quick=3, full=30)))


def of_the_first(states: Sequence[Any]) -> Any:
    """Planted: the documents of one shard."""
    return states[0]


def without_the_last(states: Sequence[Any]) -> Any:
    """Planted: a shard is left out."""
    return joined(states[:-1])


def one_twice(states: Sequence[Any]) -> Any:
    """Planted: a shard is there twice."""
    return joined([*states, states[0]])


joined = shards_module.joined_state


@pytest.mark.plain_cases(6)  # each bug twice
@pytest.mark.parametrize("bug", [of_the_first, without_the_last, one_twice])
@pytest.mark.parametrize("name", ["plain", "surrounding", "feedback", "edges"])
def test_planted_states_are_seen(
    bug: Callable[[Sequence[Any]], Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexes.cache_clear()  # of which each keeps its joined state
    monkeypatch.setattr(shards_module, "joined_state", bug)
    with pytest.raises((AssertionError, hr.HyrecallError)):
        check(name, [2, 5])
    indexes.cache_clear()


def test_texts_are_embedded_as_by_one_index(tmp_path: Path) -> None:
    hashes = HashEmbedder(dim=16)
    rows = pa.table({"id": [1, 2, 3], "user": ["ann"] * 3, "text": ["tea", "hot tea", "milk"]})
    schema = hr.Schema(key="id", cell="user", text="text", vector="v")
    for at in range(2):
        own = hr.Index.build(rows.slice(2 * at, 2), schema, embed=hashes, first_seq=2 * at)
        own.save(tmp_path / str(at))
    given: dict[str, Any] = {"text": ["tea", "milk"], "scope": "ann"}
    with hr.Index.build(rows, schema, embed=hashes) as one:
        want = one.recall(**given).to_arrow()
    with ShardedIndex.open(tmp_path, embed=hashes, device="cpu") as index:
        got = index.recall(**given)
        assert not got.degraded
        assert ipc_bytes(got.to_arrow()) == ipc_bytes(want)
    with pytest.raises(hr.OptionError, match=r"^embed"):
        ShardedIndex.open(tmp_path, embed={"none": hashes}, device="cpu")


def test_a_damaged_shard_leaves_the_others_as_one_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "BLOCK_BYTES", 512)
    table = documents(3, 900)
    table = table.set_column(0, "id", pa.array([f"k{at}" for at in range(900)]))
    named = [one and f"{one}-{at // 300}" for at, one in enumerate(table["session"].to_pylist())]
    table = table.set_column(table.column_names.index("session"), "session", pa.array(named))
    parts = [table.slice(first, 300) for first in (0, 300, 600)]
    for at, part in enumerate(parts):
        built(part, 300 * at).save(tmp_path / str(at))
    damage(tmp_path / "1")
    with ShardedIndex.open(tmp_path, verify="structure", device="cpu") as index:
        one = built(parts[0], 0)
        one.add(parts[2], first_seq=600)
        given = {**asked(1), "shaping": (hr.Feedback(),), "surrounding": 1, "fusion": hr.RRF()}
        got, want = (every.recall(now=NOW, **given) for every in (index, one))
        (told,) = got.trace.degraded
        assert told.startswith("1: its documents are missing (its files are damaged: ")
        assert ipc_bytes(got.to_arrow()) == ipc_bytes(want.to_arrow())
        assert got[0][0].explain().score == want[0][0].explain().score
        alone = index.recall_one(text="oak", vector=[1, 0, 0, 1], scope=EVERYONE, now=NOW)
        assert alone.trace.degraded == (told,)
