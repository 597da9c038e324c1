"""Runs cases of a seeded target for some time: ``python -m fuzz.run doors 15 SEED``.

A case that fails is named and ends the run; one that kills the process is the last one printed.
``HYRECALL_FUZZ_PLANTED=1`` plants the bug of the target, which a run must find.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import sys
import time
from collections import Counter

TARGETS = {"doors": "case", "border": "dlpack_case", "peers": "case"}


def main(name: str, seconds: float, seed: int) -> None:
    """Run the cases from a seed on."""
    faulthandler.enable()
    target = importlib.import_module(f"fuzz.{name}")
    case = getattr(target, TARGETS[name])
    if os.environ.get("HYRECALL_FUZZ_PLANTED") and name != "doors":  # which makes a failing service
        target.plant()
    until, first, ends = time.monotonic() + seconds, seed, Counter[str]()
    while time.monotonic() < until:
        print(f"\r{name} {seed}", end="", file=sys.stderr, flush=True)
        try:
            ends[case(seed)[:20]] += 1
        except Exception as fault:
            raise SystemExit(f"FOUND by {name} with seed {seed}: {fault!r}") from fault
        seed += 1
    print(f"\n{name}: {seed - first} cases from {first} on, none found: {ends.most_common(6)}")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
