"""Late interaction: documents of 60 vectors, queries of 32, against torch's products of them all.

A token of a document is drawn near its document's topic and one of 2,000 words; a query is tokens
of one document, moved a little. For the second stage each document has a text of one word, which
1,000 documents have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import hyrecall as hr
from bench import THREADS, corpus
from bench.sizes import Size
from bench.turns import OURS, Turns

TOKENS, DIM, ASKED, K = 60, 128, 32, 10
WORDS = 2_000
N_QUERIES = 8
CANDIDATES = 1_000  # of the second stage
RIVALS = ("torch float32", "torch bfloat16")
ROWS_AT_ONCE = 2_000  # of the rival: one product for all would not fit into memory


@dataclass
class Late:
    """Rows, queries, our index of the rows, and the right scores of the best of each query."""

    rows: np.ndarray[Any, np.dtype[np.float16]]  # (documents, tokens, dim)
    queries: list[corpus.Floats]
    index: hr.Index = field(init=False)
    turn: int = 0
    best: dict[int, list[float]] = field(default_factory=dict)

    def check(self, scores: np.ndarray[Any, Any], tolerance: float) -> None:
        """Compare the scores of the last reply with the right ones."""
        if self.turn not in self.best:
            self.best[self.turn] = self.right(self.queries[self.turn])
        assert np.allclose(scores, self.best[self.turn], atol=tolerance)

    def right(self, query: corpus.Floats, step: int = 1, first: int = 0) -> list[float]:
        """Score each step-th document in float64, and return the best."""
        asked = unit(query.astype(np.float64))
        found = []
        rows = self.rows[first::step]
        for begin in range(0, len(rows), ROWS_AT_ONCE):
            part = unit(rows[begin : begin + ROWS_AT_ONCE].astype(np.float64))
            found.append((part @ asked.T).max(axis=1).sum(axis=1))
        return sorted(np.concatenate(found), reverse=True)[:K]

    @property
    def n_words(self) -> int:
        """How many words the texts have: document i has the word i modulo this."""
        return max(len(self.rows) // CANDIDATES, 1)


def unit(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    made: np.ndarray[Any, Any] = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return made


@pytest.fixture(scope="module")
def late(size: Size, turns: Turns) -> Late:
    turns.forget()
    rng = np.random.default_rng(60)
    words = rng.standard_normal((WORDS, DIM), dtype=np.float32)
    rows = np.empty((size.late, TOKENS, DIM), np.float16)
    for begin in range(0, size.late, ROWS_AT_ONCE):
        n = min(ROWS_AT_ONCE, size.late - begin)
        topics = words[rng.integers(0, WORDS, (n, 1))]
        said = words[rng.integers(0, WORDS, (n, TOKENS))]
        noise = rng.standard_normal((n, TOKENS, DIM), dtype=np.float32)
        rows[begin : begin + n] = 0.5 * topics + 0.6 * said + 0.5 * noise
    queries = [
        rows[at, :ASKED] + 0.3 * rng.standard_normal((ASKED, DIM), dtype=np.float32)
        for at in rng.integers(0, size.late, N_QUERIES)
    ]
    schema = hr.Schema(
        key="id", cell=None, text="word", vector=hr.MaxSim("tokens", dtype="float16")
    )
    late = Late(rows, queries)
    table = pa.table(
        {"id": np.arange(size.late), "word": [f"w{i % late.n_words}" for i in range(size.late)]}
    )
    late.index = hr.Index.build(table, schema, vectors={"tokens": rows}, device="cpu")
    return late


def torch_of(who: str, late: Late) -> Callable[[], np.ndarray[Any, Any]]:
    """Make a search by products of unit vectors, some thousand documents at a time."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(THREADS)
    kind = torch.bfloat16 if who.endswith("bfloat16") else torch.float32
    held = torch.empty(late.rows.shape, dtype=kind)
    for begin in range(0, len(late.rows), ROWS_AT_ONCE):
        part = slice(begin, begin + ROWS_AT_ONCE)
        held[part] = torch.from_numpy(unit(late.rows[part].astype(np.float32))).to(kind)
    flat = held.reshape(-1, DIM)

    def run() -> np.ndarray[Any, Any]:
        asked = torch.from_numpy(unit(late.queries[late.turn])).to(kind)
        found = []
        for begin in range(0, len(flat), ROWS_AT_ONCE * TOKENS):
            products = flat[begin : begin + ROWS_AT_ONCE * TOKENS] @ asked.T
            found.append(products.view(-1, TOKENS, ASKED).amax(1).float().sum(1))
        return np.asarray(torch.cat(found).topk(K).values)

    return run


@pytest.mark.parametrize("who", [OURS, *RIVALS])
def test_one_query(who: str, late: Late, benchmark: BenchmarkFixture, turns: Turns) -> None:
    n = len(late.rows)
    benchmark.group = f"late interaction, {n:,} documents of {TOKENS} x {DIM}, one query"
    benchmark.extra_info.update(
        kind="late", docs=n, queries=1, k=K, who=who, limit_bytes=n * TOKENS * DIM
    )

    def ours() -> np.ndarray[Any, Any]:
        late.turn = (late.turn + 1) % N_QUERIES
        hits = late.index.recall(vectors=[late.queries[late.turn]], limit=K, depth=K)
        return np.array([hit.score for hit in hits[0]])

    found = turns.measure(benchmark, who, ours if who == OURS else torch_of(who, late))
    late.check(found, 0.5 if who.endswith("bfloat16") else 1e-3)


def test_second_stage(late: Late, benchmark: BenchmarkFixture, turns: Turns) -> None:
    n = len(late.rows) // late.n_words
    benchmark.group = f"late interaction over {n:,} documents that one word found"
    benchmark.extra_info.update(kind="second stage", docs=len(late.rows), queries=1, k=K, who=OURS)

    def ours() -> np.ndarray[Any, Any]:
        late.turn = (late.turn + 1) % N_QUERIES
        hits = late.index.recall(
            text=[f"w{late.turn % late.n_words}"],
            vectors=[late.queries[late.turn]],
            limit=K,
            depth=CANDIDATES,
            fusion=hr.RRF(weights={"tokens": 0}),
            shaping=hr.Rerank(window=CANDIDATES, vector="tokens"),
        )
        return np.array([hit.vector_score for hit in hits[0]])

    found = turns.measure(benchmark, OURS, ours)
    first = late.turn % late.n_words
    assert np.allclose(found, late.right(late.queries[late.turn], late.n_words, first), atol=1e-3)


def test_memory(late: Late, benchmark: BenchmarkFixture, size: Size) -> None:
    benchmark.group = "late interaction, bytes of the plane beside float32 rows"
    column = late.index._state.segments[0].dense["tokens"]
    assert column.int8_plane is not None or size.name == "tiny"
    plane = 0 if column.int8_plane is None else sum(part.nbytes for part in column.int8_plane)
    share = plane / (late.rows.size * 4)
    benchmark.extra_info.update(kind="late memory", docs=len(late.rows), who=OURS, share=share)
    benchmark.pedantic(lambda: None, rounds=1)
    assert share <= 0.3
