"""A process that opens a store, writes a few rows, closes it, and comes again.

``python -m memory.faults.writer_child``, with one JSON object as argument. It tells of each row
that is kept, and of each time that it held the store and how often another did before.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

from hyrecall.embed import HashEmbedder
from hyrecall.errors import WriterBusyError
from hyrecall.memory import MemorySync, lock

__all__ = ["DIM", "main", "output"]

DIM = 4


def output(name: str, number: int) -> str:
    """What a row says, so that others know what to expect."""
    return f"row {number} of writer {name}"


def tell(**said: Any) -> None:
    print(json.dumps(said), flush=True)


def main() -> None:
    """Write until so many rows are told of."""
    order = json.loads(sys.argv[1])
    if order["unlocked"]:
        lock._try = lambda handle: True
    name, draw, number = order["name"], random.Random(order["name"]), 0
    n_busy = 0
    tell(ready=name)
    sys.stdin.readline()
    while number < order["rows"]:
        try:
            memory = MemorySync.open(
                Path(order["folder"]), embedder=HashEmbedder(DIM), wait=order["wait"], threads=1
            )
        except WriterBusyError:
            n_busy += 1
            time.sleep(0.005)
            continue
        with memory:
            begun = time.monotonic()
            for _ in range(draw.randrange(1, 5)):
                memory.remember(output(name, number), id=f"{name}{number}", user_id="ann")
                with memory._store.database.reading() as c:
                    sequence = c.execute("SELECT value FROM meta WHERE name = 'sequence'").get
                tell(kept=f"{name}{number}", sequence=sequence)
                number += 1
            ended = time.monotonic()
        tell(held=[begun, ended], busy=n_busy)
        n_busy = 0
        time.sleep(draw.uniform(0, 0.03))  # or the other one, which tries now and then, starves


if __name__ == "__main__":
    main()
