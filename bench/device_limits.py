"""Measure a device's limits with torch: a large copy, and a large bfloat16 product.

    python -m bench.device_limits limits.json --device cuda:0

On ``cpu`` the figures are those of limits.py, in the same unit. The rows of the floors in
device_cases.py are these two: bytes over bandwidth, operations over rate, whichever takes longer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import THREADS, limits

SKIPPED = 77  # the exit status of a step that cannot be taken here: the last line says why
_ROUNDS = 20
_COPY_BYTES = 1 << 31
_PRODUCT = 8_192


def _median_seconds(torch: Any, device: str, run: Callable[[], object]) -> float:
    for _ in range(3):
        run()
    taken = []
    for _ in range(_ROUNDS):
        torch.cuda.synchronize(device)
        begin = time.perf_counter()
        run()
        torch.cuda.synchronize(device)
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def of_device(torch: Any, device: str) -> dict[str, Any]:
    """Measure a CUDA device."""
    source = torch.randint(0, 255, (_COPY_BYTES,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copying = _median_seconds(torch, device, lambda: target.copy_(source))
    a, b = (torch.randn(_PRODUCT, _PRODUCT, device=device, dtype=torch.bfloat16) for _ in range(2))
    multiplying = _median_seconds(torch, device, lambda: a @ b)
    return {
        "bandwidth_gb_s": round(2 * _COPY_BYTES / copying / 1e9, 1),
        "rate_tflop_s": round(2 * _PRODUCT**3 / multiplying / 1e12, 2),
        "how": f"copy of {_COPY_BYTES >> 30} GiB, read and written; {_PRODUCT}^3 bfloat16 product",
    }


def of_host() -> dict[str, Any]:
    """Measure this machine's memory and its numpy."""
    found = limits.measure(THREADS, is_tiny=True)
    return {
        "bandwidth_gb_s": round(found["stream_gb_s"], 1),
        "rate_tflop_s": round(found["numpy_sgemm_gflop_s"] / 1e3, 4),
        "how": f"memory read in order by {THREADS} threads; float32 product of numpy",
    }


def main() -> int:
    """Write the limits as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda:0")
    options = parser.parse_args()
    if options.device == "cpu":
        found = of_host()
    else:
        try:
            import torch
        except ImportError:
            print("torch is not installed")
            return SKIPPED
        if not torch.cuda.is_available():
            print("torch sees no CUDA device")
            return SKIPPED
        found = of_device(torch, options.device)
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
