"""One small object of each public class, and otherwise good arguments for each public callable."""

import asyncio
import inspect
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import hyrecall as hr
from api.description import load
from api.test_baseline import BASELINE, MODULES, MORE
from hyrecall import distributed, embed, evaluate, folders, memory, recipes
from hyrecall.adapters.documents import Document, DocumentIndex
from hyrecall.migrate import Source
from hyrecall.systems import hypergraph, l0, loom
from retrieval_set import small_set
from small_index import ONE, SCHEMA, VECTORS, built, documents

NOW = datetime(2026, 3, 1, tzinfo=UTC)
RRF = evaluate.read_setting("rrf")
STAGED = RRF.but("staged", shaping=(hr.Gate(0.0), hr.MMR(0.5)))
EDGES = pa.table(
    {
        "id": ["e0", "e1"],
        "user": ["ana", "ana"],
        "label": ["knows", "meets"],
        "description": ["x", "y"],
        "participants": [["k0", "k1"], ["k1", "k2"]],
    }
)
GRAPH = hr.GraphSchema(key="id", cell="user")
STORE: Any = {"embedder": embed.HashEmbedder(4), "recipe": recipes.default}


def callables() -> dict[str, tuple[str, ...]]:
    """Return the public callables of the baseline with the names of their arguments."""
    found, owner = {}, ""
    for line in BASELINE.read_text("utf-8").splitlines():
        if made := re.match(r"class (\w+)", line):
            owner = made[1]
        elif made := re.match(
            r"( *)(?:async )?(new|method|function|classmethod|staticmethod) (\w+)\((.*)\)$", line
        ):
            name = made[3] if made[2] in ("new", "function") else f"{owner}.{made[3]}"
            plain = re.sub(r"\((?:[^()]|\([^()]*\))*\)|\[[^]]*\]|\{[^}]*\}", "", made[4])
            names = (one.strip(" *").partition("=")[0] for one in plain.split(","))
            found[name] = tuple(one for one in names if one not in ("", "/"))
    return found


def table() -> pa.Table:
    column = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.ravel()), 3)
    return documents().append_column("embedding", column)


class Several(tuple[Any, ...]):
    """The values of an argument with a star."""


class World:
    """Everything is made once, when it is first needed: a refused call changes nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names = {
            name: one for found in load(MODULES, MORE).values() for name, one in found.items()
        }
        self.loop = asyncio.new_event_loop()
        self.index = built()
        self.graph = hr.Graph.build(EDGES, GRAPH, nodes=self.index)
        self.hits = self.index.recall(text=["tea"], vectors=ONE, scope="ana")
        self.saved, self.split = folder / "index", folder / "shards"
        self.index.save(self.saved)
        self.graph_saved, self.documents = folder / "graph", folder / "documents"
        self.graph.save(self.graph_saved)
        DocumentIndex(attributes={"kind": int}, dim=3).save(self.documents)
        pq.write_table(table(), folder / "rows.parquet")
        pq.write_table(ARGUMENTS["queries"](self), folder / "queries.parquet")
        distributed.build_shards(folder / "rows.parquet", SCHEMA, self.split, shards=2)
        (folder / "tea.md").write_text("tea")

    @cached_property
    def shards(self) -> distributed.ShardedIndex:
        return distributed.ShardedIndex.open(self.split)

    @cached_property
    def store(self) -> memory.MemorySync:
        store = memory.MemorySync.in_memory(**STORE)
        self.fill(store)
        return store

    @cached_property
    def notes(self) -> l0.Notes:
        notes = l0.Notes(memory.MemorySync.in_memory(embedder=None, recipe=recipes.l0))
        notes.save("k", "v")
        return notes

    @cached_property
    def graph_store(self) -> memory.MemorySync:
        store = memory.MemorySync.in_memory(embedder=None, recipe=recipes.hypergraph)
        return store

    def fill(self, store: memory.MemorySync) -> None:
        store.remember("tea", id="a", user_id="ann")
        store.remember("milk", id="b", user_id="ann")
        store.agent("bot", org="o", workspace="w").remember("tea", id="c")

    @cached_property
    def awaited(self) -> memory.Memory:
        async def opened() -> memory.Memory:
            return await memory.Memory.in_memory(**STORE)

        one = self.loop.run_until_complete(opened())
        self.fill(one._sync)
        return one

    @cached_property
    def followed(self) -> hr.Index:
        return folders.build(folders.read(self.folder))

    @cached_property
    def dataset(self) -> evaluate.Dataset:
        return small_set()

    @cached_property
    def indexes(self) -> evaluate.Indexes:
        return evaluate.Indexes(self.dataset)

    @cached_property
    def plain_dataset(self) -> evaluate.Dataset:
        data = self.dataset
        bare = [one.drop_columns(["embedding"]) for one in (data.corpus, data.queries)]
        return evaluate.Dataset("plain", *bare, data.judgements)

    @cached_property
    def tagged(self) -> hr.Hits:
        table = pa.table({"id": ["a"], "text": ["tea"], "tags": [["hot"]], "kind": [1]})
        schema = hr.Schema(key="id", cell=None, text="text", attributes=("kind", "tags"))
        return hr.Index.build(table, schema).recall(text=["tea"])

    @cached_property
    def awaited_graph(self) -> memory.Memory:
        async def opened() -> memory.Memory:
            return await memory.Memory.in_memory(embedder=None, recipe=recipes.hypergraph)

        return self.loop.run_until_complete(opened())

    @cached_property
    def scores(self) -> list[evaluate.Scores]:
        return [evaluate.score_run({"q": ["a"], "r": ["b"]}, {"q": {"a": 1}, "r": {"a": 1}})] * 2

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *_: object) -> None:
        for name in ("store", "graph_store", "notes", "shards"):
            if made := vars(self).get(name):
                getattr(made, "_memory", made).close()
        for name in vars(self).keys() & {"awaited", "awaited_graph"}:
            self.loop.run_until_complete(getattr(self, name).close())
        self.loop.close()

    def state(self) -> object:
        """What a write would change."""
        stores = (self.store, self.awaited._sync, self.graph_store)
        return (
            len(self.index),
            len(self.graph),
            [len(store.list(user_id="ann")) for store in stores],
            sorted(path.name for path in self.folder.iterdir()),
        )

    def made(self, value: Any) -> Any:
        return value(self) if callable(value) else value

    def call(self, name: str, /, **given: Any) -> object:
        """Call a public callable, with otherwise good arguments."""
        owner, _, method = name.rpartition(".")
        kind = self.names[owner or method]
        thing = kind
        if owner:
            is_static = isinstance(inspect.getattr_static(kind, method), classmethod | staticmethod)
            thing = getattr(kind if is_static else OBJECTS[owner](self), method)
        good = GOOD.get(name, GOOD.get(method if owner else "", {}))
        given = {**{key: self.made(value) for key, value in good.items()}, **given}
        spread = []
        for one in inspect.signature(thing).parameters.values():
            if one.kind is one.VAR_POSITIONAL and one.name in given:
                value = given.pop(one.name)
                spread = list(value) if isinstance(value, Several) else [value]
            elif one.kind is one.VAR_KEYWORD and one.name in given:
                given["colour"] = given.pop(one.name)
            elif one.default is one.empty and one.name in ARGUMENTS and one.name not in given:
                given[one.name] = self.made(ARGUMENTS[one.name])
        reply = thing(*spread, **given)
        if inspect.isawaitable(reply):

            async def waited() -> object:
                return await reply

            return self.loop.run_until_complete(waited())
        return reply


OBJECTS: dict[str, Callable[[World], Any]] = {
    "Analyzer": lambda _: hr.Analyzer(),
    "Index": lambda world: world.index,
    "Graph": lambda world: world.graph,
    "Dropped": lambda _: hr.Dropped(()),
    "GraphSchema": lambda _: GRAPH,
    "Hit": lambda world: world.hits[0][0],
    "Hits": lambda world: world.hits,
    "QueryHits": lambda world: world.hits[0],
    "Max": lambda _: hr.Max(),
    "WeightedSum": lambda _: hr.WeightedSum(),
    "Recipe": lambda _: recipes.hypergraph,
    "Session": lambda _: hr.Session(),
    "SessionSignals": lambda world: hr.SessionSignals(world.graph),
    "StageTrace": lambda _: hr.StageTrace("a", 1, 1, 1.0, ()),
    "Trace": lambda world: world.hits.trace,
    "MemorySync": lambda world: world.store,
    "Memory": lambda world: world.awaited,
    "AgentMemorySync": lambda world: world.store.agent("bot", org="o", workspace="w"),
    "AgentMemory": lambda world: world.awaited.agent("bot", org="o", workspace="w"),
    "Browse": lambda world: world.store.browse(user_id="ann"),
    "Notes": lambda world: world.notes,
    "Fact": lambda _: memory.Fact(subject="a", predicate="b", object="c"),
    "InProcessSessions": lambda _: memory.InProcessSessions(),
    "RedisSessions": lambda _: hypergraph.RedisSessions(object()),
    "VectorStore": lambda _: loom.VectorStore(embed.HashEmbedder(4)),
    "EpisodeMatch": lambda world: world.store.search("tea", user_id="ann")[0],
    "Matches": lambda world: world.store.search("tea", user_id="ann"),
    "HashEmbedder": lambda _: embed.HashEmbedder(4),
    "HttpEmbedder": lambda _: embed.HttpEmbedder("http://localhost:1"),
    "StaticEmbedder": lambda _: embed.StaticEmbedder(),
    "MiniLMEmbedder": lambda _: embed.MiniLMEmbedder(),
    "Dataset": lambda world: world.dataset,
    "Indexes": lambda world: world.indexes,
    "Setting": lambda _: RRF,
    "Study": lambda w: evaluate.Study("x", (), (), ()),
    "ShardedIndex": lambda world: world.shards,
    "BatchRecall": lambda world: distributed.BatchRecall(
        world.split, key="q", text="text", scope=["who"]
    ),
    "Placement": lambda _: distributed.Placement((("user", "large_string"),), (0,) * 4096),
    "Request": lambda _: distributed.Request(text=["tea"], scope="ana"),
    "DocumentIndex": lambda _: DocumentIndex(attributes={"kind": int}, dim=3),
    "IndexReplica": lambda w: w.names["IndexReplica"](lambda: w.index),
}
ARGUMENTS: dict[str, Any] = {  # those without a default
    "after": lambda world: world.scores[1],
    "agent": "bot",
    "among": [["k1"]],
    "argument": "keys",
    "arm": "text",
    "arms": lambda _: (hr.recipe.Lexical(),),
    "around": lambda _: hr.Around(),
    "at": 0,
    "base": lambda _: STAGED,
    "baseline": {},
    "batches": lambda _: table().to_batches(),
    "before": lambda world: world.scores[0],
    "cell": "user",
    "cells": ["ana"],
    "column": "kind",
    "columns": ("a",),
    "content": b"x",
    "data": {},
    "dataset": lambda world: world.dataset,
    "differences": [0.5, -0.25],
    "documents": lambda _: [Document(text="tea")],
    "dim": 1,
    "edges": [0, 1],
    "embedder": lambda _: embed.HashEmbedder(4),
    "episode": "tea",
    "episodes": ["tea"],
    "expression": None,
    "fact": lambda _: memory.Fact(subject="a", predicate="b", object="c"),
    "facts": lambda w: w.index._facts,
    "factor": 1,
    "file": lambda world: world.folder / "x.jsonl",
    "first": 0,
    "general": 1.0,
    "topical": 0.0,
    "session": 0.0,
    "filter": lambda _: hr.Filter(kind=1),
    "folder": lambda world: world.split,
    "function": lambda _: hr.RRF,
    "fusion": lambda _: hr.RRF(),
    "given": [],
    "graph": "graph",
    "graphs": lambda world: {"graph": world.graph},
    "half_life": "1d",
    "hit": None,
    "hits": lambda world: world.hits,
    "hot": [["k0"]],
    "id": "a",
    "ids": ["a"],
    "index": lambda world: world.split,
    "indexes": lambda world: world.indexes,
    "judgements": {"q": {"a": 1}},
    "key": "id",
    "keys": ["k0"],
    "kind": lambda _: pa.list_(pa.string()),
    "measure": "nDCG@10",
    "memory": lambda world: world.store,
    "memory_limit": 1 << 30,
    "metadata": {"kind": 1},
    "milliseconds": 1.0,
    "n_in": 1,
    "n_out": 1,
    "note": "",
    "min_score": 1.0,
    "model": "m",
    "most": 3,
    "n": 1,
    "n_recalls": 0,
    "n_texts": 1,
    "name": "a",
    "names": ("a",),
    "new_key": "k2",
    "nodes": lambda world: world.index,
    "now": lambda _: NOW,
    "object": "c",
    "open_index": lambda _: built,
    "option": "shaping",
    "org": "o",
    "output": lambda world: world.folder / "output",
    "part": "even",
    "participants": lambda _: (memory.Participant(id="a"), memory.Participant(id="b")),
    "parts": [],
    "path": lambda world: world.folder / "new",
    "paths": lambda world: world.split,
    "policy": "shared",
    "predicate": "b",
    "queries": lambda _: pa.table({"q": ["a"], "text": ["tea"], "who": ["ana"]}),
    "query": "tea",
    "rating": "stars",
    "reason": "because",
    "recall": OBJECTS["BatchRecall"],
    "relationship": "knows",
    "relevance_weight": 0.5,
    "reply": [[1.0]],
    "request": OBJECTS["Request"],
    "run": {"q": ["a"]},
    "schema": lambda _: SCHEMA,
    "scope": "ana",
    "scores": lambda world: world.scores,
    "seconds": 1.0,
    "server": None,
    "served": lambda world: world.index,
    "setting": lambda _: RRF,
    "settings": lambda _: [RRF],
    "shards": [],
    "slots": (0,) * 4096,
    "source": lambda world: world.folder / "rows.parquet",
    "start": 1,
    "end": 2,
    "statistics": None,
    "stored": lambda _: hr.Analyzer().to_dict(),
    "study": lambda _: evaluate.Study("x", (), (), ()),
    "subject": "a",
    "system": "mem0",
    "table": lambda _: table(),
    "tables": lambda _: [table()],
    "text": "tea",
    "texts": ["tea"],
    "threshold": 0.5,
    "time": lambda _: NOW,
    "timeout": 1.0,
    "to": "/notes/b.md",
    "tokenizer": None,
    "tokens": 10,
    "url": lambda world: (world.folder / "remote").as_uri(),
    "used": ["a"],
    "value": 1,
    "values": {"a": 1},
    "version": "1",
    "weights": {"fused": 1.0},
    "workspace": "w",
    "chunks": lambda world: folders.read(world.folder),
    "client": object,
    "budget": 1.0,
    "app": None,
    "pattern": "a",
}
_GRAPH: dict[str, Any] = {"scope": "ana"}
_USER = {"user_id": "ann"}
GOOD: dict[str, dict[str, Any]] = {  # of a callable, or of methods with one name
    **{key: {"text": ["tea"], "scope": "ana"} for key in ("recall", "arecall")},
    **{key: {"text": "tea", "scope": "ana"} for key in ("recall_one", "arecall_one")},
    **{
        f"Graph.{one}": {"scope": "ana"}
        for one in ("delete", "delete_incident", "distances", "neighbours", "topical")
    },
    **{f"Index.{one}": {"scope": "ana"} for one in ("get", "count", "delete")},
    "Index.build": {"schema": SCHEMA},
    "Index.replace": {"scope": "ana", "filter": hr.Filter(kind=0)},
    "Request": {"text": ["tea"], "scope": "ana"},
    "Graph.build": {"table": lambda _: EDGES, "schema": lambda _: GRAPH},
    "Graph.add": {"table": lambda _: EDGES},
    "Graph.upsert": {"table": lambda _: EDGES},
    "Graph.delete": {"keys": ["e0"], "scope": "ana"},
    "Graph.neighbours": {"keys": [["k0"]], "scope": "ana"},
    "Graph.topical": {"hot": [{"k0": 1.0}], "scope": "ana"},
    "Graph.participants": {"column": lambda _: EDGES["participants"].combine_chunks()},
    "GraphSchema.with_participants": {"table": lambda _: EDGES},
    "Index.open": {"path": lambda world: world.saved},
    "Index.recall": {"text": ["tea"], "scope": "ana"},
    "Index.arecall": {"text": ["tea"], "scope": "ana"},
    "Coefficients": {"query": {"base": 0.0, "names": 1.0}, "hit": {"base": 0.0}},
    "Linear": {"weights": {"fused": 1.0}},
    "Composite": {"time": "at"},
    "recall_dataset": {"queries": lambda w: w.folder / "queries.parquet"},
    "embed_dataset": {"dataset": lambda w: w.plain_dataset},
    "Graph.open": {"schema": lambda _: GRAPH, "path": lambda w: w.graph_saved},
    "DocumentIndex.open": {"path": lambda w: w.documents},
    "Provenance": {"weights": {"a": 1}},
    "Recipe.from_json": {"text": recipes.l0.to_json()},
    "Schema.from_dict": {"data": SCHEMA.to_dict()},
    "Schema": {"text": "text"},
    "SessionSignals": {"graph": "graph"},
    **{
        f"{kind}.{name}": _USER
        for kind in ("Memory", "MemorySync")
        for name in [
            "get",
            "update",
            "update_many",
            "list_sessions",
            "count",
            "forget",
            "pin",
            "history",
            "links",
            "search",
            "recall",
            "recall_scored",
            "recall_facts",
            "list",
            "list_facts",
            "list_feedback",
            "end_fact",
            "unlink",
            "supersede",
            "feedback",
            "link",
        ]
    },
    **{
        f"{kind}.update": {
            **({"user_id": "ann"} if not kind.startswith("Agent") else {"id": "c"}),
            "text": "x",
        }
        for kind in ("Memory", "MemorySync", "AgentMemory", "AgentMemorySync")
    },
    **{
        f"{kind}.update_many": {"changes": {"importance": 1.0}, "id": "a", **_USER}
        for kind in ("Memory", "MemorySync")
    },
    **{f"{kind}.link": {"participants": ["a", "b"], **_USER} for kind in ("Memory", "MemorySync")},
    **{f"{kind}.end_fact": {"at": lambda _: NOW, **_USER} for kind in ("Memory", "MemorySync")},
    **{f"{kind}.end_fact": {"at": lambda _: NOW} for kind in ("AgentMemory", "AgentMemorySync")},
    **{
        f"{kind}.{name}": {"embedder": None}
        for kind in ("Memory", "MemorySync")
        for name in ("open", "in_memory")
    },
    **{f"{kind}.feedback": {"used": ["c"]} for kind in ("AgentMemory", "AgentMemorySync")},
    **{
        f"Browse.{one}": {"path": "/notes/a.md"}
        for one in ["append", "cat", "classify", "cp", "find", "grep", "ls", "mv", "rm", "write"]
    },
    **{f"Notes.{one}": {"key": "k"} for one in ["delete", "get", "save", "supersede"]},
    **{
        f"{kind}.recall{one}": {}
        for kind in ("AgentMemory", "AgentMemorySync")
        for one in ("_scored", "_facts")
    },
    "Notes.save": {"key": "k", "value": "v"},
    "Notes.supersede": {"key": "k", "value": "v"},
    "DocumentIndex.recall": {"text": "tea", "scope": "a"},
    "DocumentIndex.delete": {"ids": ["a"]},
    "DocumentIndex.value": {"name": "kind"},
    "BatchRecall": {"key": "q", "text": "text", "scope": ["who"]},
    "BatchRecall.schema_of": {"queries": lambda w: ARGUMENTS["queries"](w).schema},
    "Placement": {"columns": (("user", "large_string"),)},
    "Placement.encode": {"cell": ("ana",)},
    "Placement.shards_of": {"cell": ("ana",)},
    "Placement.shards_of_bytes": {"cell": b"ana"},
    "Part.from_bytes": {"data": b"x"},
    "Request.from_bytes": {"data": b"x"},
    "Statistics.from_bytes": {"data": b"x"},
    "build_shards": {"shards": 2},
    "read": {"folder": lambda w: w.folder},
    "sync": {"index": lambda w: w.followed, "folder": lambda w: w.folder},
    "rebalance": {"shards": 3},
    "HttpEmbedder": {"url": "http://localhost:1"},
    "Dataset": {
        "name": "x",
        "corpus": lambda w: w.dataset.corpus,
        "queries": lambda w: w.dataset.queries,
        "judgements": lambda w: w.dataset.judgements,
    },
    "read_setting": {"name": "rrf"},
    "into_index": {"source": lambda _: Source("mem0", 0, ()), "user": "ann"},
    "into_store": {"source": lambda _: Source("mem0", 0, ()), "user": "ann"},
    "push": {"path": lambda w: w.saved},
    "held": {"path": lambda w: w.saved},
    "related": {"hits": lambda w: w.tagged, "column": "tags"},
    "GraphSchema": {"cell": "user"},
    "Notes": {"memory": lambda w: memory.MemorySync.in_memory(embedder=None, recipe=recipes.l0)},
    "hm_recall": {"memory": lambda w: w.graph_store},
    "Regex": {"columns": ("a",)},
    "Scope": {},
    "Edge": {},
    "Index.statistics": {},
    "create_server": {"memory": lambda w: w.awaited},
    "http_app": {"memory": lambda w: w.awaited},
    "load_dataset": {"path": lambda w: w.folder},
    "ahm_recall": {"memory": lambda w: w.awaited_graph},
    "MemorySync.forget": {"id": "not there", **_USER},
    "Memory.forget": {"id": "not there", **_USER},
}
