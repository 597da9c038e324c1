"""Measure building and rebalancing shards, and batches over them beside one index.

    python -m bench.shards FOLDER [--rows 200000] [--dim 128] [--shards 8] [--queries 1000]

writes Parquet files, builds their shards in FOLDER and prints two tables. Each row of the second is
the processor time and the wall time of a batch, answered by one index of all rows, by the shards in
this process, and by shards that are asked apart, as those on Ray. The replies are compared.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import hyrecall as hr
from bench import corpus
from hyrecall.distributed import ShardedIndex, build_shards, rebalance

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


def times_of(call: Callable[[], object], times: int = 5) -> str:
    """Return the shortest processor time and the shortest wall time of some calls."""
    spent, waited = [], []
    for _ in range(times):
        began = time.process_time(), time.perf_counter()
        call()
        spent.append(time.process_time() - began[0])
        waited.append(time.perf_counter() - began[1])
    return f"{1e3 * min(spent):.1f} / {1e3 * min(waited):.1f}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="bench.shards")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--threads", type=int)
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
    picked = chance.integers(0, given.rows, given.queries)
    texts = corpus.zipf_texts(given.rows).strings.take(pa.array(picked)).to_pylist()
    asked: dict[str, Any] = {
        "text": [" ".join(one.split()[:4]) for one in texts], "vectors": rows[picked],
    }  # fmt: skip
    pairs = [hr.Scope([tenants[at], tenants[-1]]) for at in picked]
    n_queries = given.queries
    cases: dict[str, tuple[int, Any]] = {
        f"{n_queries:,}, a tenant each": (n_queries, [tenants[at] for at in picked]),
        f"{n_queries:,}, two tenants each": (n_queries, pairs),
        f"{n_queries:,}, the same tenant": (n_queries, tenants[0]),
        "1": (1, tenants[0]),
        "1, of all rows": (1, hr.Scope.matching(tenant=hr.ANY)),
    }
    print("\nprocessor time / wall time, ms")
    print("| queries | one index | shards in this process | asked apart |\n|---|---|---|---|")
    how: dict[str, Any] = {"device": "cpu", "threads": given.threads}
    one = hr.Index.build(ds.dataset(given.folder / "files").to_table(), SCHEMA, **how)
    with ShardedIndex.open(given.folder / "shards", **how) as index:
        for name, (n, scope) in cases.items():
            options = {"text": asked["text"][:n], "vectors": asked["vectors"][:n], "scope": scope}
            told, tables = [name], []
            for subject, is_apart in ((one, False), (index, False), (index, True)):
                if is_apart:
                    vars(index._now)["joined"] = lambda: None
                tables.append(subject.recall(**options).to_arrow())
                told.append(times_of(partial(subject.recall, **options)))
            del vars(index._now)["joined"]
            assert all(table.equals(tables[0]) for table in tables)
            print(f"| {' | '.join(told)} |", flush=True)


if __name__ == "__main__":
    main()
