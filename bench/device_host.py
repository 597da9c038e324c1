"""Time the host's part of a batch on a device, with a device whose kernels do nothing.

    HYRECALL_CUDA_LIBRARY=build/dev/emulated python -m bench.device_host

The library is the emulator of the tests (target `hyrecall_cuda_emulated`), so no GPU is needed. The
first call of a batch is emulated, which takes a while; from then on no kernel runs, nothing is
copied, and the device gives the same rows again: the time is that of `Index.recall` on the host.
"""

from __future__ import annotations

import argparse
import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import hyrecall as hr
from bench.device_hybrid import HybridWorld
from bench.device_world import WINDOW, Size, World, timed


def set_null(is_null: bool) -> None:
    """Say whether kernels do nothing, so that a batch finds what it found before."""
    path = Path(os.environ["HYRECALL_CUDA_LIBRARY"]) / "libhyrecall_cuda.so"
    ctypes.CDLL(str(path)).emulator_set_null(2 if is_null else 0)


def main() -> None:
    """Print a line a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--tenants", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    size = Size(options.rows, options.dim, 1_024, options.tenants, 100, 1, options.seconds, (), ())
    world = World(size, "cuda:0", None)
    whole, scoped = (world.index("float32", is_scoped=one) for one in (False, True))
    asking = (np.arange(1024) % options.tenants).tolist()
    window = hr.Filter(created_at=WINDOW)
    asked: dict[str, Any] = {"limit": size.k, "depth": size.k}
    cases: dict[str, Callable[[], hr.Hits]] = {
        "1 query": lambda: whole.recall(vectors=world.queries[:1], **asked),
        "8 queries": lambda: whole.recall(vectors=world.queries[:8], **asked),
        "1,024 unscoped": lambda: whole.recall(vectors=world.queries, **asked),
        "1,024 of a tenant each, filtered": lambda: scoped.recall(
            vectors=world.queries, scope=asking, filter=window, **asked
        ),
    }
    hybrid = HybridWorld(options.rows, world.rows, world.queries, options.tenants, options.threads)
    cases |= hybrid.batches(*(hybrid.index("cuda:0", is_scoped=one) for one in (False, True)))
    print(f"{options.rows:,} rows of {options.dim} dimensions, {options.threads} threads")
    print("| batch | least ms | median ms | of it candidates, median ms |")
    print("|---|---|---|---|")
    for name, run in cases.items():
        set_null(False)
        run()
        set_null(True)
        took = timed(run, options.seconds)
        inside = [run().trace.milliseconds["candidates"] for _ in range(9)]
        print(
            f"| {name} | {took['min_ms']:.2f} | {took['median_ms']:.2f} | {np.median(inside):.2f} |"
        )


if __name__ == "__main__":
    main()
