"""How long a device takes for each kernel of a batch, in milliseconds.

    python -m bench.device_times --device cuda:0 --size full

The kernels are launched one by one with events between them (HYRECALL_CUDA_TIMES=1), not as one
recorded graph, so the sum is more than what a batch takes.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import hyrecall as hr
from bench.device_world import SIZES, WINDOW, World
from hyrecall import _core

WARM_UP = 2
BATCHES = 10


def time_kernels(run: Callable[[], object]) -> list[tuple[str, int, float]]:
    """Return (kernel, launches, ms) of a batch, the mean of several."""
    for _ in range(WARM_UP):
        run()
    _core.device.kernel_times()
    for _ in range(BATCHES):
        run()
    found = _core.device.kernel_times()
    return [(name, launches // BATCHES, ms / BATCHES) for name, launches, ms in found]


def print_table(title: str, times: list[tuple[str, int, float]]) -> None:
    """Print a line a kernel and their sum."""
    print(f"\n{title}\n\n| kernel | launches | ms |\n|---|---|---|")
    for name, launches, ms in times:
        print(f"| {name} | {launches} | {ms:.4f} |")
    print(f"| all | {sum(n for _, n, _ in times)} | {sum(ms for *_, ms in times):.4f} |")


def main() -> None:
    """Print a table a batch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--size", choices=SIZES, default="full")
    options = parser.parse_args()
    os.environ["HYRECALL_CUDA_TIMES"] = "1"
    size = SIZES[options.size]
    world = World(size, options.device, None)
    asked: dict[str, Any] = {"limit": size.k, "depth": size.k}
    whole = world.index("float32", is_scoped=False)
    scoped = world.index("float32", is_scoped=True)
    window = hr.Filter(created_at=WINDOW)
    batches: dict[str, Callable[[], object]] = {
        "1 query": lambda: whole.recall(vectors=world.queries[:1], **asked),
        f"{size.queries:,} queries": lambda: whole.recall(vectors=world.queries, **asked),
        f"{size.queries:,} queries, each of one tenant, half the time": lambda: scoped.recall(
            vectors=world.queries, scope=world.asking.tolist(), filter=window, **asked
        ),
    }
    print(f"{size.rows:,} rows of {size.dim} dimensions, depth {size.k}, {options.device}")
    for title, run in batches.items():
        print_table(title, time_kernels(run))


if __name__ == "__main__":
    main()
