"""Find how a device searches fastest, by what can be set while it runs; writes tune.json.

    python -m bench.device_sweep tune.json --device cuda:0 --size full --seconds 110

For bfloat16 and for float32 rows, and each size of batch, it tries the plane that the first pass
reads, the widest panel, the stride of the sample and the room for candidates, on Gaussian and on
grown rows: all of them briefly, the better third for longer, and so on. A choice must beat the
model on its worse kind of rows. tools/tuned.py makes csrc/device/tuned.hpp of kept files.

What is compiled into a kernel (stages of the ring, scores a branch, rows of a block) is not varied.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import hyrecall as hr
from bench import device_model
from bench.device_report import commit
from bench.device_world import (
    KINDS,
    SIZES,
    SKIPPED,
    World,
    environment,
    import_torch,
    searches,
    time_kernels,
)
from hyrecall import _core
from hyrecall.base.runtime import cuda_library_folder, ordinal_of

Choice = dict[str, Any]  # plane, widest, stride, capacity; ms and searches of each kind of rows
DTYPES = {"bfloat16": ("int8", "bfloat16"), "float32": ("int8",)}  # and the planes of its rows
STRIDES = (32, 64, 16, 128)
CAPACITIES = (device_model.LEAST_CAPACITY, 2 * device_model.LEAST_CAPACITY)
ROUNDS = (3, 10, 30)
GAIN = 0.97  # of the model's time, that a choice needs at most
BATCHES = (1, 8, 64, 256, 1_024)  # kBatchClasses of csrc/device/dense_tuning.hpp


@cache
def scans(device: str) -> list[str]:
    """Return the names of the scanning kernels that a device may run."""
    return _core.device.scans(cuda_library_folder(), ordinal_of(device))


def settings(choice: Choice, device: str, k: int, rows: int) -> dict[str, str]:
    """Return the variables that make the library search as chosen."""
    left_out = [
        f"-{name}"
        for name in scans(device)
        if name.startswith(f"{choice['plane']}:") and int(name.split(":")[1]) > choice["widest"]
    ]
    kernels = [one for one in (os.environ.get("HYRECALL_CUDA_KERNELS"), *left_out) if one]
    tuning = device_model.choose_tuning(k, rows, choice["stride"], choice["capacity"])
    return {
        "HYRECALL_FRONT_PLANE": "int8" if choice["plane"] == "int8" else "rows",
        "HYRECALL_CUDA_KERNELS": ",".join(kernels),
        "HYRECALL_DENSE_TUNING": str(tuning),
    }


def choice_for(tune: dict[str, Any], dtype: str, queries: int) -> Choice | None:
    """Return what a sweep chose for so many queries of a scope."""
    most = next((n for n in BATCHES if queries <= n), BATCHES[-1])
    rows = DTYPES[dtype][-1]
    return next((o for o in tune["chosen"] if (o["rows"], o["queries"]) == (rows, most)), None)


def candidates(dtype: str, n_queries: int, world: World) -> list[Choice]:
    """Return what is tried; the first is the model's way."""
    size = world.size
    is_small = size.rows < 100_000
    strides = STRIDES[:2] if is_small else STRIDES
    capacities = (size.rows // 8,) if is_small else CAPACITIES
    found = []
    for plane in DTYPES[dtype]:
        names = scans(world.device)
        widest = device_model.widest_scan(names, size.dim, plane)
        widths = {int(name.split(":")[1]) for name in names if name.startswith(f"{plane}:")}
        widths = {width for width in widths if width <= widest} | {device_model.PANEL}
        if n_queries <= device_model.PANEL:
            widths = {widest}  # no wide panel is made
        for width, stride, capacity in itertools.product(
            sorted(widths, reverse=True), strides, capacities
        ):
            found.append({"plane": plane, "widest": width, "stride": stride, "capacity": capacity})
    model = next(one for one in found if one["stride"] == device_model.LEAST_STRIDE)
    return [model, *(one for one in found if one is not model)]


def halve(
    tried: list[Choice],
    measure: Callable[[Choice, int], None],
    rounds: Sequence[int],
    deadline: float,
) -> list[Choice]:
    """Measure all, then the best third for longer, and so on; give those left, the best first.

    The first is the model's way: others are held to it, so it stays to the end.
    """
    model, left = tried[0], tried[1:]
    for n_rounds in rounds:
        if n_rounds != rounds[0] and time.monotonic() > deadline:
            break
        measure(model, n_rounds)
        measured = []
        for choice in left:
            if time.monotonic() > deadline:
                break
            measure(choice, n_rounds)
            measured.append(choice)
        left = sorted(measured, key=lambda choice: share(choice, model))
        left = left[: max(len(left) // 3, 2)]
    return sorted([model, *left], key=lambda choice: share(choice, model))


def share(choice: Choice, model: Choice) -> float:
    """Return its time over the model's, on the kind of rows where that is larger.

    A choice that searches more queries again is out: a second search costs the host a wait, which
    the kernels' times do not show.
    """
    worst = 0.0
    for kind, ms in choice["ms"].items():
        if choice["searches"][kind] > model["searches"][kind] + 0.05:
            return math.inf
        worst = max(worst, ms / model["ms"][kind])
    return worst


class Sweep:
    """Tries ways to search one type of rows, of both kinds."""

    def __init__(self, worlds: dict[str, World], dtype: str) -> None:
        """Index the rows."""
        self.worlds, self.dtype = worlds, dtype
        self.indexes: dict[str, hr.Index] = {
            kind: world.index(dtype, is_scoped=False) for kind, world in worlds.items()
        }

    def run(self, n_queries: int, deadline: float) -> tuple[Choice, list[Choice]]:
        """Return the best way, and all that were tried, the model's first."""
        world = self.worlds[KINDS[0]]
        rounds = ROUNDS if world.size.rows >= 100_000 else (1,)
        tried = candidates(self.dtype, n_queries, world)

        def measure(choice: Choice, n_rounds: int) -> None:
            choice |= {"ms": {}, "searches": {}}
            size = world.size
            with environment(settings(choice, world.device, size.k, size.rows)):
                for kind, index in self.indexes.items():
                    queries = self.worlds[kind].queries[:n_queries]
                    run = partial(index.recall, vectors=queries, limit=size.k, depth=size.k)
                    kernels = time_kernels(run, n_rounds)
                    choice["ms"][kind] = sum(one["ms"] for one in kernels)
                    choice["searches"][kind] = searches(kernels)

        best = halve(tried, measure, rounds, deadline)[0]
        return best, tried


def facts(device: str, world: World) -> dict[str, Any]:
    """Say where and when a sweep was made."""
    name, _, _, memory_bytes, multiprocessors = _core.device.describe(cuda_library_folder())[
        "devices"
    ][ordinal_of(device)]
    return {
        "name": name,
        "multiprocessors": multiprocessors,
        "memory_bytes": memory_bytes,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "rows": world.size.rows,
        "dim": world.size.dim,
        "depth": world.size.k,
    }


def main() -> int:
    """Sweep until the time is over; the file is whole after each size of batch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--size", choices=tuple(SIZES), default="full")
    parser.add_argument("--seconds", type=float, default=110.0)
    options = parser.parse_args()
    if options.device == "cpu":
        print("kernels are a device's, and this is the CPU")
        return SKIPPED
    end = time.monotonic() + options.seconds
    size, torch = SIZES[options.size], import_torch(options.device)
    worlds = {kind: World(size, options.device, torch, kind) for kind in KINDS}
    batches = sorted(size.batches, key=lambda n: (-n if n in size.batches[::4] else 0, n))
    found: dict[str, Any] = {"facts": facts(options.device, worlds[KINDS[0]])}
    found |= {"chosen": [], "measured": []}
    left = len(DTYPES) * len(batches)
    for dtype, planes in DTYPES.items():
        if time.monotonic() > end:
            break
        sweep = Sweep(worlds, dtype)
        for n_queries in batches:
            begin = time.monotonic()
            best, tried = sweep.run(n_queries, begin + max(end - begin, 0.0) / left)
            left -= 1
            key = {"rows": planes[-1], "queries": n_queries}
            measured = [key | one for one in tried if "ms" in one]
            found["measured"] += measured
            gain, model = share(best, tried[0]), tried[0]
            if gain <= GAIN:
                of = {name: best[name] for name in ("plane", "widest", "stride", "capacity")}
                ms = {"ms": sum(best["ms"].values()), "model_ms": sum(model["ms"].values())}
                found["chosen"].append(key | of | ms)
            options.out.write_text(json.dumps(found, indent=1) + "\n")
            print(
                f"{dtype}, {n_queries} queries: {gain:.3f} of the model's time, "
                f"{len(measured)} of {len(tried)} ways tried",
                flush=True,
            )
    print(f"{left} classes of batches were not reached; {len(found['chosen'])} have a choice")
    return 0 if left == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
