"""Measure a device's ceilings with torch, in the shapes that searches have.

    python -m bench.device_ceilings ceilings.json --device cuda:0

Bandwidth of a copy and of gathers, the rates of `@` and `_int_mm` for 1,024 queries and a million
rows of 768 dimensions, the way between host and device, and what launching costs. On ``cpu``, and
on the emulated device, the figures are those of limits.py, so that a dry run has some.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import THREADS, limits
from bench.device_world import SKIPPED, import_torch

ROUNDS = 20
COPY_BYTES = 1 << 31
PRODUCT = 8_192
ROWS, DIM, QUERIES = 1_000_000, 768, 1_024
PICKED = 1 << 20  # rows of a gather


def of_device(torch: Any, device: str) -> dict[str, Any]:
    """Measure a CUDA device."""

    def seconds(run: Callable[[], object]) -> float:
        for _ in range(3):
            run()
        taken = []
        for _ in range(ROUNDS):
            torch.cuda.synchronize(device)
            begin = time.perf_counter()
            run()
            torch.cuda.synchronize(device)
            taken.append(time.perf_counter() - begin)
        return statistics.median(taken)

    def gather_gb_s(row_bytes: int) -> float:
        rows = torch.rand((COPY_BYTES // row_bytes, row_bytes // 4), device=device)
        at = torch.randint(len(rows), (PICKED,), device=device)
        out = torch.empty((PICKED, row_bytes // 4), device=device)
        taken = seconds(lambda: torch.index_select(rows, 0, at, out=out))
        return 2 * PICKED * row_bytes / taken / 1e9

    def graph_us(launches: int) -> float:
        one = torch.zeros(1, device=device)
        graph = torch.cuda.CUDAGraph()
        one.add_(1)
        with torch.cuda.graph(graph):
            for _ in range(launches):
                one.add_(1)
        return 1e6 * seconds(graph.replay)

    def between_us(nbytes: int) -> dict[str, float]:
        host = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
        there = torch.empty(nbytes, dtype=torch.uint8, device=device)
        down = seconds(lambda: there.copy_(host, non_blocking=True))
        up = seconds(lambda: host.copy_(there, non_blocking=True))
        return {"down": 1e6 * down, "up": 1e6 * up}

    source = torch.randint(0, 255, (COPY_BYTES,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    found: dict[str, Any] = {
        "bandwidth_gb_s": 2 * COPY_BYTES / seconds(lambda: target.copy_(source)) / 1e9
    }
    found["gathers_gb_s"] = {str(n): gather_gb_s(n) for n in (128, 1_536, 3_072)}
    found["gather_gb_s"] = found["gathers_gb_s"]["1536"]
    a, b = (torch.randn(PRODUCT, PRODUCT, device=device, dtype=torch.bfloat16) for _ in range(2))
    found["rate_tflop_s"] = 2 * PRODUCT**3 / seconds(lambda: a @ b) / 1e12
    whole, half = ({"device": device, "dtype": of} for of in (torch.int8, torch.bfloat16))
    c, d = (torch.randint(-127, 128, (PRODUCT, PRODUCT), **whole) for _ in range(2))
    found["int8_top_s"] = 2 * PRODUCT**3 / seconds(lambda: torch._int_mm(c, d.T)) / 1e12
    rows = torch.randn(ROWS, DIM, **half)
    asked = torch.randn(QUERIES, DIM, **half)
    found["searching_ms"] = {"bfloat16": 1e3 * seconds(lambda: asked @ rows.T)}
    rows8, asked8 = ((40 * each.float()).clamp(-127, 127).to(torch.int8) for each in (rows, asked))
    found["searching_ms"]["int8"] = 1e3 * seconds(lambda: torch._int_mm(asked8, rows8.T))
    ways = {n: between_us(n) for n in (4_096, 3 << 20)}
    found["between_us"] = {str(n): each for n, each in ways.items()}
    for way in ("down", "up"):
        found[f"{way}_gb_s"] = (3 << 20) / ways[3 << 20][way] / 1e3
    found["graph_us"] = {str(n): graph_us(n) for n in (1, 5, 11)}
    found["synchronize_us"] = 1e6 * seconds(lambda: None)
    found["how"] = (
        f"copy of {COPY_BYTES >> 30} GiB, read and written; {PRODUCT}^3 products; gathers of "
        f"{PICKED:,} rows, read and written; searching: {QUERIES:,} x {DIM} x {ROWS:,} with the "
        "scores written; between host and device: pinned, 4 KiB and 3 MiB; graphs of small kernels"
    )
    return found


def of_host() -> dict[str, Any]:
    """Measure this machine's memory and its numpy."""
    found = limits.measure(THREADS, is_tiny=True)
    rate = found["numpy_sgemm_gflop_s"] / 1e3
    return {
        "bandwidth_gb_s": found["stream_gb_s"],
        "gather_gb_s": found["stream_gb_s"],
        "rate_tflop_s": rate,
        "int8_top_s": 2 * rate,
        "how": f"memory read in order by {THREADS} threads; float32 product of numpy",
    }


def main() -> int:
    """Write the ceilings as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda:0")
    options = parser.parse_args()
    if options.device == "cpu" or os.environ.get("HYRECALL_EMULATED"):
        found = of_host()
    elif (torch := import_torch(options.device)) is None:
        print("torch is not installed, or sees no CUDA device")
        return SKIPPED
    else:
        found = of_device(torch, options.device)
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
