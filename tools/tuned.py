"""Write csrc/device/tuned.hpp from the sweeps of real devices.

    python -m tools.tuned            # writes the file
    python -m tools.tuned --check    # fails if the file is not what this would write

Reads bench/results/device/tune/*.json, each the tune.json of bench/on_device.sh. Of two sweeps of
one kind of device the later date counts, key by key.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SWEEPS = ROOT / "bench" / "results" / "device" / "tune"
TARGET = ROOT / "csrc" / "device" / "tuned.hpp"
BATCHES = (1, 8, 64, 256, 1024)  # kBatchClasses
PLANES = {"int8": "FirstPassPlane::kInt8", "bfloat16": "FirstPassPlane::kBFloat16"}

BEFORE = """\
// What devices were measured to do best with: written by tools/tuned.py from
// bench/results/device/tune/*.json. A device that is not listed is read as the model says.
#pragma once

#include <array>

#include "device/dense_tuning.hpp"

namespace hyrecall {

// clang-format off
"""
AFTER = """\
// clang-format on

}  // namespace hyrecall
"""

Key = tuple[int, int, str, int, int]


def key_of(facts: dict[str, Any], choice: dict[str, Any]) -> Key:
    """Return the classes of a choice, as TunedKey::of() does."""
    memory_class = (facts["memory_bytes"] + (1 << 33) >> 34) * 16
    dim_class = 1 << (facts["dim"] - 1).bit_length()
    batch_class = next((n for n in BATCHES if choice["queries"] <= n), BATCHES[-1])
    return facts["multiprocessors"], memory_class, choice["rows"], dim_class, batch_class


def entries(sweeps: Sequence[tuple[str, dict[str, Any]]]) -> list[str]:
    """Return the lines of the table for sweeps, each with the name of its file."""
    found: dict[Key, tuple[dict[str, Any], str, dict[str, Any]]] = {}
    for name, sweep in sorted(sweeps, key=lambda one: (one[1]["facts"]["date"], one[0])):
        for choice in sweep["chosen"]:
            found[key_of(sweep["facts"], choice)] = (sweep["facts"], name, choice)
    order = {name: i for i, name in enumerate(PLANES)}
    lines = []
    for key in sorted(found, key=lambda key: (*key[:2], order[key[2]], *key[3:])):
        facts, name, choice = found[key]
        multiprocessors, memory_class, rows, dim_class, batch_class = key
        lines += [
            f"  // {facts['date']}, {facts['name']}, commit {facts['commit'][:8]}, {name}: "
            f"{choice['ms']:.3f} ms, the model {choice['model_ms']:.3f}",
            f"  {{{{{multiprocessors}, {memory_class}, {PLANES[rows]}, {dim_class}, "
            f"{batch_class}}}, {PLANES[choice['plane']]}, {choice['widest']}, "
            f"{choice['stride']}, {choice['capacity']}}},",
        ]
    return lines


def text(sweeps: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """Return the file."""
    lines = entries(sweeps)
    n_entries = len(lines) // 2
    if n_entries == 0:
        table = "inline constexpr std::array<Tuned, 0> kTuned{};  // no sweep of a device is kept\n"
    else:
        body = "".join(f"{line}\n" for line in lines)
        table = f"inline constexpr std::array<Tuned, {n_entries}> kTuned{{{{\n{body}}}}};\n"
    return BEFORE + table + AFTER


def kept() -> list[tuple[str, dict[str, Any]]]:
    """Read the kept sweeps."""
    return [(path.name, json.loads(path.read_text())) for path in sorted(SWEEPS.glob("*.json"))]


def main() -> int:
    """Write the file, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    wanted = text(kept())
    if options.check:
        return int(TARGET.read_text() != wanted)
    TARGET.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
