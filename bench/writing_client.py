"""One client of bench_writes.py: a process that writes to a store that another one owns.

It prints "ready", reads the time at which to end from stdin, remembers one memory after the other,
and prints the ids that were acknowledged as JSON.
"""

from __future__ import annotations

import json
import sys
import time

from hyrecall import recipes
from hyrecall.memory import MemorySync


def main(folder: str) -> None:
    """Open the store and write until the time that stdin says."""
    with MemorySync.open(folder, recipe=recipes.loom, embedder=None) as memory:
        print("ready", flush=True)
        until = float(sys.stdin.readline())
        told: list[str] = []
        while time.time() < until:
            told.append(memory.remember(f"note {len(told)} about tea", user_id="ann").id)
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
