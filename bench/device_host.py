"""Time the host's part of a batch on a device, with a device whose kernels do nothing.

    HYRECALL_CUDA_LIBRARY=build/dev/emulated python -m bench.device_host

The library is the emulator of the tests (target `hyrecall_cuda_emulated`), so no GPU is needed. The
first call of a batch is emulated, which takes a while; from then on no kernel runs, and the device
gives the same rows again: the time is that of `Index.recall` without the kernels.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import hyrecall as hr
from bench import corpus, ours
from bench.device_hybrid import HybridWorld

WINDOW = (250_000, 749_999)  # of created_at, which is uniform in [0, 1,000,000)


def set_null(is_null: bool) -> None:
    """Say whether kernels do nothing, so that a batch finds what it found before."""
    path = Path(os.environ["HYRECALL_CUDA_LIBRARY"]) / "libhyrecall_cuda.so"
    ctypes.CDLL(str(path)).emulator_set_null(2 if is_null else 0)


def best_and_median(run: Callable[[], object], seconds: float) -> tuple[float, float]:
    """Return the least and the median time of a call in milliseconds, after two to warm up."""
    set_null(False)
    run()
    set_null(True)
    run()
    took: list[float] = []
    end = time.perf_counter() + seconds
    while len(took) < 5 or time.perf_counter() < end:
        began = time.perf_counter()
        run()
        took.append((time.perf_counter() - began) * 1e3)
    return min(took), float(np.median(took))


def build(vectors: corpus.Floats, tenants: int, threads: int, cell: str | None) -> hr.Index:
    """Index rows of tenants on the device."""
    rows = len(vectors)
    return ours.build(
        rows,
        vectors=vectors,
        columns={
            "tenant": corpus.uniform_tenants(rows, tenants),
            "created_at": corpus.generator("device times").integers(0, 1_000_000, size=rows),
        },
        cell=cell,
        cluster="created_at",
        device="cuda:0",
        threads=threads,
    )


def main() -> None:
    """Print a line a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--tenants", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    rng = corpus.generator("device host")
    vectors = rng.standard_normal((options.rows, options.dim), np.float32)
    queries = rng.standard_normal((1024, options.dim), np.float32)
    whole = build(vectors, options.tenants, options.threads, None)
    scoped = build(vectors, options.tenants, options.threads, "tenant")
    asking = (np.arange(1024) % options.tenants).tolist()
    window = hr.Filter(created_at=WINDOW)
    cases: dict[str, Callable[[], hr.Hits]] = {
        "1 query": lambda: whole.recall(vectors=queries[:1], limit=100, depth=100),
        "8 queries": lambda: whole.recall(vectors=queries[:8], limit=100, depth=100),
        "1,024 unscoped": lambda: whole.recall(vectors=queries, limit=100, depth=100),
        "1,024 of a tenant each, filtered": lambda: scoped.recall(
            vectors=queries, scope=asking, filter=window, limit=100, depth=100
        ),
    }
    hybrid = HybridWorld(options.rows, options.dim, options.tenants, 1024, options.threads)
    cases |= hybrid.batches(*(hybrid.index("cuda:0", is_scoped=one) for one in (False, True)))
    print(f"{options.rows:,} rows of {options.dim} dimensions, {options.threads} threads")
    print("| batch | least ms | median ms | of it candidates, median ms |")
    print("|---|---|---|---|")
    for name, run in cases.items():
        least, median = best_and_median(run, options.seconds)
        inside = [run().trace.milliseconds["candidates"] for _ in range(9)]
        print(f"| {name} | {least:.2f} | {median:.2f} | {np.median(inside):.2f} |")


if __name__ == "__main__":
    main()
