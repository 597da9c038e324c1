"""Time the host's part of a batch on a device, with a device whose kernels do nothing.

    HYRECALL_CUDA_LIBRARY=build/dev/emulated python -m bench.device_host --rows 100000

The library is the emulator of the tests (target `hyrecall_cuda_emulated`), so no GPU is needed. No
row is found, so the time is that of `Index.recall` without the kernels and the hits.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

import numpy as np

import hyrecall as hr
from bench.device_hybrid import HybridWorld
from bench.device_world import WINDOW, Size, World, timed


def main() -> None:
    """Print a line a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--tenants", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    os.environ["HYRECALL_EMULATOR_NULL"] = "1"
    size = Size(options.rows, options.dim, 1_024, options.tenants, 100, 1, options.seconds, (), ())
    world = World(size, "cuda:0", None)
    whole, scoped = (world.index("float32", is_scoped=one) for one in (False, True))
    asking = (np.arange(1024) % options.tenants).tolist()
    window = hr.Filter(created_at=WINDOW)
    cases: dict[str, Callable[[], hr.Hits]] = {
        "1 query": lambda: whole.recall(vectors=world.queries[:1]),
        "1,024 unscoped": lambda: whole.recall(vectors=world.queries),
        "1,024 of a tenant each, filtered": lambda: scoped.recall(
            vectors=world.queries, scope=asking, filter=window
        ),
    }
    hybrid = HybridWorld(options.rows, world.rows, world.queries, options.tenants, options.threads)
    cases |= hybrid.batches(*(hybrid.index("cuda:0", is_scoped=one) for one in (False, True)))
    print(f"{options.rows:,} rows of {options.dim} dimensions, {options.threads} threads")
    print("| batch | least ms | median ms | of it candidates, median ms |")
    print("|---|---|---|---|")
    for name, run in cases.items():
        took = timed(run, options.seconds)
        inside = [run().trace.milliseconds["candidates"] for _ in range(9)]
        print(
            f"| {name} | {took['min_ms']:.2f} | {took['median_ms']:.2f} | {np.median(inside):.2f} |"
        )


if __name__ == "__main__":
    main()
