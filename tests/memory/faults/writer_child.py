"""A process that opens a store, writes a few rows, closes it, and comes again.

``python -m memory.faults.writer_child``, with one JSON object as argument. It tells of each row
that is kept, and of each time that it held the store and how often another did before.

Two writers leave signs for each other, as files beside the store: ``tries-a`` before writer a
first opens it, ``refused-a`` when WriterBusyError has kept a out, ``inside-a`` when a has opened
it, ``ended-a`` at its end. When a writer is inside for the first time it stays there until it sees
the other's sign that ``order["awaits"]`` names, so that the two meet however they are scheduled.
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
from hyrecall.memory import MemorySync
from seams import lock

DIM = 4
PATIENCE = 20.0
"""Seconds."""


def output(name: str, number: int) -> str:
    """What a row says, so that others know what to expect."""
    return f"row {number} of writer {name}"


class Signs:
    """The files that tell two writers of each other."""

    def __init__(self, folder: Path, name: str, other: str) -> None:
        self._folder, self._name, self._other = folder, name, other

    def leave(self, sign: str) -> None:
        (self._folder / f"{sign}-{self._name}").touch()

    def await_other(self, sign: str) -> None:
        """Wait until the other has left this sign, was inside or has ended; not for ever."""
        wanted = [self._folder / f"{one}-{self._other}" for one in (sign, "inside", "ended")]
        until = time.monotonic() + PATIENCE
        while not any(one.exists() for one in wanted) and time.monotonic() < until:
            time.sleep(0.002)


def tell(**said: Any) -> None:
    print(json.dumps(said), flush=True)


def main() -> None:
    """Write until so many rows are told of."""
    order = json.loads(sys.argv[1])
    signs = Signs(Path(order["folder"]).parent, order["name"], order["other"])
    try:
        write(order, signs)
    finally:
        signs.leave("ended")


def write(order: dict[str, Any], signs: Signs) -> None:
    if order["unlocked"]:
        lock._try = lambda handle: True
    name, draw, number = order["name"], random.Random(order["name"]), 0
    n_busy = 0
    tell(ready=name)
    sys.stdin.readline()
    signs.leave("tries")
    while number < order["rows"]:
        try:
            memory = MemorySync.open(
                Path(order["folder"]), embedder=HashEmbedder(DIM), shared=False,
                wait=order["wait"], threads=1,
            )  # fmt: skip
        except WriterBusyError:
            n_busy += 1
            signs.leave("refused")
            time.sleep(0.005)
            continue
        with memory:
            begun = time.monotonic()
            if number == 0:
                signs.leave("inside")
                signs.await_other(order["awaits"])
            for _ in range(draw.randrange(1, 5)):
                memory.remember(output(name, number), id=f"{name}{number}", user_id="ann")
                with memory._store.database.reading() as c:
                    sequence = c.execute("SELECT value FROM meta WHERE name = 'sequence'").get
                tell(kept=f"{name}{number}", sequence=sequence)
                number += 1
            ended = time.monotonic()
        tell(held=[begun, ended], busy=n_busy)
        n_busy = 0
        # Longer than the pause between two tries of the other, which would starve otherwise.
        time.sleep(draw.uniform(1.25, 2.5) * lock._PAUSE)


if __name__ == "__main__":
    main()
