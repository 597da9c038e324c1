"""Measure building and rebalancing shards, and the gain of asking only the needed shards.

    python -m bench.shards FOLDER [--rows 200000] [--dim 128] [--shards 8]

writes Parquet files, builds their shards in FOLDER and prints two tables. Each row of the second is
the processor time of a batch, with and without the router. The replies are compared.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hyrecall as hr
from bench import corpus
from hyrecall.distributed import ShardedIndex, build_shards, rebalance

QUERIES = 1000
TENANT_ROWS = 500
SCHEMA = hr.Schema(key="id", cell="tenant", text="text", vector="embedding")


def write_files(folder: Path, n: int, dim: int, n_files: int = 8) -> np.ndarray:
    """Write the rows to files; return their vectors."""
    rows = corpus.clustered_rows(n, dim)
    table = pa.table(
        {
            "id": np.arange(n),
            "tenant": corpus.uniform_tenants(n, n // TENANT_ROWS),
            "text": corpus.zipf_texts(n).strings,
            "embedding": pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), dim),
        }
    )
    folder.mkdir(parents=True, exist_ok=True)
    step = -(-n // n_files)
    for at in range(n_files):
        pq.write_table(
            table.slice(at * step, step), folder / f"{at}.parquet", row_group_size=20_000
        )
    return np.asarray(rows)


def processor_time(call: Callable[[], object], times: int = 5) -> float:
    """Return the shortest processor time of some calls, in milliseconds."""
    spent = []
    for _ in range(times):
        began = time.process_time()
        call()
        spent.append(time.process_time() - began)
    return 1e3 * min(spent)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="bench.shards")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--shards", type=int, default=8)
    given = parser.parse_args()
    rows = write_files(given.folder / "files", given.rows, given.dim)

    print("| step | s | peak memory, MB |\n|---|---|---|")
    began = time.perf_counter()
    build_shards(given.folder / "files", SCHEMA, given.folder / "shards", shards=given.shards)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(f"| build {given.shards} shards | {time.perf_counter() - began:.1f} | {peak:.0f} |")
    for n in (given.shards + 1, given.shards):
        began = time.perf_counter()
        rebalance(given.folder / "shards", shards=n)
        print(f"| rebalance to {n} | {time.perf_counter() - began:.1f} | |")

    tenants = [int(one) for one in corpus.uniform_tenants(given.rows, given.rows // TENANT_ROWS)]
    chance = np.random.default_rng(1)
    picked = chance.integers(0, given.rows, QUERIES)
    texts = corpus.zipf_texts(given.rows).strings.take(pa.array(picked)).to_pylist()
    asked: dict[str, Any] = {
        "text": [" ".join(one.split()[:4]) for one in texts], "vectors": rows[picked],
    }  # fmt: skip
    pairs = [hr.Scope([tenants[at], tenants[-1]]) for at in picked]
    cases: dict[str, tuple[int, Any]] = {
        "1,000, a tenant each": (QUERIES, [tenants[at] for at in picked]),
        "1,000, two tenants each": (QUERIES, pairs),
        "1,000, the same tenant": (QUERIES, tenants[0]),
        "1": (1, tenants[0]),
    }
    print("\n| queries | routed: ms | every shard asked: ms |\n|---|---|---|")
    with ShardedIndex.open(given.folder / "shards", device="cpu") as index:
        routed = index._now
        for name, (n, scope) in cases.items():
            options = {"text": asked["text"][:n], "vectors": asked["vectors"][:n], "scope": scope}
            told, tables = [name], []
            for router in (routed.router, None):
                index._now = replace(routed, router=router)
                tables.append(index.recall(**options).to_arrow())
                told.append(f"{processor_time(partial(index.recall, **options)):.1f}")
            assert tables[0].equals(tables[1])
            print(f"| {' | '.join(told)} |")


if __name__ == "__main__":
    main()
