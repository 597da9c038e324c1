"""Calls with a keyword that they do not take, each beside the one that is meant.

mypy checks this file: a call that it let pass would leave its ``type: ignore`` unused, which strict
mode reports. tests/python/test_keywords.py makes the calls.
"""

# mypy: allow-untyped-calls

from collections.abc import Awaitable, Callable
from typing import assert_type

import hyrecall as hr
from hyrecall.memory import (
    AgentMemory,
    AgentMemorySync,
    Episode,
    Facts,
    Matches,
    Memory,
    MemorySync,
    Remembered,
)
from hyrecall.memory.memory import Opening  # mypy reads this file
from hyrecall.systems.loom import VectorStore

Call = Callable[[], object]


SCHEMA = hr.Schema(key="a", cell=None, text="text")


def of_an_index(index: hr.Index) -> list[tuple[str, Call]]:
    return [
        ("recall_one: limit", lambda: index.recall_one(text="tea", k=3)),  # type: ignore[call-arg]
        ("recall_one: limit", lambda: index.recall_one(text="tea", top_k=3)),  # type: ignore[call-arg]
        ("recall_one: vector", lambda: index.recall_one(vectors=[1.0])),  # type: ignore[call-arg]
        ("recall: limit", lambda: index.recall(text=["tea"], n_results=3)),  # type: ignore[call-arg]
        ("recall: filter", lambda: index.recall(text=["tea"], where={})),  # type: ignore[call-arg]
        ("recall: text", lambda: index.recall(query=["tea"])),  # type: ignore[call-arg]
        ("recall: vectors", lambda: index.recall(embeddings=[])),  # type: ignore[call-arg]
        ("recall: scope", lambda: index.recall(text=["tea"], namespace="ana")),  # type: ignore[call-arg]
        ("recall: shaping", lambda: index.recall(text=["tea"], reranker=len)),  # type: ignore[call-arg]
        ("recall: min_score", lambda: index.recall(text=["tea"], score_threshold=1)),  # type: ignore[call-arg]
        ("count: filter", lambda: index.count(scope="ana", where={})),  # type: ignore[call-arg]
        ("get: keys", lambda: index.get(ids=["a"], scope="ana")),  # type: ignore[call-arg]
        ("recall: columns", lambda: index.recall(text=["tea"], column=["id"])),  # type: ignore[call-arg]
        ("delete: scope", lambda: index.delete(["a"], tenant="ana")),  # type: ignore[call-arg]
        ("build: vectors", lambda: hr.Index.build(1, SCHEMA, embeddings=1)),  # type: ignore[call-arg]
        ("save: overwrite", lambda: index.save("a", exist_ok=True)),  # type: ignore[call-arg]
    ]


def of_options(recipe: hr.Recipe) -> list[tuple[str, Call]]:
    return [
        ("RRF: rank_constant", lambda: hr.RRF(k=60)),  # type: ignore[call-arg]
        ("BM25: k1", lambda: hr.BM25(K1=1.2)),  # type: ignore[call-arg]
        ("Max: weights", lambda: hr.Max(weight={})),  # type: ignore[call-arg]
        ("MMR: relevance_weight", lambda: hr.MMR(lambda_mult=0.7)),  # type: ignore[call-arg]
        ("Schema: vector", lambda: hr.Schema(key="a", cell=None, embedding="e")),  # type: ignore[call-arg]
        ("Analyzer: stopwords", lambda: hr.Analyzer("unicode", stop_words="english")),  # type: ignore[call-arg]
        ("replace: depth", lambda: recipe.replace(num_candidates=10)),  # type: ignore[call-arg]
    ]


def of_a_store(
    memory: MemorySync, view: AgentMemorySync, store: VectorStore
) -> list[tuple[str, Call]]:
    return [
        ("remember: user_id", lambda: memory.remember("tea", user="ann")),  # type: ignore[call-arg]
        ("remember: metadata", lambda: memory.remember("tea", meta={})),  # type: ignore[call-arg]
        ("update: tags", lambda: memory.update("id", user_id="ann", tag=["a"])),  # type: ignore[call-arg]
        ("search: limit", lambda: memory.search("tea", k=3)),  # type: ignore[call-arg]
        ("search: text", lambda: memory.search(query="tea")),  # type: ignore[call-arg]
        ("search: since", lambda: memory.search("tea", time_range=(None, None))),  # type: ignore[call-arg]
        ("search: until", lambda: memory.search("tea", before="2026-01-01")),  # type: ignore[call-arg]
        ("update: text", lambda: memory.update("id", output="tea")),  # type: ignore[call-arg]
        ("link: participants", lambda: memory.link(nodes=["a", "b"], relationship="r")),  # type: ignore[call-arg]
        ("link: metadata", lambda: memory.link(["a", "b"], "r", data={})),  # type: ignore[call-arg]
        ("recall: user_id", lambda: memory.recall("tea", scope="ann")),  # type: ignore[call-arg]
        ("remember: kind", lambda: view.remember("tea", kinds="a")),  # type: ignore[call-arg]
        ("search_hybrid: k", lambda: store.search_hybrid("tea", limit=3)),  # type: ignore[call-arg]
    ]


def awaited(index: hr.Index, memory: Memory) -> list[tuple[str, Callable[[], Awaitable[object]]]]:
    return [
        ("arecall: limit", lambda: index.arecall(text=["tea"], k=3)),  # type: ignore[call-arg]
        ("arecall_one: vector", lambda: index.arecall_one(vectors=[1.0])),  # type: ignore[call-arg]
        ("remember: user_id", lambda: memory.remember("tea", user="ann")),  # type: ignore[call-arg]
        ("search: limit", lambda: memory.search("tea", n=3)),  # type: ignore[call-arg]
    ]


async def replies(memory: Memory, agent: AgentMemory, plain: MemorySync) -> None:
    """Methods that mirror others have their replies and their parameters, to a type checker too."""
    assert_type(Memory.open("a", read_only=True), Opening)
    assert_type(await memory.remember("tea", user_id="ann", tags=("a",)), Remembered)
    assert_type(await memory.search("tea", user_id="ann", limit=3), Matches)
    assert_type(await memory.get("id", user_id="ann"), Episode | None)
    assert_type(await agent.remember("tea", tags=("a",)), Remembered)
    assert_type(await agent.recall_facts("tea"), Facts)
    assert_type(plain.wait_until_ready(), bool)
    Memory.open("a", clock=3)  # type: ignore[arg-type]
    await memory.get(3)  # type: ignore[arg-type]
    await memory.search("tea", limit="three")  # type: ignore[arg-type]
    await agent.forget("id")  # type: ignore[call-arg]
    plain.compact(3)  # type: ignore[call-arg]
