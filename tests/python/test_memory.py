"""What a build and a long life hold in memory."""

import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from laws.effort import Effort

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


def resident() -> int:
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
        before = resident()
        live(rounds)
        growth.append(resident() - before)
    assert min(growth) < 2 << 20, growth
