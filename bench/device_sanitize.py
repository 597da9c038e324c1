"""Small and odd recalls on a device, each reply held to the CPU's bits; for a sanitizer to watch.

    compute-sanitizer --tool memcheck python -m bench.device_sanitize --device cuda:0 --seconds 30

The shapes are those at which kernels go wrong: dimensions beside a multiple of 32, one row, tiles
that are nearly full, lists shorter than the limit, deleted rows, filters that leave nothing.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pyarrow as pa

import hyrecall as hr

DIMS = (257, 1, 33, 31)
ROWS = (300, 1, 127, 129, 2)
DTYPES = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16}
BATCHES = ((1, 10), (33, 300), (9, 1), (300, 100))  # queries, limit
TENANTS = 3
STRIDE = 7  # of the order in which shapes are tried, so that a short run meets all kinds
SCHEMA = hr.Schema(
    key="id",
    cell=("tenant",),
    vector=("embedding", hr.MaxSim("tokens"), hr.Sparse("terms")),
    attributes=("time", "kind"),
    cluster="time",
)


def table(rng: np.random.Generator, first: int, n: int) -> pa.Table:
    """Draw rows of a few tenants, with attributes to filter by."""
    return pa.table(
        {
            "id": np.arange(first, first + n),
            "tenant": rng.integers(TENANTS, size=n),
            "time": rng.integers(1_000, size=n),
            "kind": pa.array(rng.choice(["a", "b", "c"], size=n), pa.string()),
        }
    )


def vectors(rng: np.random.Generator, n: int, dim: int, dtype: str) -> dict[str, Any]:
    """Draw rows of each form; of one vector, one is zero and one is the double of another."""
    rows = rng.standard_normal((n, dim)).astype(np.float32)
    rows[n // 2] = 0
    rows[-1] = 2 * rows[0]
    made = rows.astype(DTYPES[dtype])
    tokens = [made[at : at + at % 40] for at in range(n)]
    return {"embedding": made, "tokens": tokens, "terms": [weights(rng, 6) for _ in range(n)]}


def weights(rng: np.random.Generator, most: int) -> dict[int, float]:
    """Draw a sparse vector of 50 terms."""
    ids = rng.choice(50, rng.integers(most + 1), replace=False)
    return {int(one): float(rng.random(dtype=np.float32)) for one in ids}


def questions(rng: np.random.Generator, dim: int) -> Iterator[dict[str, Any]]:
    """Ask batches of several sizes, each query with a scope and a filter of its own."""
    scopes = [0, 1, hr.Scope([0, 2]), hr.Scope(range(TENANTS)), hr.Scope([])]
    filters = [
        None,
        hr.Filter(time=(250, 749)),
        hr.Filter(time=(2_000, 3_000)),
        hr.Filter(kind=["a", "c"]),
        ~hr.Filter(kind="b") & hr.Filter(time=(0, 500)),
    ]
    for n_queries, limit in BATCHES:
        yield {
            "vectors": {"embedding": rng.standard_normal((n_queries, dim)).astype(np.float32)},
            "scope": [scopes[i] for i in rng.integers(len(scopes), size=n_queries)],
            "filter": [filters[i] for i in rng.integers(len(filters), size=n_queries)],
            "limit": limit,
        }
        everything = {"scope": hr.Scope(range(TENANTS)), "limit": limit}
        asked = rng.standard_normal((n_queries, dim)).astype(np.float32)
        yield {"vectors": {"embedding": asked}} | everything
        if n_queries < 10:
            many = [rng.standard_normal((9 * n, dim)).astype(np.float32) for n in range(n_queries)]
            yield {"vectors": {"tokens": many}} | everything
        yield {"vectors": {"terms": [weights(rng, 40) for _ in range(n_queries)]}} | everything


def live(device: str, dim: int, n: int, dtype: str) -> Iterator[pa.Table]:
    """Let an index live, the same on any device: built, added to, deleted from, compacted."""
    rng = np.random.default_rng([dim, n, *dtype.encode()])
    index = hr.Index.build(
        table(rng, 0, n), SCHEMA, vectors=vectors(rng, n, dim, dtype), device=device
    )
    changes = (
        lambda: None,
        lambda: index.add(table(rng, n, n), vectors=vectors(rng, n, dim, dtype)),
        lambda: index.delete(range(0, 2 * n, 3), scope=hr.Scope(range(TENANTS))),
        index.compact,
    )
    for change in changes:
        change()
        for asked in questions(rng, dim):
            yield index.recall(**asked).to_arrow()


def main() -> int:
    """Try every shape until the time is over; a reply that is not the CPU's fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    ordered = list(itertools.product(options.rows, DIMS, DTYPES))
    assert math.gcd(STRIDE, len(ordered)) == 1
    shapes = [ordered[i * STRIDE % len(ordered)] for i in range(len(ordered))]
    n_tried = n_replies = 0
    for n, dim, dtype in shapes:
        if time.monotonic() > end:
            break
        pairs = zip(live(options.device, dim, n, dtype), live("cpu", dim, n, dtype), strict=True)
        for mine, expected in pairs:
            assert mine.equals(expected), f"{dtype}, {n} rows x {dim}: not the CPU's bits"
            n_replies += 1
        n_tried += 1
    tried = f"{n_tried} of {len(shapes)} shapes, {n_replies} batches"
    print(f"{options.device} gives the CPU's bits: {tried}")
    return 0 if n_tried else 1


if __name__ == "__main__":
    sys.exit(main())
