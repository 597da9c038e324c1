"""Unscoped dense recall: every row of the index against a batch; one axis varied at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import hyrecall as hr
from bench import corpus, grown, ours, reference
from bench.rivals_dense import PANORAMA, SEARCHERS, Reply
from bench.sizes import Size
from bench.targets import FLOAT_SCAN
from bench.turns import OURS, Turns

DATA = ("gaussian", "clustered", "grown", "grown wide")
GROWN = ("grown", "grown wide")
MOST_PAIRS = 200_000_000  # of a query and a row
ALONE = 16  # queries that are asked one at a time, in turn: one of them may be hard or easy


@dataclass
class Case:
    """Rows, queries, our index of the rows, and the answers asked so far."""

    name: str
    data: str
    rows: corpus.Floats
    queries: corpus.Floats
    index: hr.Index
    energy: dict[int, float]  # share of it in the first directions, where rows have a spectrum
    plane: str | None = None  # that scans have to read first; None: by choice
    answers: dict[tuple[int, int], reference.Answer] = field(default_factory=dict)
    turn: int = 0  # which query is asked alone

    def asked(self, batch: int, *, begins: bool) -> corpus.Floats:
        """Return a batch of queries; of one query the next if ours ``begins``, else the same."""
        if batch > 1:
            return self.queries[:batch]
        n = min(ALONE, len(self.queries))
        self.turn = (self.turn + begins) % n
        return self.queries[self.turn : self.turn + 1]

    def recall(self, queries: corpus.Floats, k: int) -> ours.Reply:
        """Answer a batch."""
        with ours.first_pass_over(self.plane):
            return ours.arrays(self.index.recall(vectors=queries, limit=k, depth=k), k)

    def check(self, batch: int, k: int, ids: reference.Ids, scores: reference.Scores) -> None:
        """Compare the last reply with the right one, of a sample of the queries."""
        at = reference.sample(batch)
        right = self.answer(batch if batch > 1 else min(ALONE, len(self.queries)), k)
        if batch == 1:
            right = reference.Answer(right.ids[[self.turn]], right.scores[[self.turn]])
        reference.check(right, ids[at], scores[at])

    def answer(self, batch: int, k: int) -> reference.Answer:
        if (batch, k) not in self.answers:
            sampled = self.queries[:batch][reference.sample(batch)]
            self.answers[batch, k] = reference.dense(self.rows, sampled, k)
        return self.answers[batch, k]


@pytest.fixture(scope="module", params=DATA)
def case(
    request: pytest.FixtureRequest, dense_shape: tuple[int, int], size: Size, turns: Turns
) -> Case:
    """Return rows of a kind; a tiny run, too small for heads by choice, forces some of them."""
    turns.forget()
    n, dim = dense_shape
    n_queries = max(size.batches)
    if request.param == "gaussian":
        rows, queries = (
            corpus.gaussian_rows(n, dim),
            corpus.gaussian_rows(n_queries, dim, "queries"),
        )
    elif request.param == "clustered":
        rows, queries = (
            corpus.clustered_rows(n, dim),
            corpus.clustered_rows(n_queries, dim, "queries"),
        )
    else:
        dim = grown.DIM * (2 if request.param == "grown wide" else 1)
        rows, queries = grown.rows(n, dim), grown.queries(n_queries, dim)
    data = grown.named(request.param) if request.param in GROWN else request.param
    name = f"dense {n:,} x {rows.shape[1]} {data}"
    energy = grown.energy(rows) if request.param in GROWN else {}
    plane = "head4" if size.name == "tiny" and request.param == "grown wide" else None
    with ours.first_pass_over(plane):
        index = ours.build(n, vectors=rows)
    assert plane is None or ours.heads(index) != "none"
    return Case(name, data, rows, queries, index, energy, plane)


@pytest.mark.parametrize("who", [OURS, *SEARCHERS])
def test_dense_batch(
    case: Case, batch_k: tuple[int, int], who: str, benchmark: BenchmarkFixture, turns: Turns
) -> None:
    n, dim = case.rows.shape
    batch, k = batch_k
    if n * batch > MOST_PAIRS and who not in (OURS, "faiss*"):
        pytest.skip("takes minutes, and faiss* is quicker")
    if who == PANORAMA and batch > 1:
        pytest.skip("reads each query of a batch alone: far behind faiss*")
    if who == OURS:

        def run() -> Reply | ours.Reply:
            return case.recall(case.asked(batch, begins=True), k)
    else:
        search = SEARCHERS[who](case.rows)

        def run() -> Reply | ours.Reply:
            return search(case.asked(batch, begins=False), k)

    benchmark.group = f"{case.name}, batch {batch:,}, k={k}"
    benchmark.extra_info.update(
        kind="dense",
        docs=n,
        dim=dim,
        queries=batch,
        k=k,
        data=case.data,
        energy=case.energy,
        heads=ours.heads(case.index),
        bytes=n * dim * 4,
        limit_bytes=n * dim,
        limit_int8_ops=2 * n * dim * batch,
    )
    ids, scores = turns.measure(benchmark, who, run)
    case.check(batch, k, ids, scores)


@pytest.mark.parametrize("who", [OURS, FLOAT_SCAN, "hyrecall, no duplicates"])
def test_near_duplicates_cost_what_other_rows_cost(
    who: str, size: Size, benchmark: BenchmarkFixture, turns: Turns
) -> None:
    """Copies of one row with noise: each is a candidate, and the cost must hold."""
    (n, copies), dim, k = size.duplicates, size.dense[-1][1], 10
    rows, queries = corpus.near_duplicates(n, dim, copies)
    if who == "hyrecall, no duplicates":
        rows = corpus.gaussian_rows(n, dim, "duplicates")
    plane = "rows" if who == FLOAT_SCAN else None  # a scan of the rows as they are given
    with ours.first_pass_over(plane):
        index = ours.build(n, vectors=rows)
    at = reference.sample(len(queries))
    answer = reference.dense(rows, queries[at], k)

    def run() -> ours.Reply:
        with ours.first_pass_over(plane):
            return ours.arrays(index.recall(vectors=queries, limit=k, depth=k), k)

    benchmark.group = (
        f"dense {n:,} x {dim}, {copies:,} near-duplicates, batch {len(queries)}, k={k}"
    )
    benchmark.extra_info.update(
        kind="near-duplicates", docs=n, dim=dim, queries=len(queries), k=k, bytes=rows.nbytes
    )
    ids, scores = turns.measure(benchmark, who, run)
    reference.check(answer, ids[at], scores[at])


def test_a_scan_with_heads_reads_them(tmp_path: Path) -> None:
    """The benchmarks of grown rows read heads: a damaged block of them is noticed on the way."""
    rows, queries = grown.rows(20_000), grown.queries(1)
    with ours.first_pass_over("head4"):
        ours.build(len(rows), vectors=rows).save(tmp_path / "index")
    (file,) = (tmp_path / "index").glob("*-heads-0.arrow")
    whole = bytearray(file.read_bytes())
    whole[len(whole) // 2] ^= 0xFF
    file.write_bytes(whole)

    def reply(plane: str) -> ours.Reply:
        index = hr.Index.open(tmp_path / "index", verify="structure", device="cpu")
        with ours.first_pass_over(plane):
            return ours.arrays(index.recall(vectors=queries, limit=10, depth=10), 10)

    reference.check(reference.dense(rows, queries, 10), *reply("int8"))
    with pytest.raises(hr.CorruptIndexError, match="heads-0"):
        reply("head4")


def test_the_reference_finds_a_planted_wrong_answer() -> None:
    """The check that every measurement passes must fail where it should."""
    rows = corpus.gaussian_rows(500, 32)
    right = reference.dense(rows, rows[:4], 5)
    reference.check(right, right.ids, right.scores.astype(np.float32))
    wrong = right.scores.copy()
    wrong[2, 3] += 1e-3
    ids = right.ids.copy()
    ids[2, 3] = 499
    with pytest.raises(AssertionError, match="scores differ"):
        reference.check(right, ids, wrong)
