"""Shapes of vectors in public calls, sizes past 2^31, and what memory a long life takes."""

import gc
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from laws.effort import Effort

# ---- sizes ----

F = np.float32
DIM, N = 3, 8
ROWS = np.arange(1, N * DIM + 1, dtype=F).reshape(N, DIM)
QUERY = np.array([[3, 1, 2]], F)
SCHEMA = hr.Schema(key="id", cell=None, text="text", vector="v")


def table(first: int = 0) -> pa.Table:
    return pa.table({"id": np.arange(first, first + N), "text": ["tea"] * N})


def build(vectors: Any) -> hr.Index:
    return hr.Index.build(table(), SCHEMA, vectors={"v": vectors})


@pytest.fixture(scope="module")
def index() -> hr.Index:
    return build(ROWS)


def scores(index: hr.Index, query: Any) -> list[tuple[int, float]]:
    return [(hit.key, hit.score) for hit in index.recall(vectors=query)[0]]


def test_nothing_of_the_input_is_kept_or_changed(index: hr.Index) -> None:
    rows, query = ROWS.copy(), QUERY.copy()
    made = build(rows)
    wanted = scores(made, query)
    hits = made.recall(vectors=query)
    rows[:] = -1
    query[:] = -1
    assert scores(made, QUERY) == wanted
    assert hits[0][0].explain().score == hits[0][0].score


# ---- past 2^31 ----


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")


@needs_proc
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"vectors": np.broadcast_to(QUERY, (2**31, DIM))},
            "vectors['v']: expected fewer than 2^31 queries, got 2147483648",
        ),
        (
            {"vectors": np.broadcast_to(QUERY, (2**40, DIM))},
            f"vectors['v']: expected fewer than 2^31 queries, got {2**40}",
        ),
        (
            {"vectors": np.broadcast_to(QUERY, (2**30, DIM)), "text": ["tea"]},
            f"vectors['v']: expected 1 queries as text['text'] has, got {2**30}",
        ),
        (
            {"vectors": np.broadcast_to(F(1), (1, 2**40))},
            f"vectors: expected shape (n_queries, 3), got (1, {2**40})",
        ),
        ({"text": range(2**31)}, "text['text']: expected fewer than 2^31 queries, got 2147483648"),
    ],
)
def test_queries_past_2_31_are_refused_before_they_are_made(
    index: hr.Index, options: dict[str, Any], message: str
) -> None:
    before, started = resident(), time.monotonic()
    with pytest.raises(hr.ShapeError, match=f"^{re.escape(message)}$"):
        index.recall(**options)
    assert resident() - before < 64 << 20
    assert time.monotonic() - started < 5


@needs_proc
def test_rows_past_2_32_are_refused_before_they_are_made() -> None:
    chunk = 1 << 20
    keys = pa.chunked_array([pa.array(np.zeros(chunk, np.int64))] * 4097)
    texts = pa.chunked_array([pa.nulls(chunk, pa.large_string())] * 4097)
    many = pa.table({"id": keys, "text": texts})
    assert many.num_rows > 2**32
    before = resident()
    with pytest.raises(
        hr.ShapeError, match=r"^table: expected at most 4294967294 rows, got 4296015872$"
    ):
        hr.Index.build(many, hr.Schema(key="id", cell=None, text="text", stored=()))
    assert resident() - before < 512 << 20
    with pytest.raises(
        hr.ShapeError, match=r"^vectors\['v'\]: expected shape \(8, dim >= 1\), got "
    ):
        build(np.broadcast_to(F(1), (2**40, DIM)))


def test_a_column_of_more_than_2_31_bytes_gives_right_answers(effort: Effort) -> None:
    """Half floats, 2.7 GB of them in the long form; one 64 MB chunk stands for all of the input."""
    per_chunk, n_chunks, dim = (8192, 41, 4096) if effort.full else (512, 3, 64)
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(per_chunk, dim)).astype(np.float16)
    chunk = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), dim)
    n = per_chunk * n_chunks
    assert not effort.full or n * dim * 2 > 2**31
    big = pa.table({"id": np.arange(n), "v": pa.chunked_array([chunk] * n_chunks)})
    index = hr.Index.build(big, hr.Schema(key="id", cell=None, vector="v"))
    wanted = [c * per_chunk + 7 for c in range(n_chunks)]
    found = index.recall_one(vector=rows[7], limit=n_chunks + 1)
    assert found.keys[:n_chunks] == wanted  # the copies tie, the first row first
    assert found[n_chunks].score < found[n_chunks - 1].score
    assert found[n_chunks - 1].explain().score == found[0].score


def test_more_than_2_31_pairs_of_query_and_row(effort: Effort) -> None:
    n, n_queries = (30_000, 72_000) if effort.full else (3000, 5000)
    rng = np.random.default_rng(9)
    rows = rng.normal(size=(n, 2)).astype(F)
    schema = hr.Schema(key="id", cell=None, vector="v")
    index = hr.Index.build(pa.table({"id": np.arange(n)}), schema, vectors={"v": rows})
    ask = np.broadcast_to(rows[:1], (n_queries, 2)).copy()
    ask[-1] = rows[-1]
    hits = index.recall(vectors=ask, limit=1)
    alone = index.recall(vectors=rows[[0, -1]], limit=1).to_arrow()
    assert hits.n_hits == n_queries
    keys = np.array(hits.to_arrow()["key"])
    assert (keys[:-1] == alone["key"][0].as_py()).all()
    assert keys[-1] == alone["key"][1].as_py()


# ---- what a build and a long life hold in memory ----

SPARE = 48 << 20  # allocators and temporaries of a fixed size, whatever the input

BUILD = """
import json, resource, sys
import numpy as np, pyarrow as pa, hyrecall as hr

n, dim, n_words = map(int, sys.argv[1:4])
rng = np.random.default_rng(5)
words = np.array([f"w{i:05d}" for i in range(20_000)])
drawn = [" ".join(row) for row in words[rng.zipf(1.3, (5000, n_words)) % len(words)]]
chunks = [pa.array(drawn) for _ in range(0, n, 5000)]  # each has memory of its own
del drawn
vectors = rng.random((n, dim), np.float32)
vectors -= 0.5
users = rng.integers(0, 1000, n)
table = pa.table({"id": np.arange(n), "user": users, "text": pa.chunked_array(chunks)})
schema = hr.Schema(key="id", cell="user", text="text", vector="v")
hr.Index.build(table.slice(0, 10), schema, vectors={"v": vectors[:10]})
pa.default_memory_pool().release_unused()


def high_water():  # not ru_maxrss: an exec passes the parent's on
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:"))


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def total(part):
    return sum(map(total, part.values())) if isinstance(part, dict) else part


before, before_high = resident(), high_water()
index = hr.Index.build(table, schema, vectors={"v": vectors})
nbytes = total(index.stats()["segments"][0]["nbytes"])
print(json.dumps({"input": table.nbytes + vectors.nbytes, "index": nbytes, "before": before,
                  "before_high": before_high, "peak": high_water()}))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("n", "dim", "n_words"),
    [(100_000, 384, 36), (200_000, 2, 60)],
    ids=["150 MB of vectors", "text alone"],
)
def test_a_build_peaks_at_input_and_index_and_a_tenth(n: int, dim: int, n_words: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    ran = subprocess.run(
        [sys.executable, "-c", BUILD, str(n), str(dim), str(n_words)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        timeout=300,
    )
    figures: dict[str, int] = json.loads(ran.stdout)
    built_at = figures["before"] - figures["input"]  # interpreter and libraries
    allowed = 1.1 * (figures["input"] + figures["index"]) + SPARE
    spent = figures["peak"] - built_at
    shown = {name: f"{value / 2**20:.0f} MiB" for name, value in figures.items()}
    assert spent <= allowed, f"{spent / 2**20:.0f} of {allowed / 2**20:.0f} MiB: {shown}"
    assert figures["peak"] > figures["before_high"], f"nothing was measured: {shown}"
    assert figures["index"] > 0.8 * figures["input"]


def memory_resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_calls_and_lives_leave_nothing_behind(effort: Effort) -> None:
    n = 2000
    rng = np.random.default_rng(1)
    texts = [" ".join(f"w{i}" for i in row) for row in rng.integers(0, 300, (n, 8))]
    table = pa.table({"id": np.arange(n), "user": rng.integers(0, 9, n), "text": texts})
    vectors = rng.normal(size=(n, 32)).astype(np.float32)
    schema = hr.Schema(key="id", cell="user", text="text", vector="v")
    index = hr.Index.build(table, schema, vectors={"v": vectors})
    asked: dict[str, Any] = {
        "text": ["w1 w2", hr.Phrase("w3 w4"), hr.Prefix("w2"), None],
        "vectors": vectors[:4],
        "scope": [1, 2, hr.Scope([3, 4]), hr.Scope.matching(user=hr.ANY)],
        "filter": None,
        "columns": ("text",),
    }

    def live(rounds: int) -> None:
        for number in range(rounds):
            hits = index.recall(**asked)
            hits.to_arrow()
            hits[0][0].explain()
            if number % 20 == 0:
                index.upsert(
                    table.slice(number % n, 1), vectors={"v": vectors[number % n : number % n + 1]}
                )
            if number % 200 == 0:
                index.compact()
                other = hr.Index.build(table, schema, vectors={"v": vectors})
                other.close()

    rounds = effort.cases(quick=150, full=20_000)
    live(rounds)
    growth = []
    for _ in range(3):  # a leak grows each time; what an allocator keeps does so once
        before = memory_resident()
        live(rounds)
        growth.append(memory_resident() - before)
    assert min(growth) < 2 << 20, growth
