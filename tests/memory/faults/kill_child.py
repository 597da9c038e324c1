"""A process that forks children which write to a store, and kills them.

``python -m memory.faults.kill_child`` reads one order a line and answers each with a line. It has
imported what the children need, and no more: torch would take seconds each time.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from hyrecall.embed import HashEmbedder
from hyrecall.memory import MemorySync
from hyrecall.recipes import hypergraph
from memory.faults.work import do
from seams import Database, Follower, disk, erasing, fact_rows, snapshots, writing
from seams import database as database_module


def die() -> None:
    """What a power button does."""
    os.kill(os.getpid(), signal.SIGKILL)


class Countdown:
    """Dies when it is called for the n-th time."""

    def __init__(self, nth: int) -> None:
        self.left = nth

    def __call__(self, *_: Any) -> bool:
        self.left -= 1
        if self.left <= 0:
            die()
        return True


def around(owner: Any, name: str, *, before: Any = None, after: Any = None) -> None:
    """Have a function call something first, or last; there must be such a function."""
    function = getattr(owner, name)

    def call(*args: Any, **options: Any) -> Any:
        if before is not None:
            before()
        result = function(*args, **options)
        if after is not None:
            after()
        return result

    setattr(owner, name, call)


def at_statements(countdown: Countdown) -> None:
    on_writers(lambda connection: connection.set_exec_trace(countdown))


def at_commits(countdown: Countdown) -> None:
    on_writers(lambda connection: connection.set_commit_hook(lambda: not countdown()))


def on_writers(prepare: Callable[[apsw.Connection], object]) -> None:
    connect = Database._connect

    def prepared(self: Database) -> apsw.Connection:
        connection = connect(self)
        prepare(connection)
        return connection

    Database._connect = prepared  # type: ignore[method-assign]


def after_transactions(countdown: Countdown) -> None:
    plain = Database.transaction

    @contextmanager
    def transaction(self: Database) -> Iterator[apsw.Connection]:
        with plain(self) as connection:
            yield connection
        countdown()

    Database.transaction = transaction  # type: ignore[method-assign, assignment]


POINTS: dict[str, Callable[[Countdown], None]] = {
    "at a statement": at_statements,
    "at a commit": at_commits,
    "after a commit, before it is told": after_transactions,
    "between a document and its version": lambda c: around(writing, "insert_version", before=c),
    "between a fact and when it holds": lambda c: around(fact_rows, "put_interval", before=c),
    "in an erase": lambda c: around(erasing, "_delete_empty_cells", before=c),
    "before the log is emptied": lambda c: around(Database, "checkpoint", before=c),
    "after the log is emptied": lambda c: around(Database, "checkpoint", after=c),
    "before the tables are made": lambda c: around(database_module, "migrate", before=c),
    "after the tables are made": lambda c: around(database_module, "migrate", after=c),
    "before closing": lambda c: around(Database, "close", before=c),
}


# Of a store with its index, that is saved every few steps.
INDEX_POINTS: dict[str, Callable[[Countdown], None]] = {
    "after a file of an index": lambda c: around(disk, "write_file", after=c),
    "before a commit is prepared": lambda c: around(disk, "prepare", before=c),
    "before a commit is made": lambda c: around(disk, "commit", before=c),
    "after a commit is made": lambda c: around(disk, "commit", after=c),
    "before old files are removed": lambda c: around(disk, "remove", before=c),
    "before the header": lambda c: around(snapshots, "write_header", before=c),
    "after the header": lambda c: around(snapshots, "write_header", after=c),
    "after the index follows": lambda c: around(Follower, "catch_up", after=c),
    "between an erase and its index": lambda c: around(Follower, "reconcile", before=c),
    "between an index without it and its snapshot": lambda c: around(
        Follower, "reconcile", after=c
    ),
}


def early(tell: Callable[[], None]) -> None:
    """The control: a child that tells of its commits before they are made."""
    plain = Database.transaction

    @contextmanager
    def transaction(self: Database) -> Iterator[apsw.Connection]:
        with plain(self) as connection:
            yield connection
            tell()

    Database.transaction = transaction  # type: ignore[method-assign, assignment]


def child(order: dict[str, Any], handle: int) -> None:
    """Open the store, take steps and tell of each; never returns."""

    def tell() -> None:
        os.write(handle, b".")

    if order["point"]:
        (POINTS | INDEX_POINTS)[order["point"]](Countdown(order["nth"]))
    if order["early"]:
        early(tell)
    folder = Path(order["folder"])
    memory = open_whole(folder) if order["whole"] else None
    database = Database.open(folder) if memory is None else memory._store.database
    for at in range(order["start"], order["start"] + order["steps"]):
        kind = do(database, order["seed"], at)
        if not order["early"]:
            tell()
        if memory is not None:
            use(memory, kind, at)
    (database if memory is None else memory).close()
    os._exit(0)


def open_whole(folder: Path) -> MemorySync:
    """Open a store with its index, whose vectors are those of the steps."""
    # However slow the machine is, no answer is degraded.
    memory = MemorySync.open(
        folder, embedder=HashEmbedder(dim=4), recipe=hypergraph, recall_timeout=30.0
    )
    filling = memory._store.owner.filling
    assert filling is not None
    filling._next = math.inf  # vectors of its own would be in no step
    return memory


def use(memory: MemorySync, kind: str, at: int) -> None:
    """What a store does between two changes: it follows, and now and then it saves its index."""
    follower = memory._store.follower
    if kind == "erase":
        follower.reconcile()
    if at % 3 == 0:
        follower.catch_up()
    if at % 4 == 0:
        memory.snapshot()


def run(order: dict[str, Any]) -> dict[str, int]:
    """Fork a child and kill it, or wait for its death; give what it told of and how it ended."""
    reading, telling = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            child(order, telling)
        finally:
            os._exit(code)
    os.close(telling)
    told = b""
    if order["after"] is not None:
        while len(told) < order["wait_for"] and (part := os.read(reading, 1)):
            told += part
        time.sleep(order["after"])
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    while part := os.read(reading, 2**16):
        told += part
    os.close(reading)
    return {"told": len(told), "ended": os.waitstatus_to_exitcode(status)}


def main() -> None:
    """Follow orders until there are no more."""
    assert not {"torch", "pytest", "transformers"} & set(sys.modules)
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
