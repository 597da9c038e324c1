"""Learnt sparse vectors: rows of 120 terms, queries of 30, against SciPy's products and Seismic.

How frequent the terms are falls as 1 / (rank + 10)^.9, as of the word pieces of a text, and a
frequent term weighs less, as models that are taught to be sparse make it (SPLADE's FLOPS penalty).
A query has half of its terms from a document, with much the same weights: it is about something.
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
from bench.sizes import Size
from bench.turns import OURS, Turns

sp = pytest.importorskip("scipy.sparse")

NNZ, ASKED, K, VOCABULARY = 120, 30, 10, 30_522
N_QUERIES = 16
CUTS = ("4", "10")  # of Seismic: how many terms of the query choose blocks
RIVALS = ("scipy rows", "scipy terms", *(f"seismic, cut {cut}" for cut in CUTS))
ROWS_AT_ONCE = 50_000

Query = tuple[np.ndarray[Any, np.dtype[np.int32]], np.ndarray[Any, np.dtype[np.float32]]]


@dataclass
class Held:
    """Rows, queries, our index of the rows, and the right scores of the best of each query."""

    rows: Any  # (documents, vocabulary), a CSR matrix
    queries: list[Query]
    index: hr.Index
    turn: int = 0
    best: dict[int, list[float]] = field(default_factory=dict)

    def next(self) -> Query:
        self.turn = (self.turn + 1) % N_QUERIES
        return self.queries[self.turn]

    def right(self) -> list[float]:
        """The best scores of the last query."""
        if self.turn not in self.best:
            scores = self.rows @ wide(self.queries[self.turn])
            self.best[self.turn] = sorted(scores[np.argpartition(-scores, K)[:K]], reverse=True)
        return self.best[self.turn]


def wide(query: Query) -> np.ndarray[Any, np.dtype[np.float64]]:
    out = np.zeros(VOCABULARY)
    out[query[0]] = query[1]
    return out


def draw(rng: np.random.Generator, n: int, most: int) -> tuple[Any, Any, Any]:
    """Return weights, terms and offsets of rows of up to ``most`` terms each."""
    share = 1 / (np.arange(VOCABULARY) + 10.0) ** 0.9
    until = np.cumsum(share / share.sum())
    rarity = -np.log(share / share.max())
    ids = np.searchsorted(until, rng.random((n, most + most // 3))).astype(np.int32)
    ids = np.sort(np.minimum(ids, VOCABULARY - 1), axis=1)
    keep = np.ones(ids.shape, bool)
    keep[:, 1:] = ids[:, 1:] != ids[:, :-1]
    for row in np.flatnonzero(keep.sum(axis=1) > most):  # other terms than the most frequent go
        held = np.flatnonzero(keep[row])
        keep[row, rng.choice(held, len(held) - most, replace=False)] = False
    terms = ids[keep]
    noise = rng.gamma(2.0, 0.5, len(terms))
    weights = (0.05 + noise * (0.15 + 0.12 * rarity[terms])).astype(np.float32)
    return weights, terms, np.append(0, keep.sum(axis=1).cumsum())


def about(rng: np.random.Generator, rows: Any) -> Query:
    """Draw a query of half of a document's terms, and as many others."""
    row = rows[int(rng.integers(rows.shape[0]))]
    kept = rng.choice(row.nnz, ASKED // 2, replace=False)
    weights, terms, _ = draw(rng, 1, ASKED // 2)
    said = dict(zip(terms.tolist(), weights.tolist(), strict=True))
    moved = row.data[kept] * rng.uniform(0.7, 1.3, len(kept))
    said |= dict(zip(row.indices[kept].tolist(), moved.tolist(), strict=True))
    return np.array([*said], np.int32), np.array([*said.values()], np.float32)


@pytest.fixture(scope="module")
def held(size: Size, turns: Turns) -> Held:
    turns.forget()
    rng = np.random.default_rng(61)
    parts = [
        sp.csr_matrix(draw(rng, n, NNZ), shape=(n, VOCABULARY))
        for n in (
            min(ROWS_AT_ONCE, size.sparse - begin) for begin in range(0, size.sparse, ROWS_AT_ONCE)
        )
    ]
    rows = sp.vstack(parts, format="csr")
    queries = [about(rng, rows) for _ in range(N_QUERIES)]
    schema = hr.Schema(key="id", cell=None, vector=hr.Sparse("terms"), stored=())
    table = pa.table({"id": np.arange(size.sparse)})
    index = hr.Index.build(table, schema, vectors={"terms": rows}, device="cpu")
    return Held(rows, queries, index)


def scipy_of(who: str, held: Held) -> Callable[[], list[float]]:
    """Make a search by a product of all rows, or of the columns of the query's terms alone."""
    by_term = held.rows.T.tocsr() if who == "scipy terms" else None

    def run() -> list[float]:
        query = held.next()
        if by_term is None:
            scores = held.rows @ wide(query).astype(np.float32)
        else:
            scores = np.asarray(query[1] @ by_term[query[0]]).reshape(-1)
        return sorted(scores[np.argpartition(-scores, K)[:K]], reverse=True)

    return run


def seismic_of(who: str, held: Held, benchmark: BenchmarkFixture) -> Callable[[], list[float]]:
    """Make a search by Seismic, which is approximate; its recall is told beside its time."""
    seismic = pytest.importorskip("seismic")
    dataset, kind = seismic.SeismicDataset(), seismic.get_seismic_string()
    names = np.array([str(term) for term in range(VOCABULARY)], kind)
    rows = held.rows
    for row in range(rows.shape[0]):
        own = slice(rows.indptr[row], rows.indptr[row + 1])
        dataset.add_document(str(row), names[rows.indices[own]], rows.data[own])
    index = seismic.SeismicIndex.build_from_dataset(dataset, n_postings=4_000, num_threads=2)
    cut = int(who.rpartition(" ")[2])
    found: list[float] = []

    def run() -> list[float]:
        terms, weights = held.next()
        reply = index.search(
            query_id="0", query_components=names[terms], query_values=weights, k=K,
            query_cut=cut, heap_factor=0.8,
        )  # fmt: skip
        return [float(one[1]) for one in reply]

    for _ in range(N_QUERIES):
        reply, right = run(), held.right()
        found.append(sum(score >= right[-1] * (1 - 1e-4) for score in reply) / K)
    benchmark.extra_info["recall"] = float(np.mean(found))
    return run


@pytest.mark.parametrize("who", [OURS, *RIVALS])
def test_one_query(who: str, held: Held, benchmark: BenchmarkFixture, turns: Turns) -> None:
    n = held.rows.shape[0]
    benchmark.group = f"sparse vectors, {n:,} rows of {NNZ} terms, one query of {ASKED}"
    benchmark.extra_info.update(kind="sparse", docs=n, queries=1, k=K, who=who)

    def ours() -> list[float]:
        return [hit.score for hit in held.index.recall_one(vector=held.next(), limit=K)]

    run = (
        ours
        if who == OURS
        else scipy_of(who, held)
        if who.startswith("scipy")
        else seismic_of(who, held, benchmark)
    )
    found = turns.measure(benchmark, who, run)
    if not who.startswith("seismic"):
        assert np.allclose(found, held.right(), rtol=1e-4)


def test_a_batch(held: Held, benchmark: BenchmarkFixture) -> None:
    benchmark.group = f"sparse vectors, a batch of {N_QUERIES}"
    benchmark.extra_info.update(
        kind="sparse batch", docs=held.rows.shape[0], queries=N_QUERIES, k=K, who=OURS
    )
    hits = benchmark.pedantic(
        lambda: held.index.recall(vectors=held.queries, limit=K), rounds=5, warmup_rounds=1
    )
    for at, own in enumerate(hits):
        held.turn = at
        assert np.allclose([hit.score for hit in own], held.right(), rtol=1e-4)
