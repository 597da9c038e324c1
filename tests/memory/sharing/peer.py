"""Another process that uses a store: it does what it reads, one line of JSON each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hyrecall.embed import HashEmbedder
from hyrecall.memory import MemorySync
from hyrecall.recipes import loom
from seams import Database

DIM = 8
USER = "ann"


class Peer:
    """The process, as the test sees it."""

    def __init__(self, folder: Path, **options: Any) -> None:
        path = os.pathsep.join(one for one in sys.path if one)
        order = json.dumps({"folder": str(folder), "options": options})
        self.process = subprocess.Popen(
            [sys.executable, "-m", "memory.sharing.peer", order],
            env={**os.environ, "PYTHONPATH": path}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.pid = self.process.pid

    def start(self, *call: Any) -> None:
        """Let it begin with something."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(call) + "\n")
        self.process.stdin.flush()

    def told(self) -> Any:
        """Return what it says next."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "it has ended"
        return json.loads(line)

    def ask(self, *call: Any) -> Any:
        self.start(*call)
        return self.told()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def peers(folder: Path, n: int, **options: Any) -> Iterator[list[Peer]]:
    """Start processes that have opened a store; the first one owns it."""
    made: list[Peer] = []
    try:
        for _ in range(n):
            made.append(Peer(folder, **options))
            assert made[-1].told() == "open"
        yield made
    finally:
        for one in made:
            one.kill()
            for stream in (one.process.stdin, one.process.stdout):
                assert stream is not None
                with suppress(BrokenPipeError):
                    stream.close()


def open_it(folder: str, **options: Any) -> MemorySync:
    given = {
        "recipe": loom, "embedder": HashEmbedder(DIM), "recall_timeout": 30.0,
        "write_timeout": 30.0, "warm": False,
    }  # fmt: skip
    return MemorySync.open(folder, **(given | options))


def do(memory: MemorySync, name: str, *args: Any) -> Any:
    match name:
        case "remember":
            memory.remember(f"note {args[0]} of many", id=args[0], user_id=USER)
            return "kept"
        case "search":
            return [one.episode.id for one in memory.search(args[0], user_id=USER, limit=50)]
        case "list":
            return sorted(one.id for one in memory.list(user_id=USER, limit=100_000))
        case "many":  # writes until it is killed, and tells of each that is acknowledged
            for number in range(args[1]):
                memory.remember(
                    f"note {number} of {args[0]}", id=f"{args[0]}{number}", user_id=USER
                )
                say(f"{args[0]}{number}")
            return "done"
        case "owner":
            state = memory._store.owner_state()
            assert state is not None
            return state.pid
        case "die when it erases":  # it is committed, and its bytes are still in files
            Database.checkpoint = lambda *_, **__: os._exit(9)  # type: ignore[method-assign]
        case "erase":
            memory.forget(args[0], user_id=USER, erase=True)
        case "close":
            memory.close()
        case "exit":
            sys.exit(0)
        case _:
            raise AssertionError(name)
    return name


def say(what: object) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    order = json.loads(sys.argv[1])
    try:
        memory = open_it(order["folder"], **order["options"])
    except Exception as fault:
        say({"fault": type(fault).__name__, "told": str(fault)})
        return
    say("open")
    for line in sys.stdin:
        name, *args = json.loads(line)
        try:
            say(do(memory, name, *args))
        except Exception as fault:
            say({"fault": type(fault).__name__, "told": str(fault)})


if __name__ == "__main__":
    main()
