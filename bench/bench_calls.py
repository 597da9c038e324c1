"""Time a call without its scans: a query of a small index, a search of a small store.

Also times the import of the package, and that of numpy and pyarrow, which every index needs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import hyrecall as hr
from bench import corpus, ours
from bench.turns import OURS, Turns
from hyrecall.embed import HashEmbedder
from hyrecall.memory import Episode, MemorySync

N, DIM, CELLS, K = 1_000, 64, 10, 10
NEEDED = "numpy, pyarrow"
ROUNDS_OF_IMPORTS = 20


@pytest.fixture(scope="module")
def texts() -> corpus.Texts:
    return corpus.zipf_texts(N, 20, 20)


@pytest.fixture(scope="module")
def index(texts: corpus.Texts) -> hr.Index:
    return ours.build(
        N,
        vectors=corpus.gaussian_rows(N, DIM, "calls"),
        texts=texts.strings,
        columns={"cell": corpus.uniform_tenants(N, CELLS)},
        cell="cell",
        threads=1,
    )


@pytest.fixture(scope="module")
def query(texts: corpus.Texts) -> str:
    """Three words of the first text, so that something is found."""
    return " ".join(str(texts.strings[0]).split()[:3])


@pytest.mark.parametrize("kind", ["vector", "text", "hybrid"])
def test_one_query(kind: str, index: hr.Index, query: str, benchmark: BenchmarkFixture) -> None:
    vector = corpus.gaussian_rows(1, DIM, "one query")[0]
    asked = {
        "vector": {"vector": vector},
        "text": {"text": query},
        "hybrid": {"text": query, "vector": vector},
    }[kind]
    everywhere = hr.Scope(list(range(CELLS)))

    def ask(scope: object = 0) -> hr.QueryHits:
        return index.recall_one(**asked, scope=scope, limit=K)

    benchmark.group = f"one query of {N:,} x {DIM} in {CELLS} cells, k={K}, {kind}"
    benchmark.extra_info.update(who=OURS, kind="one query", asked=kind, docs=N, dim=DIM, queries=1)
    hits = benchmark(ask)
    beside = index.recall(
        text=[query] if "text" in asked else None,
        vectors=vector[np.newaxis] if "vector" in asked else None,
        scope=[0],
        limit=K,
    )
    assert hits.to_list() == beside[0].to_list()
    assert len(ask(everywhere)) == K


@pytest.mark.parametrize("kind", ["highlights", "snippet"])
def test_one_hit_is_marked(kind: str, texts: corpus.Texts, benchmark: BenchmarkFixture) -> None:
    """Mark the words of a query in a hit of 1,000 characters."""
    text = " ".join(texts.strings.to_pylist())[:1_000]
    schema = hr.Schema(key="id", cell=None, text="text")
    index = hr.Index.build(pa.table({"id": [1], "text": [text]}), schema)
    hit = index.recall_one(text=" ".join(text.split()[:3]))[0]
    benchmark.group = f"{kind} of a hit of 1,000 characters, 3 words"
    benchmark.extra_info.update(who=OURS, kind="one hit", asked=kind, docs=1, queries=1)
    benchmark(getattr(hit, kind))
    starts = [start for start, _ in hit.highlights()]
    assert starts[0] == 0
    assert len(starts) >= 3


@pytest.fixture(scope="module", params=["off", "hash"])
def store(request: pytest.FixtureRequest, texts: corpus.Texts) -> Iterator[tuple[str, MemorySync]]:
    """Return a store and its embedder's name."""
    embedder = HashEmbedder(dim=DIM) if request.param == "hash" else None
    with MemorySync.in_memory(embedder=embedder, recall_timeout=30.0) as memory:
        memory.remember_batch(
            [
                Episode(id=f"e{at}", user_id=f"u{at % CELLS}", text=text)
                for at, text in enumerate(texts.strings.to_pylist())
            ]
        )
        yield request.param, memory


def test_one_search(store: tuple[str, MemorySync], query: str, benchmark: BenchmarkFixture) -> None:
    embedder, memory = store

    def search() -> list[str]:
        return [one.episode.id for one in memory.search(query, user_id="u0", limit=K)]

    benchmark.group = f"one search of a store of {N:,}, {CELLS} users, k={K}, embedder {embedder}"
    benchmark.extra_info.update(who=OURS, kind="one search", docs=N, embedder=embedder, queries=1)
    assert "e0" in benchmark(search)


@pytest.mark.parametrize("who", [OURS, NEEDED])
def test_import(who: str, benchmark: BenchmarkFixture, turns: Turns) -> None:
    """Start a new interpreter each round; a round before has written the byte code."""
    code = f"import time; t = time.process_time(); import {who}; print(time.process_time() - t)"
    env = os.environ | {"PYTHONPATH": str(Path(hr.__file__).parent.parent)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)

    taken: list[float] = []

    def load() -> None:
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        taken.append(float(done.stdout))

    benchmark.group = "import in a new interpreter"
    load()
    taken.clear()
    turns.measure(benchmark, who, load, rounds=ROUNDS_OF_IMPORTS)
    seconds = float(np.median(taken))
    benchmark.extra_info.update(kind="import", queries=1, processor_seconds=seconds)
    assert seconds > 0
